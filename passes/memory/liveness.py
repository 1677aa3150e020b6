"""When each value is live, and the bytes that are live at each point of a program.

Times are even numbers for points of the program, twice the point's number; an odd number is just
after it. A result that takes an operand's buffer over is live from the odd number on, so that the
bytes at any time are a sum over the values live then.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import dataclass, field
from itertools import accumulate

from hespas.dialects.mlir import ir
from hespas.dialects.op_kinds import LOOPS
from hespas.passes.memory.liveness_program import LivenessBody, LivenessOp

FOREVER = -1
ResultsOver = Callable[[LivenessOp, int], Collection[int]]


@dataclass(slots=True)
class ValueLifetimes:
    """The lives of the values of a program: value, first and last time; the op of each point."""

    values: list[int] = field(default_factory=list)
    births: list[int] = field(default_factory=list)
    deaths: list[int] = field(default_factory=list)
    points: list[ir.Operation] = field(default_factory=list)

    def compute_bytes_over_time(self, sizes: Sequence[int]) -> list[int]:
        """Live bytes at each time."""
        changes = [0] * (2 * len(self.points))
        for value, birth, death in zip(self.values, self.births, self.deaths, strict=True):
            changes[birth] += sizes[value]
            changes[death + 1] -= sizes[value]
        return list(accumulate(changes[:-1]))

    def find_live_at(self, time: int) -> list[int]:
        """The lives, by index, that hold a time."""
        pairs = zip(self.births, self.deaths, strict=True)
        return [i for i, (birth, death) in enumerate(pairs) if birth <= time <= death]


@dataclass(slots=True)
class LivenessAnalysis:
    """Walks the items of a program in order. ``results_over``: the results of an item that may
    be written over a value which nothing else reads any more."""

    sizes: Sequence[int]
    results_over: ResultsOver
    lifetimes: ValueLifetimes = field(default_factory=ValueLifetimes)
    _birth_times: dict[int, int] = field(default_factory=dict)

    def analyse_program(
        self,
        permanent: Iterable[int],
        donated: Iterable[int],
        body: LivenessBody,
        end: ir.Operation,
    ) -> ValueLifetimes:
        """The lives of a whole program that ends with ``end``.

        ``always`` live throughout: constants, and the arguments, which are the caller's, but for
        the ``donated``, whose memory may be used again. Each result is a buffer of its own.
        """
        for value in permanent:
            self._add_lifetime(value, 0, FOREVER)
        donated_values = list(donated)
        self._birth_times.update(dict.fromkeys(donated_values, 0))
        self._analyse_body(body, donated_values)
        time = self._add_point(end)
        for value in body.results:
            self._add_lifetime(value, self._birth_times.pop(value, time), time)
        lifetimes = self.lifetimes
        lifetimes.deaths = [time if death == FOREVER else death for death in lifetimes.deaths]
        return lifetimes

    def _add_point(self, op: ir.Operation) -> int:
        self.lifetimes.points.append(op)
        return 2 * len(self.lifetimes.points) - 2

    def _add_lifetime(self, value: int, birth: int, death: int) -> None:
        if not self.sizes[value]:
            return
        lifetimes = self.lifetimes
        lifetimes.values.append(value)
        lifetimes.births.append(birth)
        lifetimes.deaths.append(death)

    def _end_lifetime(self, value: int, time: int) -> None:
        self._add_lifetime(value, self._birth_times.pop(value), time)

    def _analyse_body(self, body: LivenessBody, arguments: Iterable[int]) -> None:
        """The items of a body; it leaves the values that the body ends with alive.

        ``arguments`` are values from outside that are the body's to end.
        """
        last: dict[int, int] = {}
        for i, item in enumerate(body.items):
            for value in item.reads:
                last[value] = i
        body_results = set(body.results)
        for value in arguments:
            if value not in last and value not in body_results:
                self._end_lifetime(value, 2 * len(self.lifetimes.points))
        owned_values = set(arguments)
        for i, item in enumerate(body.items):
            time = self._add_point(item.op)
            dying = [
                value
                for value in dict.fromkeys(item.reads)
                if last[value] == i and value not in body_results and value in owned_values
            ]
            if not item.bodies:
                self._analyse_kernel(item, dying, time)
            elif item.op.name in LOOPS:
                self._analyse_loop(item, dying, time)
            else:
                self._analyse_branch(item, dying)
            for value in item.makes:
                if value not in last and value not in body_results:
                    self._end_lifetime(value, 2 * len(self.lifetimes.points) - 2)
                else:
                    owned_values.add(value)

    def _analyse_kernel(self, item: LivenessOp, dying: list[int], time: int) -> None:
        sizes, birth_times = self.sizes, self._birth_times
        overwritable: dict[int, Collection[int]] = {}
        for result, result_value in enumerate(item.makes):
            size = sizes[result_value]
            birth_times[result_value] = time
            if size and dying:
                for value in dying:
                    if sizes[value] != size:
                        continue
                    if value not in overwritable:
                        overwritable[value] = self.results_over(item, value)
                    if result in overwritable[value]:
                        dying.remove(value)
                        self._end_lifetime(value, time)
                        birth_times[result_value] = time + 1
                        break
        for value in dying:
            self._end_lifetime(value, time)

    def _analyse_loop(self, item: LivenessOp, dying: list[int], time: int) -> None:
        """A loop carries its values in the buffers that it was given, or in copies of them."""
        birth_times = self._birth_times
        cond, step = item.bodies
        captured = cond.outer | step.outer
        for carry in item.carries:
            birth_times[carry.argument] = time
            if carry.before in dying and carry.before not in captured:
                dying.remove(carry.before)
                self._end_lifetime(carry.before, time)
                birth_times[carry.argument] = time + 1
        for value in dying:
            if value not in captured:
                self._end_lifetime(value, time)
        self._analyse_body(cond, ())
        self._end_body_values(cond.results, cond, 2 * len(self.lifetimes.points) - 2)
        arguments = [carry.argument for carry in item.carries]
        self._analyse_body(step, arguments)
        end = self._add_point(item.op)
        loop_arguments = {*arguments}
        for carry, out in zip(item.carries, step.results, strict=True):
            birth_times[carry.after] = end
            if out in birth_times and (out >= step.first or out in loop_arguments):
                self._end_lifetime(out, end)
                birth_times[carry.after] = end + 1
        for value in dying:
            if value in captured:
                self._end_lifetime(value, end)

    def _analyse_branch(self, item: LivenessOp, dying: list[int]) -> None:
        """Of several alternatives one runs: each has its own points of the program."""
        for inside in item.bodies:
            self._analyse_body(inside, ())
            self._end_body_values(inside.results, inside, self._add_point(item.op))
        time = self._add_point(item.op)
        for value in item.makes:
            self._birth_times[value] = time
        for value in dying:
            self._end_lifetime(value, time)

    def _end_body_values(self, values: Iterable[int], inside: LivenessBody, time: int) -> None:
        """End those of the values that are the body's own."""
        for value in values:
            if value >= inside.first and value in self._birth_times:
                self._end_lifetime(value, time)
