"""Two versions of a program: the band of their difference, and what makes the second one worse.

Kernels that both versions run have the same error in both, which cancels. With n and m executions
of a kernel before and after, only abs(m - n) of them contribute to the difference. Their errors are
treated as fully correlated within one version, where they add up, which is wider than the band of
a program (``passes.emit.module_stats``): a profile does not keep which part of an error is shared.
Those of the kernels that are new and of the kernels that are gone are independent:

    above = sqrt(new_high^2 + gone_low^2)
    below = sqrt(new_low^2 + gone_high^2)

where ``new_high`` is the sum of (m - n) (high - time) over the kernels that run more often, and
``gone_low`` the sum of (n - m) (time - low) over those that run less often. The band of equal
programs is therefore zero wide, and that of programs without a common kernel is the root of the sum
of the squares of both bands. Collectives have no band, so the result covers compute only.

Each function ``_find_...`` recognises one mistake by what it leaves in the program: types and
operations of products, recomputed ops, collectives, and arguments whose memory no result reuses.
The causes say what a regression is, and :class:`RegressionCause` what each adds; they need not add
up to it.

A profile is what a comparison needs of each version, small enough to be committed: the totals of a
step, its kernels and collectives by layer, and the arguments of the program. It is made from a
finished run or read from a baseline file.
"""

from __future__ import annotations

import functools
import math
import os
import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

from pydantic import BaseModel, ConfigDict, Field

from hespas.dialects.attr_codec import read_communicators
from hespas.dialects.attrs import CommAttr
from hespas.dialects.executions import COLLECTIVE, iterate_op_executions
from hespas.dialects.mlir import get_attribute, ir
from hespas.dialects.op_kinds import find_entry_function
from hespas.estimators.rules.base import to_buffer_size
from hespas.passes.memory.value_roles import find_replaced_arguments
from hespas.support.errors import find_framework_name, format_source_position
from hespas.support.text_tables import format_count, format_scaled, format_seconds
from hespas.workflows.kernel_rows import (
    KernelRow,
    collect_kernel_rows,
    extract_layer,
)
from hespas.workflows.run_results import RunResult
from hespas.workflows.sweep.sweep_table import is_table_file

_Row = TypeVar("_Row", "KernelProfile", "CollectiveProfile")
PRODUCT_KINDS = frozenset(("gemm", "conv", "attention"))
_INPUT_TYPES = {"tf32": "f32"}  # the element type of products whose rate has another name
_LEAST_GROWTH = 1e-3  # of operations, below which they count as the same
SETTINGS = (
    "devices", "node", "node_overrides", "system", "network", "estimator", "constants", "form",
    "split",
)  # fmt: skip
_MEMORY = ("peak_bytes", "argument_bytes", "result_bytes", "constant_bytes", "temporary_bytes")


@dataclass(frozen=True)
class StepComparison:
    """Two versions of a program."""

    before: StepProfile
    after: StepProfile

    @functools.cached_property
    def band_s(self) -> tuple[float, float] | None:
        """The 80 % band of the difference in time, in seconds; None if it is not known."""
        return compute_difference_band(self.before, self.after)

    @functools.cached_property
    def causes(self) -> list[RegressionCause]:
        """What makes the second version worse."""
        return find_regression_causes(self.before, self.after)


def compute_relative_growth(before: float | None, after: float | None) -> float:
    """Return how much larger the second value is, as a share of the first; inf if that is 0."""
    if not before:
        return math.inf if after else 0.0
    return ((after or 0.0) - before) / before


@dataclass
class _ErrorSums:
    """The sums of the distances from the times to the ends of their bands, in seconds."""

    low_s: float = 0.0
    high_s: float = 0.0


def compute_difference_band(before: StepProfile, after: StepProfile) -> tuple[float, float] | None:
    """Return the 80 % band of the difference in time between two versions, in seconds.

    None if a kernel that differs has no band, or a profile has no kernels.
    """
    if not (before.kernels and after.kernels) and (before.compute_s or after.compute_s):
        return None
    changes = Counter(_count_kernels(after.kernels))
    changes.subtract(_count_kernels(before.kernels))
    new, gone = _ErrorSums(), _ErrorSums()
    for (*_, time_s, low_s, high_s), change in changes.items():
        if not change:
            continue
        if low_s is None or high_s is None:
            return None
        sums = new if change > 0 else gone
        sums.low_s += abs(change) * (time_s - low_s)
        sums.high_s += abs(change) * (high_s - time_s)
    old_s, new_s = select_times(before, after)
    difference_s = new_s - old_s
    below_s, above_s = math.hypot(new.low_s, gone.high_s), math.hypot(new.high_s, gone.low_s)
    return difference_s - below_s, difference_s + above_s


_KernelIdentity = tuple[str, str, str, str, float, float | None, float | None]


def _count_kernels(kernels: Iterable[KernelProfile]) -> Counter[_KernelIdentity]:
    """Count the executions of equal kernels, whatever layer they belong to."""
    counts: Counter[_KernelIdentity] = Counter()
    for row in kernels:
        identity = row.op, row.kind, row.dtype, row.shapes, row.time_s, row.low_s, row.high_s
        counts[identity] += row.count
    return counts


@dataclass(frozen=True)
class RegressionCause:
    """One reason for a regression.

    Attributes:
        kind: A word for the mistake that it is a sign of.
        text: A sentence without a full stop: what is different, where, and how much.
        compute_s: What it adds to the compute time of a device, in seconds.
        exposed_s: What it adds to the exposed communication.
        memory_bytes: What it adds to the peak memory of a device.
    """

    kind: str
    text: str
    compute_s: float = 0.0
    exposed_s: float = 0.0
    memory_bytes: int = 0

    @property
    def step_s(self) -> float:
        """What it adds to the step time in seconds."""
        return self.compute_s + self.exposed_s


def find_regression_causes(before: StepProfile, after: StepProfile) -> list[RegressionCause]:
    """Find out what makes a program worse than its last version.

    Returns:
        The causes of a longer step first, those that add most time before others, then those of
        more memory.
    """
    undonated = [*_find_undonated_arguments(before, after)]
    recomputation = [*_find_recomputation(before, after, undonated)]
    causes = [
        *_find_wider_products(before, after),
        *_find_more_operations(before, after),
        *recomputation,
        *_find_collectives(before, after),
        *undonated,
    ]
    causes += _find_more_memory(before, after, causes)
    causes += _find_slower_layer(before, after, causes)
    return sorted(causes, key=lambda cause: (-cause.step_s, -cause.memory_bytes))


def _find_wider_products(before: StepProfile, after: StepProfile) -> Iterator[RegressionCause]:
    """Find products in a type of more bits than before, from the operations by type."""
    changes = Counter(_sum_flops_by_dtype(after))
    changes.subtract(_sum_flops_by_dtype(before))
    for wide, gained in changes.items():
        for narrow, lost in changes.items():
            moved = min(gained, -lost)
            if moved <= 0 or _count_bits(wide) <= _count_bits(narrow):
                continue
            products = [row for row in _select_products(after) if _get_input_type(row) == wide]
            time_s = math.fsum(
                _sum_product_time(after, dtype) - _sum_product_time(before, dtype)
                for dtype in (wide, narrow)
            )
            yield RegressionCause(
                "wider-products",
                f"products in {wide} that were {narrow}: {format_scaled(moved, 'FLOP')} "
                f"{_describe_places(products, _get_kernel_time)}, {_format_added_time(time_s)}",
                compute_s=time_s,
            )


def _sum_flops_by_dtype(profile: StepProfile) -> Counter[str]:
    flops: Counter[str] = Counter()
    for row in _select_products(profile):
        flops[_get_input_type(row)] += row.count * row.flops
    return flops


def _select_products(profile: StepProfile, recomputed: bool | None = None) -> list[KernelProfile]:
    """Return the kernels that contain products; those that are recomputed or not, or all."""
    return [
        row
        for row in profile.kernels
        if row.kind in PRODUCT_KINDS and recomputed in (None, row.is_recomputed)
    ]


def _get_input_type(row: KernelProfile) -> str:
    return _INPUT_TYPES.get(row.dtype, row.dtype)


def _count_bits(dtype: str) -> int:
    """Return the bits of an element type, such as 8 for ``f8E4M3FN``; 0 if its name has none."""
    match = re.search(r"\d+", dtype)
    return int(match[0]) if match else 0


def _sum_product_time(profile: StepProfile, dtype: str) -> float:
    rows = _select_products(profile)
    return math.fsum(row.count * row.time_s for row in rows if _get_input_type(row) == dtype)


def _find_more_operations(before: StepProfile, after: StepProfile) -> Iterator[RegressionCause]:
    """Find products of more operations on a device, as where work is no longer divided."""
    old, new = (_select_products(profile, recomputed=False) for profile in (before, after))
    old_flops, new_flops = (sum(row.count * row.flops for row in rows) for rows in (old, new))
    if new_flops <= old_flops * (1 + _LEAST_GROWTH):
        return
    known = {(row.layer, row.shapes) for row in old}
    added = [row for row in new if (row.layer, row.shapes) not in known] or new
    time_s = math.fsum(row.count * row.time_s for row in new) - math.fsum(
        row.count * row.time_s for row in old
    )
    growth = f", {new_flops / old_flops:.2f} times as many as before" if old_flops else ""
    yield RegressionCause(
        "more-operations",
        f"{format_scaled(new_flops - old_flops, 'FLOP')} more of products on each device{growth}, "
        f"{_describe_places(added, _get_kernel_time)}, {_format_added_time(time_s)}",
        compute_s=time_s,
    )


def _find_recomputation(
    before: StepProfile, after: StepProfile, undonated: Sequence[RegressionCause]
) -> Iterator[RegressionCause]:
    """Find more recomputation than before, and less of it at the price of more memory."""
    old, new = ([row for row in p.kernels if row.is_recomputed] for p in (before, after))
    old_s, new_s = (math.fsum(row.count * row.time_s for row in rows) for rows in (old, new))
    old_flops, new_flops = (sum(row.count * row.flops for row in rows) for rows in (old, new))
    if new_flops > old_flops * (1 + _LEAST_GROWTH):
        amount = format_scaled(new_flops - old_flops, "FLOP")
        word = "more recomputation" if old else "recomputation that was not there"
        yield RegressionCause(
            "more-recomputation",
            f"{word}: {amount} {_describe_places(new, _get_kernel_time)}, "
            f"{_format_added_time(new_s - old_s)}",
            compute_s=new_s - old_s,
        )
    added_bytes = _compute_peak_growth(before, after) - sum(c.memory_bytes for c in undonated)
    if new_flops < old_flops * (1 - _LEAST_GROWTH) and added_bytes > 0:
        word = "less recomputation" if new else "recomputation is gone"
        yield RegressionCause(
            "less-recomputation",
            f"{word}: {format_scaled(old_flops - new_flops, 'FLOP')} fewer "
            f"{_describe_places(old, _get_kernel_time)}, and "
            f"{format_scaled(added_bytes, 'B')} more of what the backward pass reads is kept",
            compute_s=new_s - old_s,
            memory_bytes=added_bytes,
        )


def _find_collectives(before: StepProfile, after: StepProfile) -> Iterator[RegressionCause]:
    """Find collectives that were not there, and those that send more bytes than before."""
    for kind in dict.fromkeys(row.kind for row in after.collectives):
        old, new = (
            [row for row in profile.collectives if row.kind == kind] for profile in (before, after)
        )
        more = sum(row.count for row in new) - sum(row.count for row in old)
        more_bytes = sum(map(_get_sent_bytes, new)) - sum(map(_get_sent_bytes, old))
        if more_bytes <= 0:
            continue
        known = {(row.layer, row.framework_op, row.operand_bytes) for row in old}
        added = [r for r in new if (r.layer, r.framework_op, r.operand_bytes) not in known] or new
        exposed_s = _sum_exposed_time(new) - _sum_exposed_time(old)
        if more > 0:
            verb = "was" if more == 1 else "were"
            what = f"{format_count(more, kind)} that {verb} not there, of"
        else:
            what = f"{kind}s of more bytes:"
        yield RegressionCause(
            "new-collectives" if more > 0 else "larger-collectives",
            f"{what} {format_scaled(more_bytes, 'B')} "
            f"{_describe_places(added, _get_sent_bytes)}, {_format_added_time(exposed_s)} exposed",
            exposed_s=exposed_s,
        )


def _get_sent_bytes(row: CollectiveProfile) -> int:
    return row.count * row.operand_bytes


def _sum_exposed_time(rows: Iterable[CollectiveProfile]) -> float:
    return math.fsum(row.exposed_s or 0.0 for row in rows)


def _find_undonated_arguments(before: StepProfile, after: StepProfile) -> Iterator[RegressionCause]:
    """Find arguments whose memory a result used before, and does not use any more."""
    donated = {argument.name for argument in before.arguments if argument.is_donated}
    lost = [a for a in after.arguments if a.name in donated and not a.is_donated]
    total = sum(argument.bytes for argument in lost)
    growth = min(total, _compute_peak_growth(before, after))
    if growth <= 0:
        return
    largest = max(lost, key=lambda argument: argument.bytes)
    others = f" and {len(lost) - 1} more" if len(lost) > 1 else ""
    subject = "an argument is" if len(lost) == 1 else f"{len(lost)} arguments are"
    yield RegressionCause(
        "not-donated",
        f"{format_scaled(growth, 'B')} more is live because {subject} not donated: "
        f"{largest.name}{others}, {format_scaled(total, 'B')}",
        memory_bytes=growth,
    )


def _compute_peak_growth(before: StepProfile, after: StepProfile) -> int:
    """Return how many bytes the peak memory has grown by; 0 if it is not known."""
    if before.peak_bytes is None or after.peak_bytes is None:
        return 0
    return after.peak_bytes - before.peak_bytes


def _find_more_memory(
    before: StepProfile, after: StepProfile, causes: Sequence[RegressionCause]
) -> Iterator[RegressionCause]:
    """Name the largest growing part of the peak memory, for what other causes do not explain."""
    rest = _compute_peak_growth(before, after) - sum(cause.memory_bytes for cause in causes)
    if rest <= 0 or before.memory is None or after.memory is None:
        return
    changes = Counter(after.memory)
    changes.subtract(before.memory)
    del changes["peak_bytes"]
    part, change = changes.most_common(1)[0]
    if change > 0:
        name = {"temporary_bytes": "temporary values", "constant_bytes": "constants"}.get(
            part, f"{part.removesuffix('_bytes')}s"
        )
        yield RegressionCause(
            "more-memory",
            f"{format_scaled(change, 'B')} more of {name} at the peak"
            + (f", in {after.peak_op}" if after.peak_op else ""),
            memory_bytes=rest,
        )


def _find_slower_layer(
    before: StepProfile, after: StepProfile, causes: Sequence[RegressionCause]
) -> Iterator[RegressionCause]:
    """Name the layer whose compute has grown most, if causes explain less than half of the step."""
    times_s = select_times(before, after)
    growth_s = times_s[1] - times_s[0]
    if growth_s <= 0 or sum(cause.step_s for cause in causes) >= 0.5 * growth_s:
        return
    old_s, new_s = _sum_time_by_layer(before), _sum_time_by_layer(after)
    changes = {layer: time_s - old_s.get(layer, 0.0) for layer, time_s in new_s.items()}
    layer, change_s = max(changes.items(), key=lambda item: item[1], default=("", 0.0))
    if change_s > 0:
        rows = [row for row in after.kernels if row.layer == layer]
        old = {(r.op, r.shapes, r.time_s, r.count) for r in before.kernels if r.layer == layer}
        changed = [r for r in rows if (r.op, r.shapes, r.time_s, r.count) not in old] or rows
        yield RegressionCause(
            "slower-layer",
            f"slower kernels {_describe_places(changed, _get_kernel_time)}, "
            f"{_format_added_time(change_s)}",
            compute_s=change_s,
        )


def _sum_time_by_layer(profile: StepProfile) -> dict[str, float]:
    times_s: dict[str, list[float]] = {}
    for row in profile.kernels:
        times_s.setdefault(row.layer, []).append(_get_kernel_time(row))
    return {layer: math.fsum(parts) for layer, parts in times_s.items()}


def _get_kernel_time(row: KernelProfile) -> float:
    return row.count * row.time_s


def _format_added_time(time_s: float) -> str:
    return f"{'-' if time_s < 0 else '+'}{format_seconds(abs(time_s))}"


def _describe_places(rows: Sequence[_Row], weigh_row: Callable[[_Row], float]) -> str:
    """Describe where rows are, the heaviest first: its layer, op and place, and how many more."""
    heaviest = max(rows, key=weigh_row)
    layers = {row.layer for row in rows}
    more = f" and {format_count(len(layers) - 1, 'more layer')}" if len(layers) > 1 else ""
    op = ", ".join(filter(None, (heaviest.framework_op, heaviest.place)))
    return f"in {heaviest.layer or 'no layer'}{f' ({op})' if op else ''}{more}"


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
    depth: int,
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
    for op, count, kind, _ in iterate_op_executions(find_entry_function(module)):
        comm = CommAttr.read_from_op(op) if kind == COLLECTIVE else None
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
