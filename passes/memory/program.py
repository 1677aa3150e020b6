"""A program as its kernels in program order, each with the values it reads and makes.

Values are numbers. A view of a value has the value's number, and a call is what its function does,
so a program reads the same before and after it was split.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

from hespas.dialects.attrs import WAIT, Comm
from hespas.dialects.errors import HespasError
from hespas.dialects.mlir import attribute, functions, ir, op_text, producer
from hespas.dialects.ops import BRANCHES, CALLEE, FUSION, LOOPS, MAYBE_COLLECTIVE, TERMINATORS
from hespas.estimators.rules.base import REFINE, DynamicShape, buffer, tuple_members
from hespas.estimators.work import is_free
from hespas.passes.memory import ops
from hespas.passes.split.blocks import is_small

_PLAIN, _VIEW, _TUPLE, _PART, _BARRIER, _CONSTANT, _NOTHING = range(7)
_CALL, _LOOP, _BRANCH, _END, _TRANSPOSE, _COLLECTIVE = range(7, 13)


@dataclass(slots=True)
class Item:
    """A kernel, a collective, a loop or a branch.

    ``operands`` are the values by operand, ``reads`` what must be there until it is done,
    ``makes`` its results. ``inside`` are the ops that a kernel was made of, itself last, where
    ``fuse`` put some together.
    """

    op: ir.Operation
    operands: list[int]
    reads: list[int]
    makes: list[int]
    bodies: list[Body] = field(default_factory=list)
    carries: list[Carry] = field(default_factory=list)
    inside: list[Item] = field(default_factory=list)


@dataclass(slots=True)
class Carry:
    """One value that a loop changes: before, inside (condition and body), and after."""

    before: int
    argument: int
    after: int


@dataclass(slots=True)
class Body:
    """The items of a block, and the values that it ends with.

    ``first`` is the number from which values are its own; ``outer`` are those that it reads of
    others.
    """

    first: int
    items: list[Item] = field(default_factory=list)
    results: list[int] = field(default_factory=list)
    outer: set[int] = field(default_factory=set)

    def close(self) -> None:
        """Find ``outer``, once all is read."""
        reads = {value for item in self.items for value in item.reads}
        self.outer = {value for value in reads.union(self.results) if value < self.first}


@dataclass(slots=True)
class Reader:
    """Reads a program.

    ``sizes`` are the bytes of the values; ``constants`` are those that are always there, by what
    they hold. ``fused`` says that there is an ``mhlo.fusion``: XLA has decided what is a kernel.
    """

    module: ir.Module
    sizes: list[int] = field(default_factory=list)
    constants: dict[object, int] = field(default_factory=dict)
    fused: bool = False
    _parts: dict[int, list[int]] = field(default_factory=dict)
    _functions: dict[str, ir.Operation] = field(init=False)
    _open: list[str] = field(default_factory=list)
    _flying: dict[int, list[int]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self._functions = functions(self.module)

    def program(self, entry: ir.Operation) -> tuple[list[int], Body]:
        """The arguments of the entry function, and its body; raises HespasError."""
        block = entry.regions[0].blocks[0]
        known: dict[ir.Value, int] = {}
        arguments = [self._new(value, known, entry) for value in block.arguments]
        body = Body(len(self.sizes))
        body.results = self._expanded(self._read(block, known, body))
        return arguments, body

    def leaves(self, values: Iterable[int]) -> list[int]:
        """Tuples among the values as their members."""
        return self._expanded(list(values))

    def _read(self, block: ir.Block, known: dict[ir.Value, int], body: Body) -> list[int]:
        """Read a block into ``body``; the values that it ends with."""
        for view in block.operations:
            op = view.operation
            name = op.name
            kind = _kinds.get(name)
            if kind is None:
                kind = _kinds[name] = _kind(name)
            operands = [known[value] for value in op.operands]
            if kind == _TRANSPOSE:
                kind = _VIEW if "result_layout" in op.attributes and is_free(op) else _PLAIN
            if kind in (_PLAIN, _COLLECTIVE):
                made = self._made(op, known)
                body.items.append(Item(op, operands, self._expanded(operands), made))
                if name == FUSION:
                    self.fused = True
                elif kind == _COLLECTIVE and name not in ops.PAIRWISE and _is_async(op):
                    self._flying.update(dict.fromkeys(made, operands))
            elif kind == _VIEW:
                known[op.results[0]] = operands[0]
            elif kind == _BARRIER:
                known.update(zip(op.results, operands, strict=True))
                if WAIT in op.attributes:
                    self._waits(op, operands, body)
            elif kind == _CONSTANT:
                known[op.results[0]] = self._constant(op)
            elif kind == _CALL:
                results = self._called(op, name, operands, body)
                if results is None:
                    body.items.append(Item(op, operands, operands, self._made(op, known)))
                else:
                    known.update(zip(op.results, results, strict=True))
            elif kind == _LOOP:
                self._loop(op, operands, known, body)
            elif kind == _BRANCH:
                self._branch(op, operands, known, body)
            elif kind == _END:
                return operands
            elif kind == _TUPLE:
                number = known[op.results[0]] = self._add(0)
                self._parts[number] = operands
            elif kind == _PART:
                index = attribute(op, "index").value
                known[op.results[0]] = self._parts[operands[0]][index]
            else:
                for value in op.results:
                    known[value] = self._add(0)
        return []

    def _waits(self, op: ir.Operation, operands: list[int], body: Body) -> None:
        """A collective that is under way reads its operands until it is waited for, where its
        results do not take their place."""
        flying = [self._flying[value] for value in operands if value in self._flying]
        reads = [*operands, *(value for values in flying for value in values)]
        body.items.append(Item(op, operands, self._expanded(reads), []))

    def _called(
        self, op: ir.Operation, name: str, operands: list[int], body: Body
    ) -> list[int] | None:
        """What the function that an op calls ends with; None where that is not in the module."""
        callee = attribute(op, CALLEE[name]).value
        function = self._functions.get(callee)
        if function is None:
            raise HespasError(f"there is no function @{callee}", op=op)
        if callee in self._open:
            raise HespasError(f"@{callee} calls itself", op=op)
        if not len(function.regions[0].blocks):
            return None
        self._open.append(callee)
        block = function.regions[0].blocks[0]
        results = self._read(block, dict(zip(block.arguments, operands, strict=True)), body)
        self._open.pop()
        return results

    def _loop(
        self, op: ir.Operation, operands: list[int], known: dict[ir.Value, int], body: Body
    ) -> None:
        cond, step = (region.blocks[0] for region in op.regions)
        last = step.operations[len(step.operations) - 1].operation
        carries = []
        for number, before in enumerate(operands):
            inner, given = step.arguments[number], last.operands[number]
            if _through_views(given) == inner or _is_nothing(inner.type):
                known[inner] = known[cond.arguments[number]] = before
                known[op.results[number]] = before
                continue
            argument = known[cond.arguments[number]] = self._new(inner, known, op)
            carries.append((number, before, argument))
        item = Item(op, operands, [], [])
        first = len(self.sizes)
        for block in (cond, step):
            inside = Body(first)
            inside.results = self._expanded(self._read(block, known, inside))
            inside.close()
            item.bodies.append(inside)
        ends = [known[value] for value in last.operands]
        item.bodies[1].results = [ends[number] for number, _, _ in carries]
        for number, before, argument in carries:
            after = self._new(op.results[number], known, op)
            item.carries.append(Carry(before, argument, after))
        outer = set().union(*(inside.outer for inside in item.bodies))
        arguments = {carry.argument for carry in item.carries}
        before = [carry.before for carry in item.carries]
        item.reads = self._expanded([*before, *sorted(outer - arguments)])
        item.makes = [carry.after for carry in item.carries]
        body.items.append(item)

    def _branch(
        self, op: ir.Operation, operands: list[int], known: dict[ir.Value, int], body: Body
    ) -> None:
        item = Item(op, operands, [], [])
        for region in op.regions:
            inside = Body(len(self.sizes))
            inside.results = self._expanded(self._read(region.blocks[0], known, inside))
            inside.close()
            item.bodies.append(inside)
        item.makes = self._made(op, known)
        outer = set().union(*(inside.outer for inside in item.bodies))
        item.reads = self._expanded([*operands, *sorted(outer)])
        body.items.append(item)

    def _made(self, op: ir.Operation, known: dict[ir.Value, int]) -> list[int]:
        made = [self._new(value, known, op) for value in op.results]
        return self._expanded(made) if self._parts else made

    def _new(self, value: ir.Value, known: dict[ir.Value, int], op: ir.Operation) -> int:
        try:
            number = self._sized(value.type)
        except DynamicShape as error:
            message = f"the size of {error} is not static"
            raise HespasError(message, op=op, remedy=REFINE) from None
        known[value] = number
        return number

    def _sized(self, kind: ir.Type) -> int:
        if isinstance(kind, ir.TupleType):
            members = [self._sized(member) for member in tuple_members(kind)]
            number = self._add(0)
            self._parts[number] = members
            return number
        return self._add(buffer(kind).bytes)

    def _add(self, size: int) -> int:
        self.sizes.append(size)
        return len(self.sizes) - 1

    def _expanded(self, values: list[int]) -> list[int]:
        parts = self._parts
        if not parts:
            return values
        found: list[int] = []
        for value in values:
            found += self._expanded(parts[value]) if value in parts else [value]
        return found

    def _constant(self, op: ir.Operation) -> int:
        """One number for equal constants: splitting repeats them.

        Those that compilers write where they are read get a number that no item makes: it is never
        live, and a loop that starts from it has a buffer of its own.
        """
        if is_small(op):
            return self._add(buffer(op.results[0].type).bytes)
        try:
            key: object = op.attributes["value"]
        except TypeError:  # complex elements: the bindings cannot hold them
            key = op_text(op)
        if key not in self.constants:
            self.constants[key] = self._add(buffer(op.results[0].type).bytes)
        return self.constants[key]


def _is_async(op: ir.Operation) -> bool:
    comm = Comm.of(op)
    return comm is not None and comm.is_async


def _is_nothing(kind: ir.Type) -> bool:
    """Whether a value takes no memory, as a token does."""
    return not isinstance(kind, ir.ShapedType | ir.TupleType)


def _through_views(value: ir.Value) -> ir.Value:
    while (op := producer(value)) is not None:
        if op.name in ops.BARRIERS:
            value = op.operands[ir.OpResult(value).result_number]
        elif op.name in ops.VIEWS:
            value = op.operands[0]
        else:
            break
    return value


def _kind(name: str) -> int:
    table: Sequence[tuple[Iterable[str], int]] = (
        (ops.VIEWS, _VIEW),
        (ops.BARRIERS, _BARRIER),
        (ops.NOTHING, _NOTHING),
        (LOOPS, _LOOP),
        (BRANCHES, _BRANCH),
        (CALLEE, _CALL),
        (TERMINATORS, _END),
        (MAYBE_COLLECTIVE, _COLLECTIVE),
        ((ops.CONSTANT,), _CONSTANT),
        ((ops.TUPLE,), _TUPLE),
        ((ops.GET_TUPLE_ELEMENT,), _PART),
        ((ops.TRANSPOSE,), _TRANSPOSE),
    )
    return next((kind for members, kind in table if name in members), _PLAIN)


_kinds: dict[str, int] = {}
