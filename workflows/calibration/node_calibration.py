"""Calibrating a node from measurements, and rendering its file."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields, replace
from typing import Any

from hespas.configs.node_spec import NodeSpec
from hespas.estimators.calibrated.device_constants import (
    BATCHED,
    COMPILED,
    strip_variant,
)
from hespas.support.errors import HespasError
from hespas.workflows.calibration.measurement_tables import (
    LEAST_S,
    KernelMeasurement,
    MeasurementTable,
)

LEAST_POINTS = 25  # of a class; with fewer, too few shapes can be held out
_ALIGNED_COLUMNS, _SINGLE_PASS_COLUMNS = 4, 1024
# Public tables of 8-bit products measure linear layers that quantise their input.
_F8, _F8_QUANTISED, _BF16 = "product.f8", "product.f8_quantised", "product.bf16"
_F8_NOTE = "constants of product.bf16 with the efficiency of product.f8_quantised; its band"


@dataclass(frozen=True, slots=True)
class NodeCalibration:
    """The calibration of a node.

    Attributes:
        data: The value of the key ``calibration`` of a node file.
        fitted: The classes that were fitted.
        skipped: The number of measurements of each class that has too few.
    """

    data: dict[str, Any]
    fitted: tuple[str, ...]
    skipped: Mapping[str, int]


def calibrate_node(
    node: NodeSpec, tables: Sequence[MeasurementTable], date: str
) -> NodeCalibration:
    """Fit the classes in the tables, and keep the other classes of the node.

    Raises:
        HespasError: No class has enough measurements.
    """
    from hespas.workflows.calibration.kernel_fit import fit_kernel_class

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
        if len(rows) < LEAST_POINTS:
            skipped[kind] = len(rows)
            continue
        peak_flops = look_up_peak_flops(node, kind)
        fits[kind] = fit_kernel_class(
            rows,
            peak_flops,
            node.memory_bandwidth_bytes_per_s,
            sources[kind],
            launch_s=data.get("launch_s") or _get_inherited_launch_s(node),
            l2_bytes=node.l2_bytes,
            efficiency=_get_large_efficiency(kind, fits),
            most_bandwidth=_get_most_bandwidth(kind, fits),
        )
        fitted.append(kind)
    if not fitted:
        row_counts = ", ".join(f"{kind}: {count}" for kind, count in skipped.items()) or "none"
        raise HespasError(
            f"no class of kernels has {LEAST_POINTS} measurements ({row_counts})",
            remedy="give more files, or more shapes",
        )
    if _F8_QUANTISED in fitted and _BF16 in fits and "product.f8" not in classes:
        fits[_F8] = _derive_bare_f8_fit(fits[_BF16], fits[_F8_QUANTISED])
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

    Their tables hold small products, which do not show it.
    """
    if not kind.endswith((BATCHED, COMPILED)):
        return None
    return fits.get(strip_variant(kind), {}).get("efficiency")


def _get_most_bandwidth(kind: str, fits: Mapping[str, Any]) -> float:
    """Return the share of the bandwidth that a class can reach.

    The products of XLA's table find part of their operands in the cache, which larger ones do not.
    """
    if not kind.endswith(COMPILED):
        return 1.0
    return fits.get(strip_variant(kind), {}).get("bandwidth", 1.0)


def _get_inherited_launch_s(node: NodeSpec) -> float:
    from hespas.estimators.calibrated.device_constants import DeviceConstants

    return DeviceConstants.from_node(node).launch_s


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
