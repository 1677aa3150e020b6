"""Bounds of the layouts of a plan, from the sketches of a few of them."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from hespas.support.errors import HespasError
from hespas.workflows.planning.layout_programs import LayoutPrograms
from hespas.workflows.planning.layout_space import ACCUMULATE, BATCH, LAYERS, LayoutCandidate
from hespas.workflows.planning.program_sketch import SketchOp, sum_resident_bytes
from hespas.workflows.planning.sketch_family import (
    NoSketchFamily,
    SketchFamily,
    SketchSample,
    build_sketch_family,
    check_member,
)
from hespas.workflows.planning.step_bounds import CommBounds, ComputeBounds, StepBound

_FamilyKey = tuple[tuple[tuple[str, str], ...], bool]
_COUNTS = (BATCH, ACCUMULATE, LAYERS)  # options in which members of a family may differ


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
    def samples(self) -> list[Mapping[str, int]]:
        """The layouts to sketch: the base, its variants, and the check."""
        return [self.base, *self.variants.values(), *([self.check] if self.check else [])]


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
            None if ops is None else self._bound_sketch(ops, candidate)
            for candidate, ops in zip(candidates, self.derive_sketches(candidates), strict=True)
        ]

    def derive_sketches(self, candidates: Sequence[LayoutCandidate]) -> list[list[SketchOp] | None]:
        """Derive the sketches of layouts from those of a few; None for those that do not follow."""
        derived: list[list[SketchOp] | None] = [None] * len(candidates)
        groups = group_families(candidates)
        while groups:
            plans = plan_families(candidates, groups)
            groups = []
            for plan, sketches in zip(plans, self._make_samples(candidates, plans), strict=True):
                try:
                    family = _build_family(plan, sketches)
                except NoSketchFamily as error:
                    parts = _split_members(candidates, plan.members, error.size_name)
                    groups += parts
                    if not parts:
                        count = len(plan.members)
                        self.note(f"note: {count} layouts have no bound: {error.message}")
                    continue
                for index in plan.members:
                    derived[index] = _derive_member(family, candidates[index])
        return derived

    def _make_samples(
        self, candidates: Sequence[LayoutCandidate], plans: Sequence[FamilyPlan]
    ) -> list[list[list[SketchOp] | HespasError]]:
        """Make the sketches of the samples of each plan."""
        layouts = [
            split_point(point, plan.options, set(candidates[plan.members[0]].mesh))
            for plan in plans
            for point in plan.samples
        ]
        sketches = iter(self.programs.make_sketches(layouts))
        return [[next(sketches) for _ in plan.samples] for plan in plans]

    def _bound_sketch(self, ops: list[SketchOp], candidate: LayoutCandidate) -> StepBound:
        return StepBound(
            self.compute.bound_compute_s(ops),
            self.comm.bound_comm_s(ops, candidate.mesh, candidate.dcn),
            sum_resident_bytes(ops),
        )


def make_point(candidate: LayoutCandidate) -> dict[str, int]:
    """Return the sizes of a layout in which members of a family may differ."""
    counts = {n: int(candidate.options[n]) for n in _list_counts(candidate)}
    return {**candidate.mesh, **counts}


def _list_counts(candidate: LayoutCandidate) -> list[str]:
    """List the options that are sizes. Layers are one where a loop runs over them."""
    options = candidate.options
    fixed = () if options.get("scan") == "true" else (LAYERS,)
    return [name for name in _COUNTS if name in options and name not in fixed]


def _derive_member(family: SketchFamily, candidate: LayoutCandidate) -> list[SketchOp] | None:
    try:
        return family.derive_sketch(make_point(candidate))
    except NoSketchFamily:
        return None


def split_point(
    point: Mapping[str, int], options: Mapping[str, str], axes: set[str]
) -> tuple[dict[str, int], dict[str, str]]:
    """Return the mesh and the options of a layout."""
    counts = {name: str(size) for name, size in point.items() if name not in axes}
    return {n: size for n, size in point.items() if n in axes}, {**options, **counts}


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
    return [plan for plan in plans if len(plan.members) > len(plan.samples)]


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
    for point, ops in zip(plan.samples, sketches, strict=True):
        if isinstance(ops, HespasError):
            raise NoSketchFamily(ops.message)
        samples.append(SketchSample(point, ops))
    base, *others = samples
    family = build_sketch_family(base, [*zip(plan.variants, others, strict=False)])
    if plan.check:
        check_member(family, samples[-1])
    return family
