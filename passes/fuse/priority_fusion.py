"""Fusion of producers into their users, the most profitable first, as in XLA's PriorityFusion.

(xla/service/gpu/transforms/priority_fusion.cc.) A producer is fused into all of its users or into
none, so its work is repeated if that is cheaper than writing and reading its result. A library call
that reads the result through a view does not prevent this: the producer then also remains. XLA
takes such a view for a user that computes the result without writing it.

Invariant: a candidate has a gain for each kernel that reads its result, computed from the current
kernels. If its fusion is allowed and saves time, it has an entry in the queue; the entries of
earlier gains are ignored. Fusing a producer changes its users, so the gains of the users, and of
the producers that they read from, are computed again.
"""

from __future__ import annotations

import heapq
from dataclasses import dataclass, field

from hespas.dialects.mlir import list_users
from hespas.estimators.rules.base import read_integer_list
from hespas.passes.fuse.dependency_order import sort_depth_first
from hespas.passes.fuse.dots import VIEW
from hespas.passes.fuse.fusion_graph import COPIED_KINDS, FusionGraph, is_product_kernel
from hespas.passes.fuse.kernel_cost_model import (
    LAUNCH_S,
    FusionDevice,
    FusionKernel,
    KernelCostModel,
    count_moved_reads,
)
from hespas.passes.fuse.simplify import BROADCAST, CONVERT, read_uniform_constant

TICK_S = 0.25e-9  # to which XLA rounds times (absl::Duration)
# (-gain in ticks, -age, -gain, kernel): of equal gains XLA takes the newest fusion.
QueueEntry = tuple[int, int, float, int]


@dataclass(frozen=True, slots=True)
class KernelLimits:
    """Limits of one kernel: the number of buffers that it reads and writes, and of its ops."""

    buffers: int
    ops: int


class ValueReaders(list[int]):
    """The kernels that read a value, in XLA's order of the users of an instruction."""

    __slots__ = ("_places",)

    def __init__(self) -> None:
        self._places: dict[int, int] = {}  # a mask is read by all layers

    def add(self, kernel: int) -> None:
        if kernel not in self._places:
            self._places[kernel] = len(self)
            self.append(kernel)

    def discard(self, kernel: int) -> None:
        """Remove a kernel; the last one takes its place (HloInstruction::Users::RemoveUser)."""
        place = self._places.pop(kernel, None)
        if place is not None:
            last = self.pop()
            if last != kernel:
                self[place] = last
                self._places[last] = place


@dataclass(slots=True)
class _Candidate:
    """A producer that may be fused into its users.

    Attributes:
        gains: For each user the seconds that fusing saves; None if fusing is not allowed.
        total_gain_s: The sum of the gains.
        blocked_users: The number of users for which fusing is not allowed.
        entry: Its entry in the queue; None if it is not to be fused.
    """

    gains: dict[int, float | None] = field(default_factory=dict)
    total_gain_s: float = 0.0
    blocked_users: int = 0
    entry: QueueEntry | None = None

    def add_user(self, user: int, gain_s: float | None) -> None:
        self.gains[user] = gain_s
        if gain_s is None:
            self.blocked_users += 1
        else:
            self.total_gain_s += gain_s

    def remove_user(self, user: int) -> None:
        gain_s = self.gains.pop(user, 0.0)
        if gain_s is None:
            self.blocked_users -= 1
        else:
            self.total_gain_s -= gain_s


@dataclass(slots=True)
class PriorityFusion:
    """Fuses the kernels of a graph. Kernels are identified by the index of their last op.

    Attributes:
        groups: Ops that are one kernel from the start.
        device: The GPU.
        kernels: The current kernels.
        maker_of: The kernel that makes a value, by value number.
        users: The kernels that read a value, by value number.
    """

    graph: FusionGraph
    limits: KernelLimits
    groups: list[set[int]] = field(default_factory=list)
    device: FusionDevice = field(default_factory=FusionDevice)
    model: KernelCostModel = field(init=False)
    kernels: dict[int, FusionKernel] = field(default_factory=dict)
    maker_of: dict[int, int] = field(default_factory=dict)
    users: dict[int, ValueReaders] = field(default_factory=dict)
    _candidates: dict[int, _Candidate] = field(default_factory=dict)
    _queue: list[QueueEntry] = field(default_factory=list)
    _ages: dict[int, int] = field(default_factory=dict)  # the order in which fusions were made

    def __post_init__(self) -> None:
        self.model = KernelCostModel(self.graph, self.device)
        grouped = {member: sorted(group) for group in self.groups for member in group}
        for index, op in enumerate(self.graph.ops):
            group = grouped.get(index)
            if op.kind == "opaque" or op.kind in COPIED_KINDS or (group and index != group[-1]):
                continue
            if group:
                kernel = self.model.make_row_kernel(group)
            else:
                kernel = self.model.make_kernel(index, op)
            self.kernels[index] = kernel
            for result in op.results:
                self.maker_of[result] = index
        for index in self.list_in_post_order():
            if index in self.kernels:
                for value in self.kernels[index].reads:
                    if value not in self.users:
                        self.users[value] = ValueReaders()
                    self.users[value].add(index)

    def list_in_post_order(self) -> list[int]:
        """List the kernels and the other ops in the order in which XLA visits instructions.

        A value ``n`` from outside the block is ``-1 - n``.
        """
        ops, values = self.graph.ops, self.graph.values
        operands: dict[int, list[int]] = {}
        for index, op in enumerate(ops):
            kernel = self.kernels.get(index)
            if kernel or op.kind == "opaque":
                read = kernel.reads if kernel else [use.value for use in op.uses]
                makers = [self.maker_of.get(value, values[value].producer) for value in read]
                operands[index] = [
                    -1 - value if maker < 0 else maker
                    for value, maker in zip(read, makers, strict=True)
                ]
        return sort_depth_first(operands)

    def collect_dependencies(self) -> dict[int, set[int]]:
        """Map each kernel and opaque op to the kernels and ops that it depends on, in order.

        An op with side effects also depends on the one before.
        """
        makers = [value.producer for value in self.graph.values]
        for value, maker in self.maker_of.items():
            makers[value] = maker
        dependencies: dict[int, set[int]] = {}
        for index, op in enumerate(self.graph.ops):
            kernel = self.kernels.get(index)
            if kernel:
                dependencies[index] = {makers[value] for value in kernel.reads}
            elif op.kind == "opaque":
                dependencies[index] = {makers[use.value] for use in op.uses}
                dependencies[index].add(op.previous_effect)
        units = dependencies.keys()
        return {index: read_from & units for index, read_from in dependencies.items()}

    def fuse_producers(self) -> None:
        """Fuse producers until no fusion saves time.

        Kernels that no value connects do not affect each other: those of a large program are fused
        component by component, each of which has a short queue.
        """
        for component in self._collect_components():
            for index in component:
                self._rate_producer(index)
            while self._queue:
                entry = heapq.heappop(self._queue)
                candidate = self._candidates.get(entry[3])
                if candidate is not None and entry is candidate.entry:
                    self._fuse_producer(entry[3])

    def remove_unread_conversions(self) -> None:
        """Remove conversions that nothing reads, with the broadcasts that only they read.

        XLA removes them after its fusions, in whose gains they count (``widen-floats``).
        """
        for index in sorted(self.kernels, reverse=True):
            if self.graph.ops[index].op.name not in (CONVERT, BROADCAST):
                continue
            kernel = self.kernels[index]
            stored = [self.graph.values[value] for value in kernel.outputs]
            if any(each.is_read_by_opaque or each.opaque_views for each in stored):
                continue
            if not any(self.users.get(value) for value in kernel.outputs):
                del self.kernels[index]
                for value in kernel.reads:
                    self.users[value].discard(index)

    def _collect_components(self) -> list[list[int]]:
        """Collect the kernels that values which kernels make and read connect, in order."""
        component_of: dict[int, int] = {}
        components: list[list[int]] = []
        for first in self.kernels:
            if first in component_of:
                continue
            component_of[first] = number = len(components)
            component = [first]
            for index in component:
                kernel = self.kernels[index]
                near = [maker for v in kernel.reads if (maker := self.maker_of.get(v)) is not None]
                for value in kernel.outputs:
                    near += self.users.get(value, ())
                for other in near:
                    if other not in component_of:
                        component_of[other] = number
                        component.append(other)
            components.append(sorted(component))
        return components

    def _can_produce(self, kernel: FusionKernel) -> bool:
        if len(kernel.outputs) != 1 or self.graph.ops[kernel.index].kind == "scatter":
            return False
        value = kernel.outputs[0]
        return not self.graph.values[value].is_read_by_opaque and bool(self.users.get(value))

    def _rate_producer(self, index: int) -> None:
        """Compute the gains of a kernel as a producer."""
        kernel = self.kernels[index]
        if not self._can_produce(kernel):
            return
        kernel = self.model.to_producer(kernel)
        candidate = self._candidates[index] = _Candidate()
        for user in self.users[kernel.outputs[0]]:
            candidate.add_user(user, self._compute_gain_s(kernel, self.kernels[user]))
        self._enqueue_producer(index)

    def _compute_gain_s(self, producer: FusionKernel, consumer: FusionKernel) -> float | None:
        if not self._can_fuse(producer, consumer):
            return None
        return consumer.time_s - self.model.estimate_fused_s(producer, consumer)

    def _enqueue_producer(self, index: int) -> None:
        candidate = self._candidates[index]
        if candidate.blocked_users:
            candidate.entry = None
            return
        kernel = self.kernels[index]
        gain_s = LAUNCH_S + kernel.time_s + candidate.total_gain_s
        views = self.graph.values[kernel.outputs[0]].opaque_views
        if views:
            gain_s -= views * self.model.estimate_unwritten_s(kernel)
        if gain_s < 0:
            candidate.entry = None
            return
        entry = (-round(gain_s / TICK_S), -self._ages.get(index, 0), -gain_s, index)
        if entry != candidate.entry:
            candidate.entry = entry
            heapq.heappush(self._queue, entry)

    def _can_fuse(self, producer: FusionKernel, consumer: FusionKernel) -> bool:
        value = producer.outputs[0]
        has_rows = producer.emitter == "row" or consumer.emitter == "row"
        if has_rows and not (producer.is_tiled and consumer.is_tiled):
            return False
        if producer.joins_rows and consumer.emitter == "row":
            return False
        shares_rows = has_rows and consumer.hero == producer.hero
        if producer.reduces and consumer.reduces and not shares_rows:
            return False
        if producer.emitter == "reduction" and not (
            consumer.unary or consumer.emitter == "concatenate" or shares_rows
        ):
            return False
        if (
            producer.emitter == "row"
            and count_moved_reads(consumer.reads[value])
            and not (
                shares_rows
                or self._keeps_rows(consumer, producer)
                or self._transposes_for_products(consumer)
            )
        ):
            return False  # A row is not read in another order.
        if consumer.updated == value and not self._can_compute_buffer(producer, consumer):
            return False
        if consumer.updated in producer.reads and not self._reads_updated_slice(producer, consumer):
            return False
        if len(producer.members) + len(consumer.members) > self.limits.ops:
            return False
        # Only above the limit does it matter how many values both read, which takes time to count.
        buffers = len(producer.reads) + len(consumer.reads) - 1 + len(consumer.outputs)
        if buffers <= self.limits.buffers:
            return True
        distinct_reads = len(producer.reads.keys() | consumer.reads.keys()) - 1
        return distinct_reads + len(consumer.outputs) <= self.limits.buffers

    def _can_compute_buffer(self, producer: FusionKernel, consumer: FusionKernel) -> bool:
        """Return whether an update of a slice may compute the buffer, and write all of it.

        XLA allows it for elementwise ops (InstructionFusion::ShouldFuseInPlaceOp); the broadcast of
        a constant is none. Its model counts what is outside of the slice as not read.
        """
        ops = [self.graph.ops[member] for member in producer.members]
        return (
            self.graph.ops[consumer.index].kind == "dynamic_update_slice"
            and not any(consumer.reads[consumer.updated].values())
            and all(op.kind == "elementwise" and not op.constant_bytes for op in ops)
        )

    def _keeps_rows(self, kernel: FusionKernel, rows: FusionKernel) -> bool:
        """Return whether a kernel only writes rows, or parts of them, at other places.

        It may compute with their elements, repeat rows, and join them with others.
        """
        moved = {rows.outputs[0]}
        for member in sorted(kernel.members):
            op = self.graph.ops[member]
            if moved.isdisjoint(use.value for use in op.uses):
                continue
            moved.update(op.results)
            if op.kind == "transpose":
                shape = self.graph.values[op.results[0]].size.shape
                order = read_integer_list(op.op, "permutation", ())
                wide = [dim for dim, size in zip(order, shape, strict=True) if size > 1]
                last = wide[-1] if wide else -1
                if last != max(wide, default=-1) or shape[order.index(last)] != rows.columns:
                    return False
            elif op.kind == "slice":
                if any(stride > 1 for stride in read_integer_list(op.op, "strides", ())):
                    return False
            elif op.kind == "broadcast_in_dim":
                rank = len(self.graph.values[op.results[0]].size.shape)
                if read_integer_list(op.op, "broadcast_dimensions", ())[-1] != rank - 1:
                    return False
            elif op.kind not in ("elementwise", "concatenate"):
                return False
        return True

    def _transposes_for_products(self, kernel: FusionKernel) -> bool:
        """Return whether a kernel transposes what only products read.

        The kernel of a row normalisation writes its rows as the products read them.
        """
        op = self.graph.ops[kernel.index]
        pending = [op.op] if op.kind == "transpose" else []
        for maker in pending:
            readers = list_users(maker.results[0])
            views = [reader for reader in readers if reader.name == VIEW]
            if not all(r.name == VIEW or is_product_kernel(r) for r in readers):
                return False
            pending += views
        return bool(pending)

    def _reads_updated_slice(self, producer: FusionKernel, consumer: FusionKernel) -> bool:
        """Return whether a producer reads of an updated buffer only the slice that is updated.

        XLA (InstructionFusion::ShouldFuseInPlaceOp) knows that if the slice is the only op of the
        producer that is not elementwise, the update the only one of the consumer, and if neither of
        them computes the place.
        """
        ops, values = self.graph.ops, self.graph.values
        update = ops[consumer.index]
        readers = [op for m in producer.members if (op := ops[m]).kind != "elementwise"]
        updates = [m for m in consumer.members if ops[m].kind == update.kind]
        if update.kind != "dynamic_update_slice" or len(readers) != 1 or len(updates) != 1:
            return False
        (reader,) = readers
        if values[reader.results[0]].size.shape != values[update.operands[1]].size.shape:
            return False
        if reader.kind == "slice":
            starts = tuple(read_uniform_constant(start) for start in list(update.op.operands)[2:])
            is_dense = set(read_integer_list(reader.op, "strides", ())) <= {1}
            return is_dense and starts == read_integer_list(reader.op, "start_indices", ())
        computed = producer.members | consumer.members
        return (
            reader.kind == "dynamic_slice"
            and reader.operands[1:] == update.operands[2:]
            and all(values[value].producer not in computed for value in reader.operands[1:])
        )

    def _fuse_producer(self, index: int) -> None:
        producer = self.model.to_producer(self.kernels[index])
        value = producer.outputs[0]
        del self._candidates[index]
        consumers = list(self.users[value])
        for user in consumers:
            consumer = self.kernels[user]
            self._ages.setdefault(user, len(self._ages) + 1)
            self.model.fuse_producer(producer, consumer)
            for source in producer.reads:
                self.users[source].add(user)
        self.users[value] = ValueReaders()
        if not self.graph.values[value].opaque_views:
            for source in self.kernels.pop(index).reads:
                self.users[source].discard(index)
            makers = {self.maker_of[v] for v in producer.reads if v in self.maker_of}
            for maker in makers & self._candidates.keys():
                self._candidates[maker].remove_user(index)
        self._rate_neighbours(consumers)

    def _rate_neighbours(self, changed: list[int]) -> None:
        """Compute the gains of changed kernels and of the producers that they read from."""
        changed_users: dict[int, list[int]] = {}
        maker_of, candidates = self.maker_of, self._candidates
        for user in changed:
            for value in self.kernels[user].reads:
                maker = maker_of.get(value)
                if maker in candidates:
                    changed_users.setdefault(maker, []).append(user)
        for maker, users in changed_users.items():
            kernel, candidate = self.model.to_producer(self.kernels[maker]), candidates[maker]
            for user in users:
                candidate.remove_user(user)
                candidate.add_user(user, self._compute_gain_s(kernel, self.kernels[user]))
            self._enqueue_producer(maker)
        for user in changed:
            self._rate_producer(user)
