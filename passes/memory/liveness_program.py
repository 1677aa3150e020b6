"""The liveness program: the kernels of a program in order, with the values they read and define.

Values are numbered. A view has the number of the value that it views, and a call is replaced by the
ops of its function, so the liveness program is the same before and after a split.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

from hespas.dialects import op_kinds
from hespas.dialects.attrs import WAIT
from hespas.dialects.mlir import collect_functions, get_attribute, ir
from hespas.dialects.op_bodies import get_terminator, is_small_constant, trace_through_ops
from hespas.dialects.op_kinds import (
    BRANCHES,
    CALLEE,
    FUSION,
    LOOPS,
    MAYBE_COLLECTIVE,
    TERMINATORS,
    find_entry_function,
)
from hespas.estimators.op_content import render_op_text
from hespas.estimators.rules.base import REFINE, DynamicShape, list_tuple_members, to_buffer_size
from hespas.estimators.work import is_free_op
from hespas.passes.memory import buffer_sharing
from hespas.passes.memory.host_values import find_host_values
from hespas.support.errors import HespasError

_PLAIN, _VIEW, _TUPLE, _TUPLE_ELEMENT, _BARRIER, _CONSTANT, _NO_MEMORY = range(7)
_CALL, _LOOP, _BRANCH, _MAYBE_VIEW, _COLLECTIVE = range(7, 12)


@dataclass(slots=True)
class LivenessOp:
    """A kernel, a collective, a loop or a branch.

    Attributes:
        op: The op; of a fused kernel the last one.
        operands: The values by operand number.
        reads: The values that must be live until the op is done.
        results: The values that it defines.
        bodies: The bodies of a loop (condition and body) or of a branch.
        carries: The values that a loop changes.
        fused_ops: The ops of a kernel that ``fuse_kernels`` has formed, with this op last.
    """

    op: ir.Operation
    operands: list[int]
    reads: list[int]
    results: list[int]
    bodies: list[LivenessBody] = field(default_factory=list)
    carries: list[LoopCarry] = field(default_factory=list)
    fused_ops: list[LivenessOp] = field(default_factory=list)
    _operand_places: dict[int, list[tuple[int, int]]] | None = None

    def find_operand_places(self, value: int) -> list[tuple[int, int]]:
        """List where a value is an operand: the numbers of the fused op and of its operand.

        The ops of a kernel are indexed once, because a kernel can have thousands of operands.
        """
        if self._operand_places is None:
            self._operand_places = {}
            for k, member in enumerate(self.fused_ops or [self]):
                for number, operand in enumerate(member.operands):
                    self._operand_places.setdefault(operand, []).append((k, number))
        return self._operand_places.get(value, [])


@dataclass(slots=True)
class LoopCarry:
    """The numbers of a value that a loop changes: before, inside and after the loop."""

    before: int
    argument: int
    after: int


@dataclass(slots=True)
class LivenessBody:
    """The ops of a block.

    Attributes:
        first: The smallest number of a value that is defined in the body.
        items: Its ops in order.
        results: The values that its terminator returns.
        captured: The values from outside that it reads.
    """

    first: int
    items: list[LivenessOp] = field(default_factory=list)
    results: list[int] = field(default_factory=list)
    captured: set[int] = field(default_factory=set)


@dataclass(slots=True)
class LivenessProgramReader:
    """Reads a module into a liveness program.

    Attributes:
        module: The module.
        sizes: The bytes of each value, by number.
        constants: The numbers of the constants that are always in memory, by their contents.
        has_fusions: Whether there is an ``mhlo.fusion``, so that XLA has formed the kernels.
    """

    module: ir.Module
    sizes: list[int] = field(default_factory=list)
    constants: dict[object, int] = field(default_factory=dict)
    has_fusions: bool = False
    _tuple_members: dict[int, list[int]] = field(default_factory=dict)
    _functions: dict[str, ir.Operation] = field(init=False)
    _open_calls: list[str] = field(default_factory=list)
    _host_values: set[ir.Value] = field(init=False)
    _operands_in_flight: dict[int, list[int]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self._functions = collect_functions(self.module)
        self._host_values = find_host_values(self.module)

    def read_program(self) -> tuple[list[int], LivenessBody]:
        """Read the entry function; return the numbers of its arguments, and its body.

        Raises HespasError for dynamic shapes and recursion.
        """
        entry = find_entry_function(self.module)
        block = entry.regions[0].blocks[0]
        known: dict[ir.Value, int] = {}
        arguments = [self._number_value(value, known, entry) for value in block.arguments]
        body = LivenessBody(len(self.sizes))
        body.results = self.flatten_tuples(self._read_block(block, known, body))
        return arguments, body

    def _read_block(
        self, block: ir.Block, known: dict[ir.Value, int], body: LivenessBody
    ) -> list[int]:
        """Read a block into ``body``, and return the values that its terminator returns."""
        for view in block.operations:
            op = view.operation
            name = op.name
            kind = _kind_by_op_name.get(name)
            if kind is None:
                kind = _kind_by_op_name[name] = _classify_op(name)
            operands = [known[value] for value in op.operands]
            if kind == _MAYBE_VIEW:
                kind = _VIEW if is_free_op(op) else _PLAIN
            if kind in (_PLAIN, _COLLECTIVE):
                result_numbers = self._number_results(op, known)
                body.items.append(
                    LivenessOp(op, operands, self.flatten_tuples(operands), result_numbers)
                )
                if name == FUSION:
                    self.has_fusions = True
                elif (
                    kind == _COLLECTIVE
                    and name not in buffer_sharing.PAIRWISE
                    and op_kinds.is_async_collective(op)
                ):
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
            elif kind == _TUPLE:
                number = known[op.results[0]] = self._allocate_number(0)
                self._tuple_members[number] = operands
            elif kind == _TUPLE_ELEMENT:
                index = get_attribute(op, "index").value
                known[op.results[0]] = self._tuple_members[operands[0]][index]
            else:
                for value in op.results:
                    known[value] = self._allocate_number(0)
        return [known[value] for value in get_terminator(block).operands]

    def _read_wait(self, op: ir.Operation, operands: list[int], body: LivenessBody) -> None:
        """Read a wait: an asynchronous collective reads its operands until the wait is done."""
        in_flight = self._operands_in_flight
        reads = [*operands, *(read for value in operands for read in in_flight.get(value, ()))]
        body.items.append(LivenessOp(op, operands, self.flatten_tuples(reads), []))

    def _read_call(
        self, op: ir.Operation, name: str, operands: list[int], body: LivenessBody
    ) -> list[int] | None:
        """Read a called function into ``body``, and return its results; None for a declaration."""
        callee = get_attribute(op, CALLEE[name]).value
        function = self._functions[callee]
        if callee in self._open_calls:
            raise HespasError(f"the function @{callee} calls itself", op=op)
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
        """Read a loop. A value that its body forwards unchanged keeps its number."""
        condition, step = (region.blocks[0] for region in op.regions)
        terminator = get_terminator(step)
        carries = []
        for number, before in enumerate(operands):
            inner, yielded = step.arguments[number], terminator.operands[number]
            source = trace_through_ops(yielded, op_kinds.VIEWS | op_kinds.BARRIERS)
            has_memory = isinstance(inner.type, ir.ShapedType | ir.TupleType)  # no token
            if source == inner or not has_memory:
                known[inner] = known[condition.arguments[number]] = before
                known[op.results[number]] = before
                continue
            argument = known[condition.arguments[number]] = self._number_value(inner, known, op)
            carries.append((number, before, argument))
        item = LivenessOp(op, operands, [], [])
        first = len(self.sizes)
        item.bodies = [self._read_inner_body(block, known, first) for block in (condition, step)]
        yielded_values = [known[value] for value in terminator.operands]
        item.bodies[1].results = [yielded_values[number] for number, _, _ in carries]
        for number, before, argument in carries:
            after = self._number_value(op.results[number], known, op)
            item.carries.append(LoopCarry(before, argument, after))
        captured = set().union(*(inner_body.captured for inner_body in item.bodies))
        arguments = {carry.argument for carry in item.carries}
        initial_values = [carry.before for carry in item.carries]
        item.reads = self.flatten_tuples([*initial_values, *sorted(captured - arguments)])
        item.results = [carry.after for carry in item.carries]
        body.items.append(item)

    def _read_branch(
        self, op: ir.Operation, operands: list[int], known: dict[ir.Value, int], body: LivenessBody
    ) -> None:
        item = LivenessOp(op, operands, [], [])
        item.bodies = [
            self._read_inner_body(region.blocks[0], known, len(self.sizes)) for region in op.regions
        ]
        item.results = self._number_results(op, known)
        captured = set().union(*(alternative.captured for alternative in item.bodies))
        item.reads = self.flatten_tuples([*operands, *sorted(captured)])
        body.items.append(item)

    def _read_inner_body(
        self, block: ir.Block, known: dict[ir.Value, int], first: int
    ) -> LivenessBody:
        """Read the body of a loop or branch, in which values from number ``first`` on are new."""
        body = LivenessBody(first)
        body.results = self.flatten_tuples(self._read_block(block, known, body))
        reads = {value for item in body.items for value in item.reads}
        body.captured = {value for value in reads.union(body.results) if value < first}
        return body

    def _number_results(self, op: ir.Operation, known: dict[ir.Value, int]) -> list[int]:
        result_numbers = [self._number_value(value, known, op) for value in op.results]
        return self.flatten_tuples(result_numbers) if self._tuple_members else result_numbers

    def _number_value(self, value: ir.Value, known: dict[ir.Value, int], op: ir.Operation) -> int:
        if value in self._host_values:
            known[value] = self._allocate_number(0)
            return known[value]
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

    def flatten_tuples(self, values: list[int]) -> list[int]:
        """Replace tuples by their members."""
        members = self._tuple_members
        if not members:
            return values
        flattened: list[int] = []
        for value in values:
            flattened += self.flatten_tuples(members[value]) if value in members else [value]
        return flattened

    def _number_constant(self, op: ir.Operation) -> int:
        """Give equal constants one number, because a split clones constants.

        A small constant, which compilers write into the code that reads it, gets a new number that
        no op defines. It is never live, and a loop that starts from it needs a separate buffer.
        """
        if is_small_constant(op):
            return self._allocate_number(to_buffer_size(op.results[0].type).bytes)
        try:
            key: object = op.attributes["value"]
        except TypeError:  # The bindings cannot represent complex elements.
            key = render_op_text(op)
        if key not in self.constants:
            self.constants[key] = self._allocate_number(to_buffer_size(op.results[0].type).bytes)
        return self.constants[key]


def _classify_op(name: str) -> int:
    table: Sequence[tuple[Iterable[str], int]] = (
        (op_kinds.VIEWS, _VIEW),
        (op_kinds.BARRIERS, _BARRIER),
        (op_kinds.NO_MEMORY_OPS | TERMINATORS, _NO_MEMORY),
        (LOOPS, _LOOP),
        (BRANCHES, _BRANCH),
        (CALLEE, _CALL),
        (MAYBE_COLLECTIVE, _COLLECTIVE),
        (op_kinds.CONSTANTS, _CONSTANT),
        (op_kinds.TUPLES, _TUPLE),
        (op_kinds.TUPLE_ELEMENTS, _TUPLE_ELEMENT),
        (op_kinds.name_in_both("transpose broadcast_in_dim"), _MAYBE_VIEW),
    )
    return next((kind for members, kind in table if name in members), _PLAIN)


_kind_by_op_name: dict[str, int] = {}
