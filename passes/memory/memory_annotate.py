"""``--memory-annotate``: compute how much memory a program uses on one device, and for what."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, ClassVar

from hespas.dialects.attrs import MemoryAttr, SplitAttr
from hespas.dialects.mlir import ir
from hespas.dialects.op_bodies import get_terminator
from hespas.dialects.op_kinds import find_entry_function
from hespas.passes.base import FACTS, Pass, PassRun, option
from hespas.passes.memory.buffer_assignment import compute_allocated_bytes
from hespas.passes.memory.fusion_model import find_kernel_results_over, fuse_kernels
from hespas.passes.memory.liveness import (
    LivenessAnalysis,
    ProgramLifetimes,
    ResultsOver,
    ValueLifetime,
)
from hespas.passes.memory.liveness_program import LivenessBody, LivenessProgramReader
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

ARGUMENT_ROLES = (PARAMETER, OPTIMIZER, OTHER)
FUSION_MODELS = ("auto", "true", "false")
MAX_TIMELINE_POINTS = 512


@dataclass(frozen=True)
class MemoryAnnotatePass(Pass):
    """Write how much memory the program uses on one device, from the lifetimes of its values.

    The result depends on program order: run this pass before a split that merges regions, because
    the split reorders ops.
    """

    name: ClassVar[str] = "memory-annotate"
    prepares: ClassVar[bool] = True
    keeps: ClassVar[frozenset[str]] = FACTS
    only_marks: ClassVar[bool] = True

    model_fusion: str = option(
        "auto",
        "model the compiler's fusion, which needs fewer buffers: true, false; "
        "auto: if the module has no fusions",
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
        run.mark_current(MemoryAttr.NAME)
        return memory


def refresh_memory(module: ir.Module, run: PassRun) -> None:
    """Make ``hespas.memory`` describe the program as it is, if the module has it.

    A split that merges regions reorders ops, so that the memory of the program before the split
    cannot be computed any more: if another pass has changed the program since, the attribute is
    removed. Raises HespasError for a program that ``memory-annotate`` refuses.
    """
    old = MemoryAttr.read_from_op(module.operation)
    if old is None or run.is_current(MemoryAttr.NAME):
        return
    new = compute_memory_use(module, old.model_fusion)
    if old.digest is None:  # written by an older version
        new = replace(new, digest=None)
    split = SplitAttr.read_from_op(module.operation)
    is_reordered = split is not None and split.merge
    # The text of a module may lack locations, which are all that tells activations.
    is_equal = replace(new, location=old.location, activation_bytes=old.activation_bytes) == old
    if not is_equal and not (is_reordered and new.digest == old.digest):
        if is_reordered:
            del module.operation.attributes[MemoryAttr.NAME]
            change = "removed; run memory-annotate again before the split"
        else:
            new.write_to_op(module.operation)
            change = "computed again"
        run.note(f"the program changed after memory-annotate: {MemoryAttr.NAME} is {change}")
    run.mark_current(MemoryAttr.NAME)


def compute_memory_use(
    module: ir.Module,
    model_fusion: bool | None = None,
    results_over: ResultsOver = find_kernel_results_over,
) -> MemoryAttr:
    """Compute the memory that a prepared program uses.

    Args:
        module: The module.
        model_fusion: Whether ops that a compiler would fuse need no buffer. None: only if the
            module has no fusions.
        results_over: Finds the results that may be written over an operand.

    Raises:
        HespasError: A shape is dynamic, or a function calls itself.
    """
    function = find_entry_function(module)
    reader = LivenessProgramReader(module)
    arguments, body = reader.read_program()
    digest = digest_program(arguments, body, reader.sizes)
    if model_fusion or (model_fusion is None and not reader.has_fusions):
        fuse_kernels(body, reader.sizes)
    result_by_argument = find_replaced_arguments(module, function, len(body.results))
    argument_roles = classify_arguments(function)
    replaced = {
        arguments[number]: body.results[result] for number, result in result_by_argument.items()
    }
    constants = list(reader.constants.values())
    roles = dict.fromkeys(body.results, RESULT) | dict.fromkeys(constants, CONSTANT)
    for number, value in enumerate(arguments):
        role = argument_roles[number] if argument_roles else OTHER
        roles |= dict.fromkeys(reader.flatten_tuples([value]), role)
        if value in replaced:
            roles[replaced[value]] = role
    permanent_arguments = reader.flatten_tuples([v for v in arguments if v not in replaced])
    program = LivenessAnalysis(reader.sizes, results_over).analyse_program(
        [*constants, *permanent_arguments],
        replaced,
        body,
        get_terminator(function.regions[0].blocks[0]),
    )
    for value in replaced:
        _follow_donated_buffer(program, value, roles)
    bytes_by_point = program.compute_bytes_over_time(reader.sizes)[::2]
    peak_point = max(range(len(bytes_by_point)), key=bytes_by_point.__getitem__)
    bytes_by_role = _sum_bytes_by_role(program, reader.sizes, peak_point, roles)
    timeline_points = _choose_timeline_points(bytes_by_point)
    op = program.points[peak_point]
    place = format_source_position(op.location)
    return MemoryAttr(
        peak_bytes=compute_allocated_bytes(program, reader.sizes, replaced),
        live_bytes=bytes_by_point[peak_point],
        argument_bytes=sum(bytes_by_role.get(role, 0) for role in ARGUMENT_ROLES),
        result_bytes=bytes_by_role.get(RESULT, 0),
        constant_bytes=bytes_by_role.get(CONSTANT, 0),
        temporary_bytes=bytes_by_role.get(TEMPORARY, 0) + bytes_by_role.get(ACTIVATION, 0),
        parameter_bytes=bytes_by_role.get(PARAMETER, 0) if argument_roles else None,
        optimizer_bytes=bytes_by_role.get(OPTIMIZER, 0) if argument_roles else None,
        activation_bytes=bytes_by_role.get(ACTIVATION),
        op=op.name,
        location=fill_in_file_name(place, find_source_file(module.operation.location))
        if place
        else find_framework_name(op.location) or None,
        points=len(bytes_by_point),
        timeline_points=timeline_points,
        timeline_bytes=tuple(bytes_by_point[point] for point in timeline_points),
        model_fusion=model_fusion,
        digest=digest,
    )


def digest_prepared_program(module: ir.Module) -> str:
    """Return the ``digest_program`` of what ``prepare`` makes of a module, which stays as it is.

    Raises:
        HespasError: ``prepare`` refuses the module, or a shape is dynamic.
    """
    from hespas.passes.pipeline import run_pipeline  # it imports the registry of passes

    copy: Any = module.operation.clone()
    run_pipeline(copy, "prepare")
    reader = LivenessProgramReader(copy)
    return digest_program(*reader.read_program(), reader.sizes)


def digest_program(arguments: Sequence[int], body: LivenessBody, sizes: Sequence[int]) -> str:
    """Return a hash of the ops of a program, and of what each reads, in any order of the ops.

    Ops count by their names without dialects, and values by their sizes and by the ops that define
    them: a pass that moves an op along the data flow changes the hash, and a split does not.
    """
    keys = {value: f"argument {number}" for number, value in enumerate(arguments)}
    return _digest_body(body, sizes, keys)


def _digest_body(body: LivenessBody, sizes: Sequence[int], keys: dict[int, str]) -> str:
    """Return the hash of a body; ``keys`` identify the values around it, and receive its own."""

    def find_keys(values: Sequence[int]) -> list[str]:
        return [keys.get(value) or str(sizes[value]) for value in values]

    digests: list[str] = []
    for item in body.items:
        reads = find_keys(item.reads)
        if item.bodies:
            reads.sort()  # bodies of equal programs may first read what is around them in any order
        for carry, key in zip(
            item.carries, find_keys([carry.before for carry in item.carries]), strict=True
        ):
            keys[carry.argument] = f"in loop: {key}"
        bodies = [_digest_body(inner, sizes, keys) for inner in item.bodies]
        results = [sizes[value] for value in item.results]
        digest = _digest_text((item.op.name.partition(".")[2], reads, results, bodies))
        keys.update((value, f"{digest}.{number}") for number, value in enumerate(item.results))
        digests.append(digest)
    return _digest_text((sorted(digests), find_keys(body.results)))


def _digest_text(content: object) -> str:
    return hashlib.sha256(repr(content).encode()).hexdigest()[:16]


def _follow_donated_buffer(program: ProgramLifetimes, value: int, roles: dict[int, str]) -> None:
    """Give what is between a donated argument and a result, all in its buffer, the same role.

    Such is the cache of keys and values that a loop carries and updates.
    """
    role, takers = roles[value], list[int]()
    while value in program.taken:
        value = program.taken[value]
        takers.append(value)
    if roles.get(value) in ARGUMENT_ROLES:
        roles.update(dict.fromkeys(takers[:-1], role))


def _sum_bytes_by_role(
    program: ProgramLifetimes, sizes: Sequence[int], point: int, roles: Mapping[int, str]
) -> dict[str, int]:
    """Sum the bytes live at a point by role; ``roles`` has the roles of all but temporaries."""
    bytes_by_role: dict[str, int] = {}
    for lifetime in program.lifetimes:
        if lifetime.birth <= 2 * point <= lifetime.death:
            role = roles.get(lifetime.value) or _classify_temporary(program, lifetime)
            bytes_by_role[role] = bytes_by_role.get(role, 0) + sizes[lifetime.value]
    return bytes_by_role


def _classify_temporary(program: ProgramLifetimes, lifetime: ValueLifetime) -> str:
    """Return ACTIVATION for a value that is made before the backward pass and read in it."""
    birth, death = (program.points[t // 2].location for t in (lifetime.birth, lifetime.death))
    return ACTIVATION if is_backward(death) and not is_backward(birth) else TEMPORARY


def _choose_timeline_points(bytes_by_point: Sequence[int]) -> tuple[int, ...]:
    """Choose the points of the timeline: the highest of each sequence of points of equal length."""
    step = -(-len(bytes_by_point) // MAX_TIMELINE_POINTS)
    return tuple(
        max(range(start, min(start + step, len(bytes_by_point))), key=bytes_by_point.__getitem__)
        for start in range(0, len(bytes_by_point), step)
    )
