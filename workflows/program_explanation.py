"""Explains where the compute time of an annotated program goes, kernel by kernel."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from hespas.configs.node_spec import NodeSpec
from hespas.dialects.attrs import COUNTS, TargetAttr
from hespas.passes.annotate.traverse import require_target
from hespas.support.errors import fill_in_file_name
from hespas.workflows import kernel_rows
from hespas.workflows.kernel_rows import KernelRow
from hespas.workflows.run_results import read_annotated_module, read_program_name, resolve_node

NO_ESTIMATE = "no estimate"  # stands for the tag of a kernel without an estimate
NO_NAME = "no name"  # the layer of kernels whose ops carry no name

TimeGroup = tuple[str, float, int]
"""Name of a group of kernels, their time in ns, and how many they are."""


@dataclass(frozen=True)
class ProgramExplanation:
    """The kernels of a program and their time, on one device.

    Attributes:
        target: What the program was annotated for.
        node: The node of the target; None if options alone described it.
        rows: The distinct kernels, the one with the most time first.
        groups: Times by ``layer``, ``kind``, ``dtype``, ``bound`` and, if any is tagged, by
            ``constants``.
    """

    target: TargetAttr
    node: NodeSpec | None
    rows: Sequence[KernelRow]
    groups: Mapping[str, Sequence[TimeGroup]]

    @property
    def total_ns(self) -> float:
        """The compute time of one device in ns."""
        return sum(row.time_ns for row in self.rows)

    @property
    def is_calibrated(self) -> bool:
        """Whether the calibrated estimator predicted the times."""
        return (self.target.estimator or "").startswith("calibrated")


def explain_program(result: str, depth: int = 2) -> ProgramExplanation:
    """Explain the program in a result folder or an annotated module.

    Args:
        result: Output folder of ``hespas run``, or file with an annotated module.
        depth: The number of components of a framework's name that make a layer.

    Raises:
        HespasError: The result cannot be read, or is not annotated.
    """
    module = read_annotated_module(result)
    program = read_program_name(result)
    target = require_target(module, remedy="name the output of hespas run or of an annotate pass")
    node = resolve_node(target.node, target.node_overrides, result)
    rows = [
        replace(row, place=fill_in_file_name(row.place, program) if row.place else "")
        for row in kernel_rows.collect_kernel_rows(module, depth)
    ]
    groups = {
        "layer": kernel_rows.sum_time_by(rows, lambda row: row.layer or NO_NAME),
        "kind": kernel_rows.sum_time_by(rows, lambda row: row.kind),
        "dtype": kernel_rows.sum_time_by(rows, lambda row: row.cost.dtype),
        "bound": kernel_rows.sum_time_by(rows, lambda row: row.cost.bound),
    }
    explanation = ProgramExplanation(target, node, kernel_rows.merge_layers(rows), groups)
    if explanation.is_calibrated or any(row.cost.tag for row in rows):
        untagged = "within the measured range" if explanation.is_calibrated else "no tag"
        groups["constants"] = kernel_rows.sum_time_by(rows, lambda row: row.cost.tag or untagged)
    return explanation


def compute_peak_shares(row: KernelRow, node: NodeSpec | None) -> tuple[float | None, float | None]:
    """Compute the shares of the node's peak rate and bandwidth that a kernel reaches.

    Each is None if it is unknown.
    """
    if node is None or not row.cost.time_ns:
        return None, None
    time_s = row.cost.time_ns * 1e-9
    moved_bytes = row.cost.read_bytes + row.cost.write_bytes
    bandwidth_share = moved_bytes / time_s / node.memory_bandwidth_bytes_per_s
    peaks = [
        rates[row.cost.dtype] for rates in node.peaks_flops.values() if row.cost.dtype in rates
    ]
    return row.cost.flops / time_s / max(peaks) if peaks else None, bandwidth_share


def to_explanation_json(explanation: ProgramExplanation, limit: int | None) -> dict[str, Any]:
    """Convert to the object that ``hespas show --json`` prints, with at most ``limit`` kernels."""
    target = explanation.target
    return {
        "node": target.node,
        "estimator": target.estimator,
        "constants": target.constants,
        "compute_s": explanation.total_ns * 1e-9,
        "distinct_kernels": len(explanation.rows),
        "kernels": [_to_kernel_json(row, explanation.node) for row in explanation.rows[:limit]],
        **{
            f"by_{group_name}": [
                {group_name: name, "time_s": time_ns * 1e-9, "kernels": count}
                for name, time_ns, count in totals
            ]
            for group_name, totals in explanation.groups.items()
        },
    }


def _to_kernel_json(row: KernelRow, node: NodeSpec | None) -> dict[str, Any]:
    cost = row.cost
    peak_share, bandwidth_share = compute_peak_shares(row, node)
    return {
        "op": row.op,
        "kind": row.kind,
        "shapes": row.shapes,
        "count": row.count,
        "time_s": cost.time_ns * 1e-9,
        "low_s": None if cost.low_ns is None else cost.low_ns * 1e-9,
        "high_s": None if cost.high_ns is None else cost.high_ns * 1e-9,
        "total_s": row.time_ns * 1e-9,
        **{name: getattr(cost, name) for name in COUNTS},
        "dtype": cost.dtype,
        "bound": cost.bound,
        "of_peak": peak_share,
        "of_bandwidth": bandwidth_share,
        "tag": cost.tag,
        "gap": cost.gap,
        "place": row.place,
        "layer": row.layer,
    }
