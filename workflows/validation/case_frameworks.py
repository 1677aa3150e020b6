"""The framework of a training case, and what follows from it."""

from __future__ import annotations

import re
from dataclasses import dataclass

from hespas.workflows.validation.training_cases import TrainingCase

MAXTEXT, MEGATRON, TORCHTITAN, COMPOSER = "maxtext", "megatron", "torchtitan", "composer"
T5X, PAXML, AXLEARN = "t5x", "paxml", "axlearn"

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
        loss_metrics: How many metrics compute the loss of each microbatch again.
        default_remat: Its rematerialisation unless a row states another; "" if it is not known.
        selective_remat: What it calls selective rematerialisation; "" if it is not known.
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
    loss_metrics: int = 0
    default_remat: str = ""
    selective_remat: str = ""
    has_narrow_logits: bool = False


# The first whose words a row has counts. The default of MaxText is remat_policy of
# configs/base.yml, of AXLearn build_remat_spec, which does not keep the output of flash attention,
# and of Paxml that of its experiments (paxml_experiments.py); T5X has none in the networks of
# t5x/examples/t5 and t5x/contrib/gpu/t5, unlike examples/scalable_t5. Megatron's selective policy
# computes attention again, which a fused kernel does anyhow, and keeps the rest. Composer updates
# its metrics after each microbatch (_train_microbatch of composer/trainer/trainer.py), of which the
# models of llm-foundry have two (LanguageCrossEntropy and LanguagePerplexity in modeling_mpt.py).
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
        MEGATRON, "megatron", is_eager=True, default_remat="none", selective_remat="none"
    ),
    TrainingFramework("nemo", "nemo", is_eager=True, default_remat="none", selective_remat="none"),
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


def read_framework(case: TrainingCase) -> TrainingFramework:
    """Return the framework of a case; one without a name if it states none that is known."""
    return find_framework(case.get_text("framework"))


def find_framework(text: str) -> TrainingFramework:
    """Return the first framework whose words are in a text; one without a name if none is."""
    for framework in FRAMEWORKS:
        if re.search(rf"\b(?:{framework.words})\b", text.lower()):
            return framework
    return TrainingFramework()
