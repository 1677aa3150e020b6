"""Runs ASTRA-sim, or a front end with the same command line, in a temporary folder.

ASTRA-sim exits with 0 even after a deadlock or a lost exception. A run is accepted only if every
device reports that it finished and nothing critical is printed; otherwise the traces are checked to
find the reason.
"""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from hespas.chakra.check_traces import check_trace_folder
from hespas.chakra.node_rules import ERROR
from hespas.chakra.trace_folder import GROUPS_FILE
from hespas.configs import read_json
from hespas.configs.system_spec import PER_NODE_KEY, SystemSpec
from hespas.simulators import astra_output
from hespas.simulators.astra_output import AstraOutput, NodeTimes
from hespas.simulators.astra_program import AstraProgram
from hespas.simulators.astra_result import build_timings
from hespas.simulators.astra_traces import TraceFolder
from hespas.simulators.collectives import per_node
from hespas.simulators.simulation_options import SimulationOptions
from hespas.simulators.simulation_result import SimulationResult, SimulationSettings
from hespas.support.errors import HespasError
from hespas.support.supervised_process import open_temporary_folder

_TIMEOUT_S = 3600.0
_NO_REMOTE_MEMORY = {"memory-type": "NO_MEMORY_EXPANSION"}

Note = Callable[[str], None]


@dataclass(frozen=True, slots=True)
class AstraSimulation:
    """Traces, a system and options to simulate.

    With ``exact``, durations of compute nodes are in nanoseconds, from num_ops: the run gets a copy
    of system.json with roofline-enabled 1 and peak-perf 1.
    """

    traces: TraceFolder
    system: SystemSpec
    options: SimulationOptions
    exact: bool = False

    @property
    def trace_files(self) -> list[Path]:
        """The trace of each device of the system; raises HespasError if one is missing."""
        files = self.traces.files
        for device in range(self.system.device_count):
            if device not in files:
                raise HespasError(
                    f"there is no trace of device {device}, but {self.system.name} has "
                    f"{self.system.device_count} devices",
                    where=str(self.traces.folder),
                )
        return [files[device] for device in range(self.system.device_count)]


def simulate_with_astra(
    program: AstraProgram,
    simulation: AstraSimulation,
    *,
    timeout_s: float | None = None,
    note: Note = lambda text: None,
) -> SimulationResult:
    """Run the program in a temporary folder; raises HespasError if the run fails."""
    check_supported_options(simulation.options)
    files = simulation.trace_files
    with open_temporary_folder() as name:
        place = Path(name)
        command = [
            str(program.path),
            *_prepare_folder(place, simulation, files),
            *program.arguments,
        ]
        code, output = _execute_command(command, place, timeout_s or _TIMEOUT_S)
        with output.open(encoding="utf-8", errors="replace") as lines:
            printed = astra_output.read_output(lines)
        if printed.finished_count != len(files) or printed.critical or printed.held_nodes:
            raise _explain_failure(program, simulation, printed, code)
        times = None
        if simulation.options.intervals:
            times = astra_output.read_node_times(place / "log", len(files))
            if times is None:
                reason = astra_output.explain_missing_times(place / "log")
                note(f"{program.path.name} {reason}: no times of single nodes")
    return _build_result(program, simulation, printed, times)


def _build_result(
    program: AstraProgram,
    simulation: AstraSimulation,
    printed: AstraOutput,
    times: list[NodeTimes] | None,
) -> SimulationResult:
    settings = SimulationSettings(program=str(program.path), backend=program.backend)
    timings = (
        build_timings(simulation.traces, times, simulation.system) if times is not None else None
    )
    intervals = None if timings is None else [timings.classes[known] for known in timings.class_of]
    try:
        devices = astra_output.compute_statistics(printed, intervals)
    except ValueError as error:
        raise HespasError(str(error), where=str(program.path)) from None
    if timings is None:
        return SimulationResult("astra-sim", devices, settings=settings)
    return SimulationResult(
        "astra-sim", devices, timings.comms, timings.classes, timings.class_of, settings
    )


def describe_missing_features(options: SimulationOptions) -> str:
    """Name the options that request what ASTRA-sim lacks; "" if there are none."""
    requested = {
        "--by-dimension": options.by_dimension,
        "--curves": options.curves,
        "--between-hosts nccl": options.between_hosts == "nccl",
        "--slowdown": options.slowdown,
    }
    return ", ".join(name for name, value in requested.items() if value)


def check_supported_options(options: SimulationOptions) -> None:
    """Raise HespasError if ASTRA-sim lacks a feature that options request."""
    if describe_missing_features(options):
        raise HespasError(
            f"ASTRA-sim cannot model {describe_missing_features(options)}",
            remedy="use --simulator embedded, or turn them off: --no-by-dimension --curves none "
            "--between-hosts network --slowdown 0",
        )


def _prepare_folder(place: Path, simulation: AstraSimulation, files: Sequence[Path]) -> list[str]:
    """Write the files of a run to a folder; return the arguments that name them."""
    options = simulation.options
    _link_traces(place, files)
    groups = simulation.traces.groups_file
    if groups is not None:
        shutil.copyfile(groups, place / GROUPS_FILE)
    (place / "network.yml").write_text(simulation.system.render_network_text(), encoding="utf-8")
    settings = _build_system_settings(simulation, place)
    (place / "system.json").write_text(json.dumps(settings, indent=1), encoding="utf-8")
    memory = simulation.system.folder / "remote_memory.json"
    data = read_json(memory) if memory.is_file() else _NO_REMOTE_MEMORY
    (place / "remote_memory.json").write_text(json.dumps(data), encoding="utf-8")
    # ASTRA-sim ignores a communicator file if its path contains "empty".
    at = place if "empty" not in str(place) else Path()
    arguments = {
        "workload-configuration": at / "dev",
        "system-configuration": at / "system.json",
        "network-configuration": at / "network.yml",
        "remote-memory-configuration": at / "remote_memory.json",
        "logging-folder": at / "log",
    }
    if groups is not None:
        arguments["comm-group-configuration"] = at / GROUPS_FILE
    lines = [f"--{name}={value}" for name, value in arguments.items()]
    if options.queues_per_dim != 1:
        lines.append(f"--num-queues-per-dim={options.queues_per_dim}")
    if options.injection_scale != 1:
        lines.append(f"--injection-scale={options.injection_scale!r}")
    if options.rendezvous:
        lines.append("--rendezvous-protocol=true")
    return lines


def _link_traces(place: Path, traces: Sequence[Path]) -> None:
    """Link the traces as dev.N.et; copy read-only ones, as ASTRA-sim opens them for append."""
    for device, path in enumerate(traces):
        target = place / f"dev.{device}.et"
        if os.access(path, os.W_OK):
            target.symlink_to(path.absolute())
        else:
            shutil.copyfile(path, target)  # does not copy the mode


def _build_system_settings(simulation: AstraSimulation, place: Path) -> dict[str, Any]:
    """Return the system.json of a run, with absolute paths because it runs in another folder."""
    folder = simulation.system.folder
    settings = simulation.system.resolve_settings_paths()
    settings["trace-enabled"] = int(simulation.options.intervals)
    settings.pop("track-local-mem", None)  # changes no time, but needs attributes of each node
    if simulation.exact:
        settings |= {"roofline-enabled": 1, "peak-perf": 1}
    by_node = simulation.system.per_node_custom
    if by_node:
        relative_prefixes = per_node.read_prefixes(folder / by_node)
        prefixes = {
            node: str(simulation.system.resolve_trace_prefix(prefix))
            for node, prefix in relative_prefixes.items()
        }
        (place / "per_node.yml").write_text(per_node.format_prefixes(prefixes), encoding="utf-8")
        settings[PER_NODE_KEY] = str(place / "per_node.yml")
    return settings


def _execute_command(command: Sequence[str], place: Path, timeout_s: float) -> tuple[int, Path]:
    """Run a command in a folder; return its exit code and the file of its output.

    The process is killed if this one is interrupted.
    """
    output = place / "output.txt"
    with output.open("wb") as sink:
        try:
            process = subprocess.Popen(
                command,
                cwd=place,
                stdin=subprocess.DEVNULL,
                stdout=sink,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )
        except OSError as error:
            raise HespasError(f"cannot be run: {error.strerror}", where=command[0]) from None
        try:
            return process.wait(timeout_s), output
        except subprocess.TimeoutExpired:
            raise HespasError(
                f"did not finish within {timeout_s:g} s",
                where=command[0],
                remedy="allow more time, or use the embedded simulator",
            ) from None
        finally:
            if process.poll() is None:
                os.killpg(process.pid, signal.SIGKILL)
                process.wait()


def _explain_failure(
    program: AstraProgram, simulation: AstraSimulation, printed: AstraOutput, code: int
) -> HespasError:
    """Explain a failed run by checking the traces, or else by its output."""
    folder, devices = simulation.traces.folder, simulation.system.device_count
    failure = f"{program.path.name} finished {printed.finished_count} of {devices} devices"
    prefix = simulation.traces.files[0].name.removesuffix(".0.et")
    errors = [
        p
        for p in check_trace_folder(folder, prefix, simulation.traces.groups_file).problems
        if p.severity == ERROR
    ]
    if errors:
        return HespasError(f"{failure}: {errors[0].text}", where=f"{folder}/{errors[0].where}")
    if code < 0:
        failure += f", killed by {_name_signal(code)}"
    if printed.critical:
        failure += f": {printed.critical[0]}"
    elif code > 0:
        failure += f", exit code {code}: {printed.last_line}"
    remedy = ""
    if printed.held_nodes:
        device, nodes = min(printed.held_nodes.items())
        failure += f"; device {device} never leaves node {nodes[0]}"
        if _can_block_chunks(simulation.system, simulation.options):
            remedy = (
                "chunks of all-reduces wait for each other: set active-chunks-per-dimension to at "
                "least preferred-dataset-splits, or use 2 queues per dimension"
            )
    return HespasError(failure, where=str(folder), remedy=remedy)


def _name_signal(code: int) -> str:
    try:
        return signal.Signals(-code).name
    except ValueError:
        return f"signal {-code}"


def _can_block_chunks(system: SystemSpec, options: SimulationOptions) -> bool:
    """Return whether the chunks of an all-reduce can block each other, as over 3 dimensions."""
    return (
        len(system.topology) >= 3
        and system.collective_optimization == "localBWAware"
        and system.preferred_dataset_splits > system.active_chunks_per_dimension
        and options.queues_per_dim == 1
    )
