"""Loops whose condition always holds, which need not be run to find that out.

A condition always holds if it is true, or compares numbers that change evenly and away from each
other. A carried value holds if it does so at the start, and if what an iteration returns for it
holds while it does.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import field

from hespas.dialects.mlir import get_defining_op, ir
from hespas.passes.prepare.scalars import (
    Number,
    ScalarEvaluator,
    cast_number,
    find_counter_step,
    forwards_unchanged,
    get_op_kind,
    read_comparison_direction,
    trace_value,
)
from hespas.support.records import record

MAX_VALUES = 200  # that are looked at

# Whether all numbers of a progression compare so with 0, by its first number and its step.
_HOLDS_ALWAYS: dict[str, Callable[[int, int], bool]] = {
    "EQ": lambda first, step: first == 0 and step == 0,
    "GE": lambda first, step: first >= 0 and step >= 0,
    "GT": lambda first, step: first > 0 and step >= 0,
    "LE": lambda first, step: first <= 0 and step <= 0,
    "LT": lambda first, step: first < 0 and step <= 0,
    "NE": lambda first, step: first != 0 and first * step >= 0,
}


def always_continues(
    loop: ir.Operation,
    iteration: tuple[ir.Value, Sequence[ir.Value]],
    scalars: ScalarEvaluator,
    start: Mapping[int, Number],
    steps: int,
) -> bool:
    """Return whether the condition of a loop always holds.

    Args:
        loop: The loop.
        iteration: The condition, and the values of the next iteration.
        scalars: Evaluates the values.
        start: What the condition depends on: the carried values at the start by their numbers.
        steps: For how many iterations it must hold: integers wrap around later.
    """
    condition, returned = iteration
    fixed = {
        region.blocks[0].arguments[number]: value
        for number, value in start.items()
        if forwards_unchanged(loop, number)
        for region in loop.regions
    }
    return _Conditions(loop, returned, scalars, start, steps, fixed).holds_always(condition)


@record()
class _Conditions:
    """The conditions of a loop; ``fixed`` has the carried values that do not change."""

    loop: ir.Operation
    returned: Sequence[ir.Value]
    scalars: ScalarEvaluator
    start: Mapping[int, Number]
    steps: int
    fixed: Mapping[ir.Value, Number]
    seen: int = 0
    stands_for: dict[ir.Value, ir.Value] = field(default_factory=dict)

    def holds_always(self, value: ir.Value, assumed: frozenset[int] = frozenset()) -> bool:
        """Return whether a value is true in each iteration; so are the ``assumed`` carried ones."""
        self.seen += 1
        value = trace_value(value, self.scalars.functions, self.stands_for)
        number = self.find_carried_number(value)
        if number is not None:
            if number in assumed:
                return True
            holds_at_start = bool(self.start.get(number))
            return holds_at_start and self.holds_always(self.returned[number], assumed | {number})
        known = self.scalars.evaluate_with_bindings(value, self.fixed)
        if known is not None:
            return bool(known)
        op = get_defining_op(value)
        kind = "" if op is None else get_op_kind(op)
        if op is None or kind not in ("and", "or", "compare") or self.seen > MAX_VALUES:
            return False
        if kind == "compare":
            return self.compares_always(op)
        combine = all if kind == "and" else any
        return combine(self.holds_always(each, assumed) for each in op.operands)

    def compares_always(self, compare: ir.Operation) -> bool:
        left, right = map(self.read_progression, compare.operands)
        if left is None or right is None:
            return False
        holds = _HOLDS_ALWAYS[read_comparison_direction(compare)]
        return holds(left[0] - right[0], left[1] - right[1])

    def read_progression(self, value: ir.Value) -> tuple[int, int] | None:
        """Return the first number of a value and its step; None if it does not change evenly."""
        self.seen += 1
        found = None if self.seen > MAX_VALUES else self._read_progression(value)
        if found is None:
            return None
        last = found[0] + found[1] * self.steps
        is_exact = all(cast_number(value.type, each) == each for each in (found[0], last))
        return found if is_exact else None

    def _read_progression(self, value: ir.Value) -> tuple[int, int] | None:
        value = trace_value(value, self.scalars.functions, self.stands_for)
        number = self.find_carried_number(value)
        step: Number | None = 0
        if number is None:
            first = self.scalars.evaluate_with_bindings(value, self.fixed)
        else:
            first, counter = (
                self.start.get(number),
                self.loop.regions[1].blocks[0].arguments[number],
            )
            step = find_counter_step(self.returned[number], counter, self.scalars)
        if isinstance(first, int) and isinstance(step, int):
            return first, step
        op = get_defining_op(value)
        if op is None or get_op_kind(op) not in ("add", "subtract"):
            return None
        left, right = map(self.read_progression, op.operands)
        if left is None or right is None:
            return None
        sign = 1 if get_op_kind(op) == "add" else -1
        return left[0] + sign * right[0], left[1] + sign * right[1]

    def find_carried_number(self, value: ir.Value) -> int | None:
        """Return the number of a carried value, as the condition or the body has it; else None."""
        if not isinstance(value, ir.BlockArgument):
            return None
        blocks = [region.blocks[0] for region in self.loop.regions]
        return value.arg_number if value.owner in blocks else None
