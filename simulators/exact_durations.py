"""Durations in nanoseconds, which ASTRA-sim's field for microseconds cannot hold.

For a compute node of n nanoseconds, hespas writes num_ops = 1000 n + 500 and tensor_size = 1.
Systems without roofline mode ignore both. With roofline-enabled 1 and peak-perf 1, the roofline
mode of ASTRA-sim computes exactly n nanoseconds from them; nothing else depends on those two keys.
"""

from __future__ import annotations

from dataclasses import replace

from hespas.chakra.node_rules import COMP, read_integer_attr
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
            if not all(
                _has_exact_duration(node) for node in program.nodes if _is_device_compute(node)
            ):
                return None
            exact_programs[id(program)] = _build_exact_program(program)
    devices = [
        replace(device, program=exact_programs[id(device.program)]) for device in inputs.devices
    ]
    system = replace(inputs.system, roofline_enabled=True, peak_perf_tflops=_PEAK_TFLOPS)
    return replace(inputs, system=system, devices=devices)


def _is_device_compute(node: TraceNode) -> bool:
    return node.type == COMP and not node.get_attr_value("is_cpu_op", False)


def _has_exact_duration(node: TraceNode) -> bool:
    ops = read_integer_attr(node, "num_ops")
    return (
        ops is not None
        and ops > 1000
        and ops % 1000 == 500
        and read_integer_attr(node, "tensor_size") == 1
    )


def _build_exact_program(program: SimulatedProgram) -> SimulatedProgram:
    steps = [
        SimulationStep("compute", (read_integer_attr(node, "num_ops") or 0) // 1000)
        if step.resource == "compute"
        else step
        for node, step in zip(program.nodes, program.steps, strict=True)
    ]
    return replace(program, steps=steps)
