"""The values that stay in the on-chip memory between kernels, as a function of its size.

A kernel loads what it reads into the on-chip memory, and leaves its results there. A value may stay
until the next kernel that reads it. Such a stay takes the bytes of the value from one kernel to the
other, and saves a read. If a result stays until its last use, it is not written either.

What stays is decided once for all sizes of the memory, so that a larger one never moves more:

- The stays are placed one after the other. Each needs a memory that holds it besides those placed
  before it, and besides what the kernels on its way hold themselves, at the worst kernel.
- The order is by the size of the memory in octaves, and within each the shortest stays first,
  because they save the same bytes for the least time. A stay that does not fit into an octave waits
  for the next one, and is in nobody's way.
- Where a stay of a value ends and its next one starts, or that of a result that is written over it,
  both have one place.

Invariant: of the stays that need at most some size, the one placed last at a kernel has been added
to the places of all others there, so that they all fit together.

A kernel with a matrix product holds the smallest of its matrices and a strip of both others, which
suffices to move each of them once. Any other kernel streams its data.
"""

from __future__ import annotations

import itertools
import math
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np

from hespas.dialects.attr_codec import read_trip_count
from hespas.dialects.attrs import OnChipAttr
from hespas.dialects.mlir import ir
from hespas.dialects.op_kinds import FUSION, LOOPS, is_marked_collective
from hespas.estimators.matrix_products import SUM_BITS, MatrixProduct, collect_matrix_products
from hespas.estimators.rules.base import DynamicShape, list_operand_sizes, list_result_sizes
from hespas.estimators.rules.fusion import compute_operand_reads
from hespas.estimators.work import NotALeaf, OpWork, compute_op_work
from hespas.passes.memory.fusion_model import find_kernel_results_over
from hespas.passes.memory.liveness_program import LivenessBody, LivenessOp
from hespas.passes.split.region_digest import OpContentTable
from hespas.support.errors import HespasError

STRIP = 256  # rows or columns of a matrix that an array takes at once
LEAST_BYTES = 1024  # smaller values, such as counters of loops, are always moved
_UNROLLED_DEPTH = 2  # of loops: bodies in deeper ones start and end in device memory


class _Use(NamedTuple):
    """One use of a value.

    Attributes:
        visit: The visit of a kernel.
        number: The number of the value for this kernel.
        read_bytes: The bytes that it reads; 0 if it defines the value.
    """

    visit: int
    number: int
    read_bytes: int


@dataclass(slots=True)
class _Value:
    """A value of one iteration of the loops around it.

    Attributes:
        number: Its number in the liveness program.
        uses: Its uses by kernels that leave all of it in the on-chip memory, in order.
        is_defined: Whether the first use defines it; otherwise it starts in device memory.
        is_stored: Whether it has to be in device memory.
    """

    number: int
    uses: list[_Use] = field(default_factory=list)
    is_defined: bool = False
    is_stored: bool = False


@dataclass(slots=True)
class _Visit:
    """One execution of a kernel, or several that are alike.

    Attributes:
        item: The kernel.
        kernel: Its first result, which identifies it.
        executions: The number of executions.
        held_bytes: The on-chip memory that it needs to move each operand once.
    """

    item: LivenessOp
    kernel: ir.Value
    executions: int
    held_bytes: int


class Stay(NamedTuple):
    """A value that may stay in the on-chip memory from one kernel to another.

    Attributes:
        start: The kernel that leaves it there.
        end: The kernel that reads it there.
        size: Its bytes.
        start_place: Its place at the start; another stay may end in it.
        end_place: Its place at the end; another stay may start in it.
    """

    start: int
    end: int
    size: int
    start_place: int
    end_place: int


@dataclass(slots=True)
class _KernelSavings:
    """The bytes that the executions of a kernel do not move, by the memory that this takes.

    Attributes:
        executions: The number of its executions.
        reads: For each stay that ends at the kernel: the size of the memory, and the bytes.
        writes: The same for results that are not written.
    """

    executions: int = 0
    reads: list[tuple[int, int]] = field(default_factory=list)
    writes: list[tuple[int, int]] = field(default_factory=list)

    def to_attr(self) -> OnChipAttr | None:
        """Convert to averages over the executions; None if nothing is saved."""
        if not self.executions:  # in a loop without iterations
            return None
        sizes = sorted({size for size, _ in (*self.reads, *self.writes)})
        saved_reads, saved_writes = (
            self._sum_up_to(sizes, saved) for saved in (self.reads, self.writes)
        )
        rows = [
            (size, read, written)
            for size, read, written in zip(sizes, saved_reads, saved_writes, strict=True)
            if read or written
        ]
        return OnChipAttr(*(tuple(column) for column in zip(*rows, strict=True))) if rows else None

    def _sum_up_to(self, sizes: Sequence[int], saved: Sequence[tuple[int, int]]) -> list[int]:
        bytes_by_size: dict[int, int] = defaultdict(int)
        for size, count in saved:
            bytes_by_size[size] += count
        sums = np.cumsum([bytes_by_size[size] for size in sizes], dtype=float)
        return [int(total // self.executions) for total in sums]


def find_on_chip_values(body: LivenessBody, sizes: Sequence[int]) -> dict[ir.Value, OnChipAttr]:
    """Find what kernels need not move, by their first result.

    Args:
        body: The liveness program, whose kernels are the ops that are estimated.
        sizes: The bytes of each value.
    """
    schedule, values = _KernelSchedule(sizes), dict[int, _Value]()
    schedule.visit_body(body, values, 1, 0)
    for number in body.results:
        schedule.find_value(number, values).is_stored = True
    return schedule.find_savings()


@dataclass(slots=True)
class _KernelSchedule:
    """The visits of kernels in program order, and the uses of values by them.

    The body of a loop is visited three times: its first iteration, all between, and its last one.
    """

    sizes: Sequence[int]
    visits: list[_Visit] = field(default_factory=list)
    _values: list[_Value] = field(default_factory=list)
    _kernels: dict[int, _Kernel] = field(default_factory=dict)
    _op_contents: OpContentTable = field(default_factory=OpContentTable)

    def visit_body(
        self, body: LivenessBody, values: dict[int, _Value], executions: int, depth: int
    ) -> None:
        """Visit the ops of a body.

        Args:
            body: The body.
            values: The values by number, which the visit updates.
            executions: The executions of the body.
            depth: The number of loops and branches around it.
        """
        for item in body.items:
            if not item.bodies:
                self._visit_kernel(item, values, executions)
            elif item.op.name in LOOPS and depth < _UNROLLED_DEPTH:
                self._visit_loop(item, values, executions, depth)
            else:
                self._visit_alone(item, values, executions, depth)

    def find_value(self, number: int, values: dict[int, _Value]) -> _Value:
        """Return the current value of a number; if it is new, it is in device memory."""
        if number not in values:
            values[number] = self._add_value(number)
        return values[number]

    def _add_value(self, number: int) -> _Value:
        value = _Value(number)
        self._values.append(value)
        return value

    def _visit_kernel(self, item: LivenessOp, values: dict[int, _Value], executions: int) -> None:
        kernel = self._read_kernel(item)
        visit = len(self.visits)
        for number in dict.fromkeys(item.reads):
            read_bytes = kernel.count_read_bytes(item, number, self.sizes[number])
            value = self.find_value(number, values)
            if read_bytes is None:
                value.is_stored = True
            elif self.sizes[number] >= LEAST_BYTES:
                value.uses.append(_Use(visit, number, read_bytes))
        for number in item.results:
            values[number] = value = self._add_value(number)
            if kernel.leaves_results and self.sizes[number] >= LEAST_BYTES:
                value.uses.append(_Use(visit, number, 0))
                value.is_defined = True
        if kernel.work is not None:
            visited = _Visit(item, item.op.results[0], executions, kernel.held_bytes)
            self.visits.append(visited)

    def _read_kernel(self, item: LivenessOp) -> _Kernel:
        if not item.op.results:
            return _OTHER_OP
        number = self._op_contents.number_op(item.op)
        if number not in self._kernels:
            self._kernels[number] = _read_kernel(item.op)
        return self._kernels[number]

    def _visit_loop(
        self, item: LivenessOp, values: dict[int, _Value], executions: int, depth: int
    ) -> None:
        """Visit the first iteration of a loop, one for all between, and the last one."""
        for number in item.reads:
            self.find_value(number, values)
        for carry in item.carries:
            values[carry.argument] = self.find_value(carry.before, values)
        trips = _read_trips(item)
        for count in [1, trips - 2, 1] if trips > 2 else [1] * trips:
            inner = dict(values)
            for body in item.bodies:
                self.visit_body(body, inner, executions * count, depth + 1)
            for carry, number in zip(item.carries, item.bodies[-1].results, strict=True):
                values[carry.argument] = self.find_value(number, inner)
        for carry in item.carries:
            values[carry.after] = values.pop(carry.argument)

    def _visit_alone(
        self, item: LivenessOp, values: dict[int, _Value], executions: int, depth: int
    ) -> None:
        """Visit a branch or a deeply nested loop, which starts and ends in device memory."""
        for number in item.reads:
            self.find_value(number, values).is_stored = True
        if item.op.name in LOOPS:
            executions *= _read_trips(item)
        for body in item.bodies:
            inner: dict[int, _Value] = {}
            self.visit_body(body, inner, executions, depth + 1)
            for number in body.results:
                self.find_value(number, inner).is_stored = True
        for number in item.results:
            values[number] = self._add_value(number)

    def find_savings(self) -> dict[ir.Value, OnChipAttr]:
        """Place all stays, and return what the kernels save."""
        overwritten = self._find_overwritten_values()
        stays: list[Stay] = []
        readers: list[tuple[_Value, _Use]] = []
        for value in self._values:
            place, size = id(value), self.sizes[value.number]
            first_place = overwritten.get(place, place)
            for number, (before, after) in enumerate(itertools.pairwise(value.uses)):
                start_place = place if number else first_place
                stays.append(Stay(before.visit, after.visit, size, start_place, place))
                readers.append((value, after))
        needs = place_stays(stays, [visit.held_bytes for visit in self.visits])
        savings: dict[ir.Value, _KernelSavings] = defaultdict(_KernelSavings)
        for visit in self.visits:
            savings[visit.kernel].executions += visit.executions
        most_needs: dict[int, int] = {}
        for (value, use), need in zip(readers, needs, strict=True):
            most_needs[id(value)] = max(need, most_needs.get(id(value), 0))
            reader = self.visits[use.visit]
            savings[reader.kernel].reads.append((need, use.read_bytes * reader.executions))
        for value in self._values:
            if value.is_defined and not value.is_stored and id(value) in most_needs:
                maker = self.visits[value.uses[0].visit]
                saved = (most_needs[id(value)], self.sizes[value.number] * maker.executions)
                savings[maker.kernel].writes.append(saved)
        attrs = {kernel: saved.to_attr() for kernel, saved in savings.items()}
        return {kernel: attr for kernel, attr in attrs.items() if attr is not None}

    def _find_overwritten_values(self) -> Mapping[int, int]:
        """Map results to the values over which they may be written, which nothing reads later."""
        dying: dict[int, list[_Value]] = defaultdict(list)
        defined: dict[tuple[int, int], _Value] = {}
        for value in self._values:
            if len(value.uses) > 1:
                dying[value.uses[-1].visit].append(value)
            if value.is_defined:
                defined[value.uses[0].visit, value.number] = value
        overwritten: dict[int, int] = {}
        for visit, operands in dying.items():
            item = self.visits[visit].item
            for operand in operands:
                for number in find_kernel_results_over(item, operand.uses[-1].number):
                    result = defined.get((visit, item.results[number]))
                    is_equal = result and self.sizes[result.number] == self.sizes[operand.number]
                    if result and is_equal and id(result) not in overwritten:
                        overwritten[id(result)] = id(operand)
                        break
        return overwritten


def _read_trips(loop: LivenessOp) -> int:
    """Return the trip count of a loop; one if it is not known."""
    trips = read_trip_count(loop.op)
    return 1 if trips is None else trips


def place_stays(stays: Sequence[Stay], held_bytes: Sequence[int]) -> Sequence[int]:
    """Return the size of the on-chip memory from which on each value stays.

    Args:
        stays: The stays.
        held_bytes: The bytes that each kernel itself holds.
    """
    needs = [0] * len(stays)
    used = np.array(held_bytes, np.int64)
    taken: set[tuple[int, int]] = set()  # kernels and places
    # The least memory for each: at first besides the kernels, then besides what is placed already.
    least = [int(used[stay.start : stay.end + 1].max()) + stay.size for stay in stays]
    waiting = sorted(
        range(len(stays)), key=lambda n: (stays[n].end - stays[n].start, stays[n].size)
    )
    while waiting:
        octave_bytes = 1 << (min(least[number] for number in waiting) - 1).bit_length()
        left: list[int] = []
        for number in waiting:
            stay = stays[number]
            if least[number] <= octave_bytes:
                ends = (stay.start, stay.start_place), (stay.end, stay.end_place)
                first, past = stay.start + (ends[0] in taken), stay.end + (ends[1] not in taken)
                way = used[first:past]
                most = max(int(used[stay.start]), int(used[stay.end]))
                least[number] = max(int(way.max()) + stay.size, most) if len(way) else most
                if least[number] <= octave_bytes:
                    way += stay.size
                    taken.update(ends)
                    needs[number] = least[number]
                    continue
            left.append(number)
        waiting = left
    return needs


@dataclass(frozen=True, slots=True)
class _Kernel:
    """What a kernel reads and leaves.

    Attributes:
        work: Its work; None for an op that is no kernel, or whose work is not known.
        operand_reads: The bytes that it reads of each operand; empty if they are not known.
        leaves_results: Whether it writes all of its results.
        held_bytes: The on-chip memory that it needs to move each operand once.
    """

    work: OpWork | None = None
    operand_reads: tuple[int, ...] = ()
    leaves_results: bool = False
    held_bytes: int = 0

    def count_read_bytes(self, item: LivenessOp, value: int, size: int) -> int | None:
        """Count the bytes that the kernel reads of a value; None unless it reads all of it."""
        if not self.operand_reads:
            return None
        reads = [
            count
            for operand, count in zip(item.operands, self.operand_reads, strict=True)
            if operand == value
        ]
        return sum(reads) if reads and min(reads) >= size else None


_OTHER_OP = _Kernel()


def _read_kernel(op: ir.Operation) -> _Kernel:
    """Read what an op reads and leaves, if it is a kernel."""
    if is_marked_collective(op):
        return _OTHER_OP
    try:
        if op.name == FUSION:
            work, reads = compute_operand_reads(op)
        else:
            work, reads = compute_op_work(op), [size.bytes for size in list_operand_sizes(op)]
        held_bytes = _count_held_bytes(op) if work.kind in ("gemm", "conv") else 0
    except (DynamicShape, HespasError, NotALeaf):
        return _OTHER_OP
    if work.is_free:
        return _OTHER_OP
    if sum(reads) != work.read_bytes:  # parts of an operand
        reads = []
    written = sum(size.bytes for size in list_result_sizes(op))
    return _Kernel(work, tuple(reads), written == work.write_bytes, held_bytes)


def _count_held_bytes(op: ir.Operation) -> int:
    """Count the on-chip memory with which the largest product of a kernel moves each matrix once.

    One matrix is held whole, and of the others strips along what they share with it.
    """
    return max(map(_count_product_bytes, collect_matrix_products(op)), default=0)


def _count_product_bytes(product: MatrixProduct) -> int:
    sizes = (product.m, product.k, product.n)
    bits = (product.in_bits, max(product.out_bits, SUM_BITS), product.in_bits)
    dimensions = range(len(sizes))  # each names the matrix that lacks it
    whole = [math.prod(sizes) // max(sizes[d], 1) * bits[d] // 8 for d in dimensions]

    def count_strip_bytes(streams: int, stays: int) -> int:
        (shared,) = (sizes[d] for d in dimensions if d not in (streams, stays))
        return min(whole[streams], 2 * STRIP * shared * bits[streams] // 8)

    return min(
        whole[stays] + sum(count_strip_bytes(each, stays) for each in dimensions if each != stays)
        for stays in dimensions
    )
