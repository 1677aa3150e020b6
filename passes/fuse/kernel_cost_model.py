"""The cost model of kernels under construction, which decides what is fused.

The model is XLA's (xla/service/gpu/model/gpu_performance_model.cc): the first read of a byte takes
the bandwidth of the memory, further reads that of the cache; arithmetic takes the cycles of each
op; memory accesses and arithmetic overlap.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import groupby

from hespas.estimators.rules.base import read_integer, read_integer_list
from hespas.passes.fuse.fusion_graph import (
    DEFAULT_PROFILE,
    IN_PLACE,
    FusionGraph,
    FusionOp,
    FusionValue,
)
from hespas.support.errors import HespasError

# The constants of XLA's model of GPUs.
LAUNCH_S = 1e-6
CACHE_SPEEDUP = 2.5  # for bytes that are read again
SMALL_CACHE_SPEEDUP = 8.0  # additional factor for buffers that fit in the first-level caches
SMALL_CACHE_BYTES = 2048  # of a core
DEFAULT_TARGET = "A100_SXM_40GB"
OVERLAP = 0.95  # share of the shorter of compute and memory time that is hidden
CORE_BYTES = 32  # that a core moves in a cycle
SEGMENT_BYTES = 64  # bytes that memory transfers for a single element
WARP = 32
ROW_ELEMENTS = 16  # of a row, that a thread reduces
ROW_THREADS = 256  # of a block that reduces rows, if they are short
# Elements of the rows that a block keeps: the largest power of two in 0.4 of its 65,536 registers
# (gpu_indexing_performance_model.cc).
TILE_ELEMENTS = 1 << 14
SIGNIFICANT_REDUCTION = 16  # elements per result from which XLA does not fuse reductions together

# Ops that XLA's tile analysis or its compiler of Triton do not know (jaxlib 0.12). They know a
# concatenation whose parts before the last are whole tiles.
UNTILED = IN_PLACE | frozenset(("dynamic_slice", "gather", "pad", "reduce_window", "reverse"))
PART_ELEMENTS = 64  # of a tile

# The runs of neighbouring dimensions that are all reduced or all kept, as (is reduced, size).
DimensionGroups = Sequence[tuple[bool, int]]
# How often each element of a value is read on average, by the loop that reads it: that of the
# kernel itself, or one that begins where an op reads a value in another order (then the number of
# the value) or through a view (then VIEWED less the number). Two reads of an element in one loop
# are one memory access (the roots in GpuHloCostAnalysis::FusionCalculateUtilizations).
ReadAmounts = dict[int, float]
OWN_LOOP = -1
VIEWED = -2
READ_ONCE: ReadAmounts = {OWN_LOOP: 1.0}
# The dimensions of a transpose's result in order: the number of each in the operand, and its size.
Permutation = tuple[tuple[int, int], ...]
VOLTA, HOPPER, BLACKWELL = 7, 9, 10  # major compute capabilities of NVIDIA


@dataclass(frozen=True, slots=True)
class FusionDevice:
    """What XLA's model knows of a GPU; of the default target without a read of its file.

    Attributes:
        bandwidth_bytes_per_s: The bandwidth of its memory.
        cycles_per_s: Cores x units x operations of one multiply-add x clock.
        cache_bytes: The size of the cache of all cores.
        small_cache_bytes: The sizes of the caches of each core in all.
        cores: The number of streaming multiprocessors.
        core_bytes_per_s: The bytes that each of them moves at most.
        capability: The major compute capability of NVIDIA; 0 for others.
        profile: The name of its table of cycles in XLA.
    """

    bandwidth_bytes_per_s: float = 1.5552e12
    cycles_per_s: float = 108 * 64 * 2 * 1.41e9
    cache_bytes: int = 40 << 20
    small_cache_bytes: int = 108 * SMALL_CACHE_BYTES
    cores: int = 108
    core_bytes_per_s: float = CORE_BYTES * 1.41e9
    capability: int = 8
    profile: str = DEFAULT_PROFILE

    @classmethod
    def from_target(cls, name_or_path: str) -> FusionDevice:
        """Read it from a target of XLA's compiler for GPUs, a preset or a ``.json`` file.

        Raises:
            UsageError: No target has this name.
            HespasError: The file is wrong, or describes no GPU.
        """
        if name_or_path == DEFAULT_TARGET:
            return cls()
        from hespas.configs.compile_targets import read_target_json  # imports pydantic

        config = read_target_json(name_or_path).get("config")
        if config is None:
            raise HespasError("the target is no GPU", where=name_or_path)
        info = config["gpu_device_info"]
        cores = info["core_count"]
        capability = info.get("cuda_compute_capability", {})
        major = capability.get("major", 0)
        return cls(
            info["memory_bandwidth"],
            cores * info["fpus_per_core"] * 2 * info["clock_rate_ghz"] * 1e9,
            info["l2_cache_size"],
            cores * SMALL_CACHE_BYTES,
            cores,
            CORE_BYTES * info["clock_rate_ghz"] * 1e9,
            major,
            f"sm_{major}{capability.get('minor', 0)}",
        )

    def find_cached_bytes_per_s(self, size_bytes: int) -> float:
        """Return the rate at which a kernel reads a value of this size again."""
        if size_bytes < self.small_cache_bytes:
            return self.small_cache_bytes_per_s
        is_cached = size_bytes < self.cache_bytes
        return self.bandwidth_bytes_per_s * (CACHE_SPEEDUP if is_cached else 1.0)

    @property
    def small_cache_bytes_per_s(self) -> float:
        """The rate at which the caches of all cores are read."""
        return self.bandwidth_bytes_per_s * CACHE_SPEEDUP * SMALL_CACHE_SPEEDUP


@dataclass(slots=True)
class FusionKernel:
    """Ops that are launched as one kernel.

    Attributes:
        index: The index of its last op.
        members: Its ops.
        reads: The values that it reads.
        outputs: The values that it writes.
        emitter: What determines its loop: loop, reduction, transpose, concatenate, in_place, or
            row (a normalisation).
        hero: What two kernels with the same emitter must have in common to share a loop.
        cycles: Clock cycles of its arithmetic.
        read_s: Time of its reads.
        write_s: Time of its writes.
        strided_s: Additional time of uncoalesced reads.
        constant_bytes: Bytes of constants that it reads, which XLA counts as operands. A kernel
            that keeps rows on the chip reads them once for all.
        constant_s: Time of these reads.
        repeated_s: Time of further reads of a value that is several operands of an op. XLA counts
            them for an op by itself (GpuPerformanceModel::EstimateRunTimeForInstruction), and not
            for a fusion, which has a parameter for each value.
        unary: Whether it is elementwise and reads one value.
        reduces: Whether it contains a reduction of many elements to one.
        is_tiled: Whether all of its ops have tiles in Triton, which computes the kernels of rows.
        joins_rows: Whether it concatenates parts of rows, of which no tile has all.
        updated: The buffer that it writes in place; -1 if there is none, or if it computes it.
        elements: The number of elements that it loops over.
        reductions: The number of reductions in it.
        rows: The number of rows that it keeps on the chip; 0 if it keeps none.
        columns: The number of elements of each of them.
        is_narrow: Whether it may have too few thread blocks to read the caches at their full rate.
        shared_bytes: Bytes of shared memory that a thread block uses.
        time_s: Its execution time.
    """

    index: int
    members: set[int]
    reads: dict[int, ReadAmounts]
    outputs: list[int]
    emitter: str
    hero: tuple[object, ...]
    cycles: float = 0.0
    read_s: float = 0.0
    write_s: float = 0.0
    strided_s: float = 0.0
    constant_bytes: float = 0.0
    constant_s: float = 0.0
    repeated_s: float = 0.0
    unary: bool = False
    reduces: bool = False
    is_tiled: bool = True
    joins_rows: bool = False
    updated: int = -1
    elements: int = 0
    reductions: int = 0
    rows: int = 0
    columns: int = 0
    is_narrow: bool = False
    shared_bytes: int = 0
    time_s: float = 0.0


@dataclass(slots=True)
class KernelCostModel:
    """Makes, times and fuses the kernels of a graph."""

    graph: FusionGraph
    device: FusionDevice = field(default_factory=FusionDevice)
    values: list[FusionValue] = field(init=False)
    sizes_bytes: list[int] = field(init=False)
    cached_bytes_per_s: list[float] = field(init=False)  # of repeated reads of each value
    first_read_s: list[float] = field(init=False)  # the time of one read of each value
    small_cache_bytes_per_s: float = field(init=False)  # of the caches of all cores

    def __post_init__(self) -> None:
        self.values = self.graph.values
        self.sizes_bytes = [value.size.bytes for value in self.values]
        self.cached_bytes_per_s = [
            self.device.find_cached_bytes_per_s(size) for size in self.sizes_bytes
        ]
        bandwidth = self.device.bandwidth_bytes_per_s
        self.first_read_s = [size / bandwidth for size in self.sizes_bytes]
        self.small_cache_bytes_per_s = self.device.small_cache_bytes_per_s

    def make_kernel(self, index: int, op: FusionOp) -> FusionKernel:
        """Make the kernel of a single op."""
        reads: dict[int, ReadAmounts] = {}
        for use in op.uses:
            loop = use.value
            if use.elementwise:
                loop = VIEWED - use.value if use.is_view else OWN_LOOP
            amounts = reads.setdefault(use.value, {})
            known = 0.0 if loop == OWN_LOOP else amounts.get(loop, 0.0)
            amounts[loop] = known + use.amount
        emitter, hero = self._find_hero(op)
        kernel = FusionKernel(index, {index}, reads, list(op.results), emitter, hero, op.cycles)
        written: Iterable[int] = op.results
        if emitter == "in_place":
            kernel.updated = self.values[op.operands[0]].source
            last = len(op.op.operands) - 1
            written = [op.operands[1 if op.kind == "dynamic_update_slice" else last]]
        kernel.write_s = (
            sum([self.sizes_bytes[v] for v in written]) / self.device.bandwidth_bytes_per_s
        )
        kernel.constant_bytes = op.constant_bytes
        kernel.unary = len(op.operands) == 1 and op.kind == "elementwise"
        is_elementwise = op.kind == "elementwise"
        if is_elementwise and len(reads) < len(op.uses) and not self.has_views(op):
            repeated = Counter(use.value for use in op.uses) - Counter(reads.keys())
            kernel.repeated_s = sum(self.first_read_s[v] * times for v, times in repeated.items())
        kernel.reduces = op.kind == "reduce" and (
            self.values[op.operands[0]].size.elements
            >= SIGNIFICANT_REDUCTION * self.values[op.results[0]].size.elements
        )
        kernel.is_tiled = op.kind not in UNTILED
        if op.kind == "concatenate":
            self._set_joined_parts(kernel, op)
        self._set_tile_sizes(kernel, op)
        if op.kind == "transpose" and emitter == "loop" and self._reads_strided(op):
            read_s = sum(self.first_read_s[value] for value in reads)
            kernel.strided_s = self._time_strided_reads(kernel, read_s)
        self.update_time(kernel)
        return kernel

    def _set_joined_parts(self, kernel: FusionKernel, op: FusionOp) -> None:
        axis = read_integer(op.op, "dimension", 0)
        shapes = [self.values[value].size.shape for value in op.operands]
        kernel.is_tiled = all(shape[axis] % PART_ELEMENTS == 0 for shape in shapes[:-1])
        kernel.joins_rows = all(size == 1 for size in shapes[0][axis + 1 :])

    def to_producer(self, kernel: FusionKernel) -> FusionKernel:
        """Return a kernel as another one would contain it.

        Only the last op of a kernel updates a buffer in place; inside, an update also reads it.
        """
        if kernel.emitter != "in_place":
            return kernel
        reads = dict(kernel.reads)
        if kernel.updated >= 0:
            reads[kernel.updated] = READ_ONCE
            if self.values[kernel.updated].is_constant:
                del reads[kernel.updated]
        hero = ("loop", kernel.elements)
        return replace(kernel, reads=reads, emitter="loop", hero=hero, updated=-1, unary=False)

    def make_row_kernel(self, members: list[int]) -> FusionKernel:
        """Make the kernel of a normalisation, whose only result is that of the last member.

        Its hero is the reduction of its rows.
        """
        graph = self.graph
        inside = {result for member in members for result in graph.ops[member].results}
        kernel = self.make_kernel(members[-1], graph.ops[members[-1]])
        kernel.members = set(members)
        kernel.emitter, kernel.reduces, kernel.unary = "row", True, False
        reduction = next(
            graph.ops[member] for member in members if graph.ops[member].kind == "reduce"
        )
        groups = _find_reduction_groups(reduction, self._get_operand_shape(reduction))
        kernel.hero = ("reduction", groups)
        (_, kernel.rows), (_, kernel.columns) = groups
        kernel.constant_bytes = 0.0
        kernel.cycles = sum(graph.ops[member].cycles for member in members)
        kernel.reads = {
            use.value: READ_ONCE
            for member in members
            for use in graph.ops[member].uses
            if use.value not in inside
        }
        self.update_time(kernel)
        return kernel

    def _set_tile_sizes(self, kernel: FusionKernel, op: FusionOp) -> None:
        """Set the loop size of a kernel and the shared memory that XLA uses for its tiles."""
        result = self.values[op.results[0]].size
        kernel.elements = result.elements
        width_bytes = -(-result.bits // 8)
        if kernel.emitter == "reduction":
            kernel.elements = self.values[op.operands[0]].size.elements
            kernel.reductions = 1
            groups = _find_reduction_groups(op, self._get_operand_shape(op))
            kernel.shared_bytes = width_bytes * (WARP if groups[-1][0] else 4 * WARP * (WARP + 1))
            rate = _count_blocks(groups, 8) * self.device.core_bytes_per_s
            kernel.is_narrow = rate < self.small_cache_bytes_per_s
        elif kernel.emitter == "transpose":
            kernel.shared_bytes = width_bytes * WARP * (WARP + 1)

    def update_time(self, kernel: FusionKernel) -> None:
        """Recompute the times of a kernel after its reads have changed."""
        compute_s = kernel.cycles / self.device.cycles_per_s
        if kernel.is_narrow:
            kernel.read_s, kernel.constant_s, compute_s = self._estimate_narrow_s(
                kernel, kernel.reads, kernel.constant_bytes, compute_s
            )
        else:
            reads = kernel.reads.items()
            kernel.read_s = sum([self._estimate_read_s(kernel, v, amounts) for v, amounts in reads])
            kernel.constant_s = kernel.constant_bytes / self.small_cache_bytes_per_s
        memory_s = kernel.read_s + kernel.write_s + kernel.strided_s + kernel.constant_s
        kernel.time_s = _overlap_times_s(compute_s, memory_s + kernel.repeated_s)

    def estimate_unwritten_s(self, kernel: FusionKernel) -> float:
        """Estimate the time of a kernel without that of its writes."""
        compute_s = kernel.cycles / self.device.cycles_per_s
        memory_s = kernel.read_s + kernel.strided_s + kernel.constant_s
        return _overlap_times_s(compute_s, memory_s)

    def _estimate_narrow_s(
        self,
        kernel: FusionKernel,
        reads: Mapping[int, ReadAmounts],
        constant_bytes: float,
        compute_s: float,
    ) -> tuple[float, float, float]:
        """Estimate the times of a reduction of few thread blocks, each of which limits the rates.

        Args:
            compute_s: The time of its arithmetic on all cores.

        Returns:
            The times of its reads of values, of its reads of constants, and of its arithmetic.
        """
        groups = kernel.hero[1]
        assert isinstance(groups, tuple)
        bits = min((self.values[value].size.bits for value in reads), default=32)
        blocks = _count_blocks(groups, bits)
        rate = blocks * self.device.core_bytes_per_s
        first_rate = min(rate, self.device.bandwidth_bytes_per_s)
        read_s = 0.0
        for value, amounts in reads.items():
            size = self.sizes_bytes[value]
            total = size * sum(amounts.values())
            read_s += min(total, size) / first_rate
            read_s += max(total - size, 0) / min(rate, self.cached_bytes_per_s[value])
        constant_s = constant_bytes / min(rate, self.small_cache_bytes_per_s)
        return read_s, constant_s, compute_s * max(self.device.cores / blocks, 1.0)

    def _find_hero(self, op: FusionOp) -> tuple[str, tuple[object, ...]]:
        if op.kind in IN_PLACE:
            return "in_place", ("in_place", op.results[0])
        if op.kind == "reduce":
            groups = _find_reduction_groups(op, self._get_operand_shape(op))
            if is_tiled_reduction(groups):
                return "reduction", ("reduction", groups)
        if op.kind == "transpose":
            order = self._group_permutation(op)
            if _has_transposed_tiles(order, self.values[op.results[0]].size.bits):
                return "transpose", ("transpose", order)
        if op.kind == "concatenate":
            return "concatenate", ("concatenate", op.results[0])
        return "loop", ("loop", self.values[op.results[0]].size.elements)

    def _group_permutation(self, op: FusionOp) -> Permutation:
        shape = self._get_operand_shape(op)
        return group_permutation(shape, read_integer_list(op.op, "permutation", ()))

    def _reads_strided(self, op: FusionOp) -> bool:
        """Return whether a transpose by itself reads neighbouring elements from distant places."""
        order = self._group_permutation(op)
        return order[-1][0] != len(order) - 1

    def has_views(self, op: FusionOp) -> bool:
        """Return whether XLA makes a fusion of an op before all others, with views or constants.

        A reshape that only adds dimensions of size 1 is none: XLA moves it behind the op.
        """
        is_fused = any(self.values[value].is_constant for value in op.operands)
        return is_fused or any(use.is_view for use in op.uses)

    def _get_operand_shape(self, op: FusionOp) -> tuple[int, ...]:
        return self.values[op.operands[0]].size.shape

    def _estimate_read_s(self, kernel: FusionKernel, value: int, reads: ReadAmounts) -> float:
        """Estimate the time of reading a value: once from memory, then from the caches.

        A kernel that keeps rows on the chip may transfer more than it reads.
        """
        amount = sum(reads.values())
        # Nearly all are read once.
        read_s = self.first_read_s[value] if amount == 1.0 else self._time_reads(value, amount)
        return read_s * self._count_segments(kernel, value) if kernel.rows else read_s

    def _count_segments(self, rows: FusionKernel, value: int) -> float:
        """Return how much of memory is transferred for each byte of the numbers of rows.

        A thread block reads or writes those of its rows, which may be less than a segment
        (BandwidthUtilizationRateHeuristicForTiledMemoryAccess).
        """
        size = self.values[value].size
        if not rows.rows or size.elements != rows.rows:
            return 1.0
        tile_rows = max(TILE_ELEMENTS >> (rows.columns - 1).bit_length(), 1)
        return max(SEGMENT_BYTES / (tile_rows * size.bits / 8), 1.0)

    def _time_reads(self, value: int, amount: float) -> float:
        """Return the time of so many reads of each element of a value."""
        if amount == 1.0:
            return self.first_read_s[value]
        size = self.sizes_bytes[value]
        total = size * amount
        if total <= size:
            return total / self.device.bandwidth_bytes_per_s
        return self.first_read_s[value] + (total - size) / self.cached_bytes_per_s[value]

    def _count_reads(self, producer: FusionKernel, consumer: FusionKernel) -> ReadAmounts:
        """Count how often a consumer would compute each element of a producer's result.

        A kernel that keeps rows on the chip computes a result of a row once for all that read it,
        and whole rows for parts of them.
        """
        value = producer.outputs[0]
        reads = consumer.reads[value]
        if producer.emitter != "row":
            return reads
        is_number = self.values[value].size.elements == producer.rows
        if is_number or producer.hero == consumer.hero:
            return READ_ONCE
        if not (moved := count_moved_reads(reads)):
            return reads
        in_order = {loop: amount for loop, amount in reads.items() if loop < 0}
        return in_order | {value: max(moved, self._count_rows_in_parts(value, consumer))}

    def _count_rows_in_parts(self, value: int, kernel: FusionKernel) -> float:
        """Count the share of the rows of a value of which slices in a kernel are parts."""
        values, most = self.values, 0
        for member in kernel.members:
            op = self.graph.ops[member]
            if op.kind == "slice" and op.uses[0].value == value:
                most = max(most, math.prod(values[op.results[0]].size.shape[:-1]))
        return most / math.prod(values[value].size.shape[:-1])

    def _limit_row_reads(self, value: int, reads: ReadAmounts, rows: FusionKernel) -> ReadAmounts:
        """Limit the reads of a value by a kernel that keeps as many rows on the chip as fit.

        It reads what has one element for each row once, and what has one for each column once for
        all rows that it keeps.
        """
        elements = self.values[value].size.elements
        if elements == rows.rows:
            most = 1.0
        elif elements == rows.columns:
            padded = 1 << (rows.columns - 1).bit_length()
            most = max(rows.rows * padded / TILE_ELEMENTS, 1.0)
        else:
            return reads
        if sum(reads.values()) <= most:
            return reads
        own = min(reads.get(OWN_LOOP, 0.0), most)
        return {OWN_LOOP: own, value: most - own}

    def estimate_fused_s(
        self, producer: FusionKernel, consumer: FusionKernel, written_s: float = 0.0
    ) -> float:
        """Estimate the time of the consumer if it also computes what it reads of the producer.

        Args:
            written_s: The time of further writes.
        """
        value, consumer_reads = producer.outputs[0], consumer.reads
        amounts = self._count_reads(producer, consumer)
        if consumer.repeated_s and OWN_LOOP in amounts:
            # XLA adds up the reads by all operands of an op that is no fusion yet.
            count = sum(use.value == value for use in self.graph.ops[consumer.index].uses)
            amounts = amounts | {OWN_LOOP: amounts[OWN_LOOP] * count}
        amount = sum(amounts.values())
        rows = producer if producer.rows else consumer
        read_s = consumer.read_s - self._estimate_read_s(rows, value, consumer_reads[value])
        if rows.rows != consumer.rows:
            consumer_reads = {
                source: self._limit_row_reads(source, reads, rows)
                for source, reads in consumer_reads.items()
                if source != value
            }
            read_s = sum([self._estimate_read_s(rows, *read) for read in consumer_reads.items()])
        for source, reads in producer.reads.items():
            old = consumer_reads.get(source)
            if rows.rows:
                merged = self._limit_row_reads(source, _add_reads(old, reads, amounts), rows)
                read_s += self._estimate_read_s(rows, source, merged)
            elif old is None:
                read_s += self._time_reads(source, sum(reads.values()) * amount)
            else:
                read_s += self._estimate_read_s(rows, source, _add_reads(old, reads, amounts))
            if old is not None:
                read_s -= self._estimate_read_s(rows, source, old)
        cycles = consumer.cycles + producer.cycles * amount
        compute_s = cycles / self.device.cycles_per_s
        constant_bytes = consumer.constant_bytes + producer.constant_bytes * amount
        if rows.rows:  # XLA still reads the broadcast of a constant that it fuses later.
            constant_bytes = 0.0 if producer.rows else producer.constant_bytes
        constant_s = constant_bytes / self.small_cache_bytes_per_s
        if rows.rows and constant_bytes:
            segments = self._count_segments(rows, value)
            constant_s += constant_bytes * (segments - 1) / self.device.bandwidth_bytes_per_s
        if consumer.is_narrow:
            merged_reads = self._merge_producer_reads(producer, consumer)
            read_s, constant_s, compute_s = self._estimate_narrow_s(
                consumer, merged_reads, constant_bytes, compute_s
            )
        strided_s = consumer.strided_s
        if producer.strided_s or producer.emitter == "transpose":
            strided_s += self._estimate_strided_s(
                producer, amount, keeps_loop=_keeps_loop(producer, consumer, amounts)
            )
        write_s = consumer.write_s
        if rows.rows != consumer.rows:
            write_s *= self._count_segments(rows, consumer.outputs[0])
        memory_s = read_s + constant_s + write_s + written_s + strided_s
        return _overlap_times_s(compute_s, memory_s)

    def _estimate_strided_s(
        self, producer: FusionKernel, amount: float, *, keeps_loop: bool
    ) -> float:
        """Estimate the additional time of strided reads if a transpose no longer sets the loop."""
        strided_s = producer.strided_s * amount
        if producer.emitter == "transpose" and not keeps_loop:
            strided_s += self._time_strided_reads(producer, producer.read_s) * amount
        return strided_s

    def _time_strided_reads(self, kernel: FusionKernel, read_s: float) -> float:
        """Return the additional time of reads of a kernel if each element is a segment of memory.

        Args:
            read_s: The time of the reads if neighbouring elements share segments.
        """
        width_bytes = self.values[kernel.outputs[0]].size.bits / 8
        return read_s * (SEGMENT_BYTES / max(width_bytes, 1) - 1)

    def estimate_shared_gain_s(self, producer: FusionKernel, consumer: FusionKernel) -> float:
        """Estimate the time saved, without a launch, if the consumer also writes the result.

        As in XLA, the reads of each reduction of the consumer compute the producer once more.
        """
        fused_s = self.estimate_fused_s(producer, consumer, producer.write_s)
        return producer.time_s + consumer.time_s - fused_s

    def _merge_producer_reads(
        self, producer: FusionKernel, consumer: FusionKernel
    ) -> dict[int, ReadAmounts]:
        """Return the reads of the consumer if it also computes what it reads of the producer."""
        amounts = self._count_reads(producer, consumer)
        reads = consumer.reads.copy()
        del reads[producer.outputs[0]]
        for source, producer_reads in producer.reads.items():
            reads[source] = _add_reads(reads.get(source), producer_reads, amounts)
        rows = producer if producer.rows else consumer
        if not rows.rows:
            return reads
        return {v: self._limit_row_reads(v, each, rows) for v, each in reads.items()}

    def fuse_producer(self, producer: FusionKernel, consumer: FusionKernel) -> None:
        """Add the producer's ops to the consumer, which then reads what the producer reads."""
        amounts = self._count_reads(producer, consumer)
        amount = sum(amounts.values())
        consumer.reads = self._merge_producer_reads(producer, consumer)
        # XLA removes equal ops of a fusion only when all fusions are made.
        consumer.cycles += producer.cycles * amount
        consumer.members |= producer.members
        if consumer.updated == producer.outputs[0]:
            consumer.updated = -1
        keeps_loop = _keeps_loop(producer, consumer, amounts)
        consumer.strided_s += self._estimate_strided_s(producer, amount, keeps_loop=keeps_loop)
        consumer.constant_bytes += producer.constant_bytes * amount
        if producer.rows or consumer.rows:
            consumer.constant_bytes = 0.0
        if producer.emitter == "row" and consumer.emitter == "reduction":
            self._keep_reduced_tiles(consumer)
        if producer.emitter == "row" or keeps_loop:
            consumer.emitter, consumer.hero = producer.emitter, producer.hero
            consumer.elements, consumer.is_narrow = producer.elements, producer.is_narrow
            if producer.rows != consumer.rows:
                consumer.write_s *= self._count_segments(producer, consumer.outputs[0])
            consumer.rows, consumer.columns = producer.rows, producer.columns
        consumer.repeated_s = 0.0
        consumer.unary = consumer.unary and producer.unary
        consumer.reduces = consumer.reduces or producer.reduces
        consumer.is_tiled = consumer.is_tiled and producer.is_tiled
        consumer.joins_rows = consumer.joins_rows or producer.joins_rows
        consumer.reductions += producer.reductions
        consumer.shared_bytes += producer.shared_bytes
        self.update_time(consumer)

    def _keep_reduced_tiles(self, kernel: FusionKernel) -> None:
        """Let the reductions of a kernel of rows read the tiles that its other ops read."""
        ops = [self.graph.ops[member] for member in kernel.members]
        loops = {op.uses[0].value for op in ops if op.kind == "reduce"}
        for value, reads in kernel.reads.items():
            if not loops.isdisjoint(reads):
                kept = {loop: amount for loop, amount in reads.items() if loop not in loops}
                amount = max(reads.values())
                kernel.reads[value] = kept | {OWN_LOOP: max(amount, kept.get(OWN_LOOP, 0.0))}


def _overlap_times_s(compute_s: float, memory_s: float) -> float:
    hidden_s = compute_s if compute_s < memory_s else memory_s
    return compute_s + memory_s - OVERLAP * hidden_s


def count_moved_reads(reads: ReadAmounts) -> float:
    """Count the reads of a value that are not in the order of its elements."""
    return sum([amount for loop, amount in reads.items() if loop >= 0])


def _add_reads(known: ReadAmounts | None, reads: ReadAmounts, amounts: ReadAmounts) -> ReadAmounts:
    """Add the reads of a producer's input to those of a consumer that computes the producer.

    Args:
        known: The reads of this input by the consumer itself.
        reads: Those by the producer.
        amounts: Those of the producer's result by the consumer. The loops that read it then read
            what the producer reads in its own loop.
    """
    if known is None and amounts == READ_ONCE:
        return reads
    merged = {} if known is None else known.copy()
    for own_loop, read in reads.items():
        if own_loop == OWN_LOOP:
            for loop, amount in amounts.items():
                merged[loop] = max(merged.get(loop, 0.0), read * amount)
        else:
            is_moved = own_loop < 0 and count_moved_reads(amounts)
            loop = VIEWED - own_loop if is_moved else own_loop
            merged[loop] = merged.get(loop, 0.0) + read * sum(amounts.values())
    return merged


def merge_reads(a: ReadAmounts, b: ReadAmounts) -> ReadAmounts:
    """Combine the reads of a value by two kernels that share a loop."""
    merged = a.copy()
    for loop, amount in b.items():
        known = merged.get(loop, 0.0)
        merged[loop] = max(known, amount) if loop == OWN_LOOP else known + amount
    return merged


def _find_reduction_groups(op: FusionOp, shape: Sequence[int]) -> DimensionGroups:
    return group_reduced_dims(shape, read_integer_list(op.op, "dimensions", ()))


def group_reduced_dims(shape: Sequence[int], dims: Sequence[int]) -> DimensionGroups:
    """Group kept and reduced dimensions, major first, without dimensions of size 1.

    A reduction of a single element is one of a row.
    """
    reduced = set(dims)
    marked = [(d in reduced, size) for d, size in enumerate(shape) if size > 1]
    groups: list[tuple[bool, int]] = []
    for kind, members in groupby(marked, key=lambda pair: pair[0]):
        groups.append((kind, math.prod(size for _, size in members)))
    return tuple(groups) or ((bool(dims), 1),)


def is_tiled_reduction(groups: DimensionGroups) -> bool:
    """Return whether a thread block reduces tiles of rows or columns, which must be long enough.

    The rules are those of IsReductionFromOrToContiguousDimensions in
    xla/service/gpu/reduction_utils.cc.
    """
    is_reduced = [reduced for reduced, _ in groups]
    if not any(is_reduced) or len(groups) > 3:
        return False
    if is_reduced[-1]:  # Rows; a major reduced dimension is a batch of rows.
        size = groups[-1][1]
        return size >= WARP or WARP % size == 0
    major, minor = groups[-2][1], groups[-1][1]
    return not (
        major < 32
        or (major < 64 and minor < 32)
        or (major < 128 and minor < 8)
        or (major < 256 and minor < 3)
    )


def _count_blocks(groups: DimensionGroups, bits: int) -> int:
    """Count the thread blocks of a reduction whose narrowest operand has elements of ``bits``.

    A thread reduces 16 elements of a row, and a block as many rows as 256 threads do. Of columns, a
    block reduces as many as a warp has threads, times two for elements of 32 bits and four for
    narrower ones, where there are enough (xla/backends/gpu/codegen/emitters/reduction.cc).
    """
    kept = math.prod(size for is_reduced, size in groups if not is_reduced)
    is_reduced, minor = groups[-1]
    if is_reduced:
        threads = -(-minor // (ROW_ELEMENTS * WARP)) * WARP
        return -(-kept // max(ROW_THREADS // threads, 1))
    width = 1
    if bits < 64 and minor % 2 == 0 and minor >= 2 * WARP:
        width = 4 if bits < 32 and minor % 4 == 0 and minor >= 4 * WARP else 2
    return kept // minor * -(-minor // (WARP * width))


def _keeps_loop(producer: FusionKernel, consumer: FusionKernel, amounts: ReadAmounts) -> bool:
    """Return whether the loop of a producer is that of both, if the consumer computes it too.

    Elementwise ops on the result of a transpose, and on other values, are computed when its tiles
    are written. Other loops are kept for elementwise ops on nothing else.

    Args:
        amounts: The reads of the producer's result.
    """
    if consumer.unary or producer.emitter != "transpose" or count_moved_reads(amounts):
        return consumer.unary
    if consumer.emitter == "transpose":
        return consumer.hero == producer.hero
    return consumer.emitter == "loop" and consumer.elements == producer.elements


def group_permutation(shape: Sequence[int], permutation: Sequence[int]) -> Permutation:
    """Return the order of a transpose, with runs of dimensions that stay together as one each."""
    runs: list[list[int]] = []
    for dim in (dim for dim in permutation if shape[dim] > 1):
        between = shape[runs[-1][-1] + 1 : dim] if runs and runs[-1][-1] < dim else [0]
        if all(size == 1 for size in between):
            runs[-1].append(dim)
        else:
            runs.append([dim])
    ranked = sorted(run[0] for run in runs)
    return tuple((ranked.index(run[0]), math.prod(shape[dim] for dim in run)) for run in runs)


def _has_transposed_tiles(order: Permutation, bits: int) -> bool:
    """Return whether XLA transposes by tiles in shared memory; otherwise it loops over the result.

    (GetDescriptionForTiledTransposeEmitter.)
    """
    if len(order) < 2:
        return False
    sizes = dict(order)
    last, written = order[-1]
    if last == len(order) - 1:
        smaller = min(sizes[last - 1], order[-2][1])
        return bits * written <= 64 and bits * written * smaller >= 128
    smaller, larger = sorted((written, sizes[len(order) - 1]))
    return smaller >= 16 or (smaller >= 8 and smaller * larger >= 64 * 128)
