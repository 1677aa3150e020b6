"""Scoring a calibration on measurements, with the functions of the estimator."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from dataclasses import dataclass

from hespas.estimators.calibrated.attention_shape import AttentionShape
from hespas.estimators.calibrated.device_constants import (
    COMPILED,
    SUSTAINED,
    DeviceConstants,
    strip_variant,
)
from hespas.estimators.calibrated.kernel_times import (
    QUANTISED,
    KernelTime,
    estimate_attention_time,
    estimate_product_time,
    estimate_row_time,
    estimate_stream_time,
)
from hespas.estimators.product_shapes import MatrixProduct
from hespas.workflows.calibration.measurement_tables import (
    BANDS,
    LEAST_S,
    TRAIN,
    KernelMeasurement,
    is_cached_stream,
)


@dataclass(frozen=True, slots=True)
class FitScore:
    """The errors |estimate / measurement - 1| of one class of kernels.

    Attributes:
        kind: The class.
        points: The number of measurements.
        median: The median error.
        mean: The mean error.
        p90: The 90th percentile of the errors.
        bias: The median of estimate / measurement, minus 1.
        in_band: The share of measurements inside their bands, of the shapes that neither the fit
            nor its band has used.
    """

    kind: str
    points: int
    median: float
    mean: float
    p90: float
    bias: float
    in_band: float


def estimate_measured_kernel(
    constants: DeviceConstants, measurement: KernelMeasurement
) -> KernelTime:
    """Estimate a measured kernel, without the launch by an eager framework."""
    family, _, kind = measurement.kind.partition(".")
    if family == "product":
        batch, m, n, k = measurement.sizes
        quantise = kind == QUANTISED
        dtype = "f8" if quantise else strip_variant(kind)
        shape = MatrixProduct(m, k, n, batch, dtype, round(measurement.flops))
        return estimate_product_time(
            constants,
            shape,
            measurement.bytes,
            quantise,
            sustained=kind.endswith(SUSTAINED),
            compiled=kind.endswith(COMPILED),
        )
    if family == "attention":
        heads, queries, size = measurement.sizes
        shape = AttentionShape(heads, queries, size, "bf16", round(measurement.flops), False)
        return estimate_attention_time(constants, shape, measurement.bytes)
    if family == "decode_attention":
        streams, keys, size = measurement.sizes
        flops = round(measurement.flops)
        shape = AttentionShape(streams, 1, size, "bf16", flops, False, streams, keys)
        return estimate_attention_time(constants, shape, measurement.bytes)
    if kind in ("softmax", "layer_norm"):
        columns, rows = measurement.sizes
        return estimate_row_time(constants, kind, columns, rows, measurement.bytes)
    return estimate_stream_time(constants, constants.fits[measurement.kind], measurement.bytes)


def score_measurements(
    constants: DeviceConstants,
    rows: Iterable[KernelMeasurement],
    is_scored: Callable[[KernelMeasurement], bool] = lambda measurement: (
        measurement.split_position >= TRAIN
    ),
) -> list[FitScore]:
    """Score each class on the selected measurements; by default those held out of fits."""
    node = constants.node
    by_kind: dict[str, list[tuple[float, bool | None]]] = {}
    for measurement in rows:
        if not is_scored(measurement) or measurement.time_s <= LEAST_S:
            continue
        if is_cached_stream(measurement, node.l2_bytes, node.memory_bandwidth_bytes_per_s):
            continue
        kernel_time = estimate_measured_kernel(constants, measurement)
        eager_s = kernel_time.fit.eager_s if measurement.eager else 0.0
        ratio = (kernel_time.time_s + eager_s) / measurement.time_s
        low, high = kernel_time.fit.band.get_log_ends_at(kernel_time.time_s + eager_s)
        inside = low <= -math.log(ratio) <= high if measurement.split_position >= BANDS else None
        by_kind.setdefault(measurement.kind, []).append((ratio, inside))
    return [_summarise_errors(kind, pairs) for kind, pairs in sorted(by_kind.items())]


def _summarise_errors(kind: str, pairs: list[tuple[float, bool | None]]) -> FitScore:
    errors = sorted(abs(ratio - 1) for ratio, _ in pairs)
    ratios = sorted(ratio for ratio, _ in pairs)
    inside = [flag for _, flag in pairs if flag is not None]
    return FitScore(
        kind,
        len(pairs),
        _interpolate_quantile(errors, 0.5),
        sum(errors) / len(errors),
        _interpolate_quantile(errors, 0.9),
        _interpolate_quantile(ratios, 0.5) - 1,
        sum(inside) / len(inside) if inside else float("nan"),
    )


def _interpolate_quantile(values: list[float], share: float) -> float:
    at = share * (len(values) - 1)
    low = int(at)
    high = min(low + 1, len(values) - 1)
    return values[low] + (at - low) * (values[high] - values[low])
