"""Trip counts of loops, derived from the IR."""

from __future__ import annotations

import itertools
import math
import re
from collections import Counter
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from fractions import Fraction
from typing import ClassVar

from hespas.dialects.attr_codec import read_trip_count
from hespas.dialects.attrs import ASSUMED, TRIPS, TRIPS_FOUND, TRIPS_NOTE
from hespas.dialects.mlir import (
    decode_string_attr,
    get_defining_op,
    get_symbol_name,
    ir,
    to_i64_attr,
)
from hespas.dialects.op_bodies import get_terminator, list_read_values
from hespas.dialects.op_kinds import BARRIERS, LOOPS
from hespas.estimators.op_content import render_op_text
from hespas.passes.base import PassRun, option
from hespas.passes.prepare.preparation import Preparation, PrepareStep
from hespas.passes.prepare.scalars import (
    ARITHMETIC,
    Number,
    ScalarEvaluator,
    build_scalar_evaluator,
    find_counter_step,
    forwards_unchanged,
    get_body,
    get_op_kind,
    read_comparison_direction,
    trace_value,
)
from hespas.support.errors import (
    HespasError,
    UsageError,
    find_framework_name,
    format_op_place,
    format_some_places,
    format_source_position,
)
from hespas.support.records import record

MAX_LOOP_STEPS = 100_000  # iterations to evaluate of a loop that is not a simple counted loop
SHORT_LOOP_STEPS = 64  # iterations of a loop before it is asked whether it ends at all
ASSUMED_TRIPS = 1  # of a loop that depends on data, if its condition has no maximum either
STATED_NOTE = "trip count from the module"
MAX_CARRIED_VALUES = 16  # values that the condition of such a loop may depend on
MAX_ASSUMED_TRIPS = 10_000  # a larger maximum is there to end a loop at all, and no estimate
MAX_PATHS_TO_LOOP = 1_000  # from the loops around a loop to it, which multiply from call to call
MAX_EXECUTIONS = 2_000  # of a loop whose count is found for each of them

# Why the ops of a loop do not say how often it runs, after "the trip count of the loop".
DEPENDS_ON_DATA = "depends on data"
TOO_MANY_VALUES = f"depends on more than {MAX_CARRIED_VALUES} carried values"
DIFFERS = "is another for each call of its function"
TOO_MANY_EXECUTIONS = (
    f"changes in the loops around it, which run more than {MAX_EXECUTIONS:,} times or never end"
)
TOO_MANY_STEPS = f"is not found within {MAX_LOOP_STEPS:,} iterations"
ENDLESS = (
    "is infinite unless an integer wraps around, because the condition holds in each iteration"
)

# The condition of a loop, and the values of the next iteration.
Iteration = tuple[ir.Value, list[ir.Value]]

# Ops of which an element depends on the same elements of the operands, or on single numbers.
LANE_OPS = frozenset((*ARITHMETIC, "broadcast_in_dim", "compare", "constant", "convert", "select"))


@record(frozen=True)
class WriteTripCountsPass(PrepareStep):
    """Write hespas.trips on every loop.

    The count is the one that somebody has stated, else the one that the ops of the loop determine,
    else a default. Of a loop whose bound changes with the counters of the loops around it, it is
    the average; one that is no whole number is rounded up, with a warning. A count is a statement
    if it differs from the one that ``prepare`` found before, or if ``prepare`` did not find it.
    """

    name: ClassVar[str] = "write-trip-counts"

    trip_count: str = option(
        "",
        "trip count of loops that depend on data, or 'error'; default: the maximum that their "
        "conditions state, else 1, with a warning",
    )

    def check_options(self, owner: str) -> None:
        text = self.trip_count
        if text not in ("", "error") and not text.isdecimal():
            message = f"takes a whole number or 'error', not '{text}'"
            raise UsageError(f"{owner}: option 'trip-count' {message}")

    def rewrite(self, module: ir.Module, view: Preparation, run: PassRun) -> bool:
        scalars = build_scalar_evaluator(view.census)
        changed: list[str] = []
        for loop in view.census.select_ops_by_name(*LOOPS):
            known = read_trip_count(loop)
            count = _determine_count(loop, scalars, run, self.trip_count, view.was_prepared)
            if view.was_prepared and count.trips != known:
                change = f"{known} to {count.trips}" if known is not None else f"{count.trips}"
                changed.append(f"{format_op_place(loop, run.input_name)}: {change}")
            count.write_to_loop(loop)
        if changed:
            run.note(f"{TRIPS} is brought up to date: {format_some_places(changed)}")
        return False


@record(frozen=True, slots=True)
class _TripCount:
    """The trip count of a loop; ``note`` is "" for one that the ops of the loop determine."""

    trips: int
    note: str = ""

    def write_to_loop(self, loop: ir.Operation) -> None:
        attributes, context = loop.attributes, loop.context
        attributes[TRIPS] = to_i64_attr(self.trips, context)
        name, other = (TRIPS_NOTE, TRIPS_FOUND) if self.note else (TRIPS_FOUND, TRIPS_NOTE)
        attributes[name] = ir.StringAttr.get(self.note, context) if self.note else attributes[TRIPS]
        if other in attributes:
            del attributes[other]


def _determine_count(
    loop: ir.Operation, scalars: ScalarEvaluator, run: PassRun, unknown: str, is_prepared: bool
) -> _TripCount:
    """Return the trip count of a loop; ``unknown`` is the option for those where data decides."""
    found, mean = _search_trip_count(loop, scalars), None
    if isinstance(found, str):
        found, mean = _search_mean_trips(loop, scalars, found)
    determined, reason = (found, "") if isinstance(found, int) else (None, found)
    stated = _find_stated_count(loop, is_unmarked_found=is_prepared and determined is not None)
    if determined is not None:
        if stated is None or stated.trips == determined:
            return _TripCount(determined)
        run.warn(
            f"{_format_place(loop)}the loop runs {determined} times, and {TRIPS} states "
            f"{stated.trips}, which is used"
        )
        return stated
    if stated is not None and not unknown:
        return stated
    if unknown == "error":
        raise HespasError(
            f"the trip count of the loop {reason}", op=loop, remedy="set trip-count=N"
        )
    if unknown:
        return _TripCount(int(unknown), f"trip count {unknown} set by option: it {reason}")
    kind, what = "", ""
    if mean is not None:
        trips = math.ceil(mean)
    elif (most := find_maximum_trips(loop, scalars)) is not None:
        trips, kind, what = most, "maximum ", "its maximum of "
    else:
        trips = ASSUMED_TRIPS
    assumed = _TripCount(trips, f"{kind}trip count {trips} {ASSUMED}: it {reason}")
    if _read_note(loop) != assumed.note:
        run.warn(
            f"{_format_place(loop)}the trip count of the loop {reason}: "
            f"{what}{trips} is assumed; set it with {_format_remedy(run)}"
        )
    return assumed


def _format_remedy(run: PassRun) -> str:
    """Say how a user sets a count: by a flag of a tool, an argument of Python, or by hespas-opt."""
    spelled = run.spell_option("trip_count", "N")
    return "hespas-opt --prepare=trip-count=N" if spelled == "trip_count=N" else spelled


def _find_stated_count(loop: ir.Operation, *, is_unmarked_found: bool) -> _TripCount | None:
    """Return the count that somebody has stated for a loop, or None.

    Args:
        loop: The loop.
        is_unmarked_found: Whether ``prepare`` found a count that has neither note nor TRIPS_FOUND,
            which older versions of hespas did not write.
    """
    trips, note = read_trip_count(loop), _read_note(loop)
    if trips is None or trips == read_trip_count(loop, TRIPS_FOUND):
        return None
    if not note and TRIPS_FOUND not in loop.attributes:
        return None if is_unmarked_found else _TripCount(trips, STATED_NOTE)
    noted = re.match(r"(?:maximum )?trip count (\d+)", note)
    if noted and int(noted[1]) != trips:
        return _TripCount(trips, STATED_NOTE)  # the count has changed since the note
    return None if ASSUMED in note else _TripCount(trips, note or STATED_NOTE)


def _read_note(loop: ir.Operation) -> str:
    if TRIPS_NOTE not in loop.attributes:
        return ""
    return decode_string_attr(loop.attributes[TRIPS_NOTE])


def _format_place(loop: ir.Operation) -> str:
    where = format_source_position(loop.location) or find_framework_name(loop.location)
    return f"{where}: " if where else ""


def find_trip_count(loop: ir.Operation, scalars: ScalarEvaluator) -> int | None:
    """Find how often the body of a loop runs; None if the IR does not determine it.

    A loop that counts in constant steps is solved directly. Any other loop is run on the values
    that its condition depends on, up to ``MAX_LOOP_STEPS`` iterations; one of lanes that start from
    different values, for each of them.
    """
    found = _search_trip_count(loop, scalars)
    return found if isinstance(found, int) else None


def _search_trip_count(loop: ir.Operation, scalars: ScalarEvaluator) -> int | str:
    """Return how often the body of a loop runs, or why that is not known."""
    carried = _find_condition_inputs(loop, scalars.functions)
    if carried is None:
        return TOO_MANY_VALUES
    state: dict[int, Number] = {}
    for number in carried:
        start = scalars.find_scalar_value(loop.operands[number])
        if start is None:
            return _search_trips_of_lanes(loop, scalars, carried)
        state[number] = start
    solved_count = _solve_counted_loop(loop, scalars, state)
    if solved_count is not None:
        return solved_count
    return _count_iterations(loop, scalars, carried, state, MAX_LOOP_STEPS)


def _count_iterations(
    loop: ir.Operation,
    scalars: ScalarEvaluator,
    carried: Sequence[int],
    state: Mapping[int, Number],
    most_steps: int,
    lane: Iteration | None = None,
) -> int | str:
    """Count the iterations of a loop, or of a lane, by running it; or return why they are unknown.

    The loop is given up after ``most_steps``.
    """
    for count, continues, known in _run_loop(loop, scalars, carried, state, lane):
        if continues is None or len(known) < len(state):
            return DEPENDS_ON_DATA
        if count > most_steps:
            return TOO_MANY_STEPS
        if not continues:
            return count
        if count == SHORT_LOOP_STEPS:
            iteration = lane or _read_iteration(loop)
            from hespas.passes.prepare.endless_loops import always_continues  # for few loops

            if always_continues(loop, iteration, scalars, state, most_steps):
                return ENDLESS
    return ENDLESS  # the values are those of an earlier iteration


def _search_trips_of_lanes(
    loop: ir.Operation, scalars: ScalarEvaluator, carried: Sequence[int]
) -> int | str:
    """Return how often the longest lane of a loop of lanes runs, or why that is not known."""
    lane = _find_longest_lane(loop, scalars)
    if lane is None or _mixes_lanes(lane, carried):
        return DEPENDS_ON_DATA
    shape = ir.RankedTensorType(lane[0].type).shape
    longest = steps = 0
    seen: set[tuple[Number, ...]] = set()
    for index in itertools.product(*map(range, shape)):
        state: dict[int, Number] = {}
        for number in carried:
            start = loop.operands[number]
            is_of_lanes = ir.RankedTensorType(start.type).shape == shape
            known = (
                scalars.find_element(start, index)
                if is_of_lanes
                else scalars.find_scalar_value(start)
            )
            if known is None:
                return DEPENDS_ON_DATA
            state[number] = known
        if (key := tuple(state.values())) in seen:
            continue
        seen.add(key)
        count = _count_iterations(loop, scalars, carried, state, MAX_LOOP_STEPS - steps - 1, lane)
        if isinstance(count, str):
            return count
        longest, steps = max(longest, count), steps + count + 1
    return longest


def _mixes_lanes(lane: Iteration, carried: Sequence[int]) -> bool:
    """Return whether what decides about a lane reads others, or ops that may do so."""
    condition, steps = lane
    pending, seen = [condition, *(steps[number] for number in carried)], set[ir.Value]()
    while pending:
        value = pending.pop()
        if value in seen or isinstance(value, ir.BlockArgument):
            continue
        seen.add(value)
        op = get_defining_op(value)
        if op is None or get_op_kind(op) not in LANE_OPS:
            return True
        pending += op.operands
    return False


def _search_mean_trips(
    loop: ir.Operation, scalars: ScalarEvaluator, reason: str
) -> tuple[int | str, Fraction | None]:
    """Find the trip count of a loop that follows from the counters of the loops around it.

    Args:
        loop: The loop.
        scalars: Evaluates the values.
        reason: Why its own ops do not determine it.

    Returns:
        The count or why it is not known, and the average if it is no whole number.
    """
    if reason in (TOO_MANY_STEPS, ENDLESS):  # all that decides is known without them
        return reason, None
    reasons = {reason: None}
    executions = 0

    def find(op: ir.Operation, evaluator: ScalarEvaluator) -> int | None:
        nonlocal executions
        found = _search_trip_count(op, evaluator)
        if isinstance(found, int):
            executions += 1
            if executions > MAX_EXECUTIONS:
                reasons[TOO_MANY_EXECUTIONS] = None
            return found
        reasons[found] = None
        return None

    means = find_mean_trips(loop, scalars, find)
    if len(means) != 1:
        return DIFFERS if means else next(reversed(reasons)), None
    (mean,) = means
    if mean.denominator == 1:
        return mean.numerator, None
    return f"changes in the loop around it, and is {float(mean):g} on average", mean


def find_mean_trips(
    loop: ir.Operation,
    scalars: ScalarEvaluator,
    find: Callable[[ir.Operation, ScalarEvaluator], int | None] = find_trip_count,
) -> set[Fraction]:
    """Find how often the body of a loop runs on average.

    Args:
        loop: The loop.
        scalars: Evaluates the values.
        find: Finds the trip count for one execution of the loop.

    Returns:
        The averages over the executions on the paths of calls to the loop; an empty set if the IR
        does not determine them.
    """
    found = count_outcomes(loop, scalars, find)
    return {Fraction(sum(n * k for n, k in one.items()), one.total()) for one in found}


def count_outcomes(
    op: ir.Operation,
    scalars: ScalarEvaluator,
    find: Callable[[ir.Operation, ScalarEvaluator], int | None],
) -> list[Counter[int]]:
    """Count what ``find`` returns for an op over its executions in the loops around it.

    It may follow from the counters of these loops, which are run: as few of them as determine it.

    Returns:
        The counts for each path of calls to the op; an empty list if the IR does not determine
        them.
    """
    nests: list[tuple[list[ir.Operation], ScalarEvaluator]] = [([], scalars)]
    while True:
        wider = []
        for nest, evaluator in nests:
            for outer, alone in _find_outer_loops(nest[0] if nest else op, evaluator):
                if outer is None or len(wider) == MAX_PATHS_TO_LOOP:
                    return []
                wider.append(([outer, *nest], alone))
        nests, found = wider, list[Counter[int]]()
        for nest, evaluator in nests:
            counts = _count_in_nest(op, nest, evaluator, find)
            if not counts:
                break
            found.append(counts)
        else:
            return found


def _count_in_nest(
    op: ir.Operation,
    nest: Sequence[ir.Operation],
    scalars: ScalarEvaluator,
    find: Callable[[ir.Operation, ScalarEvaluator], int | None],
) -> Counter[int]:
    """Count what ``find`` returns over the executions of nested loops; nothing if one is None."""
    counts = Counter[int]()
    for evaluator in _iterate_nest(nest, scalars):
        outcome = None if evaluator is None else find(op, evaluator)
        if outcome is None or counts.total() == MAX_EXECUTIONS:
            return Counter()
        counts[outcome] += 1
    return counts


def _iterate_nest(
    nest: Sequence[ir.Operation], scalars: ScalarEvaluator
) -> Iterator[ScalarEvaluator | None]:
    """Run nested loops, the outermost first.

    Yields:
        An evaluator for each iteration of the innermost loop; None if the IR does not determine
        whether there is one.
    """
    if not nest:
        yield scalars
        return
    outer, *inner = nest
    state = _find_known_starts(outer, scalars)
    arguments = outer.regions[1].blocks[0].arguments
    for count, continues, known in _run_loop(outer, scalars, tuple(state), state):
        if continues is None or count > MAX_EXECUTIONS:
            yield None
        if not continues:
            return
        assumed = {arguments[number]: value for number, value in known.items()}
        yield from _iterate_nest(inner, scalars.assume(assumed))
    yield None


def _find_outer_loops(
    op: ir.Operation, scalars: ScalarEvaluator
) -> Iterator[tuple[ir.Operation | None, ScalarEvaluator]]:
    """Find the loop whose body runs an op, for each call that leads to it.

    Yields:
        The loop, or None if something else decides whether the op runs, and an evaluator that
        knows of this call only.
    """
    holder = op.parent
    assert holder is not None
    if holder.name != "func.func":
        is_in_body = holder.name in LOOPS and op.block == holder.regions[1].blocks[0]
        yield holder if is_in_body else None, scalars
        return
    name = get_symbol_name(holder)
    calls = scalars.callers.get(name, ())
    if not calls:
        yield None, scalars
    for call in calls:
        alone = scalars.restrict_to_call(name, call)
        yield from _find_outer_loops(call, alone)


def find_maximum_trips(loop: ir.Operation, scalars: ScalarEvaluator) -> int | None:
    """Find how often the body of a loop runs at most; None if the IR does not determine it.

    A condition such as ``i < 50 and error > tolerance`` ends the loop as soon as one of its parts
    is known not to hold, whatever the others are. The loop is run on its numbers that are known; of
    a loop of lanes, those of the lane that runs longest.
    """
    state = _find_known_starts(loop, scalars)
    states: list[Mapping[int, Number]] = []
    lane = _find_longest_lane(loop, scalars)
    for count, continues, known in _run_loop(loop, scalars, tuple(state), state, lane):
        if continues is not None and not continues:
            return count
        states.append(known)
        # By the eighth state, what only settles at first has settled: most loops that depend on
        # data alone are given up here, and not after ten thousand iterations.
        if count == MAX_ASSUMED_TRIPS or (count == 8 and _is_endless(loop, scalars, states, lane)):
            break
    return None


def _find_known_starts(loop: ir.Operation, scalars: ScalarEvaluator) -> dict[int, Number]:
    """Find the carried values that are known at the start of a loop, by their numbers."""
    starts = ((n, scalars.find_scalar_value(value)) for n, value in enumerate(loop.operands))
    return {number: start for number, start in starts if start is not None}


def _is_endless(
    loop: ir.Operation,
    scalars: ScalarEvaluator,
    states: Sequence[Mapping[int, Number]],
    lane: Iteration | None,
) -> bool:
    """Return whether a loop that counted evenly in its last three states goes on too long."""
    first, second, third = states[-3:]
    if not first.keys() == second.keys() == third.keys():
        return False
    steps = {n: second[n] - first[n] for n in first}
    if steps != {n: third[n] - second[n] for n in first}:
        return False
    late = {n: third[n] + steps[n] * MAX_ASSUMED_TRIPS if steps[n] else third[n] for n in first}
    # The condition may read what the body computes from its counter.
    runs = itertools.islice(_run_loop(loop, scalars, tuple(states[0]), late, lane), 2)
    return all(continues is None or continues for _, continues, _ in runs)


def _run_loop(
    loop: ir.Operation,
    scalars: ScalarEvaluator,
    numbers: Collection[int],
    state: Mapping[int, Number],
    iteration: Iteration | None = None,
) -> Iterator[tuple[int, Number | None, Mapping[int, Number]]]:
    """Run a loop on some of its carried values until they are as they have been before.

    Args:
        loop: The loop.
        scalars: Evaluates the values.
        numbers: The numbers of these values.
        state: Those of them that are known at the start.
        iteration: What an iteration computes; None for what the ops of the loop say.

    Yields:
        (iterations before, condition, None if it is not known, carried values that are known).
    """
    cond, body = (region.blocks[0] for region in loop.regions)
    test, steps = iteration or _read_iteration(loop)
    earlier: Mapping[int, Number] = state
    for count in itertools.count():
        bindings = {cond.arguments[i]: v for i, v in state.items()}
        yield count, scalars.evaluate_with_bindings(test, bindings), state
        bindings = {body.arguments[i]: v for i, v in state.items()}
        new = {i: scalars.evaluate_with_bindings(steps[i], bindings) for i in numbers}
        known = {i: v for i, v in new.items() if v is not None}
        if known in (state, earlier):
            return
        if count & (count - 1) == 0:  # a round of any length is found once it is as long as this
            earlier = known
        state = known


def _read_iteration(loop: ir.Operation) -> Iteration:
    """Return the condition of a loop, and what its body returns."""
    cond, body = (region.blocks[0] for region in loop.regions)
    return get_terminator(cond).operands[0], list(get_terminator(body).operands)


def _find_longest_lane(loop: ir.Operation, scalars: ScalarEvaluator) -> Iteration | None:
    """Find what the lane that runs longest computes; None for a loop that is not one of lanes.

    ``jax.vmap`` makes a loop that runs while the condition of any lane holds. Lanes of which it
    does not hold keep their values, so that it never holds again for them: the condition of one
    lane at least has always held, and this lane selects the new values.
    """
    test, steps = _read_iteration(loop)
    reduce = get_defining_op(_trace_spread_value(test))
    if reduce is None or get_op_kind(reduce) != "reduce" or len(reduce.operands) != 2:
        return None
    step = get_defining_op(get_terminator(reduce.regions[0].blocks[0]).operands[0])
    if step is None or get_op_kind(step) != "or":
        return None
    condition = reduce.operands[0]
    for number, value in enumerate(steps):
        select = get_defining_op(_trace_spread_value(value))
        if select is None or get_op_kind(select) != "select":
            if not forwards_unchanged(loop, number):
                return None
            continue
        chosen, new, old = select.operands
        if _trace_spread_value(old) != loop.regions[1].blocks[0].arguments[number]:
            return None
        if not _are_equal_expressions(_trace_spread_value(chosen), condition, loop, scalars):
            return None
        steps[number] = new
    return condition, steps


def _trace_spread_value(value: ir.Value) -> ir.Value:
    """Return what a value is a copy of, as it is or for more elements."""
    return trace_value(value, {}, {}, spread=True)


def _are_equal_expressions(
    step: ir.Value, condition: ir.Value, loop: ir.Operation, scalars: ScalarEvaluator
) -> bool:
    """Return whether a body computes a value as the condition of its loop does."""
    cond, body = (region.blocks[0] for region in loop.regions)
    arguments = list(zip(body.arguments, cond.arguments, strict=True))
    seen: set[tuple[ir.Value, ir.Value]] = set()
    pending = [(step, condition)]
    while pending:
        left, right = (trace_value(each, {}, {}) for each in pending.pop())
        if left == right or (left, right) in seen or (left, right) in arguments:
            continue
        seen.add((left, right))
        number = scalars.find_scalar_value(left)
        if number is not None and number == scalars.find_scalar_value(right):
            continue
        first, second = get_defining_op(left), get_defining_op(right)
        if first is None or second is None:
            return False
        if ir.OpResult(left).result_number != ir.OpResult(right).result_number:
            return False
        # The texts do not say which values from outside the bodies of an op read.
        if render_op_text(first) != render_op_text(second):
            return False
        pending += zip(list_read_values(first), list_read_values(second), strict=True)
    return True


def _find_condition_inputs(
    loop: ir.Operation, functions: Mapping[str, ir.Operation]
) -> list[int] | None:
    """Find the carried values that the condition depends on, directly or through iterations.

    Returns None if there are more than ``MAX_CARRIED_VALUES``.
    """
    cond, body = (region.blocks[0] for region in loop.regions)
    needed: list[int] = []
    known: dict[ir.Value, list[int]] = {}
    test = get_terminator(cond).operands[0]
    pending = [*_find_argument_numbers(test, cond, functions, known)]
    while pending:
        number = pending.pop()
        if number not in needed:
            needed.append(number)
            step = get_terminator(body).operands[number]
            pending += _find_argument_numbers(step, body, functions, known)
            if len(needed) > MAX_CARRIED_VALUES:
                return None
    return needed


def _find_argument_numbers(
    value: ir.Value,
    block: ir.Block,
    functions: Mapping[str, ir.Operation],
    known: dict[ir.Value, list[int]],
) -> list[int]:
    """Find the numbers of the block's arguments that a value is computed from.

    A result of a called function or of a fusion is computed from what the body reads for it: a
    split puts the counter of a loop and data into one function. ``known`` has what was found for
    the results of bodies, each of which several calls may need.
    """
    if value in known:
        return known[value]
    numbers = known[value] = []
    seen: set[ir.Value] = set()
    pending = [value]
    while pending:
        each = pending.pop()
        if each in seen:
            continue
        seen.add(each)
        if isinstance(each, ir.BlockArgument):
            if each.owner == block:
                numbers.append(each.arg_number)
        else:
            op = get_defining_op(each)
            assert op is not None
            body = get_body(op, functions)
            number = ir.OpResult(each).result_number
            if op.name in BARRIERS:
                pending.append(op.operands[number])
            elif body is not None:
                result = get_terminator(body).operands[number]
                inner = _find_argument_numbers(result, body, functions, known)
                pending += [op.operands[k] for k in inner]
            else:
                pending += op.operands
    return numbers


def _solve_counted_loop(
    loop: ir.Operation, scalars: ScalarEvaluator, start: Mapping[int, Number]
) -> int | None:
    """Solve a loop that compares one counter, which changes by a constant, with a constant."""
    cond, body = (region.blocks[0] for region in loop.regions)
    stands_for: dict[ir.Value, ir.Value] = {}  # in fusions, which XLA makes of both
    test = get_defining_op(
        trace_value(get_terminator(cond).operands[0], scalars.functions, stands_for)
    )
    moving = [number for number in start if not forwards_unchanged(loop, number)]
    if test is None or get_op_kind(test) != "compare" or len(moving) != 1:
        return None
    counter = moving[0]
    step = find_counter_step(
        get_terminator(body).operands[counter], body.arguments[counter], scalars
    )
    direction = read_comparison_direction(test)
    left, right = (trace_value(each, scalars.functions, stands_for) for each in test.operands)
    if right == cond.arguments[counter]:
        left, right, direction = right, left, MIRROR[direction]
    fixed = {cond.arguments[i]: v for i, v in start.items() if i != counter}
    bound = scalars.evaluate_with_bindings(right, fixed)
    if left != cond.arguments[counter] or bound is None or step is None:
        return None
    first = start[counter]
    if isinstance(first, int) and isinstance(bound, int) and isinstance(step, int):
        return _count_steps(first, bound, step, direction)
    return _count_many_steps(first, bound, step, direction)


MIRROR = {"LT": "GT", "LE": "GE", "GT": "LT", "GE": "LE", "EQ": "EQ", "NE": "NE"}


def _count_many_steps(start: Number, bound: Number, step: Number, direction: str) -> int | None:
    """Count the steps of a counter of real numbers if they are too many to run them.

    Rounding may make them one more or one fewer. None for fewer steps, and for an endless loop.
    """
    if direction in ("GT", "GE"):
        start, bound, step, direction = -start, -bound, -step, "LT"
    if direction not in ("LT", "LE") or step <= 0 or not math.isfinite(bound - start):
        return None
    count = math.ceil((bound - start) / step)
    return count if count > MAX_LOOP_STEPS else None


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
