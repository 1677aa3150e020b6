"""The adapters of a training case that trains nothing else (LoRA), as options of the recipes."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import TYPE_CHECKING

from hespas.frontends.export.program_source import DENSE_DECODERS
from hespas.workflows.validation.case_meshes import read_stage_counts
from hespas.workflows.validation.case_mlperf import find_mlperf_implementation
from hespas.workflows.validation.case_precisions import DELAYED_SCALES

if TYPE_CHECKING:
    from hespas.workflows.validation.training_cases import CaseOutcome

_ADAPTERS = re.compile(r"\bq?lora\b")
_FOUR_BITS = re.compile(r"\bqlora\b")
_RANK = re.compile(r"\brank[ =:]*(\d+)\b|\b(?:lora_)?r[=:]\s?(\d+)\b")
_ALL = re.compile(r"\b(?:all|every) (?:linear|projections?|modules)|\blinear layers\b|\*_proj")
_ATTENTION = re.compile(r"\bon (?:the )?attention\b|\bqkv\b")
_AUTOMODEL = re.compile(r"\bautomodel\b")
_OWN_PROJECTIONS = "queries, keys and values have adapters of their own"


def choose_adapters(
    outcome: CaseOutcome, recipe: str, precision: Mapping[str, str]
) -> dict[str, str]:
    """Return the options of adapters beside frozen weights; {} if all weights are trained.

    The benchmarks of NeMo Automodel have adapters of rank 16 on all projections (``peft`` of
    NVIDIA-NeMo/Automodel@e05319e, examples/llm_benchmark/llama3_1/llama3_1_8b_peft_benchmark.yaml).
    """
    case = outcome.case
    words = case.join_words("model", "framework", "precision", "notes")
    if not _ADAPTERS.search(words):
        return {}
    if reason := _explain_refusal(words, recipe, read_stage_counts(case)[0]):
        outcome.reasons["model"] = reason
        return {}
    if precision.get("products", "fp8") in ("fp8_rowwise", "int8"):
        outcome.reasons["precision"] = "frozen weights have one scale each, not one for each row"
        return {}
    rank, targets = _read_rank(words), _read_targets(words)
    if _AUTOMODEL.search(words) and not rank:
        rank, targets = "16", "all"
        outcome.assumptions.append(
            "adapters of rank 16 on all projections, as the benchmarks of NeMo Automodel"
        )
    if not rank or not targets:
        outcome.reasons["model"] = "adapters (LoRA) whose rank and projections are not stated"
        return {}
    has_dropout = find_mlperf_implementation(case).separate_kernels
    dropout = "whose dropout has no mask" if has_dropout else "without dropout"
    outcome.assumptions.append(f"{_OWN_PROJECTIONS}, {dropout}")
    if DELAYED_SCALES in outcome.assumptions:  # whose weights no microbatch converts
        outcome.assumptions.remove(DELAYED_SCALES)
        outcome.assumptions.append("scales of fp8 are known; frozen weights are stored in 8 bits")
    return {"lora_rank": rank, "lora_targets": targets}


def _explain_refusal(words: str, recipe: str, stages: int) -> str:
    if _FOUR_BITS.search(words):
        return "no recipe has weights of 4 bits beside its adapters (QLoRA)"
    if recipe and recipe not in DENSE_DECODERS:
        return f"the recipe {recipe} has no adapters beside frozen weights (LoRA)"
    return "no program of a pipeline has adapters beside frozen weights" if stages > 1 else ""


def _read_rank(words: str) -> str:
    match = _RANK.search(words)
    return next((group for group in match.groups() if group), "") if match else ""


def _read_targets(words: str) -> str:
    """Return which projections have adapters; "" if a row does not say it."""
    if _ALL.search(words):
        return "all"
    return "attention" if _ATTENTION.search(words) else ""
