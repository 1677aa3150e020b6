"""The precision of a row, as options of the recipes: types, and how products are quantised.

Rows name the narrowest type that computes and further words about it, such as ``fp8 (linear) +
bf16``, ``fp8 rowwise``, ``amp_bf16/DEFAULT`` or ``fp16 AMP``.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field

from hespas.workflows.validation.case_frameworks import (
    MAXTEXT,
    PAXML,
    TORCHTITAN,
    read_framework,
)
from hespas.workflows.validation.training_cases import TrainingCase

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
CURRENT_SCALES = "scales of fp8 from the values themselves, not from earlier steps"


@dataclass
class PrecisionReading:
    """What was read.

    Attributes:
        options: Options of the recipe.
        reason: Why there are none.
        assumptions: What the row does not state.
    """

    options: dict[str, str] = field(default_factory=dict)
    reason: str = ""
    assumptions: list[str] = field(default_factory=list)


def read_precision(case: TrainingCase) -> PrecisionReading:
    """Read the precision of a case."""
    text = case.get_text("precision").lower()
    if not text:
        return PrecisionReading(assumptions=["bf16 with f32 weights"])
    reading = PrecisionReading()
    name = _find_narrowest_type(text)
    if name == "fp8":
        _read_fp8_scheme(reading, text, case)
    elif name == "int8":
        reading.options["products"] = "int8"
    elif name in _COMPUTE_TYPES:
        reading.options |= _COMPUTE_TYPES[name]
    else:
        reading.reason = f"no recipe computes in '{case.get_text('precision')}'"
    if reading.options.get("compute_dtype") == "f16":
        reading.assumptions.append("no scaling of the loss")
    if re.search(r"/default\b", text) and not reading.reason:
        reading.options["reduce_dtype"] = "f32"  # Composer's mode; /pure sums gradients in bf16
    dtype = reading.options.get("compute_dtype", "bf16")
    if _has_narrow_logits(case) and dtype != "f32" and not reading.reason:
        reading.options["logits_dtype"] = dtype
    return reading


def _has_narrow_logits(case: TrainingCase) -> bool:
    """Return whether logits have the type of activations, as the result of every linear layer.

    MaxText computes them in f32 if ``logits_dot_in_fp32`` is true. That was the default of its
    configs/base.yml until 2024, and thus in the results for TPUs in its own repository. Its scripts
    for GPUs set it to false, which is the default since.
    """
    framework = read_framework(case)
    if framework.name != MAXTEXT:
        return framework.is_eager or framework.has_narrow_logits
    is_tpu = "tpu" in case.get_text("hardware").lower()
    return not (is_tpu and "maxtext@" in case.get_text("source").lower())


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


def _read_fp8_scheme(reading: PrecisionReading, text: str, case: TrainingCase) -> None:
    scheme = next(scheme for words, scheme in _FP8_SCHEMES if re.search(words, text))
    if scheme is None:
        reading.reason = f"no recipe scales blocks of 8-bit values, as '{text}' does"
        return
    framework, is_tpu = read_framework(case).name, "tpu" in case.get_text("hardware").lower()
    if scheme == "fp8" and framework in (MAXTEXT, PAXML) and not is_tpu:
        scheme = "fp8_delayed"
    elif scheme == "fp8" and framework != TORCHTITAN:
        reading.assumptions.append(CURRENT_SCALES)
    reading.options["products"] = scheme
    if "fp8 all-gather" in case.get_text("framework").lower():
        reading.assumptions.append("weights gathered in 16 bits, not in fp8")
