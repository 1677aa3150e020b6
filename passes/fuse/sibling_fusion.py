"""Kernels with several results: those that read the same value, and producers with their readers.

As XLA's MultiOutputFusion does (xla/service/gpu/transforms/multi_output_fusion.cc): two kernels
become one where they loop over the same shape and neither stands between the other and itself.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from hespas.passes.fuse.dependency_order import DependencyOrder
from hespas.passes.fuse.fusion_graph import FusionGraph
from hespas.passes.fuse.kernel_cost_model import LAUNCH_S, FusionKernel
from hespas.passes.fuse.priority_fusion import KernelLimits, PriorityFusion

MAX_REDUCTIONS = 8  # in one kernel
SINGLE_RESULT_EMITTERS = frozenset(("concatenate", "in_place", "row"))  # kernels of one result
MAX_SHARED_BYTES = 48 << 10  # of a block, for tiles


@dataclass(slots=True)
class SiblingFusion:
    """Joins the kernels that ``Priority`` left."""

    fused: PriorityFusion
    graph: FusionGraph = field(init=False)
    limits: KernelLimits = field(init=False)
    dependencies: DependencyOrder = field(init=False)

    def __post_init__(self) -> None:
        self.graph, self.limits = self.fused.graph, self.fused.limits
        self.dependencies = DependencyOrder.from_dependencies(self.fused.collect_dependencies())

    def fuse_siblings(self) -> None:
        """From the last op up: the readers of its results, then it and one of them."""
        kernels = self.fused.kernels
        outside = {v for v in self.fused.users if self.graph.producer[v] < 0}
        for index in range(len(self.graph.ops) - 1, -1, -1):
            op = self.graph.ops[index]
            if index in kernels:
                self._join_producer(kernels[index])
            for value in op.results:
                self._join_readers(value)
        for value in sorted(outside):
            self._join_readers(value)

    def _join_readers(self, value: int) -> None:
        if self.graph.sizes[value].elements <= 1:
            return
        kernels = self.fused.kernels
        readers = [
            r
            for r in sorted(self.fused.users.get(value, ()))
            if self._can_have_several_results(kernels[r])
        ]
        while len(readers) > 1:
            first, *others = readers
            readers = []
            for other in others:
                if self._can_join_readers(kernels[first], kernels[other], value):
                    self._join_kernels(kernels[first], kernels[other])
                else:
                    readers.append(other)

    def _join_producer(self, producer: FusionKernel) -> None:
        """A producer that has other users too, and the reader of it that gains most."""
        if len(producer.outputs) > 1 or producer.emitter != "loop":
            return
        value = producer.outputs[0]
        best_gain_s, best_consumer = 0.0, None
        for reader in sorted(self.fused.users.get(value, ())):
            consumer = self.fused.kernels[reader]
            if not self._can_have_several_results(consumer) or not self._can_share_loop(
                producer, consumer
            ):
                continue
            if self._has_indirect_path(producer, consumer):
                continue
            gain = LAUNCH_S + self.fused.model.estimate_shared_gain_s(producer, consumer)
            if gain > best_gain_s:
                best_gain_s, best_consumer = gain, consumer
        if best_consumer is not None:
            self.fused.users[value].discard(best_consumer.index)
            self.fused.model.fuse_producer(producer, best_consumer)
            self._join_kernels(best_consumer, producer)

    def _has_indirect_path(self, producer: FusionKernel, consumer: FusionKernel) -> bool:
        """Whether the consumer needs the producer by way of something else too."""
        makers = {self.fused.maker_of.get(v, self.graph.producer[v]) for v in consumer.reads}
        makers = {maker for maker in makers if maker in self.dependencies.rank} - {producer.index}
        return any(self.dependencies.depends_on(maker, producer.index) for maker in makers)

    def _can_have_several_results(self, kernel: FusionKernel) -> bool:
        """Whether XLA gives such a kernel several results; not to a lone slice or broadcast."""
        if kernel.emitter in SINGLE_RESULT_EMITTERS:
            return False
        if any(len(self.graph.ops[member].results) > 1 for member in kernel.members):
            return False
        if len(kernel.members) > 1 or kernel.emitter != "loop":
            return True
        (member,) = kernel.members
        return self.graph.ops[member].kind == "elementwise"

    def _can_join_readers(self, a: FusionKernel, b: FusionKernel, value: int) -> bool:
        one, other = (x + y for x, y in zip(a.reads[value], b.reads[value], strict=True))
        if not one and other <= 1.0:  # parts of the value, which need not overlap
            return False
        return self._can_share_loop(a, b) and not self.dependencies.has_path_between(
            a.index, b.index
        )

    def _can_share_loop(self, a: FusionKernel, b: FusionKernel) -> bool:
        """Whether two kernels may share a loop, within the limits."""
        kinds = {a.emitter, b.emitter}
        if kinds == {"reduction", "transpose"} or not kinds.isdisjoint(SINGLE_RESULT_EMITTERS):
            return False
        if a.emitter == b.emitter:
            if a.hero != b.hero:
                return False
        elif a.elements != b.elements:
            return False
        if a.reductions + b.reductions > MAX_REDUCTIONS or a.shared + b.shared > MAX_SHARED_BYTES:
            return False
        outputs = len(a.outputs) + len(b.outputs)
        return len(a.reads.keys() | b.reads.keys()) + outputs <= self.limits.buffers

    def _join_kernels(self, survivor: FusionKernel, absorbed: FusionKernel) -> None:
        """Make the results of ``gone`` in ``kept``."""
        if survivor.emitter == "loop":
            survivor.emitter, survivor.hero = absorbed.emitter, absorbed.hero
        for value, reads in absorbed.reads.items():
            one, other = survivor.reads.get(value, (0.0, 0.0))
            survivor.reads[value] = (max(one, reads[0]), max(other, reads[1]))
            self.fused.users[value].discard(absorbed.index)
            self.fused.users[value].add(survivor.index)
        for member, often in absorbed.members.items():
            if often > survivor.members.get(member, 0.0):
                survivor.members[member] = often
        survivor.outputs += absorbed.outputs
        for value in absorbed.outputs:
            self.fused.maker_of[value] = survivor.index
        survivor.reductions += absorbed.reductions
        survivor.shared += absorbed.shared
        survivor.unary = False
        survivor.write_s += absorbed.write_s
        self.fused.model.update_time(survivor)
        del self.fused.kernels[absorbed.index]
        self.dependencies.merge_units(survivor.index, absorbed.index)
