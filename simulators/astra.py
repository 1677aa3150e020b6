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
from hespas.chakra.node_rules import COMP, ERROR, RECV
from hespas.chakra.trace_folder import GROUPS_FILE
from hespas.configs import read_json
from hespas.configs.system_spec import PER_NODE_KEY, SystemSpec
from hespas.simulators import astra_output
from hespas.simulators.astra_output import AstraOutput, NodeTimes
from hespas.simulators.astra_program import AstraProgram
from hespas.simulators.collectives import per_node
from hespas.simulators.comm_records import collect_comm_records
from hespas.simulators.simulation_inputs import SimulationInputs
from hespas.simulators.simulation_options import SimulationOptions
from hespas.simulators.simulation_result import (
    NodeInterval,
    SimulationResult,
    SimulationSettings,
)
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

    inputs: SimulationInputs
    options: SimulationOptions
    exact: bool = False


def simulate_with_astra(
    program: AstraProgram,
    simulation: AstraSimulation,
    *,
    timeout_s: float | None = None,
    note: Note = lambda text: None,
) -> SimulationResult:
    """Run the program in a temporary folder; raises HespasError if the run fails."""
    check_supported_options(simulation.options)
    files = [device.path for device in simulation.inputs.devices]
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
    settings = SimulationSettings(
        program=str(program.path), backend=program.backend, network_model=program.network_model
    )
    classes: dict[tuple[NodeInterval, ...], int] = {}
    intervals = [
        _list_intervals(simulation.inputs, device, node_times)
        for device, node_times in enumerate(times or ())
    ]
    class_of = [classes.setdefault(each, len(classes)) for each in intervals]
    try:
        devices = astra_output.compute_statistics(printed, intervals or None)
    except ValueError as error:
        raise HespasError(str(error), where=str(program.path)) from None
    comms = collect_comm_records(simulation.inputs, intervals) if intervals else ()
    return SimulationResult("astra-sim", devices, comms, list(classes), class_of, settings)


def _list_intervals(
    inputs: SimulationInputs, device: int, times: NodeTimes
) -> tuple[NodeInterval, ...]:
    """List the intervals of the nodes of a device, in order of issue."""
    types = {node.id: node.type for node in inputs.devices[device].program.nodes}
    resources: dict[int, str] = {COMP: "compute", RECV: "recv"}
    return tuple(
        NodeInterval(number, start, finish, resources.get(types[number], "comm"))
        for number, (start, finish) in times.items()
    )


def describe_missing_features(options: SimulationOptions) -> str:
    """Name the options that request what ASTRA-sim lacks; "" if there are none."""
    modelled = ("queues_per_dim", "injection_scale", "rendezvous", "congestion", "links")
    return ", ".join(options.list_requests(modelled))


def check_supported_options(options: SimulationOptions) -> None:
    """Raise HespasError if ASTRA-sim lacks a feature that options request."""
    if describe_missing_features(options):
        raise HespasError(
            f"ASTRA-sim cannot model {describe_missing_features(options)}",
            remedy="use --simulator embedded, or turn them off: --network-model astra "
            "--curves none --between-hosts network --slowdown 0",
        )


def _prepare_folder(place: Path, simulation: AstraSimulation, files: Sequence[Path]) -> list[str]:
    """Write the files of a run to a folder; return the arguments that name them."""
    options = simulation.options
    _link_traces(place, files)
    inputs, system = simulation.inputs, simulation.inputs.system
    if inputs.groups_file is not None:
        shutil.copyfile(inputs.groups_file, place / GROUPS_FILE)
    (place / "network.yml").write_text(system.render_network_text(), encoding="utf-8")
    settings = _build_system_settings(simulation, place)
    (place / "system.json").write_text(json.dumps(settings, indent=1), encoding="utf-8")
    memory = system.folder / "remote_memory.json"
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
    if inputs.groups_file is not None:
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
    system = simulation.inputs.system
    settings = system.resolve_settings_paths()
    settings["trace-enabled"] = int(simulation.options.intervals)
    settings.pop("track-local-mem", None)  # changes no time, but needs attributes of each node
    if simulation.exact:
        settings |= {"roofline-enabled": 1, "peak-perf": 1}
    if system.per_node_custom:
        relative_prefixes = per_node.read_prefixes(system.per_node_path)
        prefixes = {
            node: str(system.resolve_trace_prefix(prefix))
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
    inputs, folder = simulation.inputs, simulation.inputs.folder
    count = f"{printed.finished_count} of {len(inputs.devices)}"
    failure = f"{program.path.name} finished {count} devices"
    prefix = inputs.devices[0].path.name.removesuffix(".0.et")
    errors = [
        p
        for p in check_trace_folder(folder, prefix, inputs.groups_file).problems
        if p.severity == ERROR
    ]
    if errors:
        return HespasError(f"{failure}: {errors[0].text}", where=f"{folder}/{errors[0].where}")
    if code < 0:
        failure += f", killed by {_name_signal(code)}"
    if printed.critical:
        failure += f": {printed.critical[0]}"
    elif code > 0:
        failure += f", exit code {code}"
        failure += f": {printed.last_line}" if printed.last_line else ", and printed nothing"
    remedy = ""
    if printed.held_nodes:
        device, nodes = min(printed.held_nodes.items())
        failure += f"; device {device} never leaves node {nodes[0]}"
        if _can_block_chunks(inputs.system, simulation.options):
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
