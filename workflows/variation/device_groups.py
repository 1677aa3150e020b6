"""``hespas study groups``: one job on devices of several kinds."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

from hespas.configs.system_spec import SystemSpec
from hespas.simulators import simulator_choice
from hespas.simulators.mixed_devices import DeviceGroup, combine_device_groups
from hespas.simulators.simulation_inputs import SimulationInputs, load_inputs
from hespas.simulators.simulation_options import SimulatorChoice
from hespas.support.errors import UsageError
from hespas.support.text_tables import TextTable, format_seconds
from hespas.workflows.network_settings import (
    load_resolved_system,
    read_recorded_settings,
    resolve_network_settings,
)
from hespas.workflows.plot_files import COLOURS
from hespas.workflows.studies.study_output import StudyOutput

DESCRIPTION = """\
Simulate a job whose devices are not of one kind: each device takes the trace of its kind, from the
folder of a run of the whole job on devices of that kind only.

  hespas study groups out-h100=0-3 out-a100=4-7
"""


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


@dataclass(frozen=True)
class MixedStep:
    """A step of a job on devices of several kinds: its time in seconds, and its groups."""

    step_time_s: float
    groups: Sequence[GroupTime]


def parse_device_group(text: str) -> DeviceGroup:
    """Parse ``FOLDER=DEVICES``, such as ``out-h100=0-3,8``; raises UsageError."""
    folder, _, ranges = text.rpartition("=")
    devices: list[int] = []
    for part in ranges.split(","):
        first, _, last = part.partition("-")
        if not (folder and first.isdecimal() and (last or first).isdecimal()):
            raise UsageError(f"'{text}' is no FOLDER=DEVICES, such as out-h100=0-3,8")
        devices += range(int(first), int(last or first) + 1)
    if not devices:
        raise UsageError(f"'{text}' names no device")
    return DeviceGroup(Path(folder), tuple(devices))


def simulate_groups(
    groups: Sequence[DeviceGroup], system: SystemSpec, choice: SimulatorChoice
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
    return MixedStep(1e-9 * mixed.step_time_ns, rows)


def run_group_study(texts: Sequence[str], system_name: str | None = None) -> StudyOutput:
    """Run the study; the network is that of the first run, unless a system is named.

    Raises:
        HespasError: See ``simulate_groups``.
    """
    groups = [parse_device_group(text) for text in texts]
    first = groups[0].folder
    settings, _ = resolve_network_settings(first, {"system": system_name} if system_name else {})
    is_recorded = read_recorded_settings(first) is not None and not system_name
    system = load_resolved_system(settings, is_recorded=is_recorded)
    step = simulate_groups(groups, system, settings.build_simulator_choice())
    notes = [
        f"the network and its settings are those of {first}",
        "each device does as much work as in the run of its kind: nothing is divided by speed",
    ]
    return StudyOutput(
        [asdict(row) | {"devices": len(row.devices)} for row in step.groups],
        {"system": system.name, **asdict(step)},
        [_build_group_table(step)],
        notes,
        lambda figure: _draw_groups(figure, step),
        (6, 3.6),
    )


def _build_group_table(step: MixedStep) -> TextTable:
    rows = [
        (
            row.group,
            str(len(row.devices)),
            format_seconds(row.compute_s),
            format_seconds(row.exposed_comm_s),
            format_seconds(row.alone_s),
        )
        for row in step.groups
    ]
    header = ("group", "devices", "compute", "exposed comm", "step if all were alike")
    return TextTable(f"Step of {format_seconds(step.step_time_s)}", rows, header)


def _draw_groups(figure: Any, step: MixedStep) -> None:
    """Draw the compute and the exposed communication of each group."""
    axes = figure.add_subplot()
    names = [Path(row.group).name for row in step.groups]
    compute_ms = [1e3 * row.compute_s for row in step.groups]
    exposed_ms = [1e3 * row.exposed_comm_s for row in step.groups]
    axes.bar(names, compute_ms, color=COLOURS[0], label="compute")
    axes.bar(names, exposed_ms, bottom=compute_ms, color=COLOURS[1], label="exposed communication")
    axes.set_ylabel("ms")
    axes.legend(fontsize=8)
