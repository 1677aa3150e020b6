"""What a comparison of two versions of a program needs of each, small enough to be committed.

A profile holds the totals of a step, its kernels and collectives by layer, and the arguments of the
program. It is made from a finished run or read from a baseline file.
"""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Iterable, Mapping
from typing import Any

from pydantic import BaseModel, ConfigDict, Field

from hespas.dialects.attr_codec import read_communicators
from hespas.dialects.attrs import CommAttr
from hespas.dialects.mlir import get_attribute, ir
from hespas.dialects.op_kinds import find_entry_function
from hespas.estimators.rules.base import to_buffer_size
from hespas.passes.memory.value_roles import find_replaced_arguments
from hespas.support.errors import find_framework_name, format_source_position
from hespas.workflows.kernel_rows import (
    KernelRow,
    collect_kernel_rows,
    extract_layer,
    iterate_executed_collectives,
)
from hespas.workflows.run_results import RunResult
from hespas.workflows.sweep.sweep_table import is_table_file

SETTINGS = (
    "devices", "node", "node_overrides", "system", "network", "estimator", "constants", "form",
    "split",
)  # fmt: skip
_MEMORY = ("peak_bytes", "argument_bytes", "result_bytes", "constant_bytes", "temporary_bytes")


class _ProfileModel(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True, allow_inf_nan=False)


class _ProfileRow(_ProfileModel):
    """A row of a profile, with its place in the program.

    Attributes:
        layer: The layer of the model; "" if no name shows it.
        framework_op: The framework's name of the op, such as ``dot_general``.
        place: The source position, without folders. A baseline file leaves it out, because any
            edit of the source changes it.
        count: The number of executions on one device in a step.
    """

    layer: str = ""
    framework_op: str = ""
    place: str = Field(default="", exclude=True)
    count: int


class KernelProfile(_ProfileRow):
    """Equal kernels of one layer.

    Attributes:
        op: The name of the op.
        kind: The kind of kernel.
        dtype: The element type whose rate applies.
        shapes: The types of operands and results.
        is_recomputed: Whether they run ops of the forward pass again.
        flops: The operations of one execution.
        time_s: The time of one execution in seconds.
        low_s: The lower end of its 80 % band; None if the estimator has no band.
        high_s: The upper end.
    """

    op: str
    kind: str
    dtype: str
    shapes: str
    is_recomputed: bool = False
    flops: int
    time_s: float
    low_s: float | None = None
    high_s: float | None = None


class CollectiveProfile(_ProfileRow):
    """Equal collectives or point-to-point operations of one layer.

    Attributes:
        kind: The kind of collective.
        group_size: The number of devices of its communicator.
        operand_bytes: The bytes that one device contributes to one execution.
        exposed_s: The time of all executions without compute, on the device that finishes last;
            None if the program was not simulated.
    """

    kind: str
    group_size: int
    operand_bytes: int
    exposed_s: float | None = None


class ArgumentProfile(_ProfileModel):
    """An argument of the program, and whether a result reuses its memory."""

    name: str
    bytes: int
    is_donated: bool


class StepProfile(_ProfileModel):
    """A step of a program.

    Attributes:
        settings: What the prediction depends on besides the program.
        step_time_s: The step time in seconds; None if the program was not simulated.
        compute_s: The compute time of one device.
        exposed_comm_s: The exposed communication; None if the program was not simulated.
        memory: The peak memory of a device and its parts, by the names in ``run.json``; None if it
            was not computed.
        peak_op: The op and the source position at which most memory is live.
    """

    settings: dict[str, Any]
    step_time_s: float | None = None
    compute_s: float
    exposed_comm_s: float | None = None
    memory: dict[str, int] | None = None
    peak_op: str = Field(default="", exclude=True)
    kernels: list[KernelProfile] = Field(default_factory=list)
    collectives: list[CollectiveProfile] = Field(default_factory=list)
    arguments: list[ArgumentProfile] = Field(default_factory=list)

    @property
    def peak_bytes(self) -> int | None:
        """The peak memory of a device; None if it was not computed."""
        return None if self.memory is None else self.memory["peak_bytes"]


def select_times(before: StepProfile, after: StepProfile) -> tuple[float, float]:
    """Return both step times in seconds, or both compute times if either was not simulated."""
    if before.step_time_s is None or after.step_time_s is None:
        return before.compute_s, after.compute_s
    return before.step_time_s, after.step_time_s


def profile_result(result: RunResult, depth: int = 2) -> StepProfile:
    """Profile a finished run, of which the table of a sweep has the totals only."""
    if is_table_file(result.folder):
        return profile_totals(result.figures)
    return profile_step(result.annotated_module, result.figures, result.simulation, depth)


def profile_totals(figures: Mapping[str, Any]) -> StepProfile:
    """Profile the totals of a step, such as a row of a sweep's table, without its kernels."""
    memory = figures.get("memory")
    return StepProfile(
        settings={name: figures.get(name) for name in SETTINGS},
        step_time_s=figures.get("step_time_s"),
        compute_s=figures["compute_s"],
        exposed_comm_s=figures.get("exposed_comm_s"),
        memory={name: memory.get(name) or 0 for name in _MEMORY} if memory else None,
        peak_op=_format_peak_op(memory) if memory else "",
    )


def profile_step(
    module: ir.Module,
    figures: Mapping[str, Any],
    simulation: Mapping[str, Any] | None,
    depth: int = 2,
) -> StepProfile:
    """Profile a step.

    Args:
        module: The annotated module.
        figures: The object of ``run.json``.
        simulation: The object of ``simulation.json``; None if the traces were not simulated.
        depth: The number of components of a framework name that make a layer.

    Raises:
        HespasError: The module is not annotated.
    """
    return profile_totals(figures).model_copy(
        update={
            "kernels": _profile_kernels(collect_kernel_rows(module, depth)),
            "collectives": _profile_collectives(module, simulation, depth),
            "arguments": _profile_arguments(module),
        }
    )


def _format_peak_op(memory: Mapping[str, Any]) -> str:
    places = (memory.get("op"), os.path.basename(memory.get("location") or ""))
    return ", ".join(filter(None, places))


def _profile_kernels(rows: Iterable[KernelRow]) -> list[KernelProfile]:
    return [
        KernelProfile(
            layer=row.layer,
            framework_op=row.framework_op,
            place=os.path.basename(row.place),
            count=row.count,
            op=row.op,
            kind=row.kind,
            dtype=row.cost.dtype,
            shapes=row.shapes,
            is_recomputed=row.is_recomputed,
            flops=row.cost.flops,
            time_s=1e-9 * row.cost.time_ns,
            low_s=None if row.cost.low_ns is None else 1e-9 * row.cost.low_ns,
            high_s=None if row.cost.high_ns is None else 1e-9 * row.cost.high_ns,
        )
        for row in rows
    ]


def _profile_collectives(
    module: ir.Module, simulation: Mapping[str, Any] | None, depth: int
) -> list[CollectiveProfile]:
    """Profile the collectives, with the exposed time of those with the same name and size."""
    exposed_s = _sum_exposed_times(simulation)
    communicators = read_communicators(module)
    counts: Counter[tuple[str, str, int, int]] = Counter()
    places: dict[str, str] = {}
    for op, count in iterate_executed_collectives(module):
        comm = CommAttr.read_from_op(op)
        if comm is None or not comm.sent_bytes:
            continue
        name = find_framework_name(op.location)
        size = len(communicators[comm.groups[0]]) if comm.groups else 2
        counts[name, comm.kind, size, comm.operand_bytes] += count
        places.setdefault(name, os.path.basename(format_source_position(op.location)))
    return [
        CollectiveProfile(
            layer=extract_layer(name, depth),
            framework_op=name.rpartition("/")[2],
            place=places[name],
            count=count,
            kind=kind,
            group_size=size,
            operand_bytes=operand_bytes,
            exposed_s=None
            if exposed_s is None
            else exposed_s.get((name, kind, operand_bytes), 0.0),
        )
        for (name, kind, size, operand_bytes), count in counts.items()
    ]


def _sum_exposed_times(
    simulation: Mapping[str, Any] | None,
) -> Mapping[tuple[str, str, int], float] | None:
    """Sum the exposed times of trace nodes by framework name, kind and size; None if unknown."""
    if simulation is None or simulation.get("exposed") is None:
        return None
    exposed_s: dict[tuple[str, str, int], float] = {}
    for row in simulation["exposed"]:
        key = row["name"].partition(" ")[2], row["kind"], row["operand_bytes"]
        exposed_s[key] = exposed_s.get(key, 0.0) + row["exposed_s"]
    return exposed_s


def _profile_arguments(module: ir.Module) -> list[ArgumentProfile]:
    entry = find_entry_function(module)
    results = len(get_attribute(entry, "function_type").value.results)
    donated = find_replaced_arguments(module, entry, results)
    return [
        ArgumentProfile(
            name=find_framework_name(value.location) or f"argument {number}",
            bytes=to_buffer_size(value.type).bytes,
            is_donated=number in donated,
        )
        for number, value in enumerate(entry.regions[0].blocks[0].arguments)
    ]
