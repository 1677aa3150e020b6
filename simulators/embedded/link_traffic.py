"""The bytes that cross each link with ASTRA-sim's rules, from the records of a simulation.

Invariant: a collective sends the messages of its algorithm on the system, also if its time comes
from a measured curve or from NCCL's model.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from hespas.configs.system_spec import SystemSpec
from hespas.simulators.simulation_result import CommRecord, LinkTraffic, LinkUse, NetworkLoad

from .chunk_phases import QueueTurn
from .collective_plan import CollectivePlanner, PlannedCommunicator
from .congestion_aware import NetworkPlace, list_crossed_links

LinkEnds = tuple[NetworkPlace, NetworkPlace]
_RATE_UNITS = 1 << 20  # of a byte per nanosecond


def collect_link_use(
    planner: CollectivePlanner, records: Sequence[CommRecord], step_time_ns: int
) -> LinkUse:
    """Return the use of the links.

    Args:
        planner: Plans the collectives of the simulation.
        records: Its collectives and messages, each with all its devices: without symmetry.
        step_time_ns: The step time.
    """
    counter, system = _LinkCounter(planner), planner.system
    for record in records:
        counter.carried_bytes.update(counter.count_record(record))
    rates = planner.network.bytes_per_ns
    links = [
        LinkTraffic(
            source[0], _name_place(source), _name_place(target), carried,
            carried / (rates[source[0]] * max(1, step_time_ns)),
        )
        for (source, target), carried in sorted(counter.carried_bytes.items())
    ]  # fmt: skip
    counts = [_count_links(system, dim) for dim in range(len(system.topology))]
    loads = build_network_loads(
        system.topology,
        [rate * count for rate, count in zip(rates, counts, strict=True)],
        [(one.ready_ns, one.finish_ns, counter.sum_by_dimension(one)) for one in records],
    )
    return LinkUse(links, counts, loads)


def build_network_loads(
    topology: Sequence[str],
    capacities: Sequence[float],
    transfers: Sequence[tuple[int, int, Sequence[float]]],
) -> list[NetworkLoad]:
    """Return the utilisation of all links of each dimension together, over time.

    A collective or message carries its bytes evenly from its start to its end.

    Args:
        topology: The kind of each dimension.
        capacities: The bytes per nanosecond of all links of each dimension.
        transfers: The start and end of collectives and messages, and their bytes by dimension.
    """
    changes: list[Counter[int]] = [Counter() for _ in topology]
    for start_ns, finish_ns, carried_bytes in transfers:
        duration_ns = max(1, finish_ns - start_ns)
        for dim, carried in enumerate(carried_bytes):
            # Whole units add up to zero again.
            rate = round(carried * _RATE_UNITS) // duration_ns
            if rate:
                changes[dim][start_ns] += rate
                changes[dim][start_ns + duration_ns] -= rate
    loads = []
    for dim, kind in enumerate(topology):
        shares, rate = [], 0
        for time_ns in sorted(changes[dim]):
            rate += changes[dim][time_ns]
            shares.append((time_ns, 100 * rate / (capacities[dim] * _RATE_UNITS)))
        loads.append(NetworkLoad(f"links of dimension {dim}, {kind}", shares))
    return loads


def _count_links(system: SystemSpec, dim: int) -> int:
    """Return the number of links of a dimension, each direction on its own."""
    kind, count = system.topology[dim], system.npus_count[dim]
    of_line = {
        "Ring": 2 * count if count > 2 else 2,
        "Mesh": 2 * (count - 1),
        "Switch": 2 * count,
        "FullyConnected": count * (count - 1),
    }[kind]
    return system.device_count // count * of_line


def _name_place(place: NetworkPlace) -> str:
    return str(place[1]) if place[1] >= 0 else f"switch of {-1 - place[1]}"


class _LinkCounter:
    """Adds up the bytes of each link."""

    def __init__(self, planner: CollectivePlanner) -> None:
        self._planner = planner
        self.carried_bytes: Counter[LinkEnds] = Counter()
        self._collectives: dict[tuple[str, int, tuple[int, ...]], Counter[LinkEnds]] = {}

    def sum_by_dimension(self, record: CommRecord) -> list[float]:
        """Return the bytes of a record in each dimension."""
        sums = [0.0] * len(self._planner.system.topology)
        for (source, _), carried in self.count_record(record).items():
            sums[source[0]] += carried
        return sums

    def count_record(self, record: CommRecord) -> Counter[LinkEnds]:
        """Return the bytes of a record on each link; a broadcast is replayed without a network."""
        if record.kind == "broadcast":
            return Counter()
        if record.kind == "send":
            links = list_crossed_links(self._planner.network, *record.ranks)
            return Counter(dict.fromkeys(links, record.operand_bytes))
        key = (record.kind, record.operand_bytes, record.ranks)
        if key not in self._collectives:
            self._collectives[key] = self._count_collective(*key)
        return self._collectives[key]

    def _count_collective(
        self, kind: str, size: int, members: tuple[int, ...]
    ) -> Counter[LinkEnds]:
        part = len(members) < self._planner.network.device_count
        communicator = self._planner.plan_communicator(1, kind, members, part, ())
        plan = self._planner.plan_collective(kind, size, communicator, QueueTurn())
        carried: Counter[LinkEnds] = Counter()
        for chunk in plan:
            for phase in chunk:
                algorithm = communicator.dims[phase.dim].algorithm.runs
                for line in _list_lines(communicator, phase.dim):
                    for position, target, moved in algorithm.list_messages(phase, len(line)):
                        crossed = list_crossed_links(
                            self._planner.network, line[position], line[target]
                        )
                        for link in crossed:
                            carried[link] += moved
        return carried


def _list_lines(communicator: PlannedCommunicator, dim: int) -> list[tuple[int, ...]]:
    """Return the lines of devices of a logical dimension."""
    lines = {
        communicator.dims[dim].find_ring_members(device): None for device in communicator.members
    }
    return list(lines)
