"""The collectives and messages of a simulation, from the times of the nodes of each device."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from hespas.simulators.simulation_inputs import SimulationInputs, find_collective_members
from hespas.simulators.simulation_result import CommRecord, NodeInterval


def collect_comm_records(
    inputs: SimulationInputs, intervals: Sequence[Sequence[NodeInterval]]
) -> list[CommRecord]:
    """Merge the times of single devices into records of collectives and messages.

    Invariant: the n-th collective of a device on a communicator is the n-th of every member,
    because the run would have deadlocked otherwise. A message lasts from the issue to the finish of
    its SEND.

    Args:
        inputs: The traces and the system.
        intervals: The intervals of each device, in order of issue.
    """
    messages: list[CommRecord] = []
    collectives: dict[tuple[int, tuple[int, ...], int], CommRecord] = {}
    seen: Counter[tuple[int, int, tuple[int, ...]]] = Counter()
    for rank, (device, issued) in enumerate(zip(inputs.devices, intervals, strict=True)):
        program = device.program
        places = {node.id: place for place, node in enumerate(program.nodes)}
        for number, start, finish, _ in issued:
            step, name = program.steps[places[number]], program.nodes[places[number]].name
            if step.kind == "send":
                ends = (rank, device.peers.get(step.peer, step.peer))
                messages.append(CommRecord(name, "send", step.size, -1, ends, start, start, finish))
            elif step.group >= 0:
                group = device.groups.get(step.group, step.group)
                ranks = inputs.groups[group]
                if not group and step.kind != "broadcast":
                    ranks = find_collective_members(inputs.system, step.kind, step.involved, rank)
                key = (group, ranks, seen[rank, group, ranks])
                seen[rank, group, ranks] += 1
                ready = start
                if known := collectives.get(key):
                    start, ready = min(start, known.start_ns), max(start, known.ready_ns)
                    name, finish = known.name, max(finish, known.finish_ns)
                collectives[key] = CommRecord(
                    name, step.kind, step.size, group, ranks, start, ready, finish
                )
    return sorted([*collectives.values(), *messages], key=lambda r: (r.start_ns, r.ranks))
