"""Trip counts of loops, read off the IR."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from hespas.dialects.attrs import ASSUMED, TRIPS, TRIPS_NOTE, trips_of
from hespas.dialects.errors import HespasError, name_of, position
from hespas.dialects.mlir import attribute, i64, ir, producer
from hespas.dialects.ops import LOOPS
from hespas.passes.base import Run
from hespas.passes.prepare.census import Census
from hespas.passes.prepare.scalars import Number, Scalars, forwards_unchanged, kind_of, terminator

MOST_STEPS = 100_000  # of a loop that is run step by step because it does not count evenly


def count_trips(census: Census, run: Run, unknown: str) -> None:
    """Write ``hespas.trips`` on every loop.

    ``unknown`` says what a loop whose count depends on data gets: a number, "" for 1 with a warning
    and a note on the loop, or "error". Raises HespasError.
    """
    callers: dict[str, list[ir.Operation]] = {}
    for found in census.functions.values():
        for callee, op in found.callees:
            callers.setdefault(callee, []).append(op)
    table = {name: found.function for name, found in census.functions.items()}
    scalars = Scalars(table, callers)
    for loop in census.ops(*LOOPS):
        trips = trip_count(loop, scalars)
        note = ""
        if trips is None:
            trips, note = _assumed(loop, run, unknown)
        loop.attributes[TRIPS] = i64(trips, loop.context)
        if note:
            loop.attributes[TRIPS_NOTE] = ir.StringAttr.get(note, loop.context)


def _assumed(loop: ir.Operation, run: Run, unknown: str) -> tuple[int, str]:
    """Trips and note of a loop whose count depends on data: what it carries already comes first."""
    given = trips_of(loop)
    if given is not None and not unknown:
        if TRIPS_NOTE in loop.attributes:
            return given, attribute(loop, TRIPS_NOTE).value
        return given, "trip count given in the module"
    if unknown == "error":
        raise HespasError(
            "the trip count of the loop depends on data", op=loop, remedy="set trip-count=N"
        )
    if unknown:
        return int(unknown), f"trip count {unknown} given: it depends on data"
    where = position(loop.location) or name_of(loop.location)
    run.warn(
        f"{where + ': ' if where else ''}the trip count of the loop depends on data: "
        "1 is assumed; set it with --prepare=trip-count=N"
    )
    return 1, f"trip count 1 {ASSUMED}: it depends on data"


def trip_count(loop: ir.Operation, scalars: Scalars) -> int | None:
    """How often a loop's body runs, or None where the IR does not tell."""
    cond, body = (region.blocks[0] for region in loop.regions)
    carried = _needed(loop)
    if carried is None:
        return None
    state: dict[int, Number] = {}
    for number in carried:
        start = scalars.of(loop.operands[number])
        if start is None:
            return None
        state[number] = start
    test, steps = terminator(cond).operands[0], terminator(body).operands
    even = _evenly(loop, scalars, state)
    if even is not None:
        return even
    for count in range(MOST_STEPS + 1):
        again = scalars.evaluate(test, {cond.arguments[i]: v for i, v in state.items()})
        if again is None:
            return None
        if not again:
            return count
        given = {body.arguments[i]: v for i, v in state.items()}
        for number in carried:
            new = scalars.evaluate(steps[number], given)
            if new is None:
                return None
            state[number] = new
    return None


def _needed(loop: ir.Operation) -> list[int] | None:
    """The carried values that the condition depends on, directly or over iterations."""
    cond, body = (region.blocks[0] for region in loop.regions)
    needed: list[int] = []
    pending = list(_arguments(terminator(cond).operands[0], cond))
    while pending:
        number = pending.pop()
        if number not in needed:
            needed.append(number)
            pending += _arguments(terminator(body).operands[number], body)
            if len(needed) > 16:
                return None
    return needed


def _arguments(value: ir.Value, block: ir.Block) -> Iterator[int]:
    """Numbers of the block's arguments that a value is computed from."""
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
            op = producer(value)
            assert op is not None
            if op.name == "stablehlo.optimization_barrier":
                pending.append(op.operands[ir.OpResult(value).result_number])
            else:
                pending += op.operands


def _evenly(loop: ir.Operation, scalars: Scalars, start: Mapping[int, Number]) -> int | None:
    """The count of a loop that tests one counter, stepped by a constant, against a constant."""
    cond, body = (region.blocks[0] for region in loop.regions)
    test = producer(terminator(cond).operands[0])
    moving = [number for number in start if not forwards_unchanged(loop, number)]
    if test is None or kind_of(test) != "compare" or len(moving) != 1:
        return None
    counter = moving[0]
    step_op = producer(terminator(body).operands[counter])
    if step_op is None or kind_of(step_op) not in ("add", "subtract"):
        return None
    step = _step(step_op, body.arguments[counter], scalars)
    direction = str(test.attributes["comparison_direction"]).rsplit(" ", 1)[-1].rstrip(">")
    left, right = test.operands
    if right == cond.arguments[counter]:
        left, right, direction = right, left, MIRROR[direction]
    fixed = {cond.arguments[i]: v for i, v in start.items() if i != counter}
    bound = scalars.evaluate(right, fixed)
    if left != cond.arguments[counter] or not isinstance(bound, int) or not isinstance(step, int):
        return None
    return _count(int(start[counter]), bound, step, direction)


MIRROR = {"LT": "GT", "LE": "GE", "GT": "LT", "GE": "LE", "EQ": "EQ", "NE": "NE"}


def _step(op: ir.Operation, counter: ir.Value, scalars: Scalars) -> Number | None:
    """What ``counter + step`` or ``counter - step`` adds, or None."""
    a, b = op.operands
    if kind_of(op) == "add" and b == counter:
        a, b = b, a
    if a != counter:
        return None
    step = scalars.evaluate(b, {})
    return step if step is None or kind_of(op) == "add" else -step


def _count(start: int, bound: int, step: int, direction: str) -> int | None:
    """Steps from ``start`` while ``start DIRECTION bound``; None where it never ends."""
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
