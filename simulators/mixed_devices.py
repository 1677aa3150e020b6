"""The traces of one job on devices of several kinds, as one simulation."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from hespas.configs.system_spec import SystemSpec
from hespas.simulators.simulation_inputs import SimulatedDevice, SimulationInputs, load_inputs
from hespas.support.errors import HespasError


@dataclass(frozen=True, slots=True)
class DeviceGroup:
    """Devices of one kind.

    Attributes:
        folder: The traces of the whole job on devices of this kind only.
        devices: The devices that are of this kind.
    """

    folder: Path
    devices: tuple[int, ...]


def combine_device_groups(groups: Sequence[DeviceGroup], system: SystemSpec) -> SimulationInputs:
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


def _check_membership(groups: Sequence[DeviceGroup], system: SystemSpec) -> None:
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
