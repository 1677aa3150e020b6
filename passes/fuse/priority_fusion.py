"""Producers into their users, the most profitable first, as XLA's PriorityFusion does.

(xla/service/gpu/transforms/priority_fusion.cc.) A producer joins all users or none, so its work may
be repeated where that is cheaper than memory. A user that only views the value is passed over: the
producer then stays for it.
"""

from __future__ import annotations

import heapq
from dataclasses import dataclass, field

from hespas.passes.fuse.fusion_graph import COPIED_KINDS, FusionGraph
from hespas.passes.fuse.kernel_cost_model import LAUNCH_S, FusionKernel, KernelCostModel


@dataclass(frozen=True, slots=True)
class KernelLimits:
    """Bounds of one kernel: buffers it takes and gives, and ops."""

    buffers: int = 96
    ops: int = 10000


@dataclass(slots=True)
class PriorityFusion:
    """The queue of producers of a graph; ``run`` leaves the kernels."""

    graph: FusionGraph
    limits: KernelLimits
    groups: list[set[int]] = field(default_factory=list)  # ops that are one kernel from the start
    model: KernelCostModel = field(init=False)
    kernels: dict[int, FusionKernel] = field(default_factory=dict)
    maker_of: dict[int, int] = field(default_factory=dict)  # kernel that makes a value
    users: dict[int, set[int]] = field(default_factory=dict)  # kernels that read a value
    gains: dict[int, dict[int, float | None]] = field(default_factory=dict)  # None: cannot join
    total: dict[int, float] = field(default_factory=dict)
    blocked: dict[int, int] = field(default_factory=dict)
    queue: list[tuple[float, int, int]] = field(default_factory=list)
    version: dict[int, int] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.model = KernelCostModel(self.graph)
        grouped = {member: sorted(group) for group in self.groups for member in group}
        for index, op in enumerate(self.graph.ops):
            group = grouped.get(index)
            if op.kind == "opaque" or op.kind in COPIED_KINDS or (group and index != group[-1]):
                continue
            made = self.model.make_row_kernel(group) if group else self.model.make_kernel(index, op)
            kernel = self.kernels[index] = made
            for result in op.results:
                self.maker_of[result] = index
            for value in kernel.reads:
                self.users.setdefault(value, set()).add(index)

    def collect_dependencies(self) -> dict[int, set[int]]:
        """Per kernel and op apart from kernels those that it needs, by op number, in order."""
        makers, graph = self.maker_of, self.graph
        needs: dict[int, set[int]] = {}
        for index, before in graph.collect_dependencies().items():
            kernel = self.kernels.get(index)
            if kernel is None and graph.ops[index].kind != "opaque":
                continue
            values = kernel.reads if kernel else {use.value for use in graph.ops[index].uses}
            ordered = set() if kernel else {i for i in before if graph.ops[i].kind == "opaque"}
            needs[index] = ordered | {makers.get(v, graph.producer[v]) for v in values}
        return {index: before & needs.keys() for index, before in needs.items()}

    def fuse_producers(self) -> None:
        for index in self.kernels:
            self._rate_producer(index)
        while self.queue:
            _, index, version = heapq.heappop(self.queue)
            if version == self.version.get(index) and index in self.kernels:
                self._fuse_producer(index)

    def _can_produce(self, kernel: FusionKernel) -> bool:
        if len(kernel.outputs) != 1 or kernel.emitter == "in_place":
            return False
        value = kernel.outputs[0]
        return value not in self.graph.direct and bool(self.users.get(value))

    def _rate_producer(self, index: int) -> None:
        """What joining each user gains, anew."""
        kernel = self.kernels[index]
        self.version[index] = self.version.get(index, 0) + 1
        if not self._can_produce(kernel):
            self.gains.pop(index, None)
            return
        gains: dict[int, float | None] = {}
        self.total[index], self.blocked[index] = 0.0, 0
        self.gains[index] = gains
        for user in self.users[kernel.outputs[0]]:
            self._rate_user(kernel, user, gains)
        self._enqueue_producer(index)

    def _rate_user(self, kernel: FusionKernel, user: int, gains: dict[int, float | None]) -> None:
        consumer = self.kernels[user]
        if self._can_join(kernel, consumer):
            gain = consumer.time_s - self.model.estimate_fused_s(kernel, consumer)
            gains[user] = gain
            self.total[kernel.index] += gain
        else:
            gains[user] = None
            self.blocked[kernel.index] += 1

    def _forget_user(self, index: int, user: int) -> None:
        gain = self.gains[index].pop(user, 0.0)
        if gain is None:
            self.blocked[index] -= 1
        else:
            self.total[index] -= gain

    def _enqueue_producer(self, index: int) -> None:
        gain = LAUNCH_S + self.kernels[index].time_s + self.total[index]
        if not self.blocked[index] and gain >= 0 and self.gains[index]:
            heapq.heappush(self.queue, (-gain, index, self.version[index]))

    def _can_join(self, producer: FusionKernel, consumer: FusionKernel) -> bool:
        value = producer.outputs[0]
        if producer.reduces and consumer.reduces:
            return False
        if producer.emitter == "reduction" and not (
            consumer.unary or consumer.emitter == "concatenate"
        ):
            return False
        if producer.emitter == "row" and not _is_elementwise_reader(producer, consumer):
            return False
        if consumer.updated == value or consumer.updated in producer.reads:
            return False
        if len(producer.members) + len(consumer.members) > self.limits.ops:
            return False
        buffers = len(producer.reads) + len(consumer.reads) - 1 + len(consumer.outputs)
        if buffers <= self.limits.buffers:
            return True
        together = len(producer.reads.keys() | consumer.reads.keys()) - 1
        return together + len(consumer.outputs) <= self.limits.buffers

    def _fuse_producer(self, index: int) -> None:
        producer = self.kernels[index]
        value = producer.outputs[0]
        consumers = list(self.gains.pop(index))
        for user in consumers:
            consumer = self.kernels[user]
            self.model.fuse_producer(producer, consumer)
            for source in producer.reads:
                self.users[source].add(user)
        self.users[value] = set()
        if value not in self.graph.viewed:
            del self.kernels[index]
            for source in producer.reads:
                self.users[source].discard(index)
            feeding = {self.maker_of[v] for v in producer.reads if v in self.maker_of}
            for maker in feeding:
                if maker in self.gains:
                    self._forget_user(maker, index)
        self._rate_neighbours(consumers)

    def _rate_neighbours(self, changed: list[int]) -> None:
        """Rate again what reads or feeds the kernels that changed."""
        touched: dict[int, list[int]] = {}
        for user in changed:
            for value in self.kernels[user].reads:
                maker = self.maker_of.get(value)
                if maker is not None and maker in self.gains and maker in self.kernels:
                    touched.setdefault(maker, []).append(user)
        for maker, users in touched.items():
            kernel = self.kernels[maker]
            for user in users:
                self._forget_user(maker, user)
                self._rate_user(kernel, user, self.gains[maker])
            self.version[maker] += 1
            self._enqueue_producer(maker)
        for user in changed:
            self._rate_producer(user)


def _is_elementwise_reader(producer: FusionKernel, consumer: FusionKernel) -> bool:
    """Whether a consumer takes the producer's elements one by one, in a loop of that shape."""
    one, other = consumer.reads[producer.outputs[0]]
    same = consumer.elements == producer.elements
    return bool(one) and not other and same and consumer.emitter == "loop"
