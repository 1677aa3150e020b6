"""The framework of a training case, what follows from it, and what Paxml's experiments set.

The experiments for NVIDIA GPUs are classes of google/paxml
(paxml/contrib/gpu/scripts_gpu/configs.py, Apache-2.0). Layers that are not repeated are unrolled,
and CHECKPOINT_POLICY does not apply to them (paxml/tasks/lm/model_params.py).
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from hespas.workflows.validation.training_cases import TrainingCase

MAXTEXT, MEGATRON, TORCHTITAN, COMPOSER = "maxtext", "megatron", "torchtitan", "composer"
T5X, PAXML, AXLEARN, NEMO = "t5x", "paxml", "axlearn", "nemo"
AUTOMODEL = "automodel"

# PyTorch's selective checkpoint of operators keeps every second linear layer of a block and the
# output of attention (torchtitan: distributed/activation_checkpoint.py).
OPERATOR_POLICY = "query_proj,value_proj,context,mlpwi_0,mlpwo"


@dataclass(frozen=True, slots=True)
class TrainingFramework:
    """A framework that rows name.

    Attributes:
        name: Its name; "" if a row names none that is known.
        words: A regular expression of the words by which rows name it, in lower case.
        uses_xla: Whether XLA compiles its programs.
        is_eager: Whether its operators run one by one and keep their inputs, as PyTorch's do.
        is_pytorch: Whether it runs PyTorch's own operators and divides weights by PyTorch's FSDP.
        is_unfused: Whether nothing fuses these operators, unless a row names a compiler.
        is_megatron: Whether it is Megatron, or runs Megatron Core.
        loss_metrics: How many metrics compute the loss of each microbatch again.
        default_remat: Its rematerialisation unless a row states another; "" if it is not known.
        selective_remat: What it calls selective rematerialisation; "" if it is not known.
        overlaps_updates: Whether gradients are reduced, and weights gathered, alongside the layers
            before and after them.
        overlaps_products: Whether the collectives of tensor parallelism that divides tokens run
            alongside parts of the products of layers.
        stores_products: Whether layers store their weights in 8 bits if products are in these.
        fuses_sums: Whether products add the gradients of weights to their sums.
        has_ring_branches: Whether each device of context parallelism runs attention on views of its
            own chunks.
        has_narrow_logits: Whether logits have the type of activations: the result of a linear layer
            in PyTorch, and of a product in Paxml (FullSoftmax.get_logits of praxis) and AXLearn
            (Embedding.attend). The loss is computed in f32.
    """

    name: str = ""
    words: str = ""
    uses_xla: bool = False
    is_eager: bool = False
    is_pytorch: bool = False
    is_unfused: bool = False
    is_megatron: bool = False
    loss_metrics: int = 0
    default_remat: str = ""
    selective_remat: str = ""
    overlaps_updates: bool = False
    overlaps_products: bool = False
    stores_products: bool = False
    fuses_sums: bool = False
    has_ring_branches: bool = False
    has_narrow_logits: bool = False


# The first whose words a row has counts. The default of MaxText is remat_policy of
# configs/base.yml, of AXLearn build_remat_spec, which does not keep the output of flash attention,
# and of Paxml that of its experiments (``_EXPERIMENTS``); T5X has none in the networks of
# t5x/examples/t5 and t5x/contrib/gpu/t5, unlike examples/scalable_t5. Megatron's selective policy
# computes attention again, which a fused kernel does anyhow, and keeps the rest. Composer updates
# its metrics after each microbatch (_train_microbatch of composer/trainer/trainer.py), of which the
# models of llm-foundry have two (LanguageCrossEntropy and LanguagePerplexity in modeling_mpt.py).
# NeMo runs Megatron Core, but its performance recipes and NVIDIA's submissions to MLPerf sum
# gradients in bf16, and overlap these sums and the gathers of weights with compute
# (grad_reduce_in_fp32 of NVIDIA/NeMo; mlcommons/training_results_v4.0 NVIDIA/benchmarks/gpt3/
# implementations/nemo/conf/optim/distributed_fused_adam.yaml). They set tp_comm_overlap with tensor
# parallelism (nemo/collections/llm/recipes/gpt3_175b.py; TP_COMM_OVERLAP in config_DGXH100_*.sh of
# the submissions), and gradient_accumulation_fusion (conf/custom.yaml of training_results_v3.1;
# nemo/collections/llm/gpt/model/base.py). Its precision with scales from earlier steps has
# fp8_param_gather (bf16_with_fp8_mixed of nemo/collections/llm/recipes/precision/
# mixed_precision.py). Context parallelism is TransformerEngine's ring (cp_comm_type None is p2p in
# megatron/core/extensions/transformer_engine.py). Rows name it before Megatron.
# NeMo Automodel has nothing of Megatron Core: it trains by PyTorch's FSDP2, and computes nothing
# again unless its configuration says so (``activation_checkpointing`` of FSDP2Config in
# NVIDIA-NeMo/Automodel@36044ad nemo_automodel/components/distributed/config.py). Norms, rotations
# and activations are one kernel each, of TransformerEngine or Liger.
FRAMEWORKS = (
    TrainingFramework(MAXTEXT, "maxtext", uses_xla=True, default_remat="full"),
    TrainingFramework(
        AXLEARN, "axlearn", uses_xla=True, default_remat="save_dot_except_mlp",
        has_narrow_logits=True,
    ),
    TrainingFramework(PAXML, "paxml", uses_xla=True, has_narrow_logits=True),
    TrainingFramework(
        TORCHTITAN, "torchtitan", is_eager=True, is_pytorch=True,
        default_remat=OPERATOR_POLICY, selective_remat=OPERATOR_POLICY,
    ),
    TrainingFramework(
        AUTOMODEL, "automodel", is_eager=True, is_pytorch=True, is_unfused=True,
        default_remat="none",
    ),
    TrainingFramework(
        NEMO, "nemo", is_eager=True, is_megatron=True, default_remat="none",
        selective_remat="none", overlaps_updates=True, overlaps_products=True,
        stores_products=True, fuses_sums=True, has_ring_branches=True,
    ),
    TrainingFramework(
        MEGATRON, "megatron", is_eager=True, is_megatron=True, default_remat="none",
        selective_remat="none",
    ),
    TrainingFramework(T5X, "t5x", uses_xla=True, default_remat="none"),
    TrainingFramework("easylm", "easylm", uses_xla=True, default_remat="full"),
    TrainingFramework("levanter", "levanter", uses_xla=True, default_remat="full"),
    TrainingFramework(
        COMPOSER, "composer|llm-foundry", is_eager=True, is_pytorch=True, is_unfused=True,
        loss_metrics=2,
    ),
    TrainingFramework("pytorch/xla", "pytorch/xla", uses_xla=True),
    TrainingFramework("pytorch", "pytorch", is_eager=True, is_pytorch=True),
    TrainingFramework("xla", "jax|xla", uses_xla=True),
)  # fmt: skip


def find_framework(text: str) -> TrainingFramework:
    """Return the first framework whose words are in a text; one without a name if none is."""
    for framework in FRAMEWORKS:
        if re.search(rf"\b(?:{framework.words})\b", text.lower()):
            return framework
    return TrainingFramework()


PAXML_PRESET = "paxml"
# NVIDIA's dgxc-benchmarking sets flags of its own (paxml/configure.sh).
DGXC_PRESET = "paxml-dgxc"


@dataclass(frozen=True, slots=True)
class PaxmlExperiment:
    """The experiment that trains some models.

    Attributes:
        words: A regular expression of the names of the models, in lower case.
        remat: CHECKPOINT_POLICY as an option of the recipes; "none" if layers are not repeated.
        is_repeated: Whether the layers are a loop (USE_REPEATED_LAYER).
        flags: The XLA flags that differ from those of the preset.
        has_fused_attention: Whether attention is one kernel.
    """

    words: str
    remat: str
    is_repeated: bool
    flags: tuple[str, ...] = ()
    has_fused_attention: bool = True


# The first whose words a model has counts. The threshold of 126M is that of NVIDIA/JAX-Toolbox
# 28603900 (rosetta/rosetta/projects/pax/xla_flags/gpt-126m.env), which has no other thresholds and
# turns fused attention off.
# run_llama_boolq.sh sets USE_REPEATED_LAYER to False for Llama.
_EXPERIMENTS = (
    PaxmlExperiment(
        r"126m", "none", is_repeated=False,
        flags=("--xla_gpu_all_reduce_combine_threshold_bytes=33554432",),
        has_fused_attention=False,
    ),
    PaxmlExperiment(r"(?<![\d.])5b", "minimal", is_repeated=True),
    PaxmlExperiment(r"llama", "none", is_repeated=False),
    # CHECKPOINT_POLICY of TransformerLmSpmdAdafactor, which GPT175BBase does not replace
    PaxmlExperiment(r"", "full", is_repeated=True),
)  # fmt: skip


def find_paxml_experiment(case: TrainingCase) -> PaxmlExperiment | None:
    """Return the experiment that trains the model of a case; None of another framework."""
    if case.framework.name != PAXML:
        return None
    model = case.get_text("model").lower()
    return next(item for item in _EXPERIMENTS if re.search(item.words, model))


def choose_paxml_preset(case: TrainingCase) -> str:
    """Return the preset of XLA flags of the scripts that the source of a case runs."""
    is_dgxc = "dgxc-benchmarking" in case.get_text("source").lower()
    return DGXC_PRESET if is_dgxc else PAXML_PRESET
