"""Calibrating a node from measurements, rendering its file, and scoring fits."""

from __future__ import annotations

import json
import math
import statistics
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, fields, replace
from typing import Any

import numpy as np

from hespas.configs.node_spec import NodeSpec
from hespas.estimators.calibrated.attention_shape import AttentionShape
from hespas.estimators.calibrated.device_constants import (
    BATCHED,
    COMPILED,
    SUSTAINED,
    DeviceConstants,
    strip_variant,
)
from hespas.estimators.calibrated.kernel_times import (
    QUANTISE_BYTES,
    KernelTime,
    estimate_attention_time,
    estimate_product_time,
    estimate_row_time,
    estimate_stream_time,
)
from hespas.estimators.product_shapes import MatrixProduct
from hespas.support.errors import HespasError
from hespas.workflows.calibration.measurement_tables import (
    BANDS,
    LEAST_S,
    TRAIN,
    KernelMeasurement,
    MeasurementTable,
    is_cached_stream,
)

_LEAST_POINTS = 25  # of a class; with fewer, too few shapes can be held out
_ALIGNED_COLUMNS, _SINGLE_PASS_COLUMNS = 4, 1024
_MOST_FASTER_THAN_PEAK = 0.02  # the share of rows above the peak rate that are single errors
# Those of 4 bits convert by a scale that is known: a kernel of its own, before the product.
_F8, _F8_QUANTISED, _BF16 = "product.f8", "product.f8_quantised", "product.bf16"
_F4, _F4_QUANTISED = "product.f4", "product.f4_quantised"
_F8_NOTE = "constants of product.bf16 with the efficiency of product.f8_quantised; its band"
_LEAST_PRODUCT = 0.5  # the least share of a measured layer that is the product itself


@dataclass(frozen=True, slots=True)
class NodeCalibration:
    """The calibration of a node.

    Attributes:
        data: The value of the key ``calibration`` of a node file.
        fitted: The classes that were fitted.
        skipped: Why each of the other measured classes was not fitted.
    """

    data: dict[str, Any]
    fitted: tuple[str, ...]
    skipped: Mapping[str, str]


def calibrate_node(
    node: NodeSpec, tables: Sequence[MeasurementTable], date: str
) -> NodeCalibration:
    """Fit the classes in the tables, and keep the other classes of the node.

    Raises:
        HespasError: No class has enough measurements.
    """
    from hespas.workflows.calibration.kernel_fit import fit_kernel_class, is_faster_than_peak

    classes, sources = _group_by_class(tables)
    data: dict[str, Any] = {**(node.calibration or {}), "date": date}
    fits: dict[str, Any] = dict(data.get("fits", {}))
    graphed = [
        row.time_s
        for kind, rows in classes.items()
        if kind.startswith("product")
        for row in rows
        if not row.eager and row.time_s > LEAST_S
    ]
    if graphed:
        data["launch_s"] = float(f"{min(graphed):.3g}")
        launch_source = "the least time from one product to the next in a CUDA graph"
        data["sources"] = dict(data.get("sources", {})) | {"launch_s": launch_source}
    fitted, skipped = [], {}
    for kind, rows in classes.items():
        if len(rows) < _LEAST_POINTS:
            skipped[kind] = f"{len(rows)} measurements, fewer than {_LEAST_POINTS}"
            continue
        peak_flops = look_up_peak_flops(node, kind)
        faster = sum(is_faster_than_peak(row, peak_flops) for row in rows)
        if faster > _MOST_FASTER_THAN_PEAK * len(rows):
            # The others of such a table were timed in the same way, and cannot be believed either.
            skipped[kind] = f"{faster} of {len(rows)} measurements exceed the peak rate"
            continue
        fits[kind] = fit_kernel_class(
            rows,
            peak_flops,
            node.memory_bandwidth_bytes_per_s,
            sources[kind],
            launch_s=data.get("launch_s") or DeviceConstants.from_node(node).launch_s,
            l2_bytes=node.l2_bytes,
            efficiency=_get_large_efficiency(kind, fits),
            most_bandwidth=_get_most_bandwidth(kind, fits),
        )
        fitted.append(kind)
    if not fitted:
        reasons = "; ".join(f"{kind}: {reason}" for kind, reason in skipped.items()) or "none"
        raise HespasError(
            f"no class of kernels can be fitted to the measurements ({reasons})",
            remedy="give more files, or more shapes",
        )
    # Public tables of narrow products measure linear layers that quantise their input.
    if _F8_QUANTISED in fitted and _BF16 in fits and _F8 not in classes:
        fits[_F8] = _derive_bare_f8_fit(fits[_BF16], fits[_F8_QUANTISED])
    if _F4_QUANTISED in fitted and "stream.loop" in fits and _F4 not in classes:
        constants = DeviceConstants.from_node(replace(node, calibration={**data, "fits": fits}))
        rows = list(_subtract_quantisation(constants, classes[_F4_QUANTISED]))
        bare = fit_kernel_class(
            rows,
            look_up_peak_flops(node, _F4),
            node.memory_bandwidth_bytes_per_s,
            f"{sources[_F4_QUANTISED]}, less the time of stream.loop to quantise the left operand",
        )
        fits[_F4] = bare | {"tags": ["transferred"]}
    data["fits"] = dict(sorted(fits.items()))
    return NodeCalibration(data, tuple(fitted), skipped)


def _group_by_class(
    tables: Sequence[MeasurementTable],
) -> tuple[dict[str, list[KernelMeasurement]], dict[str, str]]:
    """Group the measurements by class, and collect the provenance of each class."""
    rows: dict[str, list[KernelMeasurement]] = {}
    sources: dict[str, set[str]] = {}
    for table in tables:
        for measurement in table.measurements:
            kinds = [
                measurement.kind,
                *(["stream.reduce"] if _is_single_pass_softmax(measurement) else []),
            ]
            for kind in kinds:
                rows.setdefault(kind, []).append(replace(measurement, kind=kind))
                sources.setdefault(kind, set()).add(table.source)
    return dict(sorted(rows.items())), {k: "; ".join(sorted(v)) for k, v in sources.items()}


def _is_single_pass_softmax(row: KernelMeasurement) -> bool:
    """Return whether a softmax reads its rows once, as a reduction does: short, aligned rows."""
    if row.kind != "stream.softmax":
        return False
    columns, _ = row.sizes
    return columns <= _SINGLE_PASS_COLUMNS and columns % _ALIGNED_COLUMNS == 0


def look_up_peak_flops(node: NodeSpec, kind: str) -> float:
    """Return the peak rate that the efficiency of a class refers to, in FLOP/s."""
    if kind.startswith("stream"):
        return node.find_peak_rate("vector", "f32").flops_per_s
    _, _, key = kind.partition(".")
    key = strip_variant((key or "bf16").removesuffix("_quantised"))
    return node.find_peak_rate("matrix", key).flops_per_s


def _get_large_efficiency(kind: str, fits: Mapping[str, Any]) -> float | None:
    """Return the efficiency of large products of a class: those of variants reach that of others.

    Their tables hold small products, which do not show it. It counts where it was measured.
    """
    if not kind.endswith((BATCHED, COMPILED)):
        return None
    measured = fits.get(strip_variant(kind), {})
    return measured.get("efficiency") if "fit" in measured else None


def _get_most_bandwidth(kind: str, fits: Mapping[str, Any]) -> float:
    """Return the share of the bandwidth that a class can reach.

    The products of XLA's table find part of their operands in the cache, which larger ones do not.
    Those of bf16 show what memory gives to products of any type.
    """
    if not kind.endswith(COMPILED):
        return 1.0
    return fits.get(strip_variant(kind), fits.get(_BF16, {})).get("bandwidth", 1.0)


def _subtract_quantisation(
    constants: DeviceConstants, layers: Iterable[KernelMeasurement]
) -> Iterator[KernelMeasurement]:
    """Yield the products of layers in 4 bits, without the kernel that quantises their input.

    Its time is that of a stream of its bytes. Layers of which it takes most are left out.
    """
    for layer in layers:
        batch, m, _, k = layer.sizes
        moved = QUANTISE_BYTES["f4_quantised"] * batch * m * k
        stream = estimate_stream_time(constants, constants.fits["stream.loop"], moved)
        time_s = layer.time_s - stream.time_s
        if time_s > _LEAST_PRODUCT * layer.time_s:
            yield replace(layer, kind=_F4, time_s=time_s)


def _derive_bare_f8_fit(bf16: Mapping[str, Any], quantised: Mapping[str, Any]) -> dict[str, Any]:
    shared_constants = {
        k: v for k, v in bf16.items() if k not in ("residual", "fit", "band", "eager_s")
    }
    return shared_constants | {
        "efficiency": quantised["efficiency"],
        "band": quantised["band"],
        "tags": ["transferred"],
        "source": _F8_NOTE,
    }


def render_node_file(node: NodeSpec, calibration: Mapping[str, Any], name: str) -> str:
    """Render the file of a node with this calibration, formatted like the presets."""
    data: dict[str, Any] = {"name": name}
    for field in fields(NodeSpec):
        value = getattr(node, field.name)
        if (
            field.name in ("name", "calibration", "warn_default", "is_anonymous", "changed")
            or not value
        ):
            continue
        data[field.name] = value
    data["calibration"] = calibration
    sources = data.pop("sources", {})
    data["sources"] = sources
    return (
        "{\n"
        + ",\n".join(format_json_lines(key, value, 1) for key, value in data.items())
        + "\n}\n"
    )


def format_json_lines(name: str, value: Any, depth: int) -> str:
    """Format a key and its value as indented JSON, with a list or a row of a table on one line."""
    pad = "  " * depth
    if name == "residual":
        return f'{pad}"residual": {_format_table(value, depth)}'
    if isinstance(value, Mapping):
        if not value:
            return f"{pad}{json.dumps(name)}: {{}}"
        inner = ",\n".join(format_json_lines(key, item, depth + 1) for key, item in value.items())
        return f"{pad}{json.dumps(name)}: {{\n{inner}\n{pad}}}"
    return f"{pad}{json.dumps(name)}: {_format_plain_value(value)}"


def _format_table(value: Mapping[str, Any], depth: int) -> str:
    pad = "  " * (depth + 1)
    values = value["permille"]
    axes = [(name, axis) for name, axis in value.items() if name != "permille"]
    length = len(values) // len(axes[0][1])
    rows = [values[i : i + length] for i in range(0, len(values), length)]
    lines = [f"{pad}{json.dumps(name)}: {_format_plain_value(axis)}" for name, axis in axes]
    numbers = f",\n{pad}  ".join(", ".join(map(str, row)) for row in rows)
    lines.append(f'{pad}"permille": [\n{pad}  {numbers}\n{pad}]')
    return "{\n" + ",\n".join(lines) + "\n" + "  " * depth + "}"


def _format_plain_value(value: Any) -> str:
    if isinstance(value, list | tuple):
        return "[" + ", ".join(map(_format_plain_value, value)) + "]"
    if isinstance(value, float) and value.is_integer() and abs(value) < 1e15:
        return str(int(value))
    return json.dumps(value)


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
        quantise = kind in QUANTISE_BYTES
        dtype = kind.removesuffix("_quantised") if quantise else strip_variant(kind)
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
    ratios = [ratio for ratio, _ in pairs]
    errors = [abs(ratio - 1) for ratio in ratios]
    inside = [flag for _, flag in pairs if flag is not None]
    return FitScore(
        kind,
        len(pairs),
        statistics.median(errors),
        statistics.fmean(errors),
        float(np.quantile(errors, 0.9)),
        statistics.median(ratios) - 1,
        sum(inside) / len(inside) if inside else float("nan"),
    )
