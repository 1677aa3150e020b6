"""The kernels of a training case besides those that XLA makes of its model.

These are fused attention and its library, the operators of PyTorch, and logits in several parts.
"""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Mapping
from typing import TYPE_CHECKING

from hespas import configs
from hespas.estimators.calibrated.attention_library import CUDNN, AttentionLibrary
from hespas.frontends.export.program_source import DECODERS
from hespas.recipes.published_models import MODELS
from hespas.support.errors import HespasError
from hespas.workflows.validation.case_automodel import find_automodel_benchmark
from hespas.workflows.validation.case_frameworks import (
    AUTOMODEL,
    AXLEARN,
    COMPOSER,
    MAXTEXT,
    MEGATRON,
    PAXML,
    TORCHTITAN,
    find_paxml_experiment,
)
from hespas.workflows.validation.case_meshes import divides_tokens, read_stage_counts
from hespas.workflows.validation.case_mlperf import find_mlperf_implementation
from hespas.workflows.validation.case_precisions import runs_transformer_engine

if TYPE_CHECKING:
    from hespas.workflows.studies.study_definition import StudyWorkload
    from hespas.workflows.validation.training_cases import CaseOutcome, TrainingCase

_SECOND_VERSION = re.compile(r"\b(flash[- ]?attention|flash[- ]?attn|fa)[- ]?(v?2)\b")
_ANY_VERSION = re.compile(r"\bflash[- ]?att(entio)?n")
# What turns PyTorch's operators into larger kernels.
_COMPILERS = re.compile(r"compil|inductor|nvfuser|torchscript|\bjit\b|\bxla\b")
# SimuMax marks such cases by "_cef" (docs/strategy.md in MooreThreads/SimuMax).
_FUSED_LOSS = r"(?:cross[-_ ]entropy(?:[-_ ]loss)?[-_ ]fusion|_cef\b)"
_ASYNCHRONOUS = r"\basync(?:hronous)?[-_ ]?t(?:ensor(?:[-_ ]parallel(?:ism)?+)?+|p)\b"
# TransformerEngine's overlap of tensor parallelism, whose products have steps too
_USERBUFFERS = r"\buser[- ]?buffers?\b"
# MaxText sets ``num_vocab_tiling`` where the logits of all tokens of a device are too large, to
# parts of at most 1 GiB: of 1 GiB for Gemma 3 12B on v6e and of 0.98 GiB for Llama 3.1 405B on v5p
# (AI-Hypercomputer/maxtext@e591f30 benchmarks/maxtext_trillium_model_configs.py and
# maxtext_v5p_model_configs.py), and of 0.98 GiB for Llama 3.1 70B on TPU7x
# (AI-Hypercomputer/tpu-recipes@c8cfe2f training/ironwood/llama3.1-70b/128k-fp8-tpu7x-4x8x8).
PART_BYTES = 2**30
STATED_TILES = re.compile(r"(?:vocab tiling|num_vocab_tiling)\W*(\d+)")
_NARROW_TYPES = ("bf16", "f16")
# ``fp8_dot_product_attention`` of NeMo, which TransformerEngine computes by cuDNN
_NARROW_ATTENTION = re.compile(r"\battention in fp8\b")


def has_fused_attention(case: TrainingCase) -> bool:
    """Return whether the framework of a case has a fused kernel of attention.

    Megatron-LM before Megatron Core computed attention by two products and a masked softmax, whose
    matrices selective recomputation does not keep (arXiv 2205.05198, section 4.2). The first
    version of AXLearn's Fuji has MultiheadAttention; those with a fused kernel came later, under
    names with ``flash`` (apple/axlearn e0e93105, fuji.py). Paxml's experiments say it themselves.
    """
    if case.framework.name == AXLEARN and case.get_text("model").lower().endswith("-v1"):
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
    is_narrow = case.framework.name in (AXLEARN, PAXML) and recipe == "gpt"
    return {"wide_scores": "false"} if is_narrow and attention == "dot_product" else {}


def choose_attention_library(outcome: CaseOutcome, node: str) -> str:
    """Return the library whose rates the attention of a case has, a value of ``attention``.

    PyTorch prefers FlashAttention-2, unless cuDNN 9.15 is there or TORCH_CUDNN_SDPA_PREFERRED is
    set (check_prefer_cudnn_attention in its sdp_utils.cpp). On AMD, TransformerEngine calls aiter's
    kernels (transformer_engine/common/ck_fused_attn of ROCm/TransformerEngine). Other rows that do
    not name a version of FlashAttention, and nodes on which the rates of the library are not known,
    have cuDNN's.
    """
    case = outcome.case
    benchmark = find_automodel_benchmark(case)
    if benchmark is not None and benchmark.attention == "te":
        return CUDNN
    is_narrow = find_mlperf_implementation(case).has_narrow_attention
    if is_narrow or _NARROW_ATTENTION.search(case.words):
        return _choose_narrow_attention(outcome, node)
    if benchmark is not None and benchmark.attention == "flex":
        library = "flex-attention"
    elif _SECOND_VERSION.search(case.words):
        library = "flash-attention-2"
    elif _ANY_VERSION.search(case.words) and case.framework.name == COMPOSER:
        # The benchmark script of llm-foundry, which trains with Composer, sets attn_impl to triton
        # (mosaicml/llm-foundry 12a631913, scripts/train/benchmarking/submit_benchmarks.py).
        library = "flash-attention-triton"
    elif case.framework.is_pytorch:
        library = "flash-attention-2"
    elif runs_transformer_engine(case) and configs.load_node(node).vendor == "AMD":
        library = "aiter"
    else:
        return CUDNN
    try:
        AttentionLibrary.load(library, configs.load_node(node))
    except HespasError:
        outcome.assumptions.append(f"attention at cuDNN's rates: those of {library} are not known")
        return CUDNN
    outcome.assumptions.append(f"attention at the rates of {library}")
    return library


def _choose_narrow_attention(outcome: CaseOutcome, node: str) -> str:
    """Return the library of attention in 8 bits; cuDNN in 16 bits where its times are not known."""
    library = "cudnn-fp8"
    try:
        AttentionLibrary.load(library, configs.load_node(node))
    except HespasError:
        outcome.assumptions.append("attention in 16 bits, not in fp8")
        return CUDNN
    outcome.assumptions.append(
        "attention with the times of cuDNN's in fp8; its arrays are stored and sent in 16 bits"
    )
    return library


def choose_operator_options(outcome: CaseOutcome, precision: Mapping[str, str]) -> dict[str, str]:
    """Return the options of a decoder for operators, copies and products as PyTorch runs them.

    The programs of pipelines have only those of these that concern a layer: torchtitan copies keys
    and values for each query head (repeat_kv of torchtitan/models/llama3/model/model.py).
    """
    case = outcome.case
    framework, text = case.framework, case.words
    is_asynchronous = _has_asynchronous_products(case)
    has_steps = framework.overlaps_products
    if framework.is_megatron and re.search(_USERBUFFERS, text):
        has_steps = _states_feature(_USERBUFFERS, text)
    layer = {"repeated_heads": "true"} if framework.name == TORCHTITAN else {}
    if (is_asynchronous or has_steps) and divides_tokens(case):
        layer["ring_products"] = "true"
    if framework.has_ring_branches and case.read_axis_sizes().get("cp", 1) > 1:
        layer |= _choose_context_attention(outcome)
    if read_stage_counts(case)[0] > 1:
        return layer
    layer |= _choose_separate_kernels(outcome)
    runs_alone = framework.is_unfused and not _is_compiled(case)
    has_copies = framework.name in (TORCHTITAN, AUTOMODEL) or "fsdp2" in text
    options = {}
    if has_copies and (case.devices > 1 or not runs_alone):
        options = _choose_copies(framework.name, precision, is_asynchronous=is_asynchronous)
    if not runs_alone:
        return layer | options
    options["eager"] = "true"
    if framework.loss_metrics:
        options["loss_metrics"] = str(framework.loss_metrics)
    outcome.assumptions.append("no operator is fused with others, as without torch.compile")
    return options


def choose_expert_operators(outcome: CaseOutcome, dispatch: str) -> dict[str, str]:
    """Return the options of a mixture of experts for operators and copies as PyTorch runs them.

    Nothing compiles NeMo Automodel's layers with experts but the activation.
    """
    case = outcome.case
    if case.framework.name != AUTOMODEL:
        return {}
    has_stages = read_stage_counts(case)[0] > 1  # whose programs gather no weights
    options = {"fsdp_copies": "true"} if case.devices > 1 and not has_stages else {}
    if dispatch == "in_turn" and not _is_compiled(case):
        outcome.assumptions.append("no operator is fused with others, as without torch.compile")
        return options | {"eager": "true"}
    outcome.assumptions.append("operators are fused, as by torch.compile")
    return options


def _choose_context_attention(outcome: CaseOutcome) -> dict[str, str]:
    """Return the option for how TransformerEngine's attention divides sequences over devices."""
    implementation = find_mlperf_implementation(outcome.case)
    if not implementation.exchanges_heads:
        return {"ring_branches": "true"}
    outcome.assumptions.append(
        f"devices exchange tokens for heads around attention (cp_comm_type of "
        f"{implementation.file})"
    )
    return {"exchange_heads": "true"}


def _choose_separate_kernels(outcome: CaseOutcome) -> dict[str, str]:
    """Return the option for operators between products that Megatron Core runs one by one."""
    implementation = find_mlperf_implementation(outcome.case)
    if not implementation.separate_kernels:
        return {}
    is_te = implementation.separate_kernels == "megatron_te"
    outcome.assumptions.append(
        "operators between products are kernels of their own"
        + (", but activations and the split of queries, keys and values" if is_te else "")
        + f" (implementation of {implementation.file})"
    )
    return {"separate_kernels": implementation.separate_kernels}


def _is_compiled(case: TrainingCase) -> bool:
    """Return whether a compiler makes larger kernels of PyTorch's operators."""
    benchmark = find_automodel_benchmark(case)
    return bool(benchmark and benchmark.is_compiled) or bool(_COMPILERS.search(case.words))


def _has_asynchronous_products(case: TrainingCase) -> bool:
    """Return whether tensor parallelism is PyTorch's asynchronous one."""
    benchmark = find_automodel_benchmark(case)
    is_stated = _states_feature(_ASYNCHRONOUS, case.words)
    return bool(benchmark and benchmark.is_asynchronous) or (
        case.framework.name == TORCHTITAN and is_stated
    )


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
    is_fused = _states_feature(_FUSED_LOSS, case.words)
    is_own = case.framework.name == MEGATRON and not is_fused
    return {"separate_loss": "true"} if is_own and recipe != "bert" else {}


def _states_feature(pattern: str, text: str) -> bool:
    """Return whether a text in lower case states that a feature is used, not that it is off."""
    is_off = r"\s*[:=]?\s*(?:off|false|none|no|0|disabled)\b"
    used = rf"(?<!no )(?<!no-)(?<!without )(?<!not ){pattern}(?!{is_off})"
    return re.search(used, text) is not None


def read_vocabulary_tiles(case: TrainingCase) -> dict[str, str]:
    """Return the option for logits in parts, as ``vocab tiling 4``; empty if a row names none."""
    stated = STATED_TILES.search(case.join_words("remat", "notes"))
    return {"vocab_tiles": stated[1]} if stated else {}


def divide_logits(case: TrainingCase, workload: StudyWorkload) -> StudyWorkload | None:
    """Divide the logits of a program that XLA finds too large into parts of at most 1 GiB.

    Rows seldom copy the parts from the script, and programs with fewer layers have the same logits.

    Returns:
        The workload with the fewest parts that divide the tokens of a device; None if a row states
        the parts, its framework has none, or its logits are small.
    """
    options = workload.options
    is_possible = workload.recipe in DECODERS and options.get("partitioning") != "auto"
    if not is_possible or case.framework.name != MAXTEXT or "vocab_tiles" in options:
        return None
    tokens = int(options["batch"]) * int(options["sequence"]) // workload.mesh.get("context", 1)
    vocab = int(options.get("vocab") or MODELS[options["model"]].vocab)
    element_bytes = 2 if options.get("logits_dtype") in _NARROW_TYPES else 4
    logits_bytes = tokens * vocab * element_bytes // workload.mesh.get("tensor", 1)
    parts = 1
    while logits_bytes > parts * PART_BYTES and tokens % (2 * parts) == 0:
        parts *= 2
    if parts == 1:
        return None
    return dataclasses.replace(workload, options={**options, "vocab_tiles": str(parts)})
