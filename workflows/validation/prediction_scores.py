"""Scoring predictions: errors, bias, order, and the share inside the band."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations

from hespas.workflows.validation.measured_cells import MeasuredCell


@dataclass(frozen=True, slots=True)
class StepPrediction:
    """The predicted step time of a cell.

    Attributes:
        cell: The measurement.
        step_s: The predicted step time in seconds.
        low_s: The lower end of the 80 % band in seconds; None if the flow has no band.
        high_s: The upper end.
        compute_s: The predicted compute time in seconds; NaN if unknown.
        exposed_s: The predicted exposed communication in seconds; NaN if unknown.
        program: The name of the estimated program.
        is_scaled: Whether it is a measurement on another node, scaled.
    """

    cell: MeasuredCell
    step_s: float
    low_s: float | None = None
    high_s: float | None = None
    compute_s: float = math.nan
    exposed_s: float = math.nan
    program: str = ""
    is_scaled: bool = False

    @property
    def relative_error(self) -> float:
        """Predicted over measured time, minus 1."""
        return self.step_s / self.cell.measured_s - 1

    @property
    def is_inside_band(self) -> bool | None:
        """Whether the band overlaps the measurement with its uncertainty; None without a band."""
        if self.low_s is None or self.high_s is None:
            return None
        low, high = self.low_s - self.cell.uncertainty_s, self.high_s + self.cell.uncertainty_s
        return low <= self.cell.measured_s <= high


@dataclass(frozen=True, slots=True)
class MachineSpeedUp:
    """How much faster a program is on one machine than on another one.

    Attributes:
        workload: The name of the program.
        devices: The number of devices.
        reference: The node that the others are compared with, whose cell comes first.
        node: The faster or slower node.
        measured: The measured step time of the reference over that of the node.
        uncertainty: What the uncertainties of both measurements add up to, to either side.
        predicted: The same by flow, of the flows that predict both cells.
    """

    workload: str
    devices: int
    reference: str
    node: str
    measured: float
    uncertainty: float
    predicted: Mapping[str, float]


def list_speed_ups(by_flow: Mapping[str, Sequence[StepPrediction]]) -> list[MachineSpeedUp]:
    """List the speed-ups of programs that were measured on several nodes, in order of the cells.

    A flow that scales a measurement does not predict the reference, whose measurement it takes.

    Args:
        by_flow: The predictions by flow; a program on a number of devices has one cell on a node.
    """
    cells = {p.cell.line: p.cell for predictions in by_flow.values() for p in predictions}
    groups: dict[tuple[str, int], list[MeasuredCell]] = {}
    for _, cell in sorted(cells.items()):
        groups.setdefault((cell.workload, cell.devices), []).append(cell)
    steps_s = {name: {p.cell.line: p.step_s for p in flow} for name, flow in by_flow.items()}
    for name, flow in by_flow.items():
        if any(p.is_scaled for p in flow):
            steps_s[name] = {line: cell.measured_s for line, cell in cells.items()} | steps_s[name]
    return [
        MachineSpeedUp(
            *key,
            first.node,
            cell.node,
            first.measured_s / cell.measured_s,
            first.measured_s / cell.measured_s * _add_uncertainties(first, cell),
            {
                name: flow[first.line] / flow[cell.line]
                for name, flow in steps_s.items()
                if first.line in flow and cell.line in flow
            },
        )
        for key, (first, *others) in groups.items()
        for cell in others
        if cell.node != first.node
    ]


def _add_uncertainties(first: MeasuredCell, second: MeasuredCell) -> float:
    """Return the relative uncertainty of a quotient of independent measurements."""
    return math.hypot(*(cell.uncertainty_s / cell.measured_s for cell in (first, second)))


SCORE_TITLES = ("MAPE", "bias", "worst", "order", "in band")


@dataclass(frozen=True, slots=True)
class PredictionScore:
    """The score of the predictions of one flow; errors are shares of the measured time.

    Attributes:
        cells: The number of cells that count.
        mape: The mean absolute error.
        bias: The mean error.
        worst: The error of the largest magnitude.
        order: The rank agreement of all cells, see :func:`compute_pair_order`.
        inside: The share of measurements inside the band; None without bands.
    """

    cells: int
    mape: float
    bias: float
    worst: float
    order: float
    inside: float | None

    def format_figures(self) -> tuple[str, ...]:
        """Format the number of cells, and the figures that ``SCORE_TITLES`` names."""
        return (
            str(self.cells),
            f"{100 * self.mape:.1f} %",
            f"{100 * self.bias:+.1f} %",
            f"{100 * self.worst:+.1f} %",
            f"{self.order:.2f}",
            "-" if self.inside is None else f"{100 * self.inside:.0f} %",
        )


def score_predictions(
    predictions: Sequence[StepPrediction], *, at_least_s: float = 0.0
) -> PredictionScore | None:
    """Score the cells of at least ``at_least_s`` seconds; returns None if there are none."""
    counted = [p for p in predictions if p.cell.measured_s >= at_least_s]
    if not counted:
        return None
    errors = [p.relative_error for p in counted]
    bands = [p.is_inside_band for p in counted if p.is_inside_band is not None]
    return PredictionScore(
        len(counted),
        sum(map(abs, errors)) / len(errors),
        sum(errors) / len(errors),
        max(errors, key=abs),
        compute_pair_order(predictions),
        sum(bands) / len(bands) if bands else None,
    )


def compute_pair_order(predictions: Sequence[StepPrediction]) -> float:
    """Return the share of pairs in the right order minus that of pairs in the wrong order.

    Pairs whose measurements overlap within their uncertainties do not count. Without pairs the
    result is 1.
    """

    def is_apart(a: StepPrediction, b: StepPrediction) -> bool:
        difference_s = abs(a.cell.measured_s - b.cell.measured_s)
        return difference_s > a.cell.uncertainty_s + b.cell.uncertainty_s

    right, count = count_ordered_pairs(predictions, is_apart)
    return (2 * right - count) / count if count else 1.0


def count_ordered_pairs(
    predictions: Sequence[StepPrediction],
    is_apart: Callable[[StepPrediction, StepPrediction], bool],
) -> tuple[int, int]:
    """Return how many pairs are in the right order, and how many count because they are apart."""
    pairs = [pair for pair in combinations(predictions, 2) if is_apart(*pair)]
    right = sum(
        (a.cell.measured_s - b.cell.measured_s) * (a.step_s - b.step_s) > 0 for a, b in pairs
    )
    return right, len(pairs)
