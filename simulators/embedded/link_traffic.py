"""The bytes that cross each link of a network, from the collectives and messages of a simulation.

Invariant: a collective sends the messages of its algorithm on the system, also if its time comes
from a measured curve or from NCCL's model. A link is one direction between two devices, or between
a device and its switch.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

from hespas.configs.system_spec import SystemSpec
from hespas.simulators.simulation_options import SimulationOptions
from hespas.simulators.simulation_result import CommRecord, NetworkLoad
from hespas.support.errors import HespasError

from .chunk_phases import ChunkPhase, QueueTurn
from .collective_plan import CollectivePlanner, PlannedCommunicator
from .congestion_aware import NetworkPlace, list_crossed_links
from .network import AnalyticalNetwork
from .scalar_recurrence import list_exchanges

LinkEnds = tuple[NetworkPlace, NetworkPlace]
_RATE_UNITS = 1 << 20  # of a byte per nanosecond


@dataclass(frozen=True, slots=True)
class LinkTraffic:
    """The traffic of one link.

    Attributes:
        dim: The dimension.
        source: The place at which it starts: a device, or a switch.
        target: The place at which it ends.
        carried_bytes: The bytes that cross it in a step.
        utilisation: The share of the step in which it would be busy at its full bandwidth.
    """

    dim: int
    source: str
    target: str
    carried_bytes: int
    utilisation: float


def collect_link_traffic(
    system: SystemSpec,
    options: SimulationOptions,
    records: Sequence[CommRecord],
    step_time_ns: int,
) -> list[LinkTraffic]:
    """Return the traffic of each link that carries anything, by dimension and devices.

    Args:
        system: The system.
        options: The options of the simulation.
        records: Its collectives and messages, each with all its devices: without symmetry.
        step_time_ns: The step time.

    Raises:
        HespasError: An algorithm or a link has no model, or devices were simulated for others.
    """
    counter = _LinkCounter(system, options)
    if any(record.copies > 1 for record in records):
        raise HespasError("the simulation has no record of some devices", remedy="--no-symmetry")
    for record in records:
        counter.add_record(record)
    shares = {
        (link.dim, frozenset(link.devices)): link.bandwidth_share
        for link in system.fabric.slow_links
    }
    network = counter.network
    rows = []
    for (source, target), carried in sorted(counter.carried_bytes.items()):
        devices = frozenset(place[1] for place in (source, target) if place[1] >= 0)
        share = shares.get((source[0], devices), 1.0)
        links = _count_parallel_links(system, source[0])
        capacity = network.bytes_per_ns[source[0]] * share * links * step_time_ns
        rows.append(
            LinkTraffic(
                source[0], _name_place(source), _name_place(target), carried, carried / capacity
            )
        )
    return rows


def collect_dimension_loads(
    system: SystemSpec, options: SimulationOptions, records: Sequence[CommRecord]
) -> list[NetworkLoad]:
    """Return the utilisation of all links of each dimension together, over time.

    A collective or message carries its bytes evenly from the start of its last device to its end.

    Args:
        system: The system.
        options: The options of the simulation.
        records: Its collectives and messages.

    Raises:
        HespasError: An algorithm or a link has no model.
    """
    counter = _LinkCounter(system, options)
    changes: list[Counter[int]] = [Counter() for _ in system.topology]
    for record in records:
        bytes_by_dim: Counter[int] = Counter()
        for (source, _), carried in counter.count_record(record).items():
            bytes_by_dim[source[0]] += carried * record.copies
        duration_ns = max(1, record.finish_ns - record.ready_ns)
        for dim, carried in bytes_by_dim.items():
            rate = carried * _RATE_UNITS // duration_ns  # whole units add up to zero again
            changes[dim][record.ready_ns] += rate
            changes[dim][record.ready_ns + duration_ns] -= rate
    loads = []
    for dim, kind in enumerate(system.topology):
        capacity = counter.network.bytes_per_ns[dim] * count_links(system, dim) * _RATE_UNITS
        shares, rate = [], 0
        for time_ns in sorted(changes[dim]):
            rate += changes[dim][time_ns]
            shares.append((time_ns, 100 * rate / capacity))
        loads.append(NetworkLoad(f"links of dimension {dim}, {kind}", shares))
    return loads


def count_links(system: SystemSpec, dim: int) -> int:
    """Return the number of links of a dimension, each direction on its own."""
    kind, count = system.topology[dim], system.npus_count[dim]
    of_line = {
        "Ring": 2 * count if count > 2 else 2 * _count_parallel_links(system, dim),
        "Mesh": 2 * (count - 1),
        "Switch": 2 * count,
        "FullyConnected": count * (count - 1),
    }[kind]
    return system.device_count // count * of_line


def _count_parallel_links(system: SystemSpec, dim: int) -> int:
    """Return the links between two neighbours: two in a Ring of two devices, in both directions."""
    is_pair = system.topology[dim] == "Ring" and system.npus_count[dim] == 2
    return 2 if is_pair and system.fabric.directions_at_once else 1


def _name_place(place: NetworkPlace) -> str:
    return str(place[1]) if place[1] >= 0 else f"switch of {-1 - place[1]}"


class _LinkCounter:
    """Adds up the bytes of each link.

    Raises:
        HespasError: A link of the system has no model.
    """

    def __init__(self, system: SystemSpec, options: SimulationOptions) -> None:
        if any(link.bandwidth_share == 0 for link in system.fabric.slow_links):
            raise HespasError(
                "the traffic around a link that is down has no model", where=str(system.folder)
            )
        by_dimension = options.by_dimension or system.fabric.changes_collectives
        # With congestion, the size of a phase is what it sends, and not what its time follows from.
        planned = replace(options, by_dimension=by_dimension, congestion=True)
        self.network = AnalyticalNetwork.from_system(system, by_dimension)
        self._planner = CollectivePlanner(system, self.network, planned, options.congestion)
        self._fabric = system.fabric
        self.carried_bytes: Counter[LinkEnds] = Counter()
        self._collectives: dict[tuple[str, int, tuple[int, ...]], Counter[LinkEnds]] = {}

    def add_record(self, record: CommRecord) -> None:
        """Add the bytes of a collective or a message."""
        self.carried_bytes.update(self.count_record(record))

    def count_record(self, record: CommRecord) -> Counter[LinkEnds]:
        """Return the bytes of a record on each link; a broadcast is replayed without a network."""
        if record.kind == "broadcast":
            return Counter()
        if record.kind == "send":
            links = list_crossed_links(self.network, *record.ranks)
            return Counter(dict.fromkeys(links, record.operand_bytes))
        key = (record.kind, record.operand_bytes, record.ranks)
        if key not in self._collectives:
            self._collectives[key] = self._count_collective(*key)
        return self._collectives[key]

    def _count_collective(
        self, kind: str, size: int, members: tuple[int, ...]
    ) -> Counter[LinkEnds]:
        part = len(members) < self.network.device_count
        communicator = self._planner.plan_communicator(1, kind, members, part, ())
        plan = self._planner.plan_collective(kind, size, communicator, QueueTurn())
        carried: Counter[LinkEnds] = Counter()
        for chunk in plan:
            for phase in chunk:
                for line in _list_lines(communicator, phase.dim):
                    self._count_phase(carried, communicator, phase, line)
        return carried

    def _count_phase(
        self,
        carried: Counter[LinkEnds],
        communicator: PlannedCommunicator,
        phase: ChunkPhase,
        line: tuple[int, ...],
    ) -> None:
        algorithm = communicator.dims[phase.dim].choose_algorithm(phase.kind)
        if algorithm.name == "inSwitch":
            self._count_switch_phase(carried, phase, line)
            return
        if algorithm.name == "doubleBinaryTree":
            raise HespasError("the links of doubleBinaryTree have no model")
        for position, target, moved in _list_messages(algorithm.name, phase, len(line)):
            for link in list_crossed_links(self.network, line[position], line[target]):
                carried[link] += moved

    def _count_switch_phase(
        self, carried: Counter[LinkEnds], phase: ChunkPhase, line: tuple[int, ...]
    ) -> None:
        n, size = len(line), phase.size
        up, down = {
            "all_reduce": (size, size),
            "reduce_scatter": (size - size // n, size // n),
            "all_gather": (size, (n - 1) * size),
        }[phase.kind]
        for device, other in zip(line, line[1:] + line[:1], strict=True):
            (to_switch, _) = list_crossed_links(self.network, device, other)
            carried[to_switch] += up
            carried[to_switch[1], to_switch[0]] += down


def _list_lines(communicator: PlannedCommunicator, dim: int) -> list[tuple[int, ...]]:
    """Return the lines of devices of a logical dimension."""
    lines = {
        communicator.dims[dim].find_ring_members(device): None for device in communicator.members
    }
    return list(lines)


def _list_messages(algorithm: str, phase: ChunkPhase, n: int) -> Iterator[tuple[int, int, int]]:
    """Yield the positions of sender and receiver, and the bytes between them in a phase."""
    if algorithm == "halvingDoubling":
        for distance, message, _ in list_exchanges(phase, n):
            for position in range(n):
                yield position, position ^ distance, message
        return
    if algorithm == "ring" and phase.route != "line":
        steps = phase.count_steps(n)
        turn = -1 if phase.backwards else 1
        for position in range(n):
            yield position, (position + turn) % n, steps.count * steps.message_bytes
        return
    size = phase.size if phase.kind == "all_gather" else phase.size // n
    rounds = 2 if phase.kind == "all_reduce" else 1
    for position in range(n):
        for target in range(n):
            if target != position:
                yield position, target, rounds * size
