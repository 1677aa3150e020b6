"""Fusion of kernels that read the same value, and of producers that remain with one reader.

The kernels get several results, as in XLA's MultiOutputFusion
(xla/service/gpu/transforms/multi_output_fusion.cc). Two kernels are fused if they can share a loop.

Invariant: ``dependencies`` is the dependency order of the current kernels and opaque ops, and is
acyclic. Kernels that read the same value are joined only if neither depends on the other, and a
producer is joined with a reader only if no path leads through a third kernel.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field, replace

from hespas.estimators.rules.base import read_integer_list
from hespas.passes.fuse.dependency_order import DependencyOrder
from hespas.passes.fuse.fusion_graph import FusionGraph, is_product_kernel
from hespas.passes.fuse.kernel_cost_model import LAUNCH_S, FusionKernel, merge_reads
from hespas.passes.fuse.priority_fusion import KernelLimits, PriorityFusion

MAX_REDUCTIONS = 8  # in one kernel
MANY = 8  # readers of a value from which the paths between them are searched together
SINGLE_RESULT_EMITTERS = frozenset(("concatenate", "in_place", "row"))
MAX_SHARED_BYTES = 48 << 10  # of shared memory in a thread block
Part = list[tuple[int, int]]  # the first index and the limit in each dimension


@dataclass(slots=True)
class SiblingFusion:
    """Joins the kernels that remain after ``PriorityFusion``.

    Attributes:
        sliced: The values that slices read.
    """

    fused: PriorityFusion
    graph: FusionGraph = field(init=False)
    limits: KernelLimits = field(init=False)
    multi_result_ops: set[int] = field(init=False)
    sliced: set[int] = field(init=False)
    dependencies: DependencyOrder = field(init=False)

    def __post_init__(self) -> None:
        self.graph, self.limits = self.fused.graph, self.fused.limits
        self.multi_result_ops = {
            index
            for index, op in enumerate(self.graph.ops)
            if len(op.results) > 1 and op.kind != "reduce"
        }
        slices = (op for op in self.graph.ops if op.kind == "slice")
        self.sliced = {use.value for op in slices for use in op.uses}
        self.dependencies = DependencyOrder.from_dependencies(self.fused.collect_dependencies())
        for kernel in self.fused.kernels.values():
            if kernel.constant_bytes:  # XLA has copied constants into its fusions by now.
                kernel.constant_bytes = 0.0
                self.fused.model.update_time(kernel)

    def fuse_siblings(self) -> None:
        """Join kernels, from the last op of the block to the first."""
        kernels = self.fused.kernels
        for index in reversed(self.fused.list_in_post_order()):
            if index < 0:
                self._join_readers(-1 - index)
                continue
            op = self.graph.ops[index]
            if op.kind == "opaque" and is_product_kernel(op.op):
                continue  # XLA leaves the readers of its custom kernels alone.
            for value in op.results:
                self._join_readers(value)
            if index in kernels:
                self._join_producer(kernels[index])

    def _join_readers(self, value: int) -> None:
        """Join the kernels that read a value."""
        users = self.fused.users.get(value, ())
        if len(users) < 2 or self.graph.values[value].size.elements <= 1:
            return
        kernels = self.fused.kernels
        readers = self._sort_by_preference(
            kernels[reader] for reader in users if self._can_have_several_results(kernels[reader])
        )
        indices = [reader.index for reader in readers]
        # A mask is read by all layers: most pairs of its readers depend on each other.
        related = self.dependencies.find_related_units(indices) if len(readers) > MANY else {}
        numbers = {index: number for number, index in enumerate(indices)}
        while len(readers) > 1:
            first, *others = readers
            if not self._is_fusion(first):
                readers = others
                continue
            readers = []
            known = related.get(first.index, 0)
            for other in others:
                is_related = known >> numbers[other.index] & 1
                if not is_related and self._can_join_readers(first, other, value):
                    self._join_kernels(first, other)
                else:
                    readers.append(other)

    def _join_producer(self, producer: FusionKernel) -> None:
        """Join a producer that other kernels read too with a reader, if that saves time.

        As in XLA, the reader is the first of those that have several results already, otherwise of
        those of several ops, otherwise of all. An only reader that has one result is not joined:
        ``PriorityFusion`` has decided against that. In an only reader with more results, the
        producer is no result. None that transposes is joined. A concatenation is joined as long as
        it is a single op: XLA makes a kernel of it, as of every op, only later, and does not join
        the fusions that end with one.
        """
        if producer.emitter == "concatenate" and not self._is_fusion(producer):
            producer = replace(producer, emitter="loop", hero=("loop", producer.elements))
        if len(producer.outputs) > 1 or producer.emitter != "loop":
            return
        if any(self.graph.ops[member].kind == "transpose" for member in producer.members):
            return
        value = producer.outputs[0]
        users = self.fused.users.get(value)
        if not users:
            return
        stored = self.graph.values[value]
        is_read_outside = stored.is_read_by_opaque or stored.opaque_views > 0
        has_only_reader = not is_read_outside and len(users) == 1
        consumers = [self.fused.kernels[reader] for reader in users]
        for consumer in self._sort_by_preference(consumers):
            if has_only_reader and len(consumer.outputs) == 1:
                continue
            is_update = consumer.updated == value and self._updates_slice(consumer)
            if not (is_update or self._can_have_several_results(consumer)):
                continue
            if not self._can_share_loop(producer, consumer):
                continue
            if self._has_indirect_path(producer, consumer):
                continue
            if LAUNCH_S + self.fused.model.estimate_shared_gain_s(producer, consumer) < 0:
                continue
            self.fused.users[value].discard(consumer.index)
            self.fused.model.fuse_producer(producer, consumer)
            if has_only_reader:
                producer.outputs = []
            self._join_kernels(consumer, producer)
            return

    def _sort_by_preference(self, kernels: Iterable[FusionKernel]) -> list[FusionKernel]:
        """Sort kernels: those with several results first, then those of several ops."""
        return sorted(kernels, key=lambda each: (len(each.outputs) == 1, not self._is_fusion(each)))

    def _is_fusion(self, kernel: FusionKernel) -> bool:
        """Return whether a kernel computes more than one op; in XLA also views and constants."""
        if len(kernel.members) > 1:
            return True
        (member,) = kernel.members
        return self.fused.model.has_views(self.graph.ops[member])

    def _has_indirect_path(self, producer: FusionKernel, consumer: FusionKernel) -> bool:
        """Return whether the consumer also depends on the producer through another kernel."""
        makers = {self.fused.maker_of.get(v, self.graph.values[v].producer) for v in consumer.reads}
        others = {maker for maker in makers if maker in self.dependencies.rank} - {producer.index}
        return any(self.dependencies.depends_on(other, producer.index) for other in others)

    def _can_have_several_results(self, kernel: FusionKernel) -> bool:
        """Return whether XLA can add results to a kernel, which a single slice does not allow."""
        if kernel.emitter in SINGLE_RESULT_EMITTERS:
            return False
        if not kernel.members.isdisjoint(self.multi_result_ops):
            return False
        if len(kernel.members) > 1 or kernel.emitter != "loop":
            return True
        (member,) = kernel.members
        return self.graph.ops[member].kind == "elementwise"

    def _updates_slice(self, kernel: FusionKernel) -> bool:
        """Return whether a kernel updates a slice; it may compute the buffer, and write both."""
        return self.graph.ops[kernel.index].kind == "dynamic_update_slice"

    def _can_join_readers(self, a: FusionKernel, b: FusionKernel, value: int) -> bool:
        part, other = self._find_only_part(a, value), self._find_only_part(b, value)
        if part is not None and other is not None and not _overlap(part, other):
            return False
        return self._can_share_loop(a, b) and not self.dependencies.has_path_between(
            a.index, b.index
        )

    def _find_only_part(self, kernel: FusionKernel, value: int) -> Part | None:
        """Find the part of a value that a kernel reads by one static slice, and in no other way.

        XLA does not know the part that a dynamic slice reads.
        """
        if value not in self.sliced:
            return None
        ops = (self.graph.ops[member] for member in kernel.members)
        readers = [op for op in ops if any(use.value == value for use in op.uses)]
        if len(readers) != 1 or readers[0].kind != "slice":
            return None
        (reader,) = readers
        starts = read_integer_list(reader.op, "start_indices", ())
        return list(zip(starts, read_integer_list(reader.op, "limit_indices", ()), strict=True))

    def _can_share_loop(self, a: FusionKernel, b: FusionKernel) -> bool:
        """Return whether two kernels can share a loop within the limits."""
        ends = {
            "transpose" if self.graph.ops[kernel.index].kind == "transpose" else kernel.emitter
            for kernel in (a, b)
        }
        if ends == {"reduction", "transpose"}:
            return False
        if a.emitter == b.emitter:
            if a.hero != b.hero:
                return False
        elif a.elements != b.elements:
            return False
        if a.reductions + b.reductions > MAX_REDUCTIONS:
            return False
        if len(a.members | b.members) > self.limits.ops:
            return False
        if a.shared_bytes + b.shared_bytes > MAX_SHARED_BYTES:
            return False
        outputs = len(a.outputs) + len(b.outputs)
        return len(a.reads.keys() | b.reads.keys()) + outputs <= self.limits.buffers

    def _join_kernels(self, survivor: FusionKernel, absorbed: FusionKernel) -> None:
        """Add the ops and results of ``absorbed`` to ``survivor``."""
        if survivor.emitter == "loop":
            survivor.emitter, survivor.hero = absorbed.emitter, absorbed.hero
        for value, reads in absorbed.reads.items():
            known = survivor.reads.get(value)
            survivor.reads[value] = reads if known is None else merge_reads(known, reads)
            self.fused.users[value].add(survivor.index)
            self.fused.users[value].discard(absorbed.index)
        survivor.cycles += absorbed.cycles
        survivor.write_s += absorbed.write_s
        survivor.repeated_s = 0.0
        survivor.strided_s += absorbed.strided_s
        self.fused.model.update_time(survivor)
        survivor.members |= absorbed.members
        survivor.outputs += absorbed.outputs
        for value in absorbed.outputs:
            self.fused.maker_of[value] = survivor.index
        survivor.reductions += absorbed.reductions
        survivor.shared_bytes += absorbed.shared_bytes
        del self.fused.kernels[absorbed.index]
        self.dependencies.merge_units(survivor.index, absorbed.index)


def _overlap(part: Part, other: Part) -> bool:
    return all(
        start < other_limit and other_start < limit
        for (start, limit), (other_start, other_limit) in zip(part, other, strict=True)
    )
