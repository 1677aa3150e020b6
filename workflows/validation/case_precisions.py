"""The types of a row, as options of the recipes: of products, weights and optimiser state.

Rows name the narrowest type that computes and further words about it, such as ``fp8 (linear) +
bf16``, ``fp8 rowwise``, ``amp_bf16/DEFAULT`` or ``fp16 AMP``.
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from typing import TYPE_CHECKING

from hespas import configs
from hespas.recipes.published_models import MODELS
from hespas.workflows.validation.case_frameworks import (
    MAXTEXT,
    MEGATRON,
    NEMO,
    PAXML,
    TORCHTITAN,
)
from hespas.workflows.validation.case_meshes import read_stage_counts
from hespas.workflows.validation.case_mlperf import find_mlperf_implementation
from hespas.workflows.validation.case_systems import find_node

if TYPE_CHECKING:
    from hespas.workflows.validation.training_cases import CaseOutcome, TrainingCase

_TYPE = re.compile(r"(?:mx|nv)?(?:bf|fp|f|tf|int|bfloat|float)_?(?:4|8|16|32)(?![\d])")
_COMPUTE_TYPES: Mapping[str, Mapping[str, str]] = {
    "bf16": {}, "16": {"compute_dtype": "f16"}, "32": {"compute_dtype": "f32"},
}  # fmt: skip
# Words about 8-bit floats, and the scheme of products; None has no recipe. The first that fits
# counts. MaxText's fp8_full has constant scales (quantization in its configs/base.yml), and its fp8
# those of earlier steps on GPUs (Fp8Quantization in layers/quantizations.py). So has Paxml, through
# TransformerEngine for JAX, which had delayed scaling only until version 2 (DelayedScaling).
_FP8_SCHEMES = (
    (r"mx|microscal|1x32|block|1x128|128x128|deep_?gemm", None),
    (r"row-?wise|per[- ]row|axis-?wise|channel-?wise|per[- ]channel|per[- ]token", "fp8_rowwise"),
    (r"fp8_full|static", "fp8_static"),
    (r"", "fp8"),
)
# Bytes of a weight in f32 with its gradient and AdamW's two moments, all of which a step holds
_STATE_BYTES = 16
DELAYED_SCALES = (
    "scales of fp8 are known, from earlier steps; weights are converted for each microbatch"
)
STORED_PRODUCTS = (
    "scales of fp8 are known, from earlier steps; weights are converted, and gathered in 8 bits, "
    "once in a step"
)
CURRENT_SCALES = "scales of fp8 from the values themselves, not from earlier steps"
# The optimiser reads its copy of the weights once more for their largest values.
STORED_CURRENT_SCALES = (
    "scales of fp8 from the values themselves, but of weights, which are converted, and gathered "
    "in 8 bits, once in a step; the search for their largest values is left out"
)


def read_precision(outcome: CaseOutcome) -> dict[str, str]:
    """Read the precision of a case."""
    case = outcome.case
    text = case.get_text("precision").lower()
    if not text:
        outcome.assumptions.append("bf16 with f32 weights")
        return {}
    options: dict[str, str] = {}
    name = _find_narrowest_type(text)
    if name == "fp8":
        options |= _choose_fp8_scheme(outcome, text)
    elif name == "nvfp4" and runs_transformer_engine(case):
        options["products"] = _choose_block_scheme(outcome)
    elif name == "int8":
        options["products"] = "int8"
    elif name in _COMPUTE_TYPES:
        options |= _COMPUTE_TYPES[name]
    else:
        outcome.reasons["precision"] = f"no recipe computes in '{case.get_text('precision')}'"
    if "precision" in outcome.reasons:
        return {}
    if options.get("compute_dtype") == "f16":
        outcome.assumptions.append("no scaling of the loss")
    if re.search(r"/default\b", text):
        options["reduce_dtype"] = "f32"  # Composer's mode; /pure sums gradients in bf16
    dtype = options.get("compute_dtype", "bf16")
    if _has_narrow_logits(case) and dtype != "f32":
        options["logits_dtype"] = dtype
    return options


def _has_narrow_logits(case: TrainingCase) -> bool:
    """Return whether logits have the type of activations, as the result of every linear layer.

    MaxText computes them in f32 if ``logits_dot_in_fp32`` is true. That was the default of its
    configs/base.yml until 2024, and thus in the results for TPUs in its own repository. Its scripts
    for GPUs set it to false, which is the default since.
    """
    framework = case.framework
    if framework.name != MAXTEXT:
        return framework.is_eager or framework.has_narrow_logits
    return not (case.is_on_tpu and "maxtext@" in case.get_text("source").lower())


def _find_narrowest_type(text: str) -> str:
    """Find the type in which products with weights are computed; "" if a text names none.

    The name of a type of 16 or 32 bits other than bf16 is its number of bits: XLA computes f32
    products in tf32.
    """
    names = [
        name.replace("_", "").replace("bfloat", "bf").replace("float", "fp").replace("mx", "")
        for name in _TYPE.findall(text)
    ]
    for bits in ("4", "8", "16", "32"):
        name = next((name for name in names if name.endswith(bits)), "")
        if name:
            is_wide = bits in ("16", "32") and name != "bf16"
            return bits if is_wide else {"f8": "fp8"}.get(name, name)
    return ""


def _choose_fp8_scheme(outcome: CaseOutcome, text: str) -> dict[str, str]:
    """Choose how products in 8-bit floats are scaled; {} if no recipe does it."""
    case = outcome.case
    scheme = next(scheme for words, scheme in _FP8_SCHEMES if re.search(words, text))
    if scheme is None:
        outcome.reasons["precision"] = f"no recipe scales blocks of 8-bit values, as '{text}' does"
        return {}
    if scheme == "fp8" and case.framework.name in (MAXTEXT, PAXML) and not case.is_on_tpu:
        scheme = "fp8_delayed"
    elif scheme == "fp8" and _has_delayed_scales(case, text):
        scheme = "fp8_te"
        outcome.assumptions.append(DELAYED_SCALES)
    elif scheme == "fp8" and runs_transformer_engine(case):
        scheme = "fp8_te_current"
        outcome.assumptions.append(CURRENT_SCALES)
    elif scheme == "fp8" and case.framework.name != TORCHTITAN:
        outcome.assumptions.append(CURRENT_SCALES)
    if "fp8 all-gather" in case.get_text("framework").lower():
        outcome.assumptions.append("weights gathered in 16 bits, not in fp8")
    return {"products": scheme}


def _choose_block_scheme(outcome: CaseOutcome) -> str:
    """Choose how products in 4 bits are scaled, by TransformerEngine's default or as in MLPerf.

    The submissions to MLPerf Training v5.1 leave out transforms, square blocks and random rounding
    (mlcommons/training_results_v5.1@4da2d1c, config_common_fp4.sh: "Vanilla recipe"), and gather
    weights in 16 bits (FP8_PARAM_GATHER=False). Those of Llama 3.1 8B have square blocks and random
    rounding (config_common_8b.sh), which take no pass over the values of their own.
    """
    outcome.assumptions.append("every layer in 4 bits; weights are converted for each microbatch")
    if not re.match("mlcommons/training_results", outcome.case.get_text("source").lower()):
        return "nvfp4_te"
    outcome.assumptions.append("blocks of 4 bits without transforms and random rounding")
    return "nvfp4"


def _has_delayed_scales(case: TrainingCase, text: str) -> bool:
    """Return whether Megatron runs TransformerEngine's products with its default recipe."""
    is_current = find_mlperf_implementation(case).has_current_scales
    is_stated = re.search(r"current|tensor-?wise", text)
    return runs_transformer_engine(case) and not (is_current or is_stated)


def runs_transformer_engine(case: TrainingCase) -> bool:
    """Return whether Megatron runs TransformerEngine's products."""
    is_named = re.search(r"\bte\b|transformer ?engine", case.words)
    return bool(case.framework.is_megatron and is_named)


def choose_stored_products(outcome: CaseOutcome, precision: Mapping[str, str]) -> dict[str, str]:
    """Return the option of a decoder for weights in the 8 bits that products read.

    The programs have it with TransformerEngine's schemes of one scale for an array.
    """
    is_possible = precision.get("products") in ("fp8_te", "fp8_te_current")
    if not is_possible or not outcome.case.framework.stores_products:
        return {}
    stored = {DELAYED_SCALES: STORED_PRODUCTS, CURRENT_SCALES: STORED_CURRENT_SCALES}
    outcome.assumptions[:] = [stored.get(text, text) for text in outcome.assumptions]
    return {"stored_products": "true"}


def choose_optimiser_state(outcome: CaseOutcome, precision: Mapping[str, str]) -> dict[str, str]:
    """Return the options of an optimiser whose state the devices of ``dp`` divide (ZeRO-1).

    Megatron's distributed optimiser, which ``zero1`` stands for there, keeps the weights in the
    type of activations with a copy in f32, and sums gradients in f32. Megatron Core reads and
    divides the gradients before that. NeMo sums them in bf16.
    """
    case = outcome.case
    is_divided = re.search(r"zero-?1", case.get_text("parallelism").lower())
    options = {"zero1": "true"} if is_divided else {}
    stored = precision.get("compute_dtype", "bf16")
    if case.framework.is_megatron:
        options |= {"weights_dtype": stored, "master": "true"}
    if case.framework.name == NEMO:
        options["accumulator_dtype"] = stored
    if case.framework.name == MEGATRON:
        options["reduce_dtype"] = "f32"
        if is_divided and "core" in case.get_text("framework").lower():
            options["checked_gradients"] = "true"
    return options


def choose_state_types(outcome: CaseOutcome, mesh: Mapping[str, int]) -> dict[str, str]:
    """Return the types of MaxText's weights and moments: as stated, else bf16 if f32 cannot fit.

    MaxText has one key for both (``weight_dtype``), which few rows state. Its benchmarks set it to
    bfloat16 where the memory of the devices is too small.
    """
    case = outcome.case
    narrow = {"weights_dtype": "bf16", "moments_dtype": "bf16"}
    stated = re.search(r"\bweights (bf16|f32)\b", case.get_text("precision").lower())
    if stated and case.framework.name == MAXTEXT:
        return narrow if stated[1] == "bf16" else {}
    weights, node = case.get_text("params"), find_node(*map(case.get_text, ("hardware", "source")))
    if case.framework.name != MAXTEXT or not weights or not node:
        return {}
    available_bytes = configs.load_node(node).memory_bytes
    if available_bytes is None:
        return {}
    if share := re.search(r"\bmemory fraction (0?\.\d+)", case.words):
        available_bytes *= float(share[1])
    shards = math.prod(mesh.get(axis, 1) for axis in ("fsdp", "tensor", "expert"))
    if float(weights) * _STATE_BYTES <= shards * available_bytes:
        return {}
    outcome.assumptions.append(
        "weights and AdamW's moments in bf16, because they do not fit in f32"
    )
    return narrow


def choose_weight_padding(
    outcome: CaseOutcome, sizes: Mapping[str, str], mesh: Mapping[str, int]
) -> dict[str, str]:
    """Return the option of a decoder by which PyTorch's FSDP pads weights; {} if it need not.

    FSDP2 pads the first dimension of each weight (_init_sharded_param of torch/distributed/fsdp/
    _fully_shard/_fsdp_param.py), and FSDP1 all weights of a block together, by less (_flat_param.py
    there). JAX's frameworks refuse such a mesh.

    Args:
        outcome: The case.
        sizes: The options of the recipe that are dimensions, with the name of the model.
        mesh: The mesh.
    """
    devices = mesh.get("fsdp", 1)
    width = int(sizes.get("emb", MODELS[sizes["model"]].emb))
    if not outcome.case.framework.is_pytorch or width % devices == 0:
        return {}
    if read_stage_counts(outcome.case)[0] > 1:
        return {}
    padded = width + -width % devices
    outcome.assumptions.append(
        f"weights of width {width} are padded to {padded}, as fsdp={devices} needs"
    )
    return {"pad_weights": "true"}
