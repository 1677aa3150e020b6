"""``--memory-annotate``: how much memory the program takes on one device, and what for."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import ClassVar

from hespas.dialects.attrs import MemoryAttr
from hespas.dialects.mlir import ir
from hespas.dialects.op_kinds import find_entry_function
from hespas.passes.base import Pass, PassRun, option
from hespas.passes.memory.buffer_assignment import compute_allocated_bytes
from hespas.passes.memory.fusion_model import find_kernel_results_over, fuse_kernels
from hespas.passes.memory.liveness import LivenessAnalysis, ResultsOver, ValueLifetimes
from hespas.passes.memory.liveness_program import LivenessProgramReader
from hespas.passes.memory.value_roles import (
    ACTIVATION,
    CONSTANT,
    OPTIMIZER,
    OTHER,
    PARAMETER,
    RESULT,
    TEMPORARY,
    classify_arguments,
    find_replaced_arguments,
    is_backward,
)
from hespas.support.errors import (
    UsageError,
    fill_in_file_name,
    find_framework_name,
    find_source_file,
    format_source_position,
)

FUSION_MODELS = ("auto", "true", "false")
MAX_TIMELINE_POINTS = 512  # of a timeline


@dataclass(frozen=True)
class MemoryAnnotatePass(Pass):
    """Write how much memory the program takes on one device, from what lives when.

    Program order counts, so it belongs before a split that merges regions, which moves ops.
    """

    name: ClassVar[str] = "memory-annotate"
    prepares: ClassVar[bool] = True
    only_marks: ClassVar[bool] = True

    model_fusion: str = option(
        "auto",
        "ops that a compiler would fuse make no buffer: true, false; auto: if nothing is fused",
    )

    def apply(self, module: ir.Module, run: PassRun) -> MemoryAttr:
        if self.model_fusion not in FUSION_MODELS:
            raise UsageError(
                f"{self.name}: option 'model-fusion' takes {', '.join(FUSION_MODELS)}, "
                f"not '{self.model_fusion}'"
            )
        model = None if self.model_fusion == "auto" else self.model_fusion == "true"
        memory = compute_memory_use(module, model)
        memory.write_to_op(module.operation)
        return memory


def compute_memory_use(
    module: ir.Module,
    model_fusion: bool | None = None,
    results_over: ResultsOver = find_kernel_results_over,
) -> MemoryAttr:
    """The memory of a prepared program; raises HespasError.

    ``model_fusion``: whether ops that a compiler would fuse make no buffer; None: where the module
    has no fusions. ``results_over`` says which results may be written over an operand.
    """
    function = find_entry_function(module)
    reader = LivenessProgramReader(module)
    arguments, body = reader.read_program(function)
    if model_fusion or (model_fusion is None and not reader.fused):
        fuse_kernels(body, reader.sizes)
    result_by_argument = find_replaced_arguments(module, function, len(body.results))
    roles = classify_arguments(function)
    replacing = {
        arguments[number]: body.results[result] for number, result in result_by_argument.items()
    }
    constants = list(reader.constants.values())
    owners = dict.fromkeys(body.results, RESULT) | dict.fromkeys(constants, CONSTANT)
    for number, value in enumerate(arguments):
        role = roles[number] if roles else OTHER
        owners |= dict.fromkeys(reader.flatten_tuples([value]), role)
        if value in replacing:
            owners[replacing[value]] = role
    lasting_values = reader.flatten_tuples(v for v in arguments if v not in replacing)
    analysis = LivenessAnalysis(reader.sizes, results_over)
    lifetimes = analysis.analyse_program(
        [*constants, *lasting_values], replacing, body, _get_terminator(function)
    )
    over_time = lifetimes.compute_bytes_over_time(reader.sizes)[::2]
    peak_point = max(range(len(over_time)), key=over_time.__getitem__)
    bytes_by_owner = _sum_bytes_by_owner(lifetimes, reader.sizes, peak_point, owners)
    arguments_bytes = {role: bytes_by_owner.get(role, 0) for role in (PARAMETER, OPTIMIZER, OTHER)}
    points, live = _thin_timeline(over_time)
    op = lifetimes.points[peak_point]
    place = format_source_position(op.location)
    return MemoryAttr(
        peak_bytes=compute_allocated_bytes(lifetimes, reader.sizes, replacing),
        live_bytes=over_time[peak_point],
        argument_bytes=sum(arguments_bytes.values()),
        result_bytes=bytes_by_owner.get(RESULT, 0),
        constant_bytes=bytes_by_owner.get(CONSTANT, 0),
        temporary_bytes=bytes_by_owner.get(TEMPORARY, 0) + bytes_by_owner.get(ACTIVATION, 0),
        parameter_bytes=arguments_bytes[PARAMETER] if roles else None,
        optimizer_bytes=arguments_bytes[OPTIMIZER] if roles else None,
        activation_bytes=bytes_by_owner.get(ACTIVATION),
        op=op.name,
        location=fill_in_file_name(place, find_source_file(module.operation.location))
        if place
        else find_framework_name(op.location) or None,
        points=len(over_time),
        timeline_points=points,
        timeline_bytes=live,
    )


def _sum_bytes_by_owner(
    lifetimes: ValueLifetimes, sizes: Sequence[int], point: int, owners: Mapping[int, str]
) -> dict[str, int]:
    """Bytes live at a point by what they are for; ``owners`` says so of all but temporaries."""
    bytes_by_owner: dict[str, int] = {}
    for i in lifetimes.find_live_at(2 * point):
        value = lifetimes.values[i]
        owner = owners.get(value) or _classify_temporary(lifetimes, i)
        bytes_by_owner[owner] = bytes_by_owner.get(owner, 0) + sizes[value]
    return bytes_by_owner


def _classify_temporary(lifetimes: ValueLifetimes, i: int) -> str:
    """An activation is made before the backward pass and read in it."""
    birth_location, death_location = (
        lifetimes.points[time // 2].location for time in (lifetimes.births[i], lifetimes.deaths[i])
    )
    return (
        ACTIVATION if is_backward(death_location) and not is_backward(birth_location) else TEMPORARY
    )


def _thin_timeline(over_time: Sequence[int]) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """The points of a timeline and the bytes there: of so many points in a row the highest."""
    step = -(-len(over_time) // MAX_TIMELINE_POINTS)
    points = tuple(
        max(range(start, min(start + step, len(over_time))), key=over_time.__getitem__)
        for start in range(0, len(over_time), step)
    )
    return points, tuple(over_time[point] for point in points)


def _get_terminator(function: ir.Operation) -> ir.Operation:
    block = function.regions[0].blocks[0]
    return block.operations[len(block.operations) - 1].operation
