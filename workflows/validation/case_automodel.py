"""What NeMo Automodel does in a step, and what its benchmarks set that rows do not state.

Automodel trains models of its own or of Hugging Face by PyTorch's FSDP2. Paths without a repository
are of NVIDIA-NeMo/Automodel@36044ad (Apache-2.0), in nemo_automodel/components, or in
nemo_automodel if they begin with _transformers. Each benchmark is a YAML file in
examples/llm_benchmark, of which those for the H100 are known here.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

from hespas.workflows.validation.case_frameworks import AUTOMODEL
from hespas.workflows.validation.case_models import find_recipe

if TYPE_CHECKING:
    from hespas.workflows.validation.training_cases import CaseOutcome, TrainingCase

# What activation_checkpointing keeps. The blocks of a mixture of experts are wrapped whole, and
# keep their input and the logits of the router besides (apply_ac of moe/parallelizer.py). Models of
# Automodel's own without experts have attention and MLP wrapped apart, with and without
# torch.compile (DefaultParallelizationStrategy.parallelize of distributed/parallelizer.py, and
# apply_submodule_checkpointing of distributed/activation_checkpointing.py). Each part keeps its
# input, and attention its result, which the sum after it reads. PyTorch ends the second pass of a
# part as soon as it has what the gradients need, so that no result of an MLP is computed again.
_POLICIES = {"blocks": "full", "parts": "attention_input,out_proj,mlp_input", "": "none"}


@dataclass(frozen=True, slots=True)
class AutomodelBenchmark:
    """A benchmark of Automodel on the H100, by its YAML file.

    Attributes:
        words: A regular expression with which the model and notes of its rows begin, in lower case.
        file: The file in examples/llm_benchmark, without its ending.
        checkpoints: What is computed again: whole blocks, attention and MLP apart, or nothing.
        is_compiled: Whether torch.compile compiles each layer (``enable_compile``).
        attention: The library of ``attn``; "" for FlashAttention-2, the default.
        has_wide_moments: Whether the moments of the optimiser are f32. Those of torch.optim have
            the type of the weights, and those of TransformerEngine's FusedAdam are f32.
        is_asynchronous: Whether tensor parallelism is PyTorch's asynchronous one, and so divides
            tokens (``enable_async_tensor_parallel``).
        takes_turns: Whether tokens take experts in turn, without a router (``fake_balanced_gate``).
        keeps_weights: Whether gathered weights stay for all microbatches
            (``enable_fsdp_optimizations``, see moe/fsdp_mixin.py).
    """

    words: str
    file: str
    checkpoints: Literal["blocks", "parts", ""] = ""
    is_compiled: bool = False
    attention: Literal["te", "flex", ""] = ""
    has_wide_moments: bool = False
    is_asynchronous: bool = False
    takes_turns: bool = False
    keeps_weights: bool = False

    @property
    def remat(self) -> str:
        """The option ``remat`` of the recipes; "none" if nothing is computed again."""
        return _POLICIES[self.checkpoints]

    def describe_source(self) -> str:
        """Describe where it is, as the source of an assumption."""
        return f"NVIDIA-NeMo/Automodel@36044ad examples/llm_benchmark/{self.file}.yaml"


_LLAMA_8B, _LLAMA_70B = (rf"llama-?3\S*?(?<![\d.]){size}b" for size in (8, 70))
# The first whose words a row has counts. The files of two nodes set the same as those of one.
_BENCHMARKS = (
    AutomodelBenchmark(
        r"deepseek[-_ ]?v?3", "deepseek/deepseek_v3_te_deepep", "blocks", attention="te",
        takes_turns=True, keeps_weights=True,
    ),
    AutomodelBenchmark(
        r"kimi[-_ ]?k2", "kimi/kimi_k2_te_deepep", "blocks", attention="te", takes_turns=True,
    ),
    AutomodelBenchmark(
        r"qwen-?3\S*?30b", "qwen/qwen3_moe_30b_te_deepep", "blocks", attention="te",
        takes_turns=True, keeps_weights=True,
    ),
    AutomodelBenchmark(
        r"gpt-?oss\S*?120b", "gpt_oss/gptoss_120b_te_deepep", attention="te",
        takes_turns=True, keeps_weights=True,
    ),
    AutomodelBenchmark(
        r"gpt-?oss\S*?20b", "gpt_oss/gptoss_20b_te_deepep", attention="flex", takes_turns=True,
    ),
    AutomodelBenchmark(
        rf"{_LLAMA_70B}.*\blora\b", "llama3_3/custom_llama3_3_70b_instruct_peft_benchmark",
        "parts", is_compiled=True, is_asynchronous=True,
    ),
    AutomodelBenchmark(
        _LLAMA_70B, "llama3_3/custom_llama3_1_70b_pretrain_benchmark_8nodes", "parts",
        is_compiled=True, has_wide_moments=True,
    ),
    AutomodelBenchmark(rf"{_LLAMA_8B}.*\blora\b", "llama3_1/llama3_1_8b_peft_benchmark"),
    AutomodelBenchmark(
        r"qwen-?2\.5\S*?32b.*\blora\b", "qwen/custom_qwen2_5_32b_peft_benchmark", "parts",
        is_compiled=True,
    ),
    AutomodelBenchmark(r"qwen-?2\.5\S*?(?<!\d)7b.*\blora\b", "qwen/qwen2_5_7b_peft_benchmark"),
)  # fmt: skip


def find_automodel_benchmark(case: TrainingCase) -> AutomodelBenchmark | None:
    """Return the benchmark of a case; None if it is none of Automodel on the H100 that is known."""
    if case.framework.name != AUTOMODEL or "h100" not in case.get_text("hardware").lower():
        return None
    text = case.join_words("model", "notes")
    return next((item for item in _BENCHMARKS if re.match(item.words, text)), None)


def gathers_weights_again(case: TrainingCase) -> bool:
    """Return whether Automodel gathers the weights of a layer again in the backward pass.

    FSDP2 frees them after the forward pass, except those of pipelines
    (apply_fsdp2_sharding_recursively of distributed/parallelizer.py) and of mixtures of experts
    (``reshard_after_forward`` of MoEParallelizerConfig in distributed/config.py).
    """
    is_piped = case.read_axis_sizes().get("pp", 1) > 1
    return case.devices > 1 and not is_piped and find_recipe(case.get_text("model")) != "moe"


def choose_automodel_state(
    outcome: CaseOutcome, precision: Mapping[str, str], mesh: Mapping[str, int]
) -> dict[str, str]:
    """Return the types of Automodel's state and sums, as options of the recipes.

    Weights, and adapters beside them, have the type of the checkpoint, which is that of activations
    (``torch_dtype`` in _transformers/auto_model.py; ``lora_dtype`` in _peft/lora.py), without a
    copy in f32. FSDP2 sums gradients over devices and microbatches in f32 (FSDP2Config in
    distributed/config.py). Gradients of weights that it does not divide have sums of their own
    type: those of experts, if these are divided over all devices (apply_fsdp of
    moe/parallelizer.py), and those of a single device (FSDP2Manager.parallelize of
    distributed/fsdp2.py).
    """
    case = outcome.case
    if case.framework.name != AUTOMODEL:
        return {}
    stored = precision.get("compute_dtype", "bf16")
    benchmark = find_automodel_benchmark(case)
    options = {"weights_dtype": stored, "reduce_dtype": "f32"}
    if benchmark is None or not benchmark.has_wide_moments:
        options["moments_dtype"] = stored
    is_divided = mesh.get("data", 1) * mesh.get("fsdp", 1) > 1
    if not is_divided:
        options["accumulator_dtype"] = stored
    if not is_divided and mesh.get("expert", 1) == 1:
        del options["reduce_dtype"]
    return options


def note_deferred_collectives(outcome: CaseOutcome, options: Mapping[str, str]) -> None:
    """Note the collectives that a step of Automodel has less often than the program.

    It reduces gradients with the last microbatch (``defer_fsdp_grad_sync`` of FSDP2Config, and
    get_sync_ctx of distributed/utils.py), and some benchmarks keep gathered weights.
    """
    case = outcome.case
    sizes, benchmark = case.read_axis_sizes(), find_automodel_benchmark(case)
    is_shared = sizes.get("fsdp", 1) * sizes.get("dp", 1) * sizes.get("ep", 1) > 1
    if case.framework.name != AUTOMODEL or not is_shared or sizes.get("pp", 1) > 1:
        return
    if "accumulate" in options:
        outcome.assumptions.append(
            "gradients reduce-scattered for each microbatch, not once in a step"
        )
    if benchmark and benchmark.keeps_weights:
        outcome.assumptions.append(
            "weights gathered for each pass of each microbatch, not once in a step"
        )
