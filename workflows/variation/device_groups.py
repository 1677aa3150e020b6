"""``hespas study groups``: one job on devices of several kinds."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

from hespas.configs.simple_yaml import read_yaml_or_json
from hespas.configs.system_spec import SystemSpec
from hespas.simulators import simulator_choice
from hespas.simulators.combined_jobs import PlacedTraces, combine_device_groups
from hespas.simulators.simulation_inputs import SimulationInputs, load_inputs
from hespas.simulators.simulation_options import SimulatorChoice
from hespas.support.errors import UsageError
from hespas.support.html_tables import PrintedTables
from hespas.support.suggestions import suggest_nearest
from hespas.support.text_tables import TextTable, format_seconds
from hespas.workflows.network_settings import resolve_network
from hespas.workflows.plot_files import COLOURS
from hespas.workflows.studies.study_output import StudyOutput

DESCRIPTION = """\
Simulate a job whose devices are not of one kind: each device takes the trace of its kind, from the
folder of a run of the whole job on devices of that kind only.

  hespas study groups out-h100=0-3 out-a100=4-7

Instead of groups, a file (.yml, .yaml or .json) may hold them as the list 'groups', with the key
'system' for a network.
"""
FILE_SUFFIXES = (".yml", ".yaml", ".json")
_GROUPS, _SYSTEM = "groups", "system"  # the keys of a file
DeviceNumbers = str | int | Sequence[int]


@dataclass(frozen=True)
class GroupTime:
    """What the devices of one kind do in a step of the job.

    Attributes:
        group: The folder of their traces.
        devices: The devices.
        alone_s: The step time if all devices were of this kind, in seconds.
        compute_s: The compute of the device of the group that computes longest.
        exposed_comm_s: The communication of the same device that compute does not hide, including
            the time in which it waits for slower devices.
    """

    group: str
    devices: tuple[int, ...]
    alone_s: float
    compute_s: float
    exposed_comm_s: float


@dataclass(frozen=True, repr=False)
class MixedStep(PrintedTables):
    """A step of a job on devices of several kinds; ``print`` shows it as a table.

    Attributes:
        system: The name of the network.
        step_time_s: The step time in seconds.
        groups: What the devices of each kind do.
    """

    system: str
    step_time_s: float
    groups: Sequence[GroupTime]

    def to_json(self) -> dict[str, Any]:
        """Convert to the object that docs/how-to/variation.md describes."""
        return asdict(self)

    def build_tables(self) -> list[TextTable]:
        """Build the table of the groups."""
        rows = [
            (
                row.group,
                str(len(row.devices)),
                format_seconds(row.compute_s),
                format_seconds(row.exposed_comm_s),
                format_seconds(row.alone_s),
            )
            for row in self.groups
        ]
        header = ("group", "devices", "compute", "exposed comm", "step if all were alike")
        return [TextTable(f"Step of {format_seconds(self.step_time_s)}", rows, header)]

    def build_output(self) -> StudyOutput:
        """Return the result as the output of a study."""
        notes = [
            f"the network is {self.system}, with the settings of the run {self.groups[0].group}",
            "each device does as much work as in the run of its kind: nothing is divided by speed",
        ]
        rows = [asdict(row) | {"devices": len(row.devices)} for row in self.groups]
        return StudyOutput(
            rows, self.to_json(), self.build_tables(), notes, self._draw_groups, (6, 3.6)
        )

    def _draw_groups(self, figure: Any) -> None:
        """Draw the compute and the exposed communication of each group."""
        axes = figure.add_subplot()
        names = [Path(row.group).name for row in self.groups]
        compute_ms = [1e3 * row.compute_s for row in self.groups]
        exposed_ms = [1e3 * row.exposed_comm_s for row in self.groups]
        axes.bar(names, compute_ms, color=COLOURS[0], label="compute")
        axes.bar(
            names, exposed_ms, bottom=compute_ms, color=COLOURS[1], label="exposed communication"
        )
        axes.set_ylabel("ms")
        axes.legend(fontsize=8)


def parse_device_group(text: str) -> PlacedTraces:
    """Parse ``FOLDER=DEVICES``, such as ``out-h100=0-3,8``; raises UsageError."""
    folder, _, ranges = text.rpartition("=")
    if not folder:
        raise UsageError(f"'{text}' is no FOLDER=DEVICES, such as out-h100=0-3,8")
    return PlacedTraces(Path(folder), parse_device_ranges(ranges))


def parse_device_ranges(text: str) -> tuple[int, ...]:
    """Parse numbers of devices, such as ``0-3,8``; raises UsageError."""
    devices: list[int] = []
    for part in text.split(","):
        first, _, last = part.strip().partition("-")
        if not (first.isdecimal() and (last or first).isdecimal()):
            raise UsageError(f"'{text}' is no list of devices, such as 0-3,8")
        devices += range(int(first), int(last or first) + 1)
    if not devices:  # the last one is before the first
        raise UsageError(f"'{text}' names no device")
    return tuple(devices)


def make_device_groups(devices: Mapping[str, DeviceNumbers]) -> list[PlacedTraces]:
    """Make groups from the devices of each folder; raises UsageError."""
    groups: list[PlacedTraces] = []
    for folder, numbers in devices.items():
        if isinstance(numbers, str):
            numbers = parse_device_ranges(numbers)
        members = (numbers,) if isinstance(numbers, int) else tuple(numbers)
        if not members:
            raise UsageError(f"the group of '{folder}' has no device")
        groups.append(PlacedTraces(Path(folder), members))
    return groups


def read_group_file(path: str | os.PathLike[str]) -> tuple[list[PlacedTraces], str | None]:
    """Read groups and the network, None for that of the first run, from a file of YAML or JSON.

    Raises:
        HespasError: The file cannot be read, or a key or a group is wrong.
    """
    keys, where = read_yaml_or_json(Path(path)), os.fspath(path)
    for key in keys:
        if key not in (_GROUPS, _SYSTEM):
            remedy = suggest_nearest(key, [_GROUPS, _SYSTEM])
            raise UsageError(f"it has the unknown key '{key}'", where=where, remedy=remedy)
    texts = keys.get(_GROUPS)
    if not isinstance(texts, list) or not texts:
        remedy = "write 'groups:', and '- FOLDER=DEVICES' in a line for each"
        raise UsageError("it has no list of groups", where=where, remedy=remedy)
    system = keys.get(_SYSTEM)
    if not isinstance(system, str | None):
        raise UsageError(f"'{_SYSTEM}' is not one name", where=where)
    return [parse_device_group(str(text)) for text in texts], system


def simulate_groups(
    groups: Sequence[PlacedTraces], system: SystemSpec, choice: SimulatorChoice
) -> MixedStep:
    """Simulate a job on its groups of devices, and on as many devices of each kind alone.

    Raises:
        HespasError: The groups do not divide the devices of the system, or traces do not fit.
    """
    embedded = SimulatorChoice(
        "embedded", replace(choice.options, intervals=False), exact_durations=choice.exact_durations
    )

    def simulate(inputs: SimulationInputs) -> Any:
        return simulator_choice.simulate_inputs(inputs, embedded)

    mixed = simulate(combine_device_groups(groups, system))
    rows: list[GroupTime] = []
    for group in groups:
        longest = max(
            (mixed.devices[device] for device in group.devices), key=lambda row: row.compute_ns
        )
        alone = simulate(load_inputs(group.folder, system))
        rows.append(
            GroupTime(
                str(group.folder), group.devices, 1e-9 * alone.step_time_ns,
                1e-9 * longest.compute_ns, 1e-9 * longest.exposed_ns,
            )
        )  # fmt: skip
    return MixedStep(system.name, 1e-9 * mixed.step_time_ns, rows)


def simulate_group_folders(groups: Sequence[PlacedTraces], system_name: str | None) -> MixedStep:
    """Simulate a job on the network of the run of its first group, unless a system is named.

    Raises:
        HespasError: There is no group, or see ``simulate_groups``.
    """
    if not groups:
        raise UsageError("there are no groups of devices")
    first = groups[0].folder
    overrides = {"simulator": "embedded"} | ({"system": system_name} if system_name else {})
    network = resolve_network(first, overrides)
    return simulate_groups(groups, network.system, network.choice)


def groups(
    devices: str | os.PathLike[str] | Mapping[str, DeviceNumbers], *, system: str | None = None
) -> MixedStep:
    """Simulate one job on devices of several kinds, as ``hespas study groups`` does.

    Args:
        devices: For each folder of a run of the whole job on devices of one kind, the numbers of
            the devices that are of this kind, also as text such as ``"0-3,8"``; or a file of YAML
            or JSON with the keys ``groups`` and ``system``.
        system: The network; None for that of the file, or of the first run.

    Returns:
        The step time, and what the devices of each kind compute and wait for.

    Raises:
        HespasError: The groups do not divide the devices, or traces do not fit together.
    """
    if isinstance(devices, Mapping):
        return simulate_group_folders(make_device_groups(devices), system)
    read_groups, file_system = read_group_file(devices)
    return simulate_group_folders(read_groups, system or file_system)
