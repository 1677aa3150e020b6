"""Collectives alongside compute, as XLA's latency-hiding scheduler places them.

(xla/service/latency_hiding_scheduler.cc, xla/service/gpu/model/sol_latency_estimator.cc.) It orders
a block from its end. A collective is awaited directly before what first needs its result, and
starts before enough kernels to hide it, which are placed in program order from their end. One
collective is in flight at a time. By default, XLA uses it for the GPUs of data centres from Hopper
on (jaxlib 0.12); its order for others saves memory, and overlaps little.
"""

from __future__ import annotations

import heapq
import math
from collections.abc import Iterable, Mapping, Sequence, Set
from dataclasses import dataclass, replace
from typing import ClassVar, Protocol

from hespas.dialects.attr_codec import read_communicators
from hespas.dialects.attrs import COMM_KINDS, HOST_LINK, CommAttr, KernelAttr
from hespas.dialects.mlir import ir
from hespas.dialects.op_kinds import FUSION, has_marked_collective
from hespas.estimators.rules.base import UnknownCost
from hespas.estimators.work import NotALeaf, compute_op_work, is_free_op
from hespas.passes.base import PassRun, check_choice, option
from hespas.passes.fuse.block_pass import FuseStep
from hespas.passes.fuse.buffer_writes import list_readers, list_writes_in_place
from hespas.passes.fuse.dependency_order import collect_dependencies
from hespas.passes.fuse.form_kernels import FormKernelsPass
from hespas.passes.fuse.kernel_cost_model import LAUNCH_S, FusionDevice
from hespas.passes.prepare.inline_calls import create_wait
from hespas.passes.split.region_digest import build_op_key

SCHEDULED_CAPABILITIES = (9, 10)  # of Hopper, and of the Blackwell GPUs with NVLink

# Transfers, which a program itself puts alongside compute. Copies to the host have a pass.
_TRANSFERS = ("stablehlo.send", "stablehlo.recv")
# Multiply-adds of a tensor core by those of a core's other units, for 16 and for 32 bits.
_MATRIX_SPEEDUPS = {"bf16": 16, "f16": 16}
_OTHER_MATRIX_SPEEDUP = 8
# For links within a host, the scheduler has tables of measurements. Assumed are those of NVIDIA's
# servers, about an eighth as fast as the memory, and 20 us for a launch and the messages of a ring.
_LINK_SHARE = 1 / 8
_COLLECTIVE_LAUNCH_S = 20e-6
# Between hosts, XLA has constants (xla/service/gpu/model/sol_gpu_cost_model.cc), times 0.45
# (kDefaultNcclCostModelCoeff): of the "NVIDIA H100 80GB HBM3", and from Blackwell on of the B200.
_HOST_DEVICES = 8
_HOSTS_LAUNCH_S = 45e-6
_CHUNK_BYTES = 4 << 20
_NETWORK_CARDS = {9: (25.0e9, 6.0e-6, 31.0e-6), 10: (50.0e9, 2.0e-6, 21.0e-6)}
"""Bytes per second of a card, seconds to prepare a chunk, and seconds to go and return."""
_HEADER_SHARE = 0.025
# What the scheduler expects where it has no rates (GpuLatencyEstimator of
# xla/service/gpu/gpu_latency_hiding_scheduler.cc): a collective is worth 5 calls of libraries or
# loops over elements, or 5,000 other kernels.
_COLLECTIVE_UNITS, _LOOP_UNITS, _OTHER_UNITS = 5000.0, 1000.0, 1.0
_LIBRARY_OPS = frozenset(
    f"stablehlo.{name}" for name in ("convolution", "custom_call", "dot_general")
)


@dataclass(frozen=True)
class OverlapCollectivesPass(FuseStep):
    """Run collectives alongside kernels that do not wait for them."""

    name: ClassVar[str] = "overlap-collectives"

    target: str = option(
        FormKernelsPass.target, "GPU whose kernels hide the collectives, as in form-kernels"
    )
    always: bool = option(
        False, "also for GPUs for which XLA's latency-hiding scheduler is off by default"
    )
    serial: str = option(
        "", "kinds of collectives that nothing runs alongside, separated by commas"
    )

    def rewrite(self, module: ir.Module, view: list[ir.Block], run: PassRun) -> bool:
        serial = self.check_kinds(self.name)
        device = FusionDevice.from_target(self.target)
        has_rates = hides_collectives(device)
        if not has_rates and not self.always:
            return False
        times = SpeedOfLight(device, read_communicators(module)) if has_rates else FixedLatencies()
        for block in view:
            ops = [op.operation for op in block.operations]
            comms = {
                number: comm
                for number, op in enumerate(ops)
                if (comm := CommAttr.read_from_op(op)) is not None
            }
            if comms and not any(comm.is_async for comm in comms.values()):
                place_ops(ops, comms, order_backwards(ops, comms, times, serial)[::-1])
        return False

    def check_kinds(self, owner: str) -> frozenset[str]:
        """Return the kinds of serial collectives; raises UsageError if one is unknown."""
        kinds = frozenset(self.serial.split(",")) if self.serial else frozenset()
        for kind in sorted(kinds):
            check_choice(owner, "kind of collective is", kind, COMM_KINDS)
        return kinds


def hides_collectives(device: FusionDevice) -> bool:
    """Return whether XLA's latency-hiding scheduler orders programs for a GPU by default."""
    return device.capability in SCHEDULED_CAPABILITIES


class ScheduleTimes(Protocol):
    """What XLA's scheduler expects kernels and collectives to take, in a unit of its own."""

    def estimate_collective(self, comm: CommAttr) -> float: ...

    def estimate_kernel(self, op: ir.Operation) -> float:
        """Estimate an op that is no collective; 0 if it launches nothing."""
        ...


@dataclass(frozen=True, slots=True)
class SpeedOfLight:
    """The rates of GPUs of data centres, in seconds (sol_latency_estimator.cc)."""

    device: FusionDevice
    ranks_by_id: Mapping[int, tuple[int, ...]]

    def estimate_collective(self, comm: CommAttr) -> float:
        ways = 2 if comm.kind == "all_reduce" else 1  # A reduce-scatter and an all-gather.
        size_bytes = max(comm.operand_bytes, comm.result_bytes)
        members = [len(self.ranks_by_id.get(number, ())) for number in comm.groups]
        hosts = [self._count_hosts(self.ranks_by_id.get(number, ())) for number in comm.groups]
        if comm.pairs:
            pairs = zip(comm.pairs[::2], comm.pairs[1::2], strict=True)
            members, hosts = [2], [max(map(self._count_hosts, pairs))]
        if max(hosts, default=1) == 1:
            link_bytes_per_s = _LINK_SHARE * self.device.bandwidth_bytes_per_s
            return _COLLECTIVE_LAUNCH_S + ways * size_bytes / link_bytes_per_s
        card_bytes_per_s, chunk_s, round_trip_s = _NETWORK_CARDS[self.device.capability]
        part_bytes = size_bytes if comm.pairs else size_bytes / members[0]
        part_s = (1 + _HEADER_SHARE) * part_bytes / card_bytes_per_s
        part_s += math.ceil(part_bytes / _CHUNK_BYTES) * chunk_s + round_trip_s
        cards = members[0] / hosts[0]  # of a host
        memory_s = (comm.operand_bytes + comm.result_bytes) / self.device.bandwidth_bytes_per_s
        return _HOSTS_LAUNCH_S + ways * part_s * (members[0] - 1) / cards + memory_s

    def _count_hosts(self, ranks: Iterable[int]) -> int:
        return len({rank // _HOST_DEVICES for rank in ranks})

    def estimate_kernel(self, op: ir.Operation) -> float:
        if is_free_op(op):
            return 0.0
        try:
            work = compute_op_work(op)
        except NotALeaf:
            return math.inf  # A loop is longer than any collective.
        except UnknownCost:
            return LAUNCH_S
        compute_s = 0.0
        for part in work.parts:
            is_matrix = part.unit == "matrix"
            speedup = _MATRIX_SPEEDUPS.get(part.dtype, _OTHER_MATRIX_SPEEDUP) if is_matrix else 1
            compute_s += part.flops / (speedup * self.device.cycles_per_s)
        memory_s = (work.read_bytes + work.write_bytes) / self.device.bandwidth_bytes_per_s
        return LAUNCH_S + max(compute_s, memory_s)


class FixedLatencies:
    """The same for every collective, and for kernels of a kind."""

    def estimate_collective(self, comm: CommAttr) -> float:
        return _COLLECTIVE_UNITS

    def estimate_kernel(self, op: ir.Operation) -> float:
        if is_free_op(op):
            return 0.0
        kernel = KernelAttr.read_from_op(op)
        is_loop = kernel is not None and kernel.kind == "loop"
        return _LOOP_UNITS if is_loop or op.name in _LIBRARY_OPS else _OTHER_UNITS


def order_backwards(
    ops: Sequence[ir.Operation],
    comms: Mapping[int, CommAttr],
    expected: ScheduleTimes,
    serial_kinds: Set[str] = frozenset(),
) -> list[tuple[int, bool]]:
    """Order the ops of a block, some of which are collectives by their numbers, from the last one.

    Nothing runs alongside the collectives of ``serial_kinds``.

    Returns:
        The number of each op, and that of each collective a second time, before, with True: where
        the program waits for it.
    """
    names = [op.name for op in ops]
    dependencies = collect_dependencies(ops, names)
    add_readers_before_writers(ops, dependencies)
    missing_users = [0] * len(ops)
    for before in dependencies.values():
        for number in before:
            missing_users[number] += 1
    order: list[tuple[int, bool]] = []
    # Heaps, of which the last in program order comes first: ops without and with kernels, transfers
    # and ops with collectives in their bodies, and collectives that may be awaited.
    free: list[int] = []
    kernels: list[int] = []
    serial: list[int] = []
    awaited: list[int] = []
    times: dict[int, float] = {}
    known_times: dict[object, float] = {}  # of equal ops

    def choose_heap(number: int) -> list[int]:
        op = ops[number]
        if number in comms:
            comm = comms[number]
            is_serial = names[number] in _TRANSFERS or comm.network == HOST_LINK
            return serial if is_serial or comm.kind in serial_kinds else awaited
        if names[number] != FUSION and has_marked_collective(op):
            return serial
        key = build_op_key(op, names[number])
        if key not in known_times:
            known_times[key] = expected.estimate_kernel(op)
        times[number] = known_times[key]
        return kernels if times[number] else free

    def place(number: int) -> None:
        order.append((number, False))
        for before in dependencies[number]:
            missing_users[before] -= 1
            if not missing_users[before]:
                heapq.heappush(choose_heap(before), -before)

    *unused, last = range(len(ops))
    for number in unused:
        if not missing_users[number]:
            heapq.heappush(choose_heap(number), -number)
    place(last)
    in_flight, hidden, needed = -1, 0.0, 0.0
    while free or kernels or serial or awaited or in_flight >= 0:
        if free:
            place(-heapq.heappop(free))
        elif in_flight >= 0:
            if hidden < needed and kernels:
                hidden += times[-kernels[0]]
                place(-heapq.heappop(kernels))
            else:
                place(in_flight)
                in_flight = -1
        elif awaited:
            in_flight, hidden = -heapq.heappop(awaited), 0.0
            needed = expected.estimate_collective(comms[in_flight])
            order.append((in_flight, True))
        else:
            heap = min((heap for heap in (kernels, serial) if heap), key=lambda heap: heap[0])
            place(-heapq.heappop(heap))
    return order


def add_readers_before_writers(
    ops: Sequence[ir.Operation], dependencies: dict[int, set[int]]
) -> None:
    """Let what writes to a buffer depend on what reads it before."""
    numbers = {op: number for number, op in enumerate(ops)}
    for number, op in enumerate(ops):
        for operand, _ in list_writes_in_place(op):
            readers = (numbers.get(reader, number) for reader in list_readers(op.operands[operand]))
            dependencies[number].update(reader for reader in readers if reader < number)


def place_ops(
    ops: Sequence[ir.Operation],
    comms: Mapping[int, CommAttr],
    order: Sequence[tuple[int, bool]],
) -> None:
    """Move the ops of a block into an order, with a barrier where a collective is awaited.

    A collective that nothing runs alongside stays synchronous.
    """
    terminator = ops[-1]
    for position, (number, is_awaited) in enumerate(order[:-1]):
        op = ops[number]
        if not is_awaited:
            op.move_before(terminator)
        elif order[position - 1][0] != number:
            _await_collective(op, comms[number], terminator)


def _await_collective(collective: ir.Operation, comm: CommAttr, place: ir.Operation) -> None:
    """Make a collective asynchronous up to a barrier before ``place``."""
    replace(comm, is_async=True).write_to_op(collective)
    results = list(collective.results)
    barrier = create_wait(results, place)
    for value, result in zip(results, barrier.results, strict=True):
        value.replace_all_uses_except(result, barrier)
