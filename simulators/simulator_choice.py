"""One simulation by the chosen simulator: the embedded one, ASTRA-sim, or both compared."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from hespas.chakra.node_rules import read_integer_attr
from hespas.chakra.trace_reader import TraceNode
from hespas.configs.system_spec import SystemSpec
from hespas.simulators import astra, astra_program, embedded
from hespas.simulators.astra_program import AstraProgram
from hespas.simulators.embedded.curves import load_curves
from hespas.simulators.embedded.nccl_tuning import load_nccl_tuning
from hespas.simulators.simulated_program import SimulatedProgram
from hespas.simulators.simulation_inputs import SimulationInputs
from hespas.simulators.simulation_options import ASTRA, SIMULATORS, SimulatorChoice
from hespas.simulators.simulation_result import SimulationResult
from hespas.simulators.simulation_steps import SimulationStep
from hespas.support.errors import HespasError, UsageError

Note = Callable[[str], None]
_PEAK_TFLOPS = 1.0
_MIN_MEMORY_GB_S = 1.0  # below it, the 1 byte of tensor_size would bound the time of a node


def simulate_inputs(
    inputs: SimulationInputs, choice: SimulatorChoice, *, note: Note = lambda text: None
) -> SimulationResult:
    """Simulate traces that ``load_inputs`` has read.

    Args:
        inputs: The traces and the system.
        choice: The simulator and its options.
        note: Called with remarks and warnings.

    Raises:
        HespasError: The traces cannot be simulated, or two simulators disagree.
    """
    for text in (*inputs.system.notes, *inputs.notes):
        note(text)
    if choice.simulator == "simgrid":
        return _simulate_by_simgrid(inputs, choice)
    program = select_astra_program(choice, note)
    if program is not None and inputs.system.needs_embedded:
        _reject_astra(inputs.system, choice, note)
        program = None
    if program is None:
        return _simulate_embedded(inputs, choice, note)
    if choice.simulator != "both":
        return _simulate_by_astra(program, inputs, choice, note)
    options = replace(choice.options, network_model=ASTRA)
    embedded_result = _simulate_embedded(inputs, replace(choice, options=options), note)
    astra_result = _simulate_by_astra(program, inputs, choice, note)
    _compare_results(embedded_result, astra_result, program)
    return replace(
        embedded_result, settings=replace(embedded_result.settings, agrees_with=str(program.path))
    )


def _reject_astra(system: SystemSpec, choice: SimulatorChoice, note: Note) -> None:
    """Note that the embedded simulator runs instead; raise HespasError if that is not allowed."""
    text = f"ASTRA-sim has no model of the network of {system.name}"
    if choice.simulator != "auto":
        raise HespasError(text, where=str(system.folder), remedy="use --simulator embedded")
    note(f"simulator: embedded, as {text}")


def _simulate_embedded(
    inputs: SimulationInputs, choice: SimulatorChoice, note: Note
) -> SimulationResult:
    exact_inputs = apply_exact_durations(inputs) if choice.exact_durations else None
    result = embedded.run_event_simulation(exact_inputs or inputs, choice.options)
    for text in list_warnings(result):
        note(f"warning: {text}")
    return _record_duration_unit(result, exact_inputs is not None)


def _simulate_by_astra(
    program: AstraProgram, inputs: SimulationInputs, choice: SimulatorChoice, note: Note
) -> SimulationResult:
    is_exact = choice.exact_durations and apply_exact_durations(inputs) is not None
    simulation = astra.AstraSimulation(inputs, choice.options, exact=is_exact)
    result = astra.simulate_with_astra(program, simulation, timeout_s=choice.timeout_s, note=note)
    return _record_duration_unit(result, is_exact)


def _simulate_by_simgrid(inputs: SimulationInputs, choice: SimulatorChoice) -> SimulationResult:
    from hespas.simulators.simgrid_backend import simgrid_simulation

    simgrid_simulation.check_supported_options(choice.options)
    exact_inputs = apply_exact_durations(inputs) if choice.exact_durations else None
    result = simgrid_simulation.simulate_with_simgrid(
        exact_inputs or inputs, choice.options, choice.simgrid_model, choice.timeout_s
    )
    return _record_duration_unit(result, exact_inputs is not None)


def list_warnings(result: SimulationResult) -> list[str]:
    """Describe the uncertainty of a result: collectives that were not timed as they are."""
    curves, count = result.settings.curves, result.settings.replayed_broadcasts
    warnings = curves.list_warnings() if curves else []
    if count:
        text = "BROADCASTs take the duration of their nodes, without a network"
        warnings.append(f"{text}: they have no comm_size, or ASTRA-sim's rules replay them")
    return warnings


def check_simulator(choice: SimulatorChoice) -> None:
    """Check what can be checked without traces.

    Raises:
        HespasError: ASTRA-sim or SimGrid was requested, but is not installed or does not support
            the options.
        UsageError: The simulator or the device of the measured curves is unknown, or NCCL's model
            has no constants of the device.
    """
    select_astra_program(choice)
    if choice.simulator == "simgrid":
        from hespas.simulators.simgrid_backend import simgrid_simulation

        simgrid_simulation.check_supported_options(choice.options)
    if choice.options.curves:
        load_curves(choice.options.curves)
    if choice.options.between_hosts == "nccl":
        load_nccl_tuning(choice.options.curves)


def select_astra_program(
    choice: SimulatorChoice, note: Note = lambda text: None
) -> AstraProgram | None:
    """Return ASTRA-sim if it is to be run, None for the embedded simulator alone.

    Raises:
        HespasError: ASTRA-sim was requested, but is not installed or does not support the options.
        UsageError: The simulator is unknown.
    """
    simulator, options = choice.simulator, choice.options
    if simulator not in SIMULATORS:
        known = ", ".join(SIMULATORS)
        raise UsageError(f"there is no simulator '{simulator}'", remedy=f"known: {known}")
    is_other = simulator in ("embedded", "simgrid")
    if is_other or (simulator == "auto" and choice.astra_sim is None):
        return None
    if simulator == "auto":
        missing = astra.describe_missing_features(options)
        if missing:
            note(f"simulator: embedded, as ASTRA-sim cannot model {missing}")
            return None
    else:
        astra.check_supported_options(options)
    program = astra_program.find_astra_sim(choice.astra_sim, congestion=options.congestion)
    if program is None:
        name = astra_program.AWARE if options.congestion else astra_program.UNAWARE
        raise HespasError(
            f"{name} is not on PATH",
            remedy="name it with --astra-sim PATH, or use --simulator embedded",
        )
    if simulator == "auto":
        note(f"simulator: {program.path}")
    return program


def _record_duration_unit(result: SimulationResult, is_exact: bool) -> SimulationResult:
    return replace(result, settings=replace(result.settings, exact_durations=is_exact))


def _compare_results(
    embedded_result: SimulationResult, astra_result: SimulationResult, program: AstraProgram
) -> None:
    """Raise HespasError if the finish or exposed time of a device differs between two results."""
    differences = [
        f"device {device} {name} {our_time} ns here, {their_time} ns there"
        for device, (a, b) in enumerate(
            zip(embedded_result.devices, astra_result.devices, strict=True)
        )
        for name, our_time, their_time in (
            ("finish", a.finish_ns, b.finish_ns),
            ("exposed", a.exposed_ns, b.exposed_ns),
        )
        if our_time != their_time
    ]
    if differences:
        raise HespasError(
            f"the embedded simulator and {program.path.name} disagree in {len(differences)} times: "
            + "; ".join(differences[:3]),
            remedy="please report it, with the traces and the system",
        )


def apply_exact_durations(inputs: SimulationInputs) -> SimulationInputs | None:
    """Return the inputs with durations in nanoseconds, which ASTRA-sim's microseconds cannot hold.

    For a compute node of n nanoseconds, hespas writes num_ops = 1000 n + 500 and tensor_size = 1.
    Systems without roofline mode ignore both. With roofline-enabled 1 and peak-perf 1, the roofline
    mode of ASTRA-sim computes exactly n nanoseconds from them; nothing else depends on those two
    keys. Returns None if a trace or the system does not allow it.
    """
    if inputs.system.roofline_enabled or inputs.system.local_mem_bw_gb_s < _MIN_MEMORY_GB_S:
        return None
    exact_programs: dict[int, SimulatedProgram] = {}
    for device in inputs.devices:
        program = device.program
        if id(program) not in exact_programs:
            exact_program = _build_exact_program(program)
            if exact_program is None:
                return None
            exact_programs[id(program)] = exact_program
    devices = [
        replace(device, program=exact_programs[id(device.program)]) for device in inputs.devices
    ]
    system = replace(inputs.system, roofline_enabled=True, peak_perf_tflops=_PEAK_TFLOPS)
    return replace(inputs, system=system, devices=devices)


def _build_exact_program(program: SimulatedProgram) -> SimulatedProgram | None:
    """Return a program with exact durations; None if a compute node of the device has none."""
    known: dict[int, SimulationStep] = {}  # by identity of the attributes
    steps: list[SimulationStep] = []
    for node, step in zip(program.nodes, program.steps, strict=True):
        if step.resource != "compute":
            steps.append(step)
            continue
        exact_step = known.get(id(node.attrs))
        if exact_step is None:
            duration_ns = _read_exact_duration(node)
            if duration_ns is None:
                return None
            exact_step = known[id(node.attrs)] = SimulationStep("compute", duration_ns)
        steps.append(exact_step)
    return replace(program, steps=steps)


def _read_exact_duration(node: TraceNode) -> int | None:
    """Return the nanoseconds of a compute node; None if it has no exact duration."""
    ops = read_integer_attr(node, "num_ops")
    is_exact = (
        ops is not None
        and ops > 1000
        and ops % 1000 == 500
        and read_integer_attr(node, "tensor_size") == 1
    )
    return ops // 1000 if ops is not None and is_exact else None
