"""Baselines of programs, limits of how much worse a new version may be, and what exceeds them.

A baseline is the profile of a program, in a file that is committed beside the tests.
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from hespas.configs import read_json
from hespas.configs.validation import validate_config
from hespas.support.errors import HespasError, UsageError
from hespas.support.output_file import write_atomically
from hespas.support.text_tables import format_scaled, format_seconds, format_signed_seconds
from hespas.workflows.gate.step_comparison import (
    RegressionCause,
    StepComparison,
    StepProfile,
    compute_relative_growth,
    select_times,
)

BAND = "band"
_SHOWN_CAUSES = 3


@dataclass(frozen=True)
class GrowthLimit:
    """How much a figure may grow.

    Attributes:
        share: The growth that is allowed, as a share.
        is_of_band: Whether the lower end of the band of the difference must exceed it, which it
            does if the figure has grown by more with a probability of 90 %.
    """

    share: float
    is_of_band: bool = False


def parse_growth_limit(text: str | float, *, allows_band: bool = False) -> GrowthLimit:
    """Parse a limit: a percentage such as ``3%`` or ``3``, or ``3%+band``; ``band`` is ``0%+band``.

    Raises:
        UsageError: It is something else, or negative.
    """
    number, plus, band = str(text).rpartition("+")
    is_of_band = allows_band and band == BAND
    if is_of_band:
        number = number if plus else "0"
    try:
        percent = float((number if is_of_band else str(text)).strip().removesuffix("%"))
    except ValueError:
        percent = math.nan
    if not math.isfinite(percent) or percent < 0:
        choices = "a percentage such as 3%" + (f", {BAND} or 3%+{BAND}" if allows_band else "")
        raise UsageError(f"'{text}' is not {choices}")
    return GrowthLimit(percent / 100, is_of_band)


@dataclass(frozen=True)
class BudgetLimits:
    """The limits of a comparison; None for a figure that is not checked.

    Attributes:
        step: Of the step time, or the compute time of programs that were not simulated.
        memory: Of the peak memory of a device.
        exposed: Of the exposed communication, as a share of the step before.
    """

    step: GrowthLimit | None = None
    memory: GrowthLimit | None = None
    exposed: GrowthLimit | None = None


@dataclass(frozen=True)
class BudgetViolation:
    """A figure that exceeds its limit.

    Attributes:
        figure: ``step``, ``memory`` or ``exposed``.
        growth: How much it has grown, as a share; infinite if it was 0.
        text: What got worse by how much, and the causes.
    """

    figure: str
    growth: float
    text: str


def find_violations(comparison: StepComparison, limits: BudgetLimits) -> list[BudgetViolation]:
    """Find the figures that have grown by more than their limits.

    Raises:
        HespasError: A figure with a limit, or the band, is not known.
    """
    checks = (
        (_check_step, limits.step),
        (_check_memory, limits.memory),
        (_check_exposed, limits.exposed),
    )
    found = [check(comparison, limit) for check, limit in checks if limit is not None]
    return [violation for violation in found if violation is not None]


def _check_step(comparison: StepComparison, limit: GrowthLimit) -> BudgetViolation | None:
    before, after, band_s = comparison.before, comparison.after, comparison.band_s
    old_s, new_s = select_times(before, after)
    growth = compute_relative_growth(old_s, new_s)
    is_violated = growth > limit.share
    if limit.is_of_band:
        if band_s is None:
            raise HespasError(
                "the difference has no band: the estimator has none, or a result has no kernels",
                remedy="give a percentage",
            )
        is_violated = band_s[0] > limit.share * old_s
    if not is_violated:
        return None
    change = f"{format_seconds(old_s)} to {format_seconds(new_s)}"
    if band_s is not None:
        ends = " to ".join(map(format_signed_seconds, band_s))
        change += f", 80 % band of the difference {ends}"
    what = "compute" if None in (before.step_time_s, after.step_time_s) else "step"
    claim = f"the {what} takes {_format_growth(growth)} longer"
    causes = _list_causes(comparison.causes, lambda cause: cause.step_s)
    return _build_violation("step", growth, limit, claim, change, causes)


def _check_memory(comparison: StepComparison, limit: GrowthLimit) -> BudgetViolation | None:
    old, new = comparison.before.peak_bytes, comparison.after.peak_bytes
    if old is None or new is None:
        raise HespasError("a result has no peak memory", remedy="run it without --no-memory")
    growth = compute_relative_growth(old, new)
    if growth <= limit.share:
        return None
    claim = f"the peak memory is {_format_growth(growth)} higher"
    change = f"{format_scaled(old, 'B')} to {format_scaled(new, 'B')}"
    causes = _list_causes(comparison.causes, lambda cause: cause.memory_bytes)
    return _build_violation("memory", growth, limit, claim, change, causes)


def _check_exposed(comparison: StepComparison, limit: GrowthLimit) -> BudgetViolation | None:
    old_s, new_s = comparison.before.exposed_comm_s, comparison.after.exposed_comm_s
    if old_s is None or new_s is None:
        message = "a result has no exposed communication: it was not simulated"
        raise HespasError(message, remedy="name a system")
    step_s = comparison.before.step_time_s
    growth = (new_s - old_s) / step_s if step_s else compute_relative_growth(old_s, new_s)
    if growth <= limit.share:
        return None
    claim = f"the exposed communication grows by {_format_growth(growth)} of the step"
    change = f"{format_seconds(old_s)} to {format_seconds(new_s)}"
    causes = _list_causes(comparison.causes, lambda cause: cause.exposed_s)
    return _build_violation("exposed", growth, limit, claim, change, causes)


def _build_violation(
    figure: str, growth: float, limit: GrowthLimit, claim: str, change: str, causes: str
) -> BudgetViolation:
    allowed = f"more than the {100 * limit.share:g} % allowed"
    if limit.is_of_band:
        allowed += " with a probability of 90 %"
    return BudgetViolation(figure, growth, f"{claim}, {allowed} ({change}){causes}")


def _format_growth(growth: float) -> str:
    return f"{100 * growth:.2f} %"


def _list_causes(
    causes: Sequence[RegressionCause], weigh_cause: Callable[[RegressionCause], float]
) -> str:
    """List the causes of the growth of one figure, the heaviest first."""
    heaviest = sorted((c for c in causes if weigh_cause(c) > 0), key=lambda c: -weigh_cause(c))
    texts = [cause.text for cause in heaviest[:_SHOWN_CAUSES]]
    return f": {'; '.join(texts)}" if texts else ""


def read_baseline(path: Path, name: str) -> StepProfile | None:
    """Read the profile of one program; None if the file does not exist or lacks it.

    Raises:
        HespasError: The file is damaged.
    """
    values = _read_baselines(path).get(name)
    return None if values is None else validate_config(StepProfile, values, f"{path}: {name}")


def write_baseline(path: Path, name: str, profile: StepProfile) -> None:
    """Write the profile of one program and keep those of the others; raises HespasError."""
    baselines = {**_read_baselines(path), name: profile.model_dump(mode="json", exclude_none=True)}
    write_atomically(str(path), _format_baselines(baselines).encode())


def _read_baselines(path: Path) -> dict[str, Any]:
    return read_json(str(path)) if path.exists() else {}


def _format_baselines(baselines: Mapping[str, Mapping[str, Any]]) -> str:
    """Format as JSON with a line for each row, so that a change shows as few changed lines."""
    programs = []
    for name, profile in sorted(baselines.items()):
        fields = [f"  {json.dumps(key)}: {_format_rows(value)}" for key, value in profile.items()]
        programs.append(f" {json.dumps(name)}: {{\n" + ",\n".join(fields) + "\n }")
    return "{\n" + ",\n".join(programs) + "\n}\n"


def _format_rows(value: Any) -> str:
    if not isinstance(value, list) or not value:
        return json.dumps(value)
    return "[\n" + ",\n".join(f"   {json.dumps(row)}" for row in value) + "\n  ]"


def check_equal_settings(baseline: StepProfile, profile: StepProfile) -> None:
    """Check that a program was estimated as its baseline was.

    Raises:
        HespasError: A setting differs, so that a difference would not be the program's.
    """
    for name, value in profile.settings.items():
        old, new = (_drop_counts(v) for v in (baseline.settings.get(name), value))
        if old != new:
            raise HespasError(
                f"the baseline was made with {name} {json.dumps(old)}, and this is "
                f"{json.dumps(new)}",
                remedy="make it again with pytest --hespas-update",
            )


def _drop_counts(setting: Any) -> Any:
    """Drop the counts of kernels that follow the provenance of constants."""
    return setting.partition(";")[0] if isinstance(setting, str) else setting
