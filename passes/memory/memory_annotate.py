"""``--memory-annotate``: how much memory the program takes on one device, and what for."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import ClassVar

from hespas.dialects.attrs import Memory
from hespas.dialects.errors import UsageError, in_file, name_of, position
from hespas.dialects.mlir import ir
from hespas.dialects.ops import entry
from hespas.passes.base import Pass, Run, option
from hespas.passes.memory.allocate import allocated_bytes
from hespas.passes.memory.fuse import fuse, kernel_results_over
from hespas.passes.memory.live import Liveness, Lives, ResultsOver
from hespas.passes.memory.program import Reader
from hespas.passes.memory.roles import (
    ACTIVATION,
    CONSTANT,
    OPTIMIZER,
    OTHER,
    PARAMETER,
    RESULT,
    TEMPORARY,
    argument_roles,
    is_backward,
    replaced,
)

MODELS = ("auto", "true", "false")
MOST_POINTS = 512  # of a timeline


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

    def apply(self, module: ir.Module, run: Run) -> None:
        if self.model_fusion not in MODELS:
            raise UsageError(
                f"{self.name}: option 'model-fusion' takes {', '.join(MODELS)}, "
                f"not '{self.model_fusion}'"
            )
        model = None if self.model_fusion == "auto" else self.model_fusion == "true"
        memory = measure(module, model, name=run.input_name)
        memory.set_on(module.operation)
        run.results["memory"] = memory


def measure(
    module: ir.Module,
    model_fusion: bool | None = None,
    results_over: ResultsOver = kernel_results_over,
    name: str = "-",
) -> Memory:
    """The memory of a prepared program; raises HespasError.

    ``model_fusion``: whether ops that a compiler would fuse make no buffer; None: where the module
    has no fusions. ``results_over`` says which results may be written over an operand. ``name``
    is the file's, for places in text that was parsed from memory.
    """
    function = entry(module)
    reader = Reader(module)
    arguments, body = reader.program(function)
    if model_fusion or (model_fusion is None and not reader.fused):
        fuse(body, reader.sizes)
    pairs = replaced(module, function, len(body.results))
    roles = argument_roles(function)
    replacing = {arguments[number]: body.results[result] for number, result in pairs.items()}
    constants = list(reader.constants.values())
    owners = dict.fromkeys(body.results, RESULT) | dict.fromkeys(constants, CONSTANT)
    for number, value in enumerate(arguments):
        role = roles[number] if roles else OTHER
        owners |= dict.fromkeys(reader.leaves([value]), role)
        if value in replacing:
            owners[replacing[value]] = role
    kept = reader.leaves(v for v in arguments if v not in replacing)
    walk = Liveness(reader.sizes, results_over)
    lives = walk.program([*constants, *kept], replacing, body, _last(function))
    over_time = lives.bytes_over_time(reader.sizes)[::2]
    at = max(range(len(over_time)), key=over_time.__getitem__)
    parts = _parts(lives, reader.sizes, at, owners)
    arguments_bytes = {role: parts.get(role, 0) for role in (PARAMETER, OPTIMIZER, OTHER)}
    points, live = _thinned(over_time)
    op = lives.points[at]
    place = position(op.location)
    return Memory(
        peak_bytes=allocated_bytes(lives, reader.sizes, replacing),
        live_bytes=over_time[at],
        argument_bytes=sum(arguments_bytes.values()),
        result_bytes=parts.get(RESULT, 0),
        constant_bytes=parts.get(CONSTANT, 0),
        temporary_bytes=parts.get(TEMPORARY, 0) + parts.get(ACTIVATION, 0),
        parameter_bytes=arguments_bytes[PARAMETER] if roles else None,
        optimizer_bytes=arguments_bytes[OPTIMIZER] if roles else None,
        activation_bytes=parts.get(ACTIVATION),
        op=op.name,
        location=in_file(place, name) if place else name_of(op.location) or None,
        points=len(over_time),
        timeline_points=points,
        timeline_bytes=live,
    )


def _parts(
    lives: Lives, sizes: Sequence[int], at: int, owners: Mapping[int, str]
) -> dict[str, int]:
    """Bytes live at a point by what they are for; ``owners`` says so of all but temporaries."""
    parts: dict[str, int] = {}
    for i in lives.at(2 * at):
        value = lives.values[i]
        owner = owners.get(value) or _temporary(lives, i)
        parts[owner] = parts.get(owner, 0) + sizes[value]
    return parts


def _temporary(lives: Lives, i: int) -> str:
    """An activation is made before the backward pass and read in it."""
    made, read = (lives.points[time // 2].location for time in (lives.births[i], lives.deaths[i]))
    return ACTIVATION if is_backward(read) and not is_backward(made) else TEMPORARY


def _thinned(over_time: Sequence[int]) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """The points of a timeline and the bytes there: of so many points in a row the highest."""
    step = -(-len(over_time) // MOST_POINTS)
    points = tuple(
        max(range(start, min(start + step, len(over_time))), key=over_time.__getitem__)
        for start in range(0, len(over_time), step)
    )
    return points, tuple(over_time[point] for point in points)


def _last(function: ir.Operation) -> ir.Operation:
    block = function.regions[0].blocks[0]
    return block.operations[len(block.operations) - 1].operation
