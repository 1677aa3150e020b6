"""Sketches of many layouts from those of a few: each size is a product of powers of the layout's.

The local sizes of a program are the global sizes divided by axes of the mesh, times the samples of
a microbatch. Layouts that differ in such sizes only are thus a family: the sketch of one member,
and one more for each size that differs, give the exponents of every number in the sketch, and so
the sketches of all members. A ratio that is no whole power means that the layouts are no family.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from hespas.support.errors import HespasError
from hespas.workflows.planning.program_sketch import COMPUTE_KINDS, SketchOp

LayoutPoint = Mapping[str, int]
"""The sizes in which the members of a family differ, by name: axes, batch and accumulate."""

_MAX_POWER = 2


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


@dataclass(frozen=True)
class SketchFamily:
    """The sketch of one layout, and how each of its numbers depends on the sizes of a layout.

    Attributes:
        base: The sketch.
        powers: For each size that differs, for each op, the exponents of its sizes and its runs.
    """

    base: SketchSample
    powers: Mapping[str, Sequence[tuple[int, ...]]]

    def derive_sketch(self, point: LayoutPoint) -> list[SketchOp]:
        """Derive the sketch of the member at ``point``.

        Collectives over axes of one device do not exist.

        Raises:
            NoSketchFamily: A derived number is not whole.
        """
        ops = []
        for index, op in enumerate(self.base.ops):
            member_op = _remove_axes(op, [name for name, size in point.items() if size == 1])
            if member_op is not None:
                *sizes, runs = self._scale_numbers((*op.sizes, op.runs), index, point)
                ops.append(replace(member_op, sizes=tuple(sizes), runs=runs))
        return ops

    def _scale_numbers(
        self, numbers: Sequence[int], index: int, point: LayoutPoint
    ) -> Sequence[int]:
        """Scale numbers of an op from the base to a point, exactly."""
        if all(not any(powers[index]) for powers in self.powers.values()):
            return numbers
        scaled = []
        for position, number in enumerate(numbers):
            above, below = number, 1
            for name, powers in self.powers.items():
                power = powers[index][position]
                first, second = (point[name], self.base.point[name])
                if power < 0:
                    first, second = second, first
                above, below = above * first ** abs(power), below * second ** abs(power)
            if above % below:
                raise NoSketchFamily("the size of an op is not whole")
            scaled.append(above // below)
        return scaled


def build_sketch_family(
    base: SketchSample, variants: Sequence[tuple[str, SketchSample]]
) -> SketchFamily:
    """Build a family from a sketch, and from one more for each size that differs.

    Args:
        base: The sketch.
        variants: The name of the size in which a sketch differs from ``base``, and the sketch.

    Raises:
        NoSketchFamily: The sketches have other ops, or a ratio of sizes is no whole power.
    """
    return SketchFamily(
        base, {name: _find_powers(base, name, variant) for name, variant in variants}
    )


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
