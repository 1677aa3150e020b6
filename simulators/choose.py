"""One simulation by whichever simulator: the embedded one, ASTRA-sim, or both compared."""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

from hespas import configs
from hespas.configs.system import System
from hespas.dialects.errors import HespasError, UsageError
from hespas.simulators import astra, astra_program, embedded
from hespas.simulators.astra_program import Program
from hespas.simulators.embedded.curves import BETWEEN, BEYOND, MODELLED, SCALED
from hespas.simulators.embedded.options import Options
from hespas.simulators.exact import exact
from hespas.simulators.inputs import Inputs, load
from hespas.simulators.nodes import Traces
from hespas.simulators.result import Result

BY_CURVES = "collectives by measured curves"
SIMULATORS = ("auto", "embedded", "astra-sim", "both")

Note = Callable[[str], None]


def simulate(
    folder: Path | str,
    system: System | Path | str,
    simulator: str = "auto",
    *,
    options: Options = Options(),  # noqa: B008  immutable
    astra_sim: str | os.PathLike[str] | None = None,
    prefix: str | None = None,
    timeout_s: float | None = None,
    exact_durations: bool = True,
    note: Note = lambda text: None,
) -> Result:
    """Simulate the traces ``PREFIX.N.et`` of a folder on a system: a preset's name, or a folder.

    ``simulator``: "embedded"; "astra-sim"; "both", which fails where they differ in any device's
    finish or exposed communication; or "auto": ASTRA-sim where it is found and has what ``options``
    ask for, else the embedded one. ``astra_sim`` says where ASTRA-sim is, see
    ``astra_program.find``; it gets ``timeout_s`` seconds. With ``exact_durations``, durations are
    nanoseconds where trace and system allow it, see ``exact``, for each simulator alike; else what
    ASTRA-sim makes of the files as they are. Raises HespasError.
    """
    if not isinstance(system, System):
        system = configs.system(os.fspath(system))
    inputs = load(folder, system, prefix)
    return of_inputs(
        inputs,
        simulator,
        options=options,
        astra_sim=astra_sim,
        timeout_s=timeout_s,
        exact_durations=exact_durations,
        note=note,
    )


def of_inputs(
    inputs: Inputs,
    simulator: str,
    *,
    options: Options,
    astra_sim: str | os.PathLike[str] | None = None,
    timeout_s: float | None = None,
    exact_durations: bool = True,
    note: Note = lambda text: None,
) -> Result:
    """``simulate``, of traces that ``inputs.load`` has read; raises HespasError."""
    program = program_for(simulator, options, astra_sim, note)

    def here() -> Result:
        return by_embedded(inputs, options, exact_durations=exact_durations, note=note)

    def by_astra(program: Program) -> Result:
        in_ns = exact_durations and exact(inputs) is not None
        prefix = inputs.devices[0].path.name.removesuffix(".0.et")
        job = astra.Job(Traces(inputs.folder, prefix), inputs.system, options, exact=in_ns)
        return _said(astra.simulate(program, job, timeout_s=timeout_s, note=note), in_ns)

    if program is None:
        return here()
    if simulator != "both":
        return by_astra(program)
    ours, theirs = here(), by_astra(program)
    _compare(ours, theirs, program)
    settings = {**ours.settings, "agrees with": str(program.path)}
    return replace(ours, settings=settings)


def by_embedded(
    inputs: Inputs,
    options: Options,
    *,
    exact_durations: bool = True,
    note: Note = lambda text: None,
) -> Result:
    """Simulate inputs that are in memory by the embedded simulator; raises HespasError."""
    in_ns = exact(inputs) if exact_durations else None
    result = embedded.simulate(in_ns or inputs, options)
    for text in warnings(result):
        note(f"warning: {text}")
    return _said(result, in_ns is not None)


def warnings(result: Result) -> list[str]:
    """What is unsure of a result's network: collectives that were not measured as they are."""
    told = result.settings.get("curves", "")
    unsure = any(tag in told for tag in (BETWEEN, SCALED, BEYOND, MODELLED))
    return [f"{BY_CURVES}: {told}"] if unsure else []


def program_for(
    simulator: str,
    options: Options,
    astra_sim: str | os.PathLike[str] | None = None,
    note: Note = lambda text: None,
) -> Program | None:
    """ASTRA-sim, where it is to be run; None for the embedded simulator alone.

    Raises HespasError where it is asked for and cannot be, UsageError for an unknown simulator.
    """
    if simulator not in SIMULATORS:
        known = ", ".join(SIMULATORS)
        raise UsageError(f"there is no simulator '{simulator}'", remedy=f"known: {known}")
    if simulator == "embedded":
        return None
    if simulator == "auto":
        missing = astra.missing(options)
        if missing:
            note(f"simulator: embedded, as ASTRA-sim has no {missing}")
            return None
    else:
        astra.supported(options)
    program = astra_program.find(astra_sim, congestion=options.congestion)
    if program is None and simulator != "auto":
        name = astra_program.AWARE if options.congestion else astra_program.UNAWARE
        raise HespasError(
            f"{name} is not on PATH",
            remedy="name it with --astra-sim PATH, or take --simulator embedded",
        )
    if simulator == "auto":
        note(f"simulator: {program.path if program else 'embedded, as ASTRA-sim is not on PATH'}")
    return program


def _said(result: Result, in_ns: bool) -> Result:
    how = "nanoseconds" if in_ns else "as ASTRA-sim reads the files"
    return replace(result, settings={**result.settings, "durations": how})


def _compare(ours: Result, theirs: Result, program: Program) -> None:
    """Raises HespasError where two results differ in a device's finish or exposed time."""
    shown = []
    count = 0
    for device, (a, b) in enumerate(zip(ours.devices, theirs.devices, strict=True)):
        for what in ("finish_ns", "exposed_ns"):
            mine, other = getattr(a, what), getattr(b, what)
            if mine != other:
                count += 1
                if len(shown) < 3:
                    name = what.removesuffix("_ns")
                    shown.append(f"device {device} {name} {mine} ns here, {other} ns there")
    if count:
        raise HespasError(
            f"the embedded simulator and {program.path.name} disagree in {count} times: "
            + "; ".join(shown),
            remedy="please report it, with the traces and the system",
        )
