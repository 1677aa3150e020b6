"""Bounds of the layouts of a plan, from the sketches of a few of them."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from hespas.support.errors import HespasError
from hespas.workflows.planning.layout_programs import LayoutPrograms
from hespas.workflows.planning.layout_space import ACCUMULATE, BATCH, LayoutCandidate
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
        note: Receives a line for each family that is none.
    """

    programs: LayoutPrograms
    compute: ComputeBounds
    comm: CommBounds
    note: Callable[[str], None]

    def bound_candidates(self, candidates: Sequence[LayoutCandidate]) -> list[StepBound | None]:
        """Bound the step of each layout; None if its sketch does not follow from that of another.

        Layouts of which there are too few to save sketches have no bound either.
        """
        plans = plan_families(candidates)
        axes = [set(candidate.mesh) for candidate in candidates]
        layouts = [
            split_point(point, plan.options, axes[plan.members[0]])
            for plan in plans
            for point in plan.samples
        ]
        sketches = iter(self.programs.make_sketches(layouts))
        bounds: list[StepBound | None] = [None] * len(candidates)
        for plan in plans:
            try:
                family = _build_family(plan, [next(sketches) for _ in plan.samples])
            except NoSketchFamily as error:
                self.note(f"note: {len(plan.members)} layouts have no bound: {error.message}")
                continue
            for index in plan.members:
                bounds[index] = self._bound_member(family, candidates[index])
        return bounds

    def _bound_member(self, family: SketchFamily, candidate: LayoutCandidate) -> StepBound | None:
        try:
            ops = family.derive_sketch(make_point(candidate))
        except NoSketchFamily:
            return None
        return StepBound(
            self.compute.bound_compute_s(ops),
            self.comm.bound_comm_s(ops, candidate.mesh),
            sum_resident_bytes(ops),
        )


def make_point(candidate: LayoutCandidate) -> dict[str, int]:
    """Return the sizes of a layout in which members of a family may differ."""
    counts = {n: int(candidate.options[n]) for n in (BATCH, ACCUMULATE) if n in candidate.options}
    return {**candidate.mesh, **counts}


def split_point(
    point: Mapping[str, int], options: Mapping[str, str], axes: set[str]
) -> tuple[dict[str, int], dict[str, str]]:
    """Return the mesh and the options of a layout."""
    counts = {name: str(size) for name, size in point.items() if name not in axes}
    return {n: size for n, size in point.items() if n in axes}, {**options, **counts}


def plan_families(candidates: Sequence[LayoutCandidate]) -> list[FamilyPlan]:
    """Plan the families of layouts, where sketching a few of them saves work.

    Members have equal options but for the batch, and all or none accumulate microbatches in a loop.
    """
    groups: dict[_FamilyKey, list[int]] = {}
    for index, candidate in enumerate(candidates):
        shared = {n: v for n, v in candidate.options.items() if n not in (BATCH, ACCUMULATE)}
        loops = candidate.options.get(ACCUMULATE, "1") != "1"
        groups.setdefault((tuple(sorted(shared.items())), loops), []).append(index)
    plans = [
        _plan_family(members, dict(shared), [make_point(candidates[i]) for i in members])
        for (shared, _), members in groups.items()
    ]
    return [plan for plan in plans if len(plan.members) > len(plan.samples)]


def _plan_family(
    members: Sequence[int], options: Mapping[str, str], points: Sequence[Mapping[str, int]]
) -> FamilyPlan:
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
    single = {n: 1 for n in varied if tried[n][0] == 1 and n not in (BATCH, ACCUMULATE)}
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
