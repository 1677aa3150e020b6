"""Trip counts of loops, derived from the IR."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from hespas.dialects.attr_codec import read_trip_count
from hespas.dialects.attrs import ASSUMED, TRIPS, TRIPS_NOTE
from hespas.dialects.mlir import get_attribute, get_defining_op, ir, to_i64_attr
from hespas.dialects.op_kinds import BARRIERS, LOOPS
from hespas.passes.base import PassRun
from hespas.passes.prepare.census import ModuleCensus
from hespas.passes.prepare.scalars import (
    Number,
    ScalarEvaluator,
    forwards_unchanged,
    get_op_kind,
    get_terminator,
)
from hespas.support.errors import HespasError, find_framework_name, format_source_position

MAX_LOOP_STEPS = 100_000  # iterations to evaluate of a loop that is not a simple counted loop
MAX_CARRIED_VALUES = 16  # values that the condition of such a loop may depend on


def write_trip_counts(census: ModuleCensus, run: PassRun, unknown: str) -> None:
    """Write ``hespas.trips`` on every loop.

    Args:
        census: The census of the module.
        run: Receives warnings.
        unknown: The trip count of loops that depend on data: a number, "" for 1 with a warning and
            a note on the loop, or "error".

    Raises:
        HespasError: A trip count depends on data and ``unknown`` is "error".
    """
    callers: dict[str, list[ir.Operation]] = {}
    for contents in census.functions.values():
        for callee, op in contents.callees:
            callers.setdefault(callee, []).append(op)
    table = {name: contents.function for name, contents in census.functions.items()}
    scalars = ScalarEvaluator(table, callers)
    for loop in census.select_ops_by_name(*LOOPS):
        trips = find_trip_count(loop, scalars)
        note = ""
        if trips is None:
            trips, note = _choose_trip_count(loop, run, unknown)
        loop.attributes[TRIPS] = to_i64_attr(trips, loop.context)
        if note:
            loop.attributes[TRIPS_NOTE] = ir.StringAttr.get(note, loop.context)


def _choose_trip_count(loop: ir.Operation, run: PassRun, unknown: str) -> tuple[int, str]:
    """Choose trip count and note of a loop that depends on data; an existing trip count is kept."""
    carried_trips = read_trip_count(loop)
    if carried_trips is not None and not unknown:
        if TRIPS_NOTE in loop.attributes:
            return carried_trips, get_attribute(loop, TRIPS_NOTE).value
        return carried_trips, "trip count from the module"
    if unknown == "error":
        raise HespasError(
            "the trip count of the loop depends on data", op=loop, remedy="set trip-count=N"
        )
    if unknown:
        return int(unknown), f"trip count {unknown} set by option: it depends on data"
    where = format_source_position(loop.location) or find_framework_name(loop.location)
    run.warn(
        f"{where + ': ' if where else ''}the trip count of the loop depends on data: "
        "1 is assumed; set it with --prepare=trip-count=N"
    )
    return 1, f"trip count 1 {ASSUMED}: it depends on data"


def find_trip_count(loop: ir.Operation, scalars: ScalarEvaluator) -> int | None:
    """Find how often the body of a loop runs; None if the IR does not determine it.

    A loop that counts in constant steps is solved directly. Any other loop is run on the values
    that its condition depends on, up to ``MAX_LOOP_STEPS`` iterations.
    """
    cond, body = (region.blocks[0] for region in loop.regions)
    carried = _find_condition_inputs(loop)
    if carried is None:
        return None
    state: dict[int, Number] = {}
    for number in carried:
        start = scalars.find_scalar_value(loop.operands[number])
        if start is None:
            return None
        state[number] = start
    test, steps = get_terminator(cond).operands[0], get_terminator(body).operands
    solved_count = _solve_counted_loop(loop, scalars, state)
    if solved_count is not None:
        return solved_count
    for count in range(MAX_LOOP_STEPS + 1):
        continues = scalars.evaluate_with_bindings(
            test, {cond.arguments[i]: v for i, v in state.items()}
        )
        if continues is None:
            return None
        if not continues:
            return count
        bindings = {body.arguments[i]: v for i, v in state.items()}
        for number in carried:
            new = scalars.evaluate_with_bindings(steps[number], bindings)
            if new is None:
                return None
            state[number] = new
    return None


def _find_condition_inputs(loop: ir.Operation) -> list[int] | None:
    """Find the carried values that the condition depends on, directly or through iterations.

    Returns None if there are more than ``MAX_CARRIED_VALUES``.
    """
    cond, body = (region.blocks[0] for region in loop.regions)
    needed: list[int] = []
    pending = list(_find_argument_numbers(get_terminator(cond).operands[0], cond))
    while pending:
        number = pending.pop()
        if number not in needed:
            needed.append(number)
            pending += _find_argument_numbers(get_terminator(body).operands[number], body)
            if len(needed) > MAX_CARRIED_VALUES:
                return None
    return needed


def _find_argument_numbers(value: ir.Value, block: ir.Block) -> Iterator[int]:
    """Find the numbers of the block's arguments that a value is computed from."""
    seen: set[ir.Value] = set()
    pending = [value]
    while pending:
        value = pending.pop()
        if value in seen:
            continue
        seen.add(value)
        if isinstance(value, ir.BlockArgument):
            if value.owner == block:
                yield value.arg_number
        else:
            op = get_defining_op(value)
            assert op is not None
            if op.name in BARRIERS:
                pending.append(op.operands[ir.OpResult(value).result_number])
            else:
                pending += op.operands


def _solve_counted_loop(
    loop: ir.Operation, scalars: ScalarEvaluator, start: Mapping[int, Number]
) -> int | None:
    """Solve a loop that compares one counter, which changes by a constant, with a constant."""
    cond, body = (region.blocks[0] for region in loop.regions)
    test = get_defining_op(get_terminator(cond).operands[0])
    moving = [number for number in start if not forwards_unchanged(loop, number)]
    if test is None or get_op_kind(test) != "compare" or len(moving) != 1:
        return None
    counter = moving[0]
    step_op = get_defining_op(get_terminator(body).operands[counter])
    if step_op is None or get_op_kind(step_op) not in ("add", "subtract"):
        return None
    step = _find_counter_step(step_op, body.arguments[counter], scalars)
    direction = str(test.attributes["comparison_direction"]).rsplit(" ", 1)[-1].rstrip(">")
    left, right = test.operands
    if right == cond.arguments[counter]:
        left, right, direction = right, left, MIRROR[direction]
    fixed = {cond.arguments[i]: v for i, v in start.items() if i != counter}
    bound = scalars.evaluate_with_bindings(right, fixed)
    if left != cond.arguments[counter] or not isinstance(bound, int) or not isinstance(step, int):
        return None
    return _count_steps(int(start[counter]), bound, step, direction)


MIRROR = {"LT": "GT", "LE": "GE", "GT": "LT", "GE": "LE", "EQ": "EQ", "NE": "NE"}


def _find_counter_step(
    op: ir.Operation, counter: ir.Value, scalars: ScalarEvaluator
) -> Number | None:
    """Find the signed step of ``counter + step`` or ``counter - step``, or None."""
    a, b = op.operands
    if get_op_kind(op) == "add" and b == counter:
        a, b = b, a
    if a != counter:
        return None
    step = scalars.evaluate_with_bindings(b, {})
    return step if step is None or get_op_kind(op) == "add" else -step


def _count_steps(start: int, bound: int, step: int, direction: str) -> int | None:
    """Count the steps while ``counter DIRECTION bound`` holds; None for an endless loop."""
    if direction in ("GT", "GE"):
        start, bound, step = -start, -bound, -step
        direction = {"GT": "LT", "GE": "LE"}[direction]
    if direction == "EQ":
        return 0 if start != bound else None if step == 0 else 1
    if direction == "NE":
        gap = bound - start
        return gap // step if step and gap % step == 0 and gap // step >= 0 else None
    bound += direction == "LE"
    if start >= bound:
        return 0
    return -(-(bound - start) // step) if step > 0 else None
