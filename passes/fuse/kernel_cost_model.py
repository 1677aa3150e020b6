"""Kernels under construction, and the time that decides what joins them.

The model is XLA's (xla/service/gpu/model/gpu_performance_model.cc): memory at full bandwidth the
first time a byte is read and at the cache's after that, arithmetic by the cycles of each op, and
the two overlapped.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from itertools import groupby

from hespas.estimators.rules.base import BufferSize, read_integer_list
from hespas.passes.fuse.fusion_graph import IN_PLACE, FusionGraph, FusionOp

LAUNCH_S = 1e-6
# Of an A100 SXM 40 GB, from XLA's specification of it; the choice of kernels depends little on it.
BANDWIDTH_BYTES_PER_S = 1.5552e12
CYCLES_PER_S = 108 * 64 * 2 * 1.41e9  # cores x units x operations of one multiply-add x clock
CACHE_SPEEDUP = 2.5  # of bytes read again
SMALL_CACHE_SPEEDUP = 8.0  # and further, of a buffer that the first-level caches hold
SMALL_CACHE_BYTES = 108 * 2048
CACHE_BYTES = 40 << 20
OVERLAP = 0.95
SEGMENT_BYTES = 64  # what memory transfers for one element whose neighbours are not wanted
WARP = 32
SIGNIFICANT_REDUCTION = 16  # elements per result, from where XLA keeps reductions apart

DimensionGroups = Sequence[
    tuple[bool, int]
]  # (reduced, size) of neighbouring dimensions taken together
ReadAmounts = tuple[float, float]  # elements read per element of a value: one by one, and otherwise


@dataclass(slots=True)
class FusionKernel:
    """Ops that are one launch.

    ``members`` are the ops in it, and how often their elements are computed. ``emitter`` is what
    decides the loop: loop, reduction, transpose, concatenate, in_place, row (a normalisation);
    ``hero`` is what two kernels of one emitter must have in common to share it. A ``unary`` kernel
    changes the elements of one value one by one; one that ``reduces`` makes few of many.
    """

    index: int
    members: dict[int, float]
    reads: dict[int, ReadAmounts]
    outputs: list[int]
    emitter: str
    hero: tuple[object, ...]
    cycles: float = 0.0
    read_s: float = 0.0
    write_s: float = 0.0
    strided_s: float = 0.0  # what uncoalesced reads cost on top
    unary: bool = False
    reduces: bool = False
    updated: int = -1  # the buffer written in place
    elements: int = 0  # that it loops over
    reductions: int = 0
    shared: int = 0  # bytes of a block's shared memory
    time_s: float = 0.0


@dataclass(slots=True)
class KernelCostModel:
    """Makes and times the kernels of a graph."""

    graph: FusionGraph
    sizes: list[BufferSize] = field(init=False)

    def __post_init__(self) -> None:
        self.sizes = self.graph.sizes

    def make_kernel(self, index: int, op: FusionOp) -> FusionKernel:
        """The kernel that is one op alone."""
        reads: dict[int, ReadAmounts] = {}
        for use in op.uses:
            one, other = reads.get(use.value, (0.0, 0.0))
            if use.elementwise:
                one = max(one, use.amount)
            else:
                other += use.amount
            reads[use.value] = (one, other)
        emitter, hero = self._find_hero(op)
        kernel = FusionKernel(
            index, {index: 1.0}, reads, list(op.results), emitter, hero, op.cycles
        )
        written: Iterable[int] = op.results
        if emitter == "in_place":
            kernel.updated = self.graph.source[op.operands[0]]
            last = len(op.op.operands) - 1
            written = [op.operands[1 if op.kind == "dynamic_update_slice" else last]]
        kernel.write_s = sum(self.sizes[v].bytes for v in written) / BANDWIDTH_BYTES_PER_S
        kernel.unary = len(op.operands) == 1 and op.kind == "elementwise"
        kernel.reduces = op.kind == "reduce" and (
            self.sizes[op.uses[0].value].elements
            >= SIGNIFICANT_REDUCTION * self.sizes[op.results[0]].elements
        )
        self._set_tile_sizes(kernel, op)
        self.update_time(kernel)
        return kernel

    def make_row_kernel(self, members: list[int]) -> FusionKernel:
        """The kernel of a normalisation: ops of which the last makes its one result."""
        graph = self.graph
        inside = {result for member in members for result in graph.ops[member].results}
        kernel = self.make_kernel(members[-1], graph.ops[members[-1]])
        kernel.members = dict.fromkeys(members, 1.0)
        kernel.emitter, kernel.reduces, kernel.unary = "row", True, False
        kernel.hero = ("row", members[-1])
        kernel.cycles = sum(graph.ops[member].cycles for member in members)
        kernel.reads = {
            use.value: (1.0, 0.0)
            for member in members
            for use in graph.ops[member].uses
            if use.value not in inside
        }
        self.update_time(kernel)
        return kernel

    def _set_tile_sizes(self, kernel: FusionKernel, op: FusionOp) -> None:
        """The loop of a kernel, and the shared memory that XLA takes for its tiles."""
        kernel.elements = self.sizes[op.results[0]].elements
        width = -(-self.sizes[op.results[0]].bits // 8)
        if kernel.emitter == "reduction":
            kernel.elements = self.sizes[op.uses[0].value].elements
            kernel.reductions = 1
            rows = _find_reduction_groups(op, self.sizes[op.operands[0]].shape)[-1][0]
            kernel.shared = width * (WARP if rows else 2 * WARP * (WARP + 1))
        elif kernel.emitter == "transpose":
            kernel.shared = width * WARP * (WARP + 1)

    def update_time(self, kernel: FusionKernel) -> None:
        """Time a kernel anew after its reads changed."""
        kernel.read_s = sum(self._estimate_read_s(v, reads) for v, reads in kernel.reads.items())
        memory_s = kernel.read_s + kernel.write_s + kernel.strided_s
        kernel.time_s = _overlap_times_s(kernel.cycles / CYCLES_PER_S, memory_s)

    def _find_hero(self, op: FusionOp) -> tuple[str, tuple[object, ...]]:
        if op.kind in IN_PLACE:
            return "in_place", ("in_place", op.results[0])
        if op.kind == "reduce":
            groups = _find_reduction_groups(op, self._get_operand_shape(op))
            if is_tiled_reduction(groups):
                return "reduction", ("reduction", groups)
        if op.kind == "transpose":
            groups = _simplify_permutation(
                self._get_operand_shape(op), read_integer_list(op.op, "permutation", ())
            )
            return "transpose", ("transpose", groups)
        if op.kind == "concatenate":
            return "concatenate", ("concatenate", op.results[0])
        return "loop", ("loop", self.sizes[op.results[0]].elements)

    def _get_operand_shape(self, op: FusionOp) -> tuple[int, ...]:
        return self.sizes[op.operands[0]].shape

    def _estimate_read_s(self, value: int, reads: ReadAmounts) -> float:
        """Time to read a value so often: from memory once, then from the caches."""
        size = self.sizes[value].bytes
        total = size * (reads[0] + reads[1])
        if total <= size:
            return total / BANDWIDTH_BYTES_PER_S
        again = BANDWIDTH_BYTES_PER_S
        if size < CACHE_BYTES:
            again *= CACHE_SPEEDUP
        if size < SMALL_CACHE_BYTES:
            again *= SMALL_CACHE_SPEEDUP
        return size / BANDWIDTH_BYTES_PER_S + (total - size) / again

    def estimate_fused_s(self, producer: FusionKernel, consumer: FusionKernel) -> float:
        """Time of the consumer with the producer computed in it."""
        value = producer.outputs[0]
        one, other = consumer.reads[value]
        read_s = consumer.read_s - self._estimate_read_s(value, (one, other))
        consumer_reads = consumer.reads
        for source, reads in producer.reads.items():
            through = _compose_reads(reads, one, other)
            old = consumer_reads.get(source)
            if old is None:
                read_s += self._estimate_read_s(source, through)
            else:
                read_s += self._estimate_read_s(
                    source, _merge_reads(old, through)
                ) - self._estimate_read_s(source, old)
        amount = one + other
        cycles = consumer.cycles + producer.cycles * amount
        strided_s = consumer.strided_s + self._estimate_strided_s(producer, consumer, amount)
        return _overlap_times_s(cycles / CYCLES_PER_S, read_s + consumer.write_s + strided_s)

    def _estimate_strided_s(
        self, producer: FusionKernel, consumer: FusionKernel, amount: float
    ) -> float:
        """Extra time of the reads of a producer, where a transpose in it is no longer the hero."""
        strided_s = producer.strided_s * amount
        if producer.emitter == "transpose" and not consumer.unary:
            width = self.sizes[producer.outputs[0]].bits / 8
            strided_s += producer.read_s * amount * (SEGMENT_BYTES / max(width, 1) - 1)
        return strided_s

    def estimate_shared_gain_s(self, producer: FusionKernel, consumer: FusionKernel) -> float:
        """Time saved where the consumer makes the producer's result too, but for a launch.

        As XLA reckons it: the producer alone and the reading of its result, against its operations
        and reads as the consumer does them and its writing, which is not overlapped.
        """
        value = producer.outputs[0]
        one, other = consumer.reads[value]
        read_s = sum(
            self._estimate_read_s(source, _compose_reads(reads, one, other))
            for source, reads in producer.reads.items()
        )
        within_s = _overlap_times_s(producer.cycles * (one + other) / CYCLES_PER_S, read_s)
        apart_s = producer.time_s + self._estimate_read_s(value, (one, other))
        return apart_s - within_s - producer.write_s

    def fuse_producer(self, producer: FusionKernel, consumer: FusionKernel) -> None:
        """Compute the producer in the consumer."""
        value = producer.outputs[0]
        one, other = consumer.reads.pop(value)
        amount = one + other
        for source, reads in producer.reads.items():
            through = _compose_reads(reads, one, other)
            old = consumer.reads.get(source)
            consumer.reads[source] = through if old is None else _merge_reads(old, through)
        for member, often in producer.members.items():
            often *= amount
            known = consumer.members.get(member)
            if known is None or often > known:
                consumer.cycles += self.graph.ops[member].cycles * (often - (known or 0.0))
                consumer.members[member] = often
        consumer.strided_s += self._estimate_strided_s(producer, consumer, amount)
        if producer.emitter == "row" or (consumer.unary and producer.emitter != "loop"):
            consumer.emitter, consumer.hero = producer.emitter, producer.hero
            consumer.elements = producer.elements
        consumer.unary = consumer.unary and producer.unary
        consumer.reduces = consumer.reduces or producer.reduces
        consumer.reductions += producer.reductions
        consumer.shared += producer.shared
        self.update_time(consumer)


def _overlap_times_s(compute_s: float, memory_s: float) -> float:
    """Compute and memory overlapped, all but a part of the shorter."""
    return compute_s + memory_s - OVERLAP * min(compute_s, memory_s)


def _compose_reads(reads: ReadAmounts, one: float, other: float) -> ReadAmounts:
    return reads[0] * one, reads[0] * other + reads[1] * (one + other)


def _merge_reads(a: ReadAmounts, b: ReadAmounts) -> ReadAmounts:
    return max(a[0], b[0]), a[1] + b[1]


def _find_reduction_groups(op: FusionOp, shape: Sequence[int]) -> DimensionGroups:
    return group_reduced_dims(shape, read_integer_list(op.op, "dimensions", ()))


def group_reduced_dims(shape: Sequence[int], dims: Sequence[int]) -> DimensionGroups:
    """Kept and reduced dimensions, major first; neighbours of a kind are one, units none."""
    reduced = set(dims)
    marked = [(d in reduced, size) for d, size in enumerate(shape) if size > 1]
    groups: list[tuple[bool, int]] = []
    for kind, members in groupby(marked, key=lambda pair: pair[0]):
        groups.append((kind, math.prod(size for _, size in members)))
    return tuple(groups)


def is_tiled_reduction(groups: DimensionGroups) -> bool:
    """Whether a block reduces tiles together: rows or columns, long enough for its threads.

    The rules of IsReductionFromOrToContiguousDimensions in xla/service/gpu/reduction_utils.cc.
    """
    kinds = [kind for kind, _ in groups]
    if not any(kinds) or len(groups) > 3:
        return False
    if kinds[-1]:  # rows; a major reduced dimension is a batch of them
        size = groups[-1][1]
        return size >= WARP or WARP % size == 0
    major, minor = groups[-2][1], groups[-1][1]
    return not (
        major < 32
        or (major < 64 and minor < 32)
        or (major < 128 and minor < 8)
        or (major < 256 and minor < 3)
    )


def _simplify_permutation(shape: Sequence[int], permutation: Sequence[int]) -> tuple[object, ...]:
    """What is left of a transpose when units are dropped: sizes and order."""
    wide = [d for d in permutation if shape[d] > 1]
    return tuple((d, shape[d]) for d in wide)
