"""``hespas study jobs``: how much several jobs on one network slow each other down."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from hespas import configs
from hespas.configs.system_spec import SystemSpec
from hespas.simulators import simulator_choice
from hespas.simulators.combined_jobs import PlacedJob, combine_jobs, count_job_devices
from hespas.simulators.simulation_options import FLOWS, SimulationOptions, SimulatorChoice
from hespas.support.errors import HespasError
from hespas.support.text_tables import TextTable, format_percent, format_seconds
from hespas.workflows.plot_files import COLOURS
from hespas.workflows.studies.study_output import StudyOutput

DESCRIPTION = """\
Place the traces of several jobs on one network and simulate them at the same time, with messages
that share links: the time of each job beside the others, and alone on the same devices.

  hespas study jobs out-1 out-2 --system torus:4x4,links=4,link_gb_s=50,latency_ns=500,\
local_mem_gb_s=3350 --placement spread
"""
PLACEMENTS = ("packed", "spread")


@dataclass(frozen=True)
class JobTime:
    """The time of one job.

    Attributes:
        job: The folder of its traces.
        devices: The devices that it runs on.
        alone_s: Its time on these devices if no other job runs, in seconds.
        together_s: Its time beside the others.
    """

    job: str
    devices: tuple[int, ...]
    alone_s: float
    together_s: float

    @property
    def slowdown(self) -> float:
        """The share by which the job takes longer beside the others."""
        return self.together_s / self.alone_s - 1


def place_jobs(folders: Sequence[str], placement: str) -> list[PlacedJob]:
    """Choose the devices of each job.

    Args:
        folders: The folders of their traces.
        placement: "packed" gives a job consecutive devices; "spread" deals the devices out to the
            jobs in turn, as far as they need them.

    Raises:
        HespasError: A folder has no traces.
    """
    counts = [count_job_devices(Path(folder)) for folder in folders]
    owners = [job for job, count in enumerate(counts) for _ in range(count)]
    if placement == "spread":
        turns = [(turn, job) for job, count in enumerate(counts) for turn in range(count)]
        owners = [job for _, job in sorted(turns)]
    devices: list[list[int]] = [[] for _ in folders]
    for device, job in enumerate(owners):
        devices[job].append(device)
    return [
        PlacedJob(Path(folder), tuple(own)) for folder, own in zip(folders, devices, strict=True)
    ]


def compare_jobs(
    jobs: Sequence[PlacedJob], system: SystemSpec, options: SimulationOptions
) -> list[JobTime]:
    """Simulate jobs together, and each of them alone.

    Args:
        jobs: The jobs with their devices.
        system: The network.
        options: The options of the simulation.

    Raises:
        HespasError: The traces are wrong, or do not fit the network.
    """
    together_s = _simulate_jobs(jobs, system, options)
    return [
        JobTime(
            str(job.folder), job.devices, _simulate_jobs([job], system, options)[0], together_s[at]
        )
        for at, job in enumerate(jobs)
    ]


def _simulate_jobs(
    jobs: Sequence[PlacedJob], system: SystemSpec, options: SimulationOptions
) -> list[float]:
    """Return the time of each job in seconds if they run at the same time."""
    choice = SimulatorChoice("embedded", options)
    result = simulator_choice.simulate_inputs(combine_jobs(jobs, system), choice)
    return [1e-9 * max(result.devices[device].finish_ns for device in job.devices) for job in jobs]


def run_job_study(folders: Sequence[str], system_name: str, placement: str) -> StudyOutput:
    """Run the study; raises HespasError."""
    if len(folders) < 2:
        raise HespasError("one job alone shares nothing", remedy="name the folders of two or more")
    options = SimulationOptions(network_model=FLOWS, intervals=False)
    system = configs.load_system(system_name)
    times = compare_jobs(place_jobs(folders, placement), system, options)
    notes = [
        "each job runs one step from the same time on",
    ]
    return StudyOutput(
        [_to_json_row(time) for time in times],
        {"system": system.name, "placement": placement, "jobs": [_to_json_row(t) for t in times]},
        [_build_job_table(times)],
        notes,
        lambda figure: _draw_jobs(figure, times),
        (6, 3.6),
    )


def _to_json_row(time: JobTime) -> dict[str, Any]:
    return {**asdict(time), "devices": list(time.devices), "slowdown": time.slowdown}


def _build_job_table(times: Sequence[JobTime]) -> TextTable:
    rows = [
        (
            time.job,
            str(len(time.devices)),
            format_seconds(time.alone_s),
            format_seconds(time.together_s),
            format_percent(time.slowdown),
        )
        for time in times
    ]
    header = ("job", "devices", "alone", "together", "slower by")
    return TextTable("Jobs on one network", rows, header)


def _draw_jobs(figure: Any, times: Sequence[JobTime]) -> None:
    """Draw the time of each job alone and beside the others."""
    axes = figure.add_subplot()
    places = range(len(times))
    axes.bar([x - 0.2 for x in places], [1e3 * t.alone_s for t in times], 0.4, color=COLOURS[0],
             label="alone")  # fmt: skip
    axes.bar([x + 0.2 for x in places], [1e3 * t.together_s for t in times], 0.4, color=COLOURS[1],
             label="together")  # fmt: skip
    axes.set_xticks(list(places), [Path(time.job).name for time in times])
    axes.set_ylabel("ms")
    axes.legend(fontsize=8)
