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
from hespas.dialects.ops import LOOPS
from hespas.passes.memory.program import Body, Item

FOREVER = -1
ResultsOver = Callable[[Item, int], Collection[int]]


@dataclass(slots=True)
class Lives:
    """The lives of the values of a program: value, first and last time; the op of each point."""

    values: list[int] = field(default_factory=list)
    births: list[int] = field(default_factory=list)
    deaths: list[int] = field(default_factory=list)
    points: list[ir.Operation] = field(default_factory=list)

    def bytes_over_time(self, sizes: Sequence[int]) -> list[int]:
        """Live bytes at each time."""
        changes = [0] * (2 * len(self.points))
        for value, birth, death in zip(self.values, self.births, self.deaths, strict=True):
            changes[birth] += sizes[value]
            changes[death + 1] -= sizes[value]
        return list(accumulate(changes[:-1]))

    def at(self, time: int) -> list[int]:
        """The lives, by index, that hold a time."""
        pairs = zip(self.births, self.deaths, strict=True)
        return [i for i, (birth, death) in enumerate(pairs) if birth <= time <= death]


@dataclass(slots=True)
class Liveness:
    """Walks the items of a program in order. ``results_over``: the results of an item that may
    be written over a value which nothing else reads any more."""

    sizes: Sequence[int]
    results_over: ResultsOver
    lives: Lives = field(default_factory=Lives)
    _born: dict[int, int] = field(default_factory=dict)

    def program(
        self, always: Iterable[int], donated: Iterable[int], body: Body, end: ir.Operation
    ) -> Lives:
        """The lives of a whole program that ends with ``end``.

        ``always`` live throughout: constants, and the arguments, which are the caller's, but for
        the ``donated``, whose memory may be used again. Each result is a buffer of its own.
        """
        for value in always:
            self._lives(value, 0, FOREVER)
        given = list(donated)
        self._born.update(dict.fromkeys(given, 0))
        self._body(body, given)
        time = self._point(end)
        for value in body.results:
            self._lives(value, self._born.pop(value, time), time)
        lives = self.lives
        lives.deaths = [time if death == FOREVER else death for death in lives.deaths]
        return lives

    def _point(self, op: ir.Operation) -> int:
        self.lives.points.append(op)
        return 2 * len(self.lives.points) - 2

    def _lives(self, value: int, birth: int, death: int) -> None:
        if not self.sizes[value]:
            return
        lives = self.lives
        lives.values.append(value)
        lives.births.append(birth)
        lives.deaths.append(death)

    def _dies(self, value: int, time: int) -> None:
        self._lives(value, self._born.pop(value), time)

    def _body(self, body: Body, arguments: Iterable[int]) -> None:
        """The items of a body; it leaves the values that the body ends with alive.

        ``arguments`` are values from outside that are the body's to end.
        """
        last: dict[int, int] = {}
        for i, item in enumerate(body.items):
            for value in item.reads:
                last[value] = i
        kept = set(body.results)
        for value in arguments:
            if value not in last and value not in kept:
                self._dies(value, 2 * len(self.lives.points))
        mine = set(arguments)
        for i, item in enumerate(body.items):
            time = self._point(item.op)
            dying = [
                value
                for value in dict.fromkeys(item.reads)
                if last[value] == i and value not in kept and value in mine
            ]
            if not item.bodies:
                self._kernel(item, dying, time)
            elif item.op.name in LOOPS:
                self._loop(item, dying, time)
            else:
                self._branch(item, dying)
            for value in item.makes:
                if value not in last and value not in kept:
                    self._dies(value, 2 * len(self.lives.points) - 2)
                else:
                    mine.add(value)

    def _kernel(self, item: Item, dying: list[int], time: int) -> None:
        sizes, born = self.sizes, self._born
        over: dict[int, Collection[int]] = {}
        for result, made in enumerate(item.makes):
            size = sizes[made]
            born[made] = time
            if size and dying:
                for value in dying:
                    if sizes[value] != size:
                        continue
                    if value not in over:
                        over[value] = self.results_over(item, value)
                    if result in over[value]:
                        dying.remove(value)
                        self._dies(value, time)
                        born[made] = time + 1
                        break
        for value in dying:
            self._dies(value, time)

    def _loop(self, item: Item, dying: list[int], time: int) -> None:
        """A loop carries its values in the buffers that it was given, or in copies of them."""
        born = self._born
        cond, step = item.bodies
        captured = cond.outer | step.outer
        for carry in item.carries:
            born[carry.argument] = time
            if carry.before in dying and carry.before not in captured:
                dying.remove(carry.before)
                self._dies(carry.before, time)
                born[carry.argument] = time + 1
        for value in dying:
            if value not in captured:
                self._dies(value, time)
        self._body(cond, ())
        self._end(cond.results, cond, 2 * len(self.lives.points) - 2)
        arguments = [carry.argument for carry in item.carries]
        self._body(step, arguments)
        end = self._point(item.op)
        own = {*arguments}
        for carry, out in zip(item.carries, step.results, strict=True):
            born[carry.after] = end
            if out in born and (out >= step.first or out in own):
                self._dies(out, end)
                born[carry.after] = end + 1
        for value in dying:
            if value in captured:
                self._dies(value, end)

    def _branch(self, item: Item, dying: list[int]) -> None:
        """Of several alternatives one runs: each has its own points of the program."""
        for inside in item.bodies:
            self._body(inside, ())
            self._end(inside.results, inside, self._point(item.op))
        time = self._point(item.op)
        for value in item.makes:
            self._born[value] = time
        for value in dying:
            self._dies(value, time)

    def _end(self, values: Iterable[int], inside: Body, time: int) -> None:
        """End those of the values that are the body's own."""
        for value in values:
            if value >= inside.first and value in self._born:
                self._dies(value, time)
