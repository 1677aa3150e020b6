"""The kernels of a training case in PyTorch besides those that XLA makes of its model."""

from __future__ import annotations

import re
from collections.abc import Mapping

from hespas.workflows.validation.case_frameworks import MEGATRON, TORCHTITAN, read_framework
from hespas.workflows.validation.case_meshes import divides_tokens
from hespas.workflows.validation.case_pipelines import read_stage_counts
from hespas.workflows.validation.training_cases import TrainingCase

# What turns PyTorch's operators into larger kernels.
_COMPILERS = re.compile(r"compil|inductor|nvfuser|torchscript|\bjit\b|\bxla\b")
# SimuMax marks such cases by "_cef" (docs/strategy.md in MooreThreads/SimuMax).
_FUSED_LOSS = r"(?:cross[-_ ]entropy(?:[-_ ]loss)?[-_ ]fusion|_cef\b)"
_ASYNCHRONOUS = r"\basync(?:hronous)?[-_ ]?t(?:ensor(?:[-_ ]parallel(?:ism)?+)?+|p)\b"


def choose_operator_options(
    case: TrainingCase, precision: Mapping[str, str], assumptions: list[str]
) -> dict[str, str]:
    """Return the options of a decoder for operators, copies and products as PyTorch runs them.

    The programs of pipelines have only those of these that concern a layer: torchtitan copies keys
    and values for each query head (repeat_kv of torchtitan/models/llama3/model/model.py).

    Args:
        case: The case.
        precision: The options of its types.
        assumptions: The list to which assumptions are added.
    """
    framework = read_framework(case)
    text = _read_words(case)
    is_asynchronous = framework.name == TORCHTITAN and _states_feature(_ASYNCHRONOUS, text)
    layer = {"repeated_heads": "true"} if framework.name == TORCHTITAN else {}
    if is_asynchronous and divides_tokens(case):
        layer["ring_products"] = "true"
    if read_stage_counts(case).ranks > 1:
        return layer
    if framework.name == TORCHTITAN or "fsdp2" in text:
        return layer | _choose_copies(framework.name, precision, is_asynchronous=is_asynchronous)
    if not framework.is_unfused or _COMPILERS.search(text):
        return {}
    options = {"eager": "true"}
    if framework.loss_metrics:
        options["loss_metrics"] = str(framework.loss_metrics)
    assumptions.append("no operator is fused with others, as without torch.compile")
    return options


def _choose_copies(
    framework: str, precision: Mapping[str, str], *, is_asynchronous: bool
) -> dict[str, str]:
    """Return the options for the copies around collectives of FSDP2 and tensor parallelism.

    With products in 8 bits with one scale, torchtitan gathers weights and activations in 8 bits,
    which takes less than what these programs do, so that the copies are left out. Asynchronous
    tensor parallelism has kernels of its own.
    """
    if precision.get("products") == "fp8":
        return {}
    options = {"fsdp_copies": "true"}
    if framework == TORCHTITAN and not is_asynchronous:
        options["token_copies"] = "true"
    return options


def choose_loss_kernels(case: TrainingCase, recipe: str) -> dict[str, str]:
    """Return the option of a decoder for a loss whose operations have kernels of their own.

    Megatron fuses them only with ``--cross-entropy-loss-fusion``, which is off by default.
    """
    is_fused = _states_feature(_FUSED_LOSS, _read_words(case))
    is_own = read_framework(case).name == MEGATRON and not is_fused
    return {"separate_loss": "true"} if is_own and recipe != "bert" else {}


def _read_words(case: TrainingCase) -> str:
    """Return what a row says of its framework, in lower case."""
    return f"{case.get_text('framework')}; {case.get_text('notes')}".lower()


def _states_feature(pattern: str, text: str) -> bool:
    """Return whether a text in lower case states that a feature is used, not that it is off."""
    is_off = r"\s*[:=]?\s*(?:off|false|none|no|0|disabled)\b"
    used = rf"(?<!no )(?<!no-)(?<!without )(?<!not ){pattern}(?!{is_off})"
    return re.search(used, text) is not None
