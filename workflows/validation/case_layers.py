"""Predicting a program with many equal layers from two programs with few of them.

All layers of a model but the first, the last and those that a pattern tells apart are alike. A
figure that is a sum over kernels, such as the time of a step, therefore grows by the same amount
with each further period of the pattern, once a program has the layers in which its ends differ.
Figures that are quotients are computed again from the extended sums; the others are left out.

Two kinds of programs are predicted so: those that XLA finds too large or does not compile in its
time, and those whose layers are unrolled, which XLA compiles in a time that grows faster than their
number.
"""

from __future__ import annotations

import dataclasses
import json
import math
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from hespas.passes.compile.compiler_process import describe_exceeded_limit
from hespas.recipes.published_models import MODELS
from hespas.recipes.remat_policies import SHARE
from hespas.support.errors import HespasError
from hespas.workflows.figures import BY_NAME
from hespas.workflows.studies.study_definition import StudyWorkload
from hespas.workflows.studies.study_programs import StudyProgram

UNROLLED_PERIODS = 2  # the shorter program; the longer one has twice as many periods
LOOP_PERIODS = 2  # XLA makes no loop of fewer
LOOP_SHARE = 8  # a loop compiles as fast with many periods as with few: an eighth of them

_COUNTED_GROUPS = re.compile(r"compute_s_by\..*|tags\..*")  # columns of sums that are no figures
_BAND_END = re.compile(r"\.[01]$")


@dataclass(frozen=True, slots=True)
class LayerCounts:
    """The numbers of layers of two programs, and of the one that is predicted from them."""

    short: int
    long: int
    full: int

    def extend_figure(self, short: float, long: float) -> float:
        """Extend a figure of the two programs linearly; integers stay integers."""
        steps, step = self.full - self.long, self.long - self.short
        if isinstance(short, int) and isinstance(long, int):
            return long + (long - short) * steps // step
        return long + (long - short) * steps / step

    def describe(self) -> str:
        """Describe the extension, as an assumption about the program."""
        return (
            f"extended to {self.full} layers from programs with {self.short} and {self.long} layers"
        )


def choose_layer_counts(workload: StudyWorkload) -> LayerCounts | None:
    """Choose the layers of two smaller programs of a recipe; None if it has too few.

    They have the same first layers (of other kinds) and the same incomplete period as the program.
    """
    options = workload.options
    model = MODELS.get(options.get("model", ""))
    if model is None:
        return None
    full = int(options.get("layers", model.layers))
    own = int(options.get("dense_layers", model.dense_layers)) if model.experts else 0
    period = math.lcm(model.period, _count_policies(options.get("remat", "")))
    periods, rest = divmod(full - own, period)
    least = UNROLLED_PERIODS
    if options.get("scan") == "true":
        least = max(LOOP_PERIODS, periods // LOOP_SHARE)
    if periods <= 2 * least:
        return None
    short = own + rest + least * period
    return LayerCounts(short, short + least * period, full)


def _count_policies(remat: str) -> int:
    """Return after how many layers the policies of ``full@1/3+none`` repeat."""
    match = re.search(rf"{SHARE}\d+/(\d+)\+", remat)
    return int(match[1]) if match else 1


def replace_layers(workload: StudyWorkload, layers: int) -> StudyWorkload:
    """Return the workload with another number of layers."""
    return dataclasses.replace(workload, options={**workload.options, "layers": str(layers)})


def extend_row(short: dict[str, Any], long: dict[str, Any], counts: LayerCounts) -> dict[str, Any]:
    """Extend the rows of a sweep of two programs to the row of the full one.

    Raises:
        HespasError: The program with more layers takes no longer than the other.
    """
    for row in (short, long):
        if row["error"] is not None:
            return {"error": row["error"]}
    if not long["compute_s"] > short["compute_s"]:
        raise HespasError(
            f"a step with {counts.long} layers computes no longer than one with {counts.short}",
            remedy="compile the whole program",
        )
    sums = dict(_generate_sums(short, long, counts))
    same = {name: value for name, value in long.items() if short.get(name) == value}
    row: dict[str, Any] = {**same, **sums, "error": None}
    _derive_mfu(row, long)
    row["warnings"] = json.dumps(
        [f"with {counts.long} layers: {text}" for text in json.loads(long.get("warnings") or "[]")]
    )
    return row


def _generate_sums(
    short: dict[str, Any], long: dict[str, Any], counts: LayerCounts
) -> Iterator[tuple[str, float]]:
    """Yield the extended sums; what one program lacks counts as nothing, and none is negative."""
    for name in {**short, **long}:
        values = [row.get(name) for row in (short, long)]
        if _is_sum(name) and any(isinstance(value, int | float) for value in values):
            yield name, max(0, counts.extend_figure(values[0] or 0, values[1] or 0))


def _is_sum(name: str) -> bool:
    """Return whether a column of a sweep's row is a sum over kernels or arrays of a program.

    Counts, sizes of arrays at the peak, and the ends of bands grow by equal amounts too.
    """
    figure = BY_NAME.get(_BAND_END.sub("", name))
    if figure is None:
        return _COUNTED_GROUPS.fullmatch(name) is not None
    if figure.rule == "none":
        return figure.unit in ("B", "count", "s, s")
    return figure.rule in ("sum", "largest")


def _derive_mfu(row: dict[str, Any], long: dict[str, Any]) -> None:
    """Add MFU, the one quotient of sums that a validation shows.

    Whether the program fits does not follow: programs with few layers may peak elsewhere.
    """
    row.pop("memory.fits", None)
    before = long.get("derived.mfu")
    if before is not None:
        step_s, long_s = (r.get("step_time_s") or r["compute_s"] for r in (row, long))
        growth = row["derived.model_flops"] / long["derived.model_flops"]
        row["derived.mfu"] = before * growth * long_s / step_s


@dataclass(frozen=True)
class LayerExtension:
    """Two smaller programs from which a program is predicted.

    Attributes:
        counts: The layers of the programs.
        programs: The program with fewer layers, and the one with more.
        exceeded_limit: The limit that the whole program exceeds; "" if it was not compiled.
    """

    counts: LayerCounts
    programs: Sequence[StudyProgram]
    exceeded_limit: str = ""

    def describe(self) -> str:
        """Describe the extension and its cause, as an assumption of the row."""
        return "; ".join(filter(None, (self.exceeded_limit, self.counts.describe())))


def plan_unrolled_extension(program: StudyProgram) -> LayerExtension | None:
    """Plan the smaller programs of one with unrolled layers; None if it is not worth it."""
    options = program.workload.options
    is_unrolled = options.get("scan") == "false"
    if not (program.target and is_unrolled and options.get("eager") == "true"):
        return None
    extension = _plan_extension(program)
    if extension is None or extension.counts.short + extension.counts.long >= extension.counts.full:
        return None
    return extension


def plan_oversized_extension(program: StudyProgram, message: str) -> LayerExtension | None:
    """Plan the smaller programs of one that XLA did not compile.

    Args:
        program: The program.
        message: Why XLA did not compile it.

    Returns:
        None if it exceeds no limit, or has too few layers.
    """
    exceeded_limit = describe_exceeded_limit(message)
    return _plan_extension(program, exceeded_limit) if exceeded_limit else None


def _plan_extension(program: StudyProgram, exceeded_limit: str = "") -> LayerExtension | None:
    counts = choose_layer_counts(program.workload)
    if counts is None:
        return None
    programs = [
        dataclasses.replace(program, workload=replace_layers(program.workload, layers))
        for layers in (counts.short, counts.long)
    ]
    return LayerExtension(counts, programs, exceeded_limit)
