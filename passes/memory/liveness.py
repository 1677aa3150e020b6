"""Liveness analysis: when each value is live, and how many bytes are live at each program point.

A program point is an op that the program executes; a loop and a branch have several. Time ``2 * p``
is during point ``p`` and time ``2 * p + 1`` directly after it. A result that is written over an
operand is live from the odd time on, so the bytes at any time are the sum over the live values.

Invariant of the walk: ``_birth_times`` contains exactly the values that are live and may still be
read. A value leaves it, and gets its lifetime, once: after the last op that reads it, when a result
takes its buffer, or at the end of the body that owns it. Only a body's own values and the values
that its caller passed to it end inside it.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import dataclass, field
from itertools import accumulate
from typing import NamedTuple

from hespas.dialects.mlir import ir
from hespas.dialects.op_kinds import LOOPS
from hespas.passes.memory.liveness_program import LivenessBody, LivenessOp

# Finds the results of an op that may be written over a value which no other op reads any more.
ResultsOver = Callable[[LivenessOp, int], Collection[int]]


class ValueLifetime(NamedTuple):
    """The first and last time at which a value is live."""

    value: int
    birth: int
    death: int


@dataclass(slots=True)
class ProgramLifetimes:
    """The lifetimes of the values of a program, and the op at each program point.

    ``taken`` has the value that takes the buffer of another one, in the order of the program.
    """

    lifetimes: list[ValueLifetime] = field(default_factory=list)
    points: list[ir.Operation] = field(default_factory=list)
    taken: dict[int, int] = field(default_factory=dict)

    @property
    def end(self) -> int:
        """The time of the last point."""
        return 2 * len(self.points) - 2

    def compute_bytes_over_time(self, sizes: Sequence[int]) -> list[int]:
        """Compute the live bytes at each time, from the bytes of each value."""
        changes = [0] * (self.end + 2)
        for value, birth, death in self.lifetimes:
            changes[birth] += sizes[value]
            changes[death + 1] -= sizes[value]
        return list(accumulate(changes[:-1]))


@dataclass(slots=True)
class LivenessAnalysis:
    """Walks the ops of a program in order; ``sizes`` are the bytes of the values."""

    sizes: Sequence[int]
    results_over: ResultsOver
    program: ProgramLifetimes = field(default_factory=ProgramLifetimes)
    _birth_times: dict[int, int] = field(default_factory=dict)

    def analyse_program(
        self,
        permanent: Iterable[int],
        donated: Iterable[int],
        body: LivenessBody,
        terminator: ir.Operation,
    ) -> ProgramLifetimes:
        """Compute the lifetimes of the values of a program.

        Args:
            permanent: Values that are live throughout: constants, and arguments whose buffers
                belong to the caller.
            donated: Arguments whose buffers may be used again.
            body: The ops of the program. Each result is a separate buffer.
            terminator: The op of the last point.
        """
        donated_values = list(donated)
        self._birth_times.update(dict.fromkeys(donated_values, 0))
        self._analyse_body(body, donated_values)
        end = self._add_point(terminator)
        for value in body.results:
            self._add_lifetime(value, self._birth_times.pop(value, end), end)
        for value in permanent:
            self._add_lifetime(value, 0, end)
        return self.program

    def _add_point(self, op: ir.Operation) -> int:
        """Add a program point, and return its time."""
        self.program.points.append(op)
        return 2 * len(self.program.points) - 2

    def _add_lifetime(self, value: int, birth: int, death: int) -> None:
        if self.sizes[value]:
            self.program.lifetimes.append(ValueLifetime(value, birth, death))

    def _end_lifetime(self, value: int, time: int) -> None:
        self._add_lifetime(value, self._birth_times.pop(value), time)

    def _take_buffer(self, value: int, taker: int, time: int) -> None:
        """End a value whose buffer another one takes."""
        self._end_lifetime(value, time)
        self._birth_times[taker] = time + 1
        self.program.taken[value] = taker

    def _analyse_body(self, body: LivenessBody, arguments: Iterable[int]) -> None:
        """Walk the ops of a body. The values that the body returns remain live.

        ``arguments`` are values from outside that end inside the body.
        """
        last_readers: dict[int, int] = {}
        for i, item in enumerate(body.items):
            for value in item.reads:
                last_readers[value] = i
        body_results = set(body.results)
        for value in arguments:
            if value not in last_readers and value not in body_results:
                self._end_lifetime(value, 2 * len(self.program.points))
        owned_values = set(arguments)
        for i, item in enumerate(body.items):
            time = self._add_point(item.op)
            dying = [
                value
                for value in dict.fromkeys(item.reads)
                if last_readers[value] == i and value not in body_results and value in owned_values
            ]
            if not item.bodies:
                self._analyse_kernel(item, dying, time)
            elif item.op.name in LOOPS:
                self._analyse_loop(item, dying, time)
            else:
                self._analyse_branch(item, dying)
            for value in item.results:
                if value not in last_readers and value not in body_results:
                    self._end_lifetime(value, self.program.end)
                else:
                    owned_values.add(value)

    def _analyse_kernel(self, item: LivenessOp, dying: list[int], time: int) -> None:
        """Let each result take the buffer of a dying operand of its size, if the op allows it."""
        sizes, birth_times = self.sizes, self._birth_times
        overwritable: dict[int, Collection[int]] = {}
        for result, result_value in enumerate(item.results):
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
                        self._take_buffer(value, result_value, time)
                        break
        for value in dying:
            self._end_lifetime(value, time)

    def _analyse_loop(self, item: LivenessOp, dying: list[int], time: int) -> None:
        """Walk condition and body once. Carried values use the buffers of the initial values.

        They use copies instead if the initial value is read later or inside the loop.
        """
        birth_times = self._birth_times
        condition, step = item.bodies
        captured = condition.captured | step.captured
        for carry in item.carries:
            birth_times[carry.argument] = time
            if carry.before in dying and carry.before not in captured:
                dying.remove(carry.before)
                self._take_buffer(carry.before, carry.argument, time)
        self._analyse_body(condition, ())
        self._end_body_values(condition, self.program.end)
        arguments = [carry.argument for carry in item.carries]
        self._analyse_body(step, arguments)
        end = self._add_point(item.op)
        loop_arguments = set(arguments)
        for carry, yielded in zip(item.carries, step.results, strict=True):
            birth_times[carry.after] = end
            if yielded in birth_times and (yielded >= step.first or yielded in loop_arguments):
                self._take_buffer(yielded, carry.after, end)
        for value in dying:  # captured values, as the loop reads no others but initial ones
            self._end_lifetime(value, end)

    def _analyse_branch(self, item: LivenessOp, dying: list[int]) -> None:
        """Walk all alternatives. Each has its own program points, since only one of them runs."""
        for alternative in item.bodies:
            self._analyse_body(alternative, ())
            self._end_body_values(alternative, self._add_point(item.op))
        time = self._add_point(item.op)
        for value in item.results:
            self._birth_times[value] = time
        for value in dying:
            self._end_lifetime(value, time)

    def _end_body_values(self, body: LivenessBody, time: int) -> None:
        """End the results of a body that are defined in it."""
        for value in body.results:
            if value >= body.first and value in self._birth_times:
                self._end_lifetime(value, time)
