"""The library of fused attention that a training case calls."""

from __future__ import annotations

import re

from hespas import configs
from hespas.estimators.calibrated.attention_library import CUDNN, AttentionLibrary
from hespas.support.errors import HespasError
from hespas.workflows.validation.case_frameworks import AXLEARN, COMPOSER, PAXML, read_framework
from hespas.workflows.validation.paxml_experiments import find_paxml_experiment
from hespas.workflows.validation.training_cases import TrainingCase

_SECOND_VERSION = re.compile(r"\b(flash[- ]?attention|flash[- ]?attn|fa)[- ]?(v?2)\b")
_ANY_VERSION = re.compile(r"\bflash[- ]?att(entio)?n")


def has_fused_attention(case: TrainingCase) -> bool:
    """Return whether the framework of a case has a fused kernel of attention.

    Megatron-LM before Megatron Core computed attention by two products and a masked softmax, whose
    matrices selective recomputation does not keep (arXiv 2205.05198, section 4.2). The first
    version of AXLearn's Fuji has MultiheadAttention; those with a fused kernel came later, under
    names with ``flash`` (apple/axlearn e0e93105, fuji.py). Paxml's experiments say it themselves.
    """
    if read_framework(case).name == AXLEARN and case.get_text("model").lower().endswith("-v1"):
        return False
    if (experiment := find_paxml_experiment(case)) is not None:
        return experiment.has_fused_attention
    framework = case.get_text("framework").lower()
    is_early = re.fullmatch(r"megatron-lm(?: v?[12][\d.]*)?", framework) is not None
    return not is_early or bool(_ANY_VERSION.search(case.get_text("notes").lower()))


def choose_score_type(case: TrainingCase, recipe: str, attention: str) -> dict[str, str]:
    """Return the option for scores of the type of activations, if attention is not fused.

    Both AXLearn (MultiheadAttention of axlearn/common/attention.py) and TransformerEngine, which
    Paxml calls, store scores and their softmax so, and compute the softmax in f32.
    """
    is_narrow = read_framework(case).name in (AXLEARN, PAXML) and recipe == "gpt"
    return {"wide_scores": "false"} if is_narrow and attention == "dot_product" else {}


def choose_attention_library(case: TrainingCase, node: str, assumptions: list[str]) -> str:
    """Return the library whose rates the attention of a case has, a value of ``attention``.

    PyTorch prefers FlashAttention-2, unless cuDNN 9.15 is there or TORCH_CUDNN_SDPA_PREFERRED is
    set (check_prefer_cudnn_attention in its sdp_utils.cpp). Other rows that do not name a version
    of FlashAttention, and nodes on which the rates of the library are not known, have cuDNN's.

    Args:
        case: The case.
        node: The name of its node.
        assumptions: The list to which assumptions are added.
    """
    text = f"{case.get_text('framework')}; {case.get_text('notes')}".lower()
    if _SECOND_VERSION.search(text):
        library = "flash-attention-2"
    elif _ANY_VERSION.search(text) and read_framework(case).name == COMPOSER:
        # The benchmark script of llm-foundry, which trains with Composer, sets attn_impl to triton
        # (mosaicml/llm-foundry 12a631913, scripts/train/benchmarking/submit_benchmarks.py).
        library = "flash-attention-triton"
    elif read_framework(case).is_pytorch:
        library = "flash-attention-2"
    else:
        return CUDNN
    try:
        AttentionLibrary.load(library, configs.load_node(node))
    except HespasError:
        assumptions.append(f"attention at cuDNN's rates: those of {library} are not known")
        return CUDNN
    assumptions.append(f"attention at the rates of {library}")
    return library
