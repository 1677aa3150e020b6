"""Lower bounds of the step time of a layout, from its sketch.

A bound adds up what the fused program does one after the other on every device:

* each matrix product at the time of its kernel without memory traffic, and each attention call;
* one write and one read of each result of the step, such as parameters and moments;
* each collective at the time of the simulator. Collectives that XLA may combine with others count
  by their share of a combined one, so that combining them cannot make the program faster.

The estimate adds the other kernels and memory traffic, so that no bound is above it.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence, Set
from dataclasses import dataclass, field, replace

from hespas.chakra.trace_steps import CollectiveContent, ProgramTrace, TraceStep
from hespas.configs.node_spec import NodeSpec
from hespas.configs.system_spec import SystemSpec
from hespas.estimators.calibrated.attention_shape import AttentionShape
from hespas.estimators.calibrated.device_constants import DeviceConstants
from hespas.estimators.calibrated.kernel_times import (
    estimate_attention_time,
    estimate_product_time,
)
from hespas.estimators.product_shapes import MatrixProduct
from hespas.frontends.export.slice_mesh import list_axis_lines
from hespas.passes.emit.trace_tasks import COMM_TYPES
from hespas.passes.fuse.fuse import FusePass
from hespas.simulators.in_memory_programs import InMemoryPrograms
from hespas.simulators.simulation_options import SimulationOptions, SimulatorChoice
from hespas.simulators.simulator_choice import simulate_inputs
from hespas.workflows.planning import program_sketch as sketch
from hespas.workflows.planning.program_sketch import SketchOp

COMBINED_KINDS = ("all_gather", "all_reduce")

COMBINED_BYTES = FusePass().combine

_Lines = tuple[tuple[int, int], ...]
_Collective = tuple[str, int, _Lines, int]
"""The kind, the operand bytes, the devices of a group, and the devices of a program."""

_BARRIER = 1  # the communicator of all devices


@dataclass(frozen=True)
class StepBound:
    """A lower bound of a step.

    Attributes:
        compute_s: Of the compute time of a device.
        comm_s: Of the time of its collectives.
        resident_bytes: Of the memory of a device.
    """

    compute_s: float
    comm_s: float
    resident_bytes: int

    @property
    def step_time_s(self) -> float:
        return self.compute_s + self.comm_s


@dataclass
class ComputeBounds:
    """Lower bounds of the compute of a node, by the calibrated estimator or at peak rates."""

    node: NodeSpec
    calibrated: bool
    _constants: DeviceConstants = field(init=False)
    _product_s: dict[SketchOp, float] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self._constants = DeviceConstants.from_node(self.node)
        self.calibrated = self.calibrated and self._constants.is_measured

    def bound_compute_s(self, ops: Sequence[SketchOp]) -> float:
        """Bound the compute time of a sketch."""
        compute_s = sum(
            op.runs * self._bound_op_s(op) for op in ops if op.kind in sketch.COMPUTE_KINDS
        )
        moved_bytes = 2 * sum(op.sizes[0] for op in ops if op.kind == sketch.RESULT)
        return compute_s + moved_bytes / self.node.memory_bandwidth_bytes_per_s

    def _bound_op_s(self, op: SketchOp) -> float:
        time_s = self._product_s.get(op)
        if time_s is None:
            time_s = self._product_s[op] = self._compute_op_bound_s(op)
        return time_s

    def _compute_op_bound_s(self, op: SketchOp) -> float:
        if not self.calibrated or op.kind == sketch.CALL:
            return op.sizes[-1] / self.node.find_peak_rate("matrix", op.dtype).flops_per_s
        if op.kind == sketch.PRODUCT:
            count, m, k, n, flops = op.sizes
            shape = MatrixProduct(m, k, n, count, op.dtype, flops)
            return estimate_product_time(self._constants, shape, 0.0).time_s
        heads, queries, head_size, flops = op.sizes
        is_backward = op.kind == sketch.BACKWARD
        call = AttentionShape(heads, queries, head_size, op.dtype, flops, is_backward)
        return estimate_attention_time(self._constants, call, 0.0).time_s


class CommBounds:
    """Lower bounds of the collectives on a system. Equal collectives are simulated once."""

    def __init__(self, system: SystemSpec | None, options: SimulationOptions) -> None:
        self._system = system
        self._choice = SimulatorChoice("embedded", replace(options, intervals=False))
        self._times_s: dict[_Collective, float] = {}

    @property
    def options(self) -> SimulationOptions:
        """The options of the simulation."""
        return self._choice.options

    def bound_comm_s(
        self, ops: Sequence[SketchOp], mesh: Mapping[str, int], dcn: Mapping[str, int] | None = None
    ) -> float:
        """Bound the time of the collectives of a sketch over a mesh, as ``dcn`` divides it."""
        forms = [(op.runs, _list_forms(op, mesh, dcn or {})) for op in ops if op.kind in COMM_TYPES]
        self._simulate_collectives({one for _, ways in forms for one, _ in ways})
        return sum(
            runs * min(share * self._times_s[one] for one, share in ways) for runs, ways in forms
        )

    def _simulate_collectives(self, collectives: Set[_Collective]) -> None:
        """Simulate the collectives whose time is not known, one after the other.

        All groups of a program run a collective at once. If the program runs on a block of the
        devices, such as a stage of a pipeline, the blocks take turns, because they need not run it
        at the same time, and one of them alone may be faster. Barriers separate the collectives.
        """
        missing = sorted(collectives - self._times_s.keys())
        if not missing or self._system is None:
            return
        devices = self._system.device_count
        ids: dict[tuple[int, ...], int] = {tuple(range(devices)): _BARRIER}
        trace = ProgramTrace(devices)

        def append_step(name: str, kind: str, size_bytes: int, groups: tuple[int, ...]) -> None:
            last = len(trace.steps)
            content = CollectiveContent(name, int(COMM_TYPES[kind]), size_bytes, groups)
            trace.steps.append(TraceStep(last + 1, (last,) if last else (), content))

        for number, (kind, size_bytes, lines, block) in enumerate(missing):
            for start in range(0, devices, block):
                groups = tuple(
                    ids.setdefault(tuple(start + member for member in members), len(ids) + 1)
                    for members in _list_groups(lines, block)
                )
                append_step(str(number), kind, size_bytes, groups)
                if block < devices:
                    append_step("", "all_reduce", devices, (_BARRIER,))
        trace.groups = {number: members for members, number in ids.items()}
        inputs = InMemoryPrograms(trace).place_on_system(self._system)
        for record in simulate_inputs(inputs, self._choice).comms:
            if record.name:
                one = missing[int(record.name)]
                time_s = 1e-9 * (record.finish_ns - record.ready_ns)
                self._times_s[one] = min(time_s, self._times_s.get(one, time_s))


def _list_forms(
    op: SketchOp, mesh: Mapping[str, int], dcn: Mapping[str, int]
) -> list[tuple[_Collective, float]]:
    """List a collective as it is, and as its share of the largest one that it is combined into."""
    lines = tuple(list_axis_lines(op.axes, mesh, dcn))
    operand_bytes, devices = op.sizes[0], math.prod(mesh.values())
    forms = [((op.kind, operand_bytes, lines, devices), 1.0)]
    members = math.prod(count for _, count in lines) if op.kind == "all_gather" else 1
    largest_bytes = COMBINED_BYTES // members
    if op.kind in COMBINED_KINDS and operand_bytes < largest_bytes:
        one = (op.kind, largest_bytes, lines, devices)
        forms.append((one, operand_bytes / largest_bytes))
    return forms


def _list_groups(lines: _Lines, devices: int) -> list[tuple[int, ...]]:
    """List the groups of devices that differ along ``lines`` only, ascending."""
    groups: dict[int, list[int]] = {}
    for device in range(devices):
        first = device - sum(stride * (device // stride % count) for stride, count in lines)
        groups.setdefault(first, []).append(device)
    return [tuple(members) for members in groups.values()]
