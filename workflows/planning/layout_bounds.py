"""Lower bounds of the steps of layouts, from the sketches of a few of them.

A bound adds up what the fused program does one after the other on every device:

* each matrix product at the time of its kernel without memory traffic, and each attention call;
* one write and one read of each result of the step, such as parameters and moments;
* each collective at the time of the simulator. Collectives that XLA may combine with others count
  by their share of a combined one, so that combining them cannot make the program faster.

The estimate adds the other kernels and memory traffic, so that no bound is above it.

Each size in a sketch is a product of powers of the layout's: the local sizes of a program are the
global sizes divided by axes of the mesh, times the samples of a microbatch. Layouts that differ in
such sizes only are thus a family: the sketch of one member, and one more for each size that
differs, give the exponents of every number in the sketch, and so the sketches of all members. A
ratio that is no whole power means that the layouts are no family.
"""

from __future__ import annotations

import contextlib
import math
from collections.abc import Callable, Iterator, Mapping, Sequence, Set
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
from hespas.support.errors import HespasError
from hespas.workflows.planning import program_sketch as sketch
from hespas.workflows.planning.layout_programs import LayoutPrograms
from hespas.workflows.planning.layout_space import ACCUMULATE, BATCH, LAYERS, LayoutCandidate
from hespas.workflows.planning.program_sketch import COMPUTE_KINDS, SketchOp, sum_resident_bytes

_FamilyKey = tuple[tuple[tuple[str, str], ...], bool]
_COUNTS = (BATCH, ACCUMULATE, LAYERS)  # options in which members of a family may differ
LayoutPoint = Mapping[str, int]
"""The sizes in which the members of a family differ, by name: axes, batch and accumulate."""

_MAX_POWER = 2
COMBINED_KINDS = ("all_gather", "all_reduce")

COMBINED_BYTES = FusePass().combine

_Lines = tuple[tuple[int, int], ...]
_Collective = tuple[str, int, _Lines, int]
"""The kind, the operand bytes, the devices of a group, and the devices of a program."""

_BARRIER = 1  # the communicator of all devices


@dataclass(frozen=True)
class FamilyPlan:
    """The layouts that may be a family, and those whose sketches would show it.

    Attributes:
        members: The positions of the layouts.
        options: The options that all of them have.
        base: The layout whose sketch the others are derived from.
        variants: By the name of a size, a layout that differs from ``base`` in it alone.
        check: A layout without parallelism over the axes that differ, to check the family; None if
            no member has any of these axes at 1.
    """

    members: Sequence[int]
    options: Mapping[str, str]
    base: Mapping[str, int]
    variants: Mapping[str, Mapping[str, int]]
    check: Mapping[str, int] | None

    @property
    def points(self) -> list[Mapping[str, int]]:
        """The layouts to sketch: the base, its variants, and the check."""
        return [self.base, *self.variants.values(), *([self.check] if self.check else [])]

    def list_samples(
        self, candidates: Sequence[LayoutCandidate]
    ) -> Iterator[tuple[dict[str, int], dict[str, str]]]:
        """Yield the mesh and the options of each layout to sketch."""
        axes = candidates[self.members[0]].mesh
        for point in self.points:
            counts = {name: str(size) for name, size in point.items() if name not in axes}
            yield {name: point[name] for name in axes}, {**self.options, **counts}


@dataclass
class LayoutBounds:
    """Computes bounds of layouts.

    Attributes:
        programs: Makes the sketches.
        compute: The bounds of compute.
        comm: The bounds of communication.
        note: Receives a line for each group of layouts whose sketches form no family.
    """

    programs: LayoutPrograms
    compute: ComputeBounds
    comm: CommBounds
    note: Callable[[str], None]

    def bound_candidates(self, candidates: Sequence[LayoutCandidate]) -> list[StepBound | None]:
        """Bound the step of each layout.

        Returns:
            For each layout its bound; None if its sketch cannot be derived from those of others, or
            if its group is too small for that to save sketches.
        """
        return [
            None
            if ops is None
            else StepBound(
                self.compute.bound_compute_s(ops),
                self.comm.bound_comm_s(ops, candidate.mesh, candidate.dcn),
                sum_resident_bytes(ops),
            )
            for candidate, ops in zip(candidates, self.derive_sketches(candidates), strict=True)
        ]

    def derive_sketches(self, candidates: Sequence[LayoutCandidate]) -> list[list[SketchOp] | None]:
        """Derive the sketches of layouts from those of a few; None for those that do not follow."""
        derived: list[list[SketchOp] | None] = [None] * len(candidates)
        groups = group_families(candidates)
        while groups:
            plans = plan_families(candidates, groups)
            samples = [sample for plan in plans for sample in plan.list_samples(candidates)]
            sketches = iter(self.programs.make_sketches(samples))
            groups = []
            for plan in plans:
                try:
                    family = _build_family(plan, [next(sketches) for _ in plan.points])
                except NoSketchFamily as error:
                    # Without parallelism over an axis a program may have other ops, so that the
                    # group may be two families.
                    parts = _split_members(candidates, plan.members, error.size_name)
                    groups += parts
                    if not parts:
                        count = len(plan.members)
                        self.note(f"note: {count} layouts have no bound: {error.message}")
                    continue
                for index in plan.members:
                    with contextlib.suppress(NoSketchFamily):  # of a member alone
                        derived[index] = family.derive_sketch(make_point(candidates[index]))
        return derived


def make_point(candidate: LayoutCandidate) -> dict[str, int]:
    """Return the sizes of a layout in which members of a family may differ."""
    counts = {n: int(candidate.options[n]) for n in _list_counts(candidate)}
    return {**candidate.mesh, **counts}


def _list_counts(candidate: LayoutCandidate) -> list[str]:
    """List the options that are sizes. Layers are one where a loop runs over them."""
    options = candidate.options
    fixed = () if options.get("scan") == "true" else (LAYERS,)
    return [name for name in _COUNTS if name in options and name not in fixed]


def _split_members(
    candidates: Sequence[LayoutCandidate], members: Sequence[int], axis: str
) -> list[list[int]]:
    """Split layouts into those without parallelism over an axis and the others; [] if all agree."""
    parts: dict[bool, list[int]] = {}
    for index in members:
        parts.setdefault(candidates[index].mesh.get(axis, 1) == 1, []).append(index)
    return [*parts.values()] if len(parts) > 1 else []


def group_families(candidates: Sequence[LayoutCandidate]) -> list[list[int]]:
    """Group the layouts that may be a family.

    Members have equal options but for the batch and the layers of a loop, and all or none
    accumulate microbatches in a loop.
    """
    groups: dict[_FamilyKey, list[int]] = {}
    for index, candidate in enumerate(candidates):
        counts = _list_counts(candidate)
        shared = {n: v for n, v in candidate.options.items() if n not in counts}
        loops = candidate.options.get(ACCUMULATE, "1") != "1"
        groups.setdefault((tuple(sorted(shared.items())), loops), []).append(index)
    return [*groups.values()]


def plan_families(
    candidates: Sequence[LayoutCandidate], groups: Sequence[Sequence[int]]
) -> list[FamilyPlan]:
    """Plan the families of layouts, where sketching a few of them saves work."""
    plans = [_plan_family(members, [candidates[i] for i in members]) for members in groups]
    return [plan for plan in plans if len(plan.members) > len(plan.points)]


def _plan_family(members: Sequence[int], candidates: Sequence[LayoutCandidate]) -> FamilyPlan:
    counts = _list_counts(candidates[0])
    options = {n: v for n, v in candidates[0].options.items() if n not in counts}
    points = [make_point(candidate) for candidate in candidates]
    tried = {name: sorted({point[name] for point in points}) for name in points[0]}
    varied = [name for name, sizes in tried.items() if len(sizes) > 1]
    # With every axis above 1, the sketch has all collectives that a member may have.
    above = {n: [s for s in sizes if s > 1 or n == BATCH] or sizes for n, sizes in tried.items()}
    base = {name: sizes[0] for name, sizes in above.items()}
    # A collective over an axis of sizes 1 and N needs no exponent: it has the size of the base.
    variants = {
        name: {**base, name: above[name][1] if len(above[name]) > 1 else tried[name][0]}
        for name in varied
    }
    single = {n: 1 for n in varied if tried[n][0] == 1 and n not in _COUNTS}
    return FamilyPlan(members, options, base, variants, {**base, **single} if single else None)


def _build_family(
    plan: FamilyPlan, sketches: Sequence[list[SketchOp] | HespasError]
) -> SketchFamily:
    """Build a family from the sketches of its samples; raises NoSketchFamily."""
    samples = []
    for point, ops in zip(plan.points, sketches, strict=True):
        if isinstance(ops, HespasError):
            raise NoSketchFamily(ops.message)
        samples.append(SketchSample(point, ops))
    base, *others = samples
    family = SketchFamily(base, dict(zip(plan.variants, others, strict=False)))
    if plan.check:
        check_member(family, samples[-1])
    return family


class NoSketchFamily(HespasError):
    """The sketches of layouts do not follow from each other.

    Attributes:
        size_name: The size whose layouts have other ops; "" if the reason is another one.
    """

    def __init__(self, message: str, size_name: str = "") -> None:
        super().__init__(message)
        self.size_name = size_name


@dataclass(frozen=True)
class SketchSample:
    """The sketch of one layout."""

    point: LayoutPoint
    ops: Sequence[SketchOp]


class SketchFamily:
    """The sketch of one layout, and how each of its numbers depends on the sizes of a layout."""

    def __init__(self, base: SketchSample, variants: Mapping[str, SketchSample]) -> None:
        """Compare a sketch with one more for each size, by its name, that differs.

        Raises:
            NoSketchFamily: The sketches have other ops, or a ratio of sizes is no whole power.
        """
        self._base = base
        # For each size and each op, the exponents of its sizes and its runs
        self._powers = {name: _find_powers(base, name, sample) for name, sample in variants.items()}

    def derive_sketch(self, point: LayoutPoint) -> list[SketchOp]:
        """Derive the sketch of the member at ``point``.

        Collectives over axes of one device do not exist.

        Raises:
            NoSketchFamily: A derived number is not whole.
        """
        ops = []
        for index, op in enumerate(self._base.ops):
            member_op = _remove_axes(op, [name for name, size in point.items() if size == 1])
            if member_op is not None:
                *sizes, runs = self._scale_numbers((*op.sizes, op.runs), index, point)
                ops.append(replace(member_op, sizes=tuple(sizes), runs=runs))
        return ops

    def _scale_numbers(
        self, numbers: Sequence[int], index: int, point: LayoutPoint
    ) -> Sequence[int]:
        """Scale numbers of an op from the base to a point, exactly."""
        if all(not any(powers[index]) for powers in self._powers.values()):
            return numbers
        scaled = []
        for position, number in enumerate(numbers):
            above, below = number, 1
            for name, powers in self._powers.items():
                power = powers[index][position]
                first, second = (point[name], self._base.point[name])
                if power < 0:
                    first, second = second, first
                above, below = above * first ** abs(power), below * second ** abs(power)
            if above % below:
                raise NoSketchFamily("the size of an op is not whole")
            scaled.append(above // below)
        return scaled


def check_member(family: SketchFamily, sample: SketchSample) -> None:
    """Check that a family gives the compute of the sketch of another member.

    Raises:
        NoSketchFamily: It does not.
    """
    derived, actual = (
        [(op.kind, op.dtype, op.sizes, op.runs) for op in ops if op.kind in COMPUTE_KINDS]
        for ops in (family.derive_sketch(sample.point), sample.ops)
    )
    if derived != actual:
        raise NoSketchFamily("the compute of one layout does not follow from that of another")


def _find_powers(base: SketchSample, name: str, variant: SketchSample) -> list[tuple[int, ...]]:
    """Find the exponents of the size ``name`` in each number of the sketch of ``base``.

    A variant without the axis ``name`` lacks the collectives over it alone. All members that have
    them have as many devices along the axis as the base, so that their exponents do not matter.
    """
    gone = (name,) if variant.point[name] == 1 else ()
    left = [_remove_axes(op, gone) for op in base.ops]
    shared_ops = [op for op in left if op is not None]
    forms = [
        [(op.kind, op.dtype, op.axes, op.loop) for op in ops] for ops in (shared_ops, variant.ops)
    ]
    if forms[0] != forms[1]:
        raise NoSketchFamily(f"layouts with other sizes of {name} have other ops", name)
    step, others = variant.point[name] / base.point[name], iter(variant.ops)
    return [
        (0,) * (len(op.sizes) + 1)
        if reduced is None
        else _find_op_powers(op, next(others), step, name)
        for op, reduced in zip(base.ops, left, strict=True)
    ]


def _remove_axes(op: SketchOp, gone: Sequence[str]) -> SketchOp | None:
    """Return an op without axes that it spans; None for a collective that spans no other."""
    axes = tuple(axis for axis in op.axes if axis not in gone)
    return None if op.axes and not axes else replace(op, axes=axes)


def _find_op_powers(op: SketchOp, other: SketchOp, step: float, name: str) -> tuple[int, ...]:
    numbers = zip((*op.sizes, op.runs), (*other.sizes, other.runs), strict=True)
    return tuple(_find_power(step, before, after, name) for before, after in numbers)


def _find_power(step: float, before: int, after: int, name: str) -> int:
    if before == after:
        return 0
    if before and after:
        power = round(math.log(after / before) / math.log(step))
        if abs(power) <= _MAX_POWER and math.isclose(after / before, step**power, rel_tol=1e-12):
            return power
    raise NoSketchFamily(f"the sizes of ops are no powers of {name}")


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
    """Lower bounds of the compute of a node, by the calibrated estimator or at peak rates.

    Attributes:
        node: The node.
        calibrated: Whether the times are those of the calibrated estimator.
        speed: That of the fastest device, relative to the node.
    """

    node: NodeSpec
    calibrated: bool
    speed: float = 1.0
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
        return (compute_s + moved_bytes / self.node.memory_bandwidth_bytes_per_s) / self.speed

    def _bound_op_s(self, op: SketchOp) -> float:
        if op not in self._product_s:
            self._product_s[op] = self._compute_op_bound_s(op)
        return self._product_s[op]

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
