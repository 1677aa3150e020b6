"""One simulation by whichever simulator: the embedded one, ASTRA-sim, or both compared."""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

from hespas import configs
from hespas.configs.system_spec import SystemSpec
from hespas.simulators import astra, astra_program, embedded
from hespas.simulators.astra_program import AstraProgram
from hespas.simulators.astra_traces import TraceFolder
from hespas.simulators.embedded.curves import BETWEEN, BEYOND, MODELLED, SCALED
from hespas.simulators.embedded.simulation_options import SimulationOptions
from hespas.simulators.exact_durations import apply_exact_durations
from hespas.simulators.simulation_inputs import SimulationInputs, load_inputs
from hespas.simulators.simulation_result import SimulationResult
from hespas.support.errors import HespasError, UsageError

BY_CURVES = "collectives by measured curves"
SIMULATORS = ("auto", "embedded", "astra-sim", "both")

Note = Callable[[str], None]


def simulate_folder(
    folder: Path | str,
    system: SystemSpec | Path | str,
    simulator: str = "auto",
    *,
    options: SimulationOptions = SimulationOptions(),  # noqa: B008  immutable
    astra_sim: str | os.PathLike[str] | None = None,
    prefix: str | None = None,
    timeout_s: float | None = None,
    exact_durations: bool = True,
    note: Note = lambda text: None,
) -> SimulationResult:
    """Simulate the traces ``PREFIX.N.et`` of a folder on a system: a preset's name, or a folder.

    ``simulator``: "embedded"; "astra-sim"; "both", which fails where they differ in any device's
    finish or exposed communication; or "auto": ASTRA-sim where it is found and has what ``options``
    ask for, else the embedded one. ``astra_sim`` says where ASTRA-sim is, see
    ``astra_program.find``; it gets ``timeout_s`` seconds. With ``exact_durations``, durations are
    nanoseconds where trace and system allow it, see ``exact``, for each simulator alike; else what
    ASTRA-sim makes of the files as they are. Raises HespasError.
    """
    if not isinstance(system, SystemSpec):
        system = configs.load_system(os.fspath(system))
    inputs = load_inputs(folder, system, prefix)
    return simulate_inputs(
        inputs,
        simulator,
        options=options,
        astra_sim=astra_sim,
        timeout_s=timeout_s,
        exact_durations=exact_durations,
        note=note,
    )


def simulate_inputs(
    inputs: SimulationInputs,
    simulator: str,
    *,
    options: SimulationOptions,
    astra_sim: str | os.PathLike[str] | None = None,
    timeout_s: float | None = None,
    exact_durations: bool = True,
    note: Note = lambda text: None,
) -> SimulationResult:
    """``simulate``, of traces that ``inputs.load`` has read; raises HespasError."""
    program = select_astra_program(simulator, options, astra_sim, note)

    def run_embedded() -> SimulationResult:
        return simulate_embedded(inputs, options, exact_durations=exact_durations, note=note)

    def run_astra_sim(program: AstraProgram) -> SimulationResult:
        in_ns = exact_durations and apply_exact_durations(inputs) is not None
        prefix = inputs.devices[0].path.name.removesuffix(".0.et")
        simulation = astra.AstraSimulation(
            TraceFolder(inputs.folder, prefix), inputs.system, options, exact=in_ns
        )
        return _record_duration_unit(
            astra.simulate_with_astra(program, simulation, timeout_s=timeout_s, note=note), in_ns
        )

    if program is None:
        return run_embedded()
    if simulator != "both":
        return run_astra_sim(program)
    ours, theirs = run_embedded(), run_astra_sim(program)
    _compare_results(ours, theirs, program)
    settings = {**ours.settings, "agrees with": str(program.path)}
    return replace(ours, settings=settings)


def simulate_embedded(
    inputs: SimulationInputs,
    options: SimulationOptions,
    *,
    exact_durations: bool = True,
    note: Note = lambda text: None,
) -> SimulationResult:
    """Simulate inputs that are in memory by the embedded simulator; raises HespasError."""
    in_ns = apply_exact_durations(inputs) if exact_durations else None
    result = embedded.run_event_simulation(in_ns or inputs, options)
    for text in list_warnings(result):
        note(f"warning: {text}")
    return _record_duration_unit(result, in_ns is not None)


def list_warnings(result: SimulationResult) -> list[str]:
    """What is unsure of a result's network: collectives that were not measured as they are."""
    curve_summary = result.settings.get("curves", "")
    unsure = any(tag in curve_summary for tag in (BETWEEN, SCALED, BEYOND, MODELLED))
    return [f"{BY_CURVES}: {curve_summary}"] if unsure else []


def select_astra_program(
    simulator: str,
    options: SimulationOptions,
    astra_sim: str | os.PathLike[str] | None = None,
    note: Note = lambda text: None,
) -> AstraProgram | None:
    """ASTRA-sim, where it is to be run; None for the embedded simulator alone.

    Raises HespasError where it is asked for and cannot be, UsageError for an unknown simulator.
    """
    if simulator not in SIMULATORS:
        known = ", ".join(SIMULATORS)
        raise UsageError(f"there is no simulator '{simulator}'", remedy=f"known: {known}")
    if simulator == "embedded":
        return None
    if simulator == "auto":
        missing = astra.describe_missing_features(options)
        if missing:
            note(f"simulator: embedded, as ASTRA-sim has no {missing}")
            return None
    else:
        astra.check_supported_options(options)
    program = astra_program.find_astra_sim(astra_sim, congestion=options.congestion)
    if program is None and simulator != "auto":
        name = astra_program.AWARE if options.congestion else astra_program.UNAWARE
        raise HespasError(
            f"{name} is not on PATH",
            remedy="name it with --astra-sim PATH, or take --simulator embedded",
        )
    if simulator == "auto":
        note(f"simulator: {program.path if program else 'embedded, as ASTRA-sim is not on PATH'}")
    return program


def _record_duration_unit(result: SimulationResult, in_ns: bool) -> SimulationResult:
    how = "nanoseconds" if in_ns else "as ASTRA-sim reads the files"
    return replace(result, settings={**result.settings, "durations": how})


def _compare_results(
    ours: SimulationResult, theirs: SimulationResult, program: AstraProgram
) -> None:
    """Raises HespasError where two results differ in a device's finish or exposed time."""
    shown = []
    count = 0
    for device, (a, b) in enumerate(zip(ours.devices, theirs.devices, strict=True)):
        for field_name in ("finish_ns", "exposed_ns"):
            our_time, their_time = getattr(a, field_name), getattr(b, field_name)
            if our_time != their_time:
                count += 1
                if len(shown) < 3:
                    name = field_name.removesuffix("_ns")
                    shown.append(
                        f"device {device} {name} {our_time} ns here, {their_time} ns there"
                    )
    if count:
        raise HespasError(
            f"the embedded simulator and {program.path.name} disagree in {count} times: "
            + "; ".join(shown),
            remedy="please report it, with the traces and the system",
        )
