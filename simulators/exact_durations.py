"""Durations in nanoseconds, which ASTRA-sim's field for microseconds cannot hold.

For a compute node of n nanoseconds, hespas writes num_ops = 1000 n + 500 and tensor_size = 1.
Systems without roofline mode ignore both. With roofline-enabled 1 and peak-perf 1, the roofline
mode of ASTRA-sim computes exactly n nanoseconds from them; nothing else depends on those two keys.
"""

from __future__ import annotations

from dataclasses import replace

from hespas.chakra.node_rules import read_integer_attr
from hespas.chakra.trace_reader import TraceNode
from hespas.configs.system_spec import SystemSpec
from hespas.simulators.simulated_program import SimulatedProgram
from hespas.simulators.simulation_inputs import SimulationInputs
from hespas.simulators.simulation_steps import SimulationStep

_PEAK_TFLOPS = 1.0
_MIN_MEMORY_GB_S = 1.0  # below it, the 1 byte of tensor_size would bound the time of a node


def _can_use_exact_durations(system: SystemSpec) -> bool:
    """Return whether a system uses the durations of the trace: its roofline mode is off."""
    return not system.roofline_enabled and system.local_mem_bw_gb_s >= _MIN_MEMORY_GB_S


def apply_exact_durations(inputs: SimulationInputs) -> SimulationInputs | None:
    """Return the inputs with exact durations; None if a trace or the system does not allow it."""
    if not _can_use_exact_durations(inputs.system):
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
