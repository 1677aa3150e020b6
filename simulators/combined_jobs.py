"""Traces of several folders as one simulation: of jobs on one network, or of unlike devices."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from hespas.chakra.schema import NodeType
from hespas.chakra.trace_reader import TraceNode
from hespas.configs.system_spec import SystemSpec
from hespas.simulators.simulated_program import ProgramBuilder
from hespas.simulators.simulation_inputs import SimulatedDevice, SimulationInputs, load_inputs
from hespas.support.errors import HespasError


@dataclass(frozen=True, slots=True)
class PlacedTraces:
    """Traces, and the devices of the network that run them.

    Attributes:
        folder: The traces of one of several jobs, or of a whole job on devices of one kind only.
        devices: The device of each trace of the job, or the devices that are of the kind.
    """

    folder: Path
    devices: tuple[int, ...]


def combine_jobs(jobs: Sequence[PlacedTraces], system: SystemSpec) -> SimulationInputs:
    """Return the inputs of a simulation in which jobs run at the same time.

    Devices without a job are idle.

    Raises:
        HespasError: Traces are wrong, jobs share a device, or a job does not fit its devices.
    """
    used = [device for job in jobs for device in job.devices]
    if len(set(used)) < len(used) or max(used) >= system.device_count:
        raise HespasError(
            f"{len(used)} devices of the jobs do not fit the {system.device_count} of {system.name}"
        )
    placed: dict[int, SimulatedDevice] = {}
    groups: dict[int, tuple[int, ...]] = {0: tuple(range(system.device_count))}
    for job in jobs:
        inputs = load_inputs(job.folder, _shrink_system(system, len(job.devices)))
        new_groups = {}
        for group, members in inputs.groups.items():
            new_groups[group] = len(groups)
            groups[len(groups)] = tuple(job.devices[member] for member in members)
        placed.update(_place_devices(inputs, job.devices, new_groups))
    idle = _build_idle_device(system)
    devices = [placed.get(rank, idle) for rank in range(system.device_count)]
    return SimulationInputs(jobs[0].folder, system, devices, groups)


def _shrink_system(system: SystemSpec, devices: int) -> SystemSpec:
    """Return a system of one dimension, with which the traces of a job can be read.

    All of its devices are up, whatever is down in the network that the jobs share.
    """
    return replace(
        system,
        topology=system.topology[:1],
        npus_count=(devices,),
        bandwidth_gib_s=system.bandwidth_gib_s[:1],
        latency_ns=system.latency_ns[:1],
        implementations={name: names[:1] for name, names in system.implementations.items()},
        fabric=system.fabric.model_copy(update={"down_devices": []}),
    )


def _place_devices(
    inputs: SimulationInputs, devices: Sequence[int], groups: dict[int, int]
) -> Iterator[tuple[int, SimulatedDevice]]:
    """Yield each device of a job at its place, with its communicators and peers renamed."""
    for rank, device in enumerate(inputs.devices):
        program = device.program
        for position, step in enumerate(program.steps):
            if step.involved:
                raise HespasError(
                    "a collective over some dimensions of the network has no meaning for a job",
                    where=f"{device.path} node {program.nodes[position].id}",
                    remedy="list its devices as a communicator",
                )
        renamed_groups = {name: groups[device.groups.get(name, name)] for name in program.groups}
        renamed_peers = {
            name: devices[device.peers.get(name, name)] for name in {**program.peers, **program.own}
        }
        yield devices[rank], SimulatedDevice(program, device.path, renamed_groups, renamed_peers)


def _build_idle_device(system: SystemSpec) -> SimulatedDevice:
    """Return a device that computes for a nanosecond."""
    attrs = {"num_ops": ("int64", 1500), "tensor_size": ("uint64", 1)}  # as exact durations
    node = TraceNode(1, "idle", NodeType.COMP_NODE, (), (), 0, attrs)
    path = Path("idle")
    return SimulatedDevice(ProgramBuilder(system).build_program(path, [node]), path, {}, {})


def combine_device_groups(groups: Sequence[PlacedTraces], system: SystemSpec) -> SimulationInputs:
    """Return the inputs of a simulation in which each device runs the trace of its kind.

    Raises:
        HespasError: A device is in no group or in several, traces are wrong, or the communicators
            of two folders differ.
    """
    _check_membership(groups, system)
    loaded = [load_inputs(group.folder, system) for group in groups]
    first = loaded[0]
    placed: dict[int, SimulatedDevice] = {}
    for group, inputs in zip(groups, loaded, strict=True):
        if inputs.groups != first.groups:
            raise HespasError(
                f"its communicators differ from those of {first.folder}",
                where=str(group.folder),
                remedy="run the same program with the same mesh on each kind of device",
            )
        placed.update((device, inputs.devices[device]) for device in group.devices)
    return replace(first, devices=[placed[rank] for rank in range(system.device_count)])


def _check_membership(groups: Sequence[PlacedTraces], system: SystemSpec) -> None:
    counts = Counter(device for group in groups for device in group.devices)
    expected = range(system.device_count)
    twice = [device for device, count in counts.items() if count > 1]
    foreign = [device for device in counts if device not in expected]
    missing = [device for device in expected if device not in counts]
    if twice:
        problem = f"device {twice[0]} is in two groups"
    elif foreign:
        problem = f"system {system.name} has no device {foreign[0]}"
    elif missing:
        problem = f"device {missing[0]} of system {system.name} is in no group"
    else:
        return
    raise HespasError(problem, remedy=f"each of 0 to {system.device_count - 1} is in one group")
