"""Nanosecond durations from traces that carry them, though ASTRA-sim's field holds microseconds.

``hespas`` writes into num_ops 1000 for each nanosecond of a compute node and 500 more, and 1 into
tensor_size. A system whose roofline mode is off does not read them. Run with roofline-enabled 1 and
peak-perf 1 it takes just these nanoseconds, in ASTRA-sim too; nothing else depends on those keys.
"""

from __future__ import annotations

from dataclasses import replace

from hespas.chakra.reader import Node
from hespas.chakra.rules import COMP, number
from hespas.configs.system import System
from hespas.simulators.inputs import Inputs, Program

PEAK_TFLOPS = 1.0
LEAST_MEMORY_GB_S = 1.0  # below, a node would be bound by its 1 byte of memory


def allowed(system: System) -> bool:
    """Whether a system leaves the durations to the trace: its own roofline mode is off."""
    return not system.roofline_enabled and system.local_mem_bw_gb_s >= LEAST_MEMORY_GB_S


def exact(inputs: Inputs) -> Inputs | None:
    """The inputs with the durations in nanoseconds; None where trace or system do not allow it."""
    if not allowed(inputs.system):
        return None
    found: dict[int, Program] = {}
    for device in inputs.devices:
        program = device.program
        if id(program) not in found:
            if not all(_is_exact(node) for node in program.nodes if _computes(node)):
                return None
            found[id(program)] = _program(program)
    devices = [replace(device, program=found[id(device.program)]) for device in inputs.devices]
    system = replace(inputs.system, roofline_enabled=True, peak_perf_tflops=PEAK_TFLOPS)
    return replace(inputs, system=system, devices=devices)


def _computes(node: Node) -> bool:
    return node.type == COMP and not node.value("is_cpu_op", False)


def _is_exact(node: Node) -> bool:
    ops = number(node, "num_ops")
    return ops is not None and ops > 1000 and ops % 1000 == 500 and number(node, "tensor_size") == 1


def _program(program: Program) -> Program:
    steps = [
        replace(step, duration_ns=(number(node, "num_ops") or 0) // 1000)
        if step.resource == "compute"
        else step
        for node, step in zip(program.nodes, program.steps, strict=True)
    ]
    return replace(program, steps=steps)
