"""``hespas study jobs``: how much several jobs on one network slow each other down."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from hespas import configs
from hespas.chakra.trace_folder import find_trace_files
from hespas.configs.system_spec import SystemSpec
from hespas.simulators import simulator_choice
from hespas.simulators.combined_jobs import PlacedTraces, combine_jobs
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


def place_jobs(folders: Sequence[str], placement: str) -> list[PlacedTraces]:
    """Choose the devices of each job.

    Args:
        folders: The folders of their traces.
        placement: "packed" gives a job consecutive devices; "spread" deals the devices out to the
            jobs in turn, as far as they need them.

    Raises:
        HespasError: A folder has no traces.
    """
    counts = [len(find_trace_files(Path(folder), None)) for folder in folders]
    owners = [job for job, count in enumerate(counts) for _ in range(count)]
    if placement == "spread":
        turns = [(turn, job) for job, count in enumerate(counts) for turn in range(count)]
        owners = [job for _, job in sorted(turns)]
    devices: list[list[int]] = [[] for _ in folders]
    for device, job in enumerate(owners):
        devices[job].append(device)
    return [
        PlacedTraces(Path(folder), tuple(own)) for folder, own in zip(folders, devices, strict=True)
    ]


def compare_jobs(
    jobs: Sequence[PlacedTraces], system: SystemSpec, options: SimulationOptions
) -> list[dict[str, Any]]:
    """Simulate jobs together, and each of them alone.

    Args:
        jobs: The jobs with their devices.
        system: The network.
        options: The options of the simulation.

    Returns:
        For each ``job``, the folder of its traces, the ``devices`` that it runs on, its time on
        them if no other job runs and beside the others (``alone_s`` and ``together_s``), and the
        share by which it takes longer then (``slowdown``).

    Raises:
        HespasError: The traces are wrong, or do not fit the network.
    """
    rows = []
    for job, together_s in zip(jobs, _simulate_jobs(jobs, system, options), strict=True):
        (alone_s,) = _simulate_jobs([job], system, options)
        rows.append(
            {
                "job": str(job.folder),
                "devices": list(job.devices),
                "alone_s": alone_s,
                "together_s": together_s,
                "slowdown": together_s / alone_s - 1,
            }
        )
    return rows


def _simulate_jobs(
    jobs: Sequence[PlacedTraces], system: SystemSpec, options: SimulationOptions
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
    rows = compare_jobs(place_jobs(folders, placement), system, options)
    return StudyOutput(
        rows,
        {"system": system.name, "placement": placement, "jobs": rows},
        [_build_job_table(rows)],
        ["each job runs one step from the same time on"],
        lambda figure: _draw_jobs(figure, rows),
        (6, 3.6),
    )


def _build_job_table(rows: Sequence[Mapping[str, Any]]) -> TextTable:
    lines = [
        (
            row["job"],
            str(len(row["devices"])),
            format_seconds(row["alone_s"]),
            format_seconds(row["together_s"]),
            format_percent(row["slowdown"]),
        )
        for row in rows
    ]
    header = ("job", "devices", "alone", "together", "slower by")
    return TextTable("Jobs on one network", lines, header)


def _draw_jobs(figure: Any, rows: Sequence[Mapping[str, Any]]) -> None:
    """Draw the time of each job alone and beside the others."""
    axes = figure.add_subplot()
    places = range(len(rows))
    for name, shift, colour in (("alone", -0.2, COLOURS[0]), ("together", 0.2, COLOURS[1])):
        times_ms = [1e3 * row[f"{name}_s"] for row in rows]
        axes.bar([x + shift for x in places], times_ms, 0.4, color=colour, label=name)
    axes.set_xticks(list(places), [Path(row["job"]).name for row in rows])
    axes.set_ylabel("ms")
    axes.legend(fontsize=8)
