"""Copies of values that a loop carries to its next step, like those of XLA's CopyInsertion.

(xla/service/copy_insertion.cc.) A value that a loop changes has one buffer: a step reads the old
value from it and leaves the new one there. The op that makes the new value writes to that buffer
itself if nothing reads the old value afterwards, and if the op, where it reads it, needs of each
element only the one that it replaces. Otherwise, as in a stencil or a convolution, it writes
elsewhere, and a copy follows. A collective that kernels run beside reads a copy instead. What a
step moves from one carried value to another is copied too. A program and the arguments that are
donated to its results are like a step and what it carries. Its other results have buffers of their
own: an argument that is returned is copied, and so is a value that is returned once more.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import ClassVar

from hespas.dialects.mlir import get_defining_op, has_static_shape, ir
from hespas.dialects.op_bodies import get_terminator
from hespas.dialects.op_kinds import is_collective
from hespas.passes.base import PassRun
from hespas.passes.fuse.block_pass import BlockPass
from hespas.passes.fuse.buffer_writes import (
    COPY,
    VIEWS,
    WHILE,
    depends_on,
    is_larger_than_number,
    list_writes_in_place,
    skip_views,
)
from hespas.passes.fuse.copy_kept_values import find_donated_arguments
from hespas.passes.memory.buffer_sharing import find_results_over


class CopyCarriedValuesPass(BlockPass):
    """Copy new values of loops that cannot be written over the old ones.

    The op that makes the new value needs other elements of the old one, or another op needs the
    old one afterwards. Single numbers are not copied. Results of the program that are arguments, or
    other results, are copied too.
    """

    name: ClassVar[str] = "copy-carried-values"

    def rewrite(self, module: ir.Module, view: list[ir.Block], run: PassRun) -> bool:
        block, donated = find_donated_arguments(module)
        _copy_shared_results(block, set(donated.values()))
        _Step(block, {result: number for number, result in donated.items()}).copy_values()
        return super().rewrite(module, view, run)

    def rewrite_block(self, block: ir.Block) -> None:
        for op in block.operations:
            if op.operation.name == WHILE:
                body = op.operation.regions[1].blocks[0]
                _Step(body, {number: number for number in range(len(body.arguments))}).copy_values()


class _Step:
    """The body of a loop, or a program; its ops run in their order, but readers may run earlier.

    Attributes:
        arguments: The argument whose buffer each result replaces, by the number of the result.
        origins: The value that was first in the buffer of each result: views, and ops that write
            to the buffer of an operand, are followed to it.
        first_results: The first result of each of these values.
        makers: The op of each of these values; None if it is an argument of a block.
        ops: The ops of the body; ``positions`` has their places.
        sources: The number of the result that replaces the argument that each result is, if any.
    """

    def __init__(self, block: ir.Block, replaced: Mapping[int, int]) -> None:
        self.block = block
        self.arguments = {result: block.arguments[n] for result, n in sorted(replaced.items())}
        self.terminator = get_terminator(block)
        self.origins = [_find_origin(value) for value in self.terminator.operands]
        self.first_results: dict[ir.Value, int] = {}
        for number, origin in enumerate(self.origins):
            self.first_results.setdefault(origin, number)
        self.makers = [get_defining_op(value) for value in self.origins]
        numbers: dict[ir.Value, int] = {value: n for n, value in self.arguments.items()}
        self.sources = [numbers.get(value) for value in self.origins]
        self.ops = [op.operation for op in block.operations]
        self.positions = {op: place for place, op in enumerate(self.ops)}

    def copy_values(self) -> None:
        arguments = self.arguments.items()
        copied = [
            n for n, value in arguments if is_larger_than_number(value) and self._is_copied(n)
        ]
        for number in copied:
            if not self._copy_for_collective(number):
                self._copy_result(number)
        for number in filter(self._is_first_of_cycle, copied):  # The others needed its place.
            self._copy_result(number)

    def _is_copied(self, number: int) -> bool:
        """Return whether a result has to be copied to the buffer of its argument."""
        origin, maker = self.origins[number], self.makers[number]
        if self.sources[number] == number:
            return False
        if maker is None or maker.block != self.block or self.first_results[origin] < number:
            return True
        uses = self._list_uses(self.arguments[number])
        return any(self._needs_old_value(user, operand, number) for user, operand in uses)

    def _list_uses(self, value: ir.Value) -> Iterator[tuple[ir.Operation, int | None]]:
        """Iterate over the ops of the body that read a value or a view of it.

        Yields:
            (op, number of the operand, None if an op inside it reads the value).
        """
        for use in value.uses:
            user = use.owner.operation
            if user.block != self.block:
                yield self._find_op_around(user), None
            elif user.name in VIEWS:
                yield from self._list_uses(user.results[0])
            else:
                yield user, use.operand_number

    def _find_op_around(self, op: ir.Operation) -> ir.Operation:
        while op.block != self.block:
            parent = op.parent
            assert parent is not None
            op = parent.operation
        return op

    def _needs_old_value(self, user: ir.Operation, operand: int | None, number: int) -> bool:
        """Return whether a user needs the argument after the maker of the result has written."""
        maker, origin = self.makers[number], self.origins[number]
        assert maker is not None
        if user == maker:
            result = ir.OpResult(origin).result_number
            return operand is None or result not in find_results_over(user, operand)
        if user == self.terminator:
            is_moved = operand in self.arguments and self._is_moved_before(operand, maker)
            return not is_moved
        if self.positions[user] < self.positions[maker]:
            return False
        return depends_on(user, maker) or self._exchanges(user, maker)

    def _exchanges(self, user: ir.Operation, maker: ir.Operation) -> bool:
        """Return whether the maker, in turn, needs an old value that the user writes over."""
        return any(
            reader == maker or depends_on(reader, maker)
            for number, argument in self.arguments.items()
            if (other := self.makers[number]) is not None and other == user
            for reader, _ in self._list_uses(argument)
        )

    def _is_moved_before(self, number: int, maker: ir.Operation) -> bool:
        """Return whether the buffer of an argument is free before an op writes."""
        users = [user for user, _ in self._list_uses(self.arguments[number])]
        last = self.positions[maker]
        return all(self.positions[user] < last for user in users)

    def _is_first_of_cycle(self, number: int) -> bool:
        """Return whether arguments exchange their places, and this is the first of them."""
        source = self.sources[number]
        for _ in self.sources:  # The chain may lead into a cycle of others.
            if source is None or source <= number:
                break
            source = self.sources[source]
        return source == number

    def _copy_result(self, number: int) -> None:
        value = self.terminator.operands[number]
        place = self.terminator if self.sources[number] is None else self._find_place(number, value)
        self.terminator.operands[number] = _create_copy(value, place, self.terminator.location)

    def _copy_for_collective(self, number: int) -> bool:
        """Copy what a collective reads if kernels beside it read that too; else return False."""
        maker, argument = self.makers[number], self.arguments[number]
        if maker is None or not is_collective(maker):
            return False
        operands = [k for user, k in self._list_uses(argument) if user == maker and k is not None]
        others = [user for user, _ in self._list_uses(argument) if user != maker]
        if not operands or all(depends_on(maker, user) for user in others):
            return False
        place = self.positions.pop(maker)  # by a hash of what it reads
        for operand in operands:
            value = maker.operands[operand]
            maker.operands[operand] = _create_copy(value, maker, self.terminator.location)
        self.positions[maker] = place
        return True

    def _find_place(self, number: int, value: ir.Value) -> ir.Operation:
        """Find the op before which a value can be moved to the place of an argument."""
        before = [user for user, _ in self._list_uses(self.arguments[number])]
        if (maker := get_defining_op(value)) is not None:  # a view, or a copy
            before.append(maker)
        last = len(self.ops) - 1
        # Copies have no position, and that of the terminator is lost when its operands change.
        place = max((self.positions.get(op, last) for op in before), default=-1)
        return self.ops[min(place + 1, last)]


def _copy_shared_results(block: ir.Block, replaced: set[int]) -> None:
    """Copy results of a program that are arguments, other results, or views of them.

    Args:
        block: The block of the program.
        replaced: The numbers of the results that replace donated arguments.
    """
    terminator = get_terminator(block)
    values = [skip_views(value) for value in terminator.operands]
    seen = {values[number] for number in replaced}
    for number, value in enumerate(values):
        if number in replaced:
            continue
        is_shared = value in seen or get_defining_op(value) is None
        if is_shared and has_static_shape(value.type):
            result = terminator.operands[number]
            terminator.operands[number] = _create_copy(result, terminator, terminator.location)
        seen.add(value)


def _create_copy(value: ir.Value, place: ir.Operation, location: ir.Location) -> ir.Value:
    """Create a copy of a value before an op."""
    copy = ir.Operation.create(
        COPY, results=[value.type], operands=[value], loc=location, ip=ir.InsertionPoint(place)
    )
    return copy.results[0]


def _find_origin(value: ir.Value) -> ir.Value:
    """Follow a value to the one that was first in its buffer."""
    while True:
        value = skip_views(value)
        op = get_defining_op(value)
        if op is None:
            return value
        number = ir.OpResult(value).result_number
        written = (operand for operand, result in list_writes_in_place(op) if result == number)
        operand = number if op.name == WHILE else next(written, None)
        if operand is None:
            return value
        value = op.operands[operand]
