"""A program as its kernels in program order, each with the values it reads and makes.

Values are numbers. A view of a value has the value's number, and a call is what its function does,
so a program reads the same before and after it was split.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

from hespas.dialects import op_kinds
from hespas.dialects.attrs import WAIT, CommAttr
from hespas.dialects.mlir import (
    collect_functions,
    get_attribute,
    get_defining_op,
    ir,
    to_canonical_text,
)
from hespas.dialects.op_bodies import is_small_constant
from hespas.dialects.op_kinds import BRANCHES, CALLEE, FUSION, LOOPS, MAYBE_COLLECTIVE, TERMINATORS
from hespas.estimators.rules.base import REFINE, DynamicShape, list_tuple_members, to_buffer_size
from hespas.estimators.work import is_free_op
from hespas.passes.memory import buffer_sharing
from hespas.support.errors import HespasError

_PLAIN, _VIEW, _TUPLE, _PART, _BARRIER, _CONSTANT, _NOTHING = range(7)
_CALL, _LOOP, _BRANCH, _END, _TRANSPOSE, _COLLECTIVE = range(7, 13)


@dataclass(slots=True)
class LivenessOp:
    """A kernel, a collective, a loop or a branch.

    ``operands`` are the values by operand, ``reads`` what must be there until it is done,
    ``makes`` its results. ``inside`` are the ops that a kernel was made of, itself last, where
    ``fuse`` put some together.
    """

    op: ir.Operation
    operands: list[int]
    reads: list[int]
    makes: list[int]
    bodies: list[LivenessBody] = field(default_factory=list)
    carries: list[LoopCarry] = field(default_factory=list)
    inside: list[LivenessOp] = field(default_factory=list)


@dataclass(slots=True)
class LoopCarry:
    """One value that a loop changes: before, inside (condition and body), and after."""

    before: int
    argument: int
    after: int


@dataclass(slots=True)
class LivenessBody:
    """The items of a block, and the values that it ends with.

    ``first`` is the number from which values are its own; ``outer`` are those that it reads of
    others.
    """

    first: int
    items: list[LivenessOp] = field(default_factory=list)
    results: list[int] = field(default_factory=list)
    outer: set[int] = field(default_factory=set)

    def collect_outer_values(self) -> None:
        """Find ``outer``, once all is read."""
        reads = {value for item in self.items for value in item.reads}
        self.outer = {value for value in reads.union(self.results) if value < self.first}


@dataclass(slots=True)
class LivenessProgramReader:
    """Reads a program.

    ``sizes`` are the bytes of the values; ``constants`` are those that are always there, by what
    they hold. ``fused`` says that there is an ``mhlo.fusion``: XLA has decided what is a kernel.
    """

    module: ir.Module
    sizes: list[int] = field(default_factory=list)
    constants: dict[object, int] = field(default_factory=dict)
    fused: bool = False
    _tuple_members: dict[int, list[int]] = field(default_factory=dict)
    _functions: dict[str, ir.Operation] = field(init=False)
    _open_calls: list[str] = field(default_factory=list)
    _operands_in_flight: dict[int, list[int]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self._functions = collect_functions(self.module)

    def read_program(self, entry: ir.Operation) -> tuple[list[int], LivenessBody]:
        """The arguments of the entry function, and its body; raises HespasError."""
        block = entry.regions[0].blocks[0]
        known: dict[ir.Value, int] = {}
        arguments = [self._number_value(value, known, entry) for value in block.arguments]
        body = LivenessBody(len(self.sizes))
        body.results = self._flatten_tuple_values(self._read_block(block, known, body))
        return arguments, body

    def flatten_tuples(self, values: Iterable[int]) -> list[int]:
        """Tuples among the values as their members."""
        return self._flatten_tuple_values(list(values))

    def _read_block(
        self, block: ir.Block, known: dict[ir.Value, int], body: LivenessBody
    ) -> list[int]:
        """Read a block into ``body``; the values that it ends with."""
        for view in block.operations:
            op = view.operation
            name = op.name
            kind = _kind_by_op_name.get(name)
            if kind is None:
                kind = _kind_by_op_name[name] = _classify_op(name)
            operands = [known[value] for value in op.operands]
            if kind == _TRANSPOSE:
                kind = _VIEW if "result_layout" in op.attributes and is_free_op(op) else _PLAIN
            if kind in (_PLAIN, _COLLECTIVE):
                result_numbers = self._number_results(op, known)
                body.items.append(
                    LivenessOp(op, operands, self._flatten_tuple_values(operands), result_numbers)
                )
                if name == FUSION:
                    self.fused = True
                elif kind == _COLLECTIVE and name not in buffer_sharing.PAIRWISE and _is_async(op):
                    self._operands_in_flight.update(dict.fromkeys(result_numbers, operands))
            elif kind == _VIEW:
                known[op.results[0]] = operands[0]
            elif kind == _BARRIER:
                known.update(zip(op.results, operands, strict=True))
                if WAIT in op.attributes:
                    self._read_wait(op, operands, body)
            elif kind == _CONSTANT:
                known[op.results[0]] = self._number_constant(op)
            elif kind == _CALL:
                results = self._read_call(op, name, operands, body)
                if results is None:
                    body.items.append(
                        LivenessOp(op, operands, operands, self._number_results(op, known))
                    )
                else:
                    known.update(zip(op.results, results, strict=True))
            elif kind == _LOOP:
                self._read_loop(op, operands, known, body)
            elif kind == _BRANCH:
                self._read_branch(op, operands, known, body)
            elif kind == _END:
                return operands
            elif kind == _TUPLE:
                number = known[op.results[0]] = self._allocate_number(0)
                self._tuple_members[number] = operands
            elif kind == _PART:
                index = get_attribute(op, "index").value
                known[op.results[0]] = self._tuple_members[operands[0]][index]
            else:
                for value in op.results:
                    known[value] = self._allocate_number(0)
        return []

    def _read_wait(self, op: ir.Operation, operands: list[int], body: LivenessBody) -> None:
        """A collective that is under way reads its operands until it is waited for, where its
        results do not take their place."""
        flying = [
            self._operands_in_flight[value]
            for value in operands
            if value in self._operands_in_flight
        ]
        reads = [*operands, *(value for values in flying for value in values)]
        body.items.append(LivenessOp(op, operands, self._flatten_tuple_values(reads), []))

    def _read_call(
        self, op: ir.Operation, name: str, operands: list[int], body: LivenessBody
    ) -> list[int] | None:
        """What the function that an op calls ends with; None where that is not in the module."""
        callee = get_attribute(op, CALLEE[name]).value
        function = self._functions.get(callee)
        if function is None:
            raise HespasError(f"there is no function @{callee}", op=op)
        if callee in self._open_calls:
            raise HespasError(f"@{callee} calls itself", op=op)
        if not len(function.regions[0].blocks):
            return None
        self._open_calls.append(callee)
        block = function.regions[0].blocks[0]
        results = self._read_block(block, dict(zip(block.arguments, operands, strict=True)), body)
        self._open_calls.pop()
        return results

    def _read_loop(
        self, op: ir.Operation, operands: list[int], known: dict[ir.Value, int], body: LivenessBody
    ) -> None:
        cond, step = (region.blocks[0] for region in op.regions)
        last = step.operations[len(step.operations) - 1].operation
        carries = []
        for number, before in enumerate(operands):
            inner, yielded = step.arguments[number], last.operands[number]
            if _trace_through_views(yielded) == inner or _is_without_memory(inner.type):
                known[inner] = known[cond.arguments[number]] = before
                known[op.results[number]] = before
                continue
            argument = known[cond.arguments[number]] = self._number_value(inner, known, op)
            carries.append((number, before, argument))
        item = LivenessOp(op, operands, [], [])
        first = len(self.sizes)
        for block in (cond, step):
            inside = LivenessBody(first)
            inside.results = self._flatten_tuple_values(self._read_block(block, known, inside))
            inside.collect_outer_values()
            item.bodies.append(inside)
        ends = [known[value] for value in last.operands]
        item.bodies[1].results = [ends[number] for number, _, _ in carries]
        for number, before, argument in carries:
            after = self._number_value(op.results[number], known, op)
            item.carries.append(LoopCarry(before, argument, after))
        outer = set().union(*(inside.outer for inside in item.bodies))
        arguments = {carry.argument for carry in item.carries}
        before = [carry.before for carry in item.carries]
        item.reads = self._flatten_tuple_values([*before, *sorted(outer - arguments)])
        item.makes = [carry.after for carry in item.carries]
        body.items.append(item)

    def _read_branch(
        self, op: ir.Operation, operands: list[int], known: dict[ir.Value, int], body: LivenessBody
    ) -> None:
        item = LivenessOp(op, operands, [], [])
        for region in op.regions:
            inside = LivenessBody(len(self.sizes))
            inside.results = self._flatten_tuple_values(
                self._read_block(region.blocks[0], known, inside)
            )
            inside.collect_outer_values()
            item.bodies.append(inside)
        item.makes = self._number_results(op, known)
        outer = set().union(*(inside.outer for inside in item.bodies))
        item.reads = self._flatten_tuple_values([*operands, *sorted(outer)])
        body.items.append(item)

    def _number_results(self, op: ir.Operation, known: dict[ir.Value, int]) -> list[int]:
        result_numbers = [self._number_value(value, known, op) for value in op.results]
        return self._flatten_tuple_values(result_numbers) if self._tuple_members else result_numbers

    def _number_value(self, value: ir.Value, known: dict[ir.Value, int], op: ir.Operation) -> int:
        try:
            number = self._number_type(value.type)
        except DynamicShape as error:
            message = f"the size of {error} is not static"
            raise HespasError(message, op=op, remedy=REFINE) from None
        known[value] = number
        return number

    def _number_type(self, kind: ir.Type) -> int:
        if isinstance(kind, ir.TupleType):
            members = [self._number_type(member) for member in list_tuple_members(kind)]
            number = self._allocate_number(0)
            self._tuple_members[number] = members
            return number
        return self._allocate_number(to_buffer_size(kind).bytes)

    def _allocate_number(self, size: int) -> int:
        self.sizes.append(size)
        return len(self.sizes) - 1

    def _flatten_tuple_values(self, values: list[int]) -> list[int]:
        parts = self._tuple_members
        if not parts:
            return values
        flattened: list[int] = []
        for value in values:
            flattened += self._flatten_tuple_values(parts[value]) if value in parts else [value]
        return flattened

    def _number_constant(self, op: ir.Operation) -> int:
        """One number for equal constants: splitting repeats them.

        Those that compilers write where they are read get a number that no item makes: it is never
        live, and a loop that starts from it has a buffer of its own.
        """
        if is_small_constant(op):
            return self._allocate_number(to_buffer_size(op.results[0].type).bytes)
        try:
            key: object = op.attributes["value"]
        except TypeError:  # complex elements: the bindings cannot hold them
            key = to_canonical_text(op)
        if key not in self.constants:
            self.constants[key] = self._allocate_number(to_buffer_size(op.results[0].type).bytes)
        return self.constants[key]


def _is_async(op: ir.Operation) -> bool:
    comm = CommAttr.read_from_op(op)
    return comm is not None and comm.is_async


def _is_without_memory(kind: ir.Type) -> bool:
    """Whether a value takes no memory, as a token does."""
    return not isinstance(kind, ir.ShapedType | ir.TupleType)


def _trace_through_views(value: ir.Value) -> ir.Value:
    while (op := get_defining_op(value)) is not None:
        if op.name in op_kinds.BARRIERS:
            value = op.operands[ir.OpResult(value).result_number]
        elif op.name in op_kinds.VIEWS:
            value = op.operands[0]
        else:
            break
    return value


def _classify_op(name: str) -> int:
    table: Sequence[tuple[Iterable[str], int]] = (
        (op_kinds.VIEWS, _VIEW),
        (op_kinds.BARRIERS, _BARRIER),
        (op_kinds.NO_MEMORY_OPS, _NOTHING),
        (LOOPS, _LOOP),
        (BRANCHES, _BRANCH),
        (CALLEE, _CALL),
        (TERMINATORS, _END),
        (MAYBE_COLLECTIVE, _COLLECTIVE),
        (op_kinds.CONSTANTS, _CONSTANT),
        (op_kinds.TUPLES, _TUPLE),
        (op_kinds.TUPLE_ELEMENTS, _PART),
        ((buffer_sharing.TRANSPOSE,), _TRANSPOSE),
    )
    return next((kind for members, kind in table if name in members), _PLAIN)


_kind_by_op_name: dict[str, int] = {}
