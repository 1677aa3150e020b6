"""Totals and intervals of a device, from the times of its nodes."""

from __future__ import annotations

import functools

from hespas.simulators.simulated_program import SimulatedProgram
from hespas.simulators.simulation_result import DeviceResult, NodeInterval, compute_device_result

from .device_runner import DeviceLane

_make_interval = functools.partial(tuple.__new__, NodeInterval)  # faster than a call of the class
_COMMUNICATING = ("comm", "slices", "recv")
_INTERVAL_RESOURCES = {
    "compute": "compute", "cpu": "cpu", "skip": "compute", "comm": "comm", "recv": "recv",
    "slices": "slices",
}  # fmt: skip


def collect_intervals(program: SimulatedProgram, lane: DeviceLane) -> list[NodeInterval]:
    """Return the interval of each node, in order of issue."""
    nodes, steps, ends = program.nodes, program.steps, lane.ends
    issued = sorted([(lane.starts[p], p) for p in lane.order])
    return [
        _make_interval((nodes[p].id, start, ends[p], _INTERVAL_RESOURCES[steps[p].resource]))
        for start, p in issued
    ]


def compute_totals(program: SimulatedProgram, lane: DeviceLane) -> DeviceResult:
    """Return the totals of a device."""
    steps, starts, ends = program.steps, lane.starts, lane.ends
    compute = [(starts[p], ends[p]) for p in lane.order if steps[p].resource == "compute"]
    comm = [(starts[p], ends[p]) for p in lane.order if steps[p].resource in _COMMUNICATING]
    return compute_device_result(lane.finish_ns, compute, comm)
