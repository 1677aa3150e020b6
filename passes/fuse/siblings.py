"""Kernels with several results: those that read the same value, and producers with their readers.

As XLA's MultiOutputFusion does (xla/service/gpu/transforms/multi_output_fusion.cc): two kernels
become one where they loop over the same shape and neither stands between the other and itself.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from hespas.passes.fuse.graph import Graph
from hespas.passes.fuse.kernel import LAUNCH_S, Kernel
from hespas.passes.fuse.priority import Limits, Priority
from hespas.passes.fuse.reach import Reach

REDUCTIONS = 8  # in one kernel
ALONE = frozenset(("concatenate", "in_place", "row"))  # kernels of one result
SHARED_BYTES = 48 << 10  # of a block, for tiles


@dataclass(slots=True)
class Siblings:
    """Joins the kernels that ``Priority`` left."""

    fused: Priority
    graph: Graph = field(init=False)
    limits: Limits = field(init=False)
    reach: Reach = field(init=False)

    def __post_init__(self) -> None:
        self.graph, self.limits = self.fused.graph, self.fused.limits
        self.reach = Reach.of(self.fused.needs())

    def run(self) -> None:
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
        readers = [r for r in sorted(self.fused.users.get(value, ())) if self._is_root(kernels[r])]
        while len(readers) > 1:
            first, *others = readers
            readers = []
            for other in others:
                if self._can_join(kernels[first], kernels[other], value):
                    self._join(kernels[first], kernels[other])
                else:
                    readers.append(other)

    def _join_producer(self, producer: Kernel) -> None:
        """A producer that has other users too, and the reader of it that gains most."""
        if len(producer.outputs) > 1 or producer.emitter != "loop":
            return
        value = producer.outputs[0]
        best, chosen = 0.0, None
        for reader in sorted(self.fused.users.get(value, ())):
            consumer = self.fused.kernels[reader]
            if not self._is_root(consumer) or not self._fits(producer, consumer):
                continue
            if self._stands_between(producer, consumer):
                continue
            gain = LAUNCH_S + self.fused.model.shared_s(producer, consumer)
            if gain > best:
                best, chosen = gain, consumer
        if chosen is not None:
            self.fused.users[value].discard(chosen.index)
            self.fused.model.fuse(producer, chosen)
            self._join(chosen, producer)

    def _stands_between(self, producer: Kernel, consumer: Kernel) -> bool:
        """Whether the consumer needs the producer by way of something else too."""
        makers = {self.fused.of.get(v, self.graph.producer[v]) for v in consumer.reads}
        makers = {maker for maker in makers if maker in self.reach.rank} - {producer.index}
        return any(self.reach.needs(maker, producer.index) for maker in makers)

    def _is_root(self, kernel: Kernel) -> bool:
        """Whether XLA gives such a kernel several results; not to a lone slice or broadcast."""
        if kernel.emitter in ALONE:
            return False
        if any(len(self.graph.ops[member].results) > 1 for member in kernel.members):
            return False
        if len(kernel.members) > 1 or kernel.emitter != "loop":
            return True
        (member,) = kernel.members
        return self.graph.ops[member].kind == "elementwise"

    def _can_join(self, a: Kernel, b: Kernel, value: int) -> bool:
        one, other = (x + y for x, y in zip(a.reads[value], b.reads[value], strict=True))
        if not one and other <= 1.0:  # parts of the value, which need not overlap
            return False
        return self._fits(a, b) and not self.reach.connected(a.index, b.index)

    def _fits(self, a: Kernel, b: Kernel) -> bool:
        """Whether two kernels may share a loop, within the limits."""
        kinds = {a.emitter, b.emitter}
        if kinds == {"reduction", "transpose"} or not kinds.isdisjoint(ALONE):
            return False
        if a.emitter == b.emitter:
            if a.hero != b.hero:
                return False
        elif a.elements != b.elements:
            return False
        if a.reductions + b.reductions > REDUCTIONS or a.shared + b.shared > SHARED_BYTES:
            return False
        outputs = len(a.outputs) + len(b.outputs)
        return len(a.reads.keys() | b.reads.keys()) + outputs <= self.limits.buffers

    def _join(self, kept: Kernel, gone: Kernel) -> None:
        """Make the results of ``gone`` in ``kept``."""
        if kept.emitter == "loop":
            kept.emitter, kept.hero = gone.emitter, gone.hero
        for value, reads in gone.reads.items():
            one, other = kept.reads.get(value, (0.0, 0.0))
            kept.reads[value] = (max(one, reads[0]), max(other, reads[1]))
            self.fused.users[value].discard(gone.index)
            self.fused.users[value].add(kept.index)
        for member, often in gone.members.items():
            if often > kept.members.get(member, 0.0):
                kept.members[member] = often
        kept.outputs += gone.outputs
        for value in gone.outputs:
            self.fused.of[value] = kept.index
        kept.reductions += gone.reductions
        kept.shared += gone.shared
        kept.unary = False
        kept.write_s += gone.write_s
        self.fused.model.update(kept)
        del self.fused.kernels[gone.index]
        self.reach.join(kept.index, gone.index)
