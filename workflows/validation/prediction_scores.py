"""Measured step times, the programs that they were measured on, and predictions of them.

Predictions have scores, which are errors, bias, order and the share inside the band, and plots of
errors and of speed-ups between machines.
"""

from __future__ import annotations

import math
import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations
from pathlib import Path
from typing import Any

from hespas.support.csv_rows import read_csv_rows
from hespas.support.errors import HespasError
from hespas.workflows.plot_files import COLOURS, MARKS, make_logarithmic, save_figure

COLUMNS = ("workload", "devices", "node", "system", "measured_s", "uncertainty_s", "source")
DEFAULT, OPTIMISED, UNOPTIMISED = "default", "optimised", "unoptimised"
STARTS = (DEFAULT, OPTIMISED, UNOPTIMISED)
SUFFIXES = (".mlir", ".mlir.xz", ".mlir.gz", ".mlirbc")
Predictions = Mapping[str, Sequence["StepPrediction"]]
WIDTH = 8.0  # inches of the figure
SCATTER_HEIGHT = 4.2
LINE_HEIGHT = 0.22  # of a workload
BAR_HEIGHT = 0.13
PANEL_HEIGHT = 1.2  # of a panel without its lines: title and axis
MAX_LINES = 30  # from which the errors of all nodes of a workload share a line
LARGE_ERROR = 1.0  # from which errors are on a logarithmic axis
LINEAR_PERCENT = 50  # up to which that axis is linear
MEASURED_COLOUR = "#202428"


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


@dataclass(frozen=True, slots=True)
class MeasuredCell:
    """One measured step time.

    Attributes:
        workload: The name of the program.
        devices: The number of devices.
        node: The node.
        system: The network.
        measured_s: The step time in seconds.
        uncertainty_s: Its uncertainty in seconds, to either side.
        source: The provenance of the measurement.
        line: The line in the file.
    """

    workload: str
    devices: int
    node: str
    system: str
    measured_s: float
    uncertainty_s: float
    source: str
    line: int


def read_measured_cells(path: str) -> list[MeasuredCell]:
    """Read a CSV file with the columns ``COLUMNS``; raises HespasError with the line."""
    rows = read_csv_rows(path, COLUMNS)
    cells = [_parse_cell(row, f"{path}:{line}", line) for line, row in rows]
    if not cells:
        raise HespasError("it has no measurement", where=path)
    return cells


def _parse_cell(row: dict[str, str], where: str, line: int) -> MeasuredCell:
    try:
        cell = MeasuredCell(
            row["workload"],
            int(row["devices"]),
            row["node"],
            row["system"],
            float(row["measured_s"]),
            float(row["uncertainty_s"]),
            row["source"],
            line,
        )
    except (TypeError, ValueError) as error:
        raise HespasError(f"the row is wrong: {error}", where=where) from None
    if not (cell.measured_s > 0 and cell.uncertainty_s >= 0 and cell.devices > 0):
        raise HespasError("devices and measured_s must be positive", where=where)
    return cell


def find_programs(folders: Sequence[str]) -> dict[str, Path]:
    """Find the programs in folders, recursively, by name without suffix; raises HespasError."""
    programs_by_name: dict[str, Path] = {}
    for folder in folders:
        if not os.path.isdir(folder):
            raise HespasError("there is no such folder", where=folder)
        for path in sorted(Path(folder).rglob("*.mlir*")):
            for suffix in SUFFIXES:
                if path.name.endswith(suffix):
                    programs_by_name.setdefault(path.name.removesuffix(suffix), path)
    return programs_by_name


def find_cell_program(
    cell: MeasuredCell, start: str, programs_by_name: dict[str, Path]
) -> Path | None:
    """Find the program of a cell; returns None if there is none.

    A program that is not optimised is called WORKLOAD_N_devices or WORKLOAD. An optimised one has
    the suffix ``-opt-cudnn-GPU``, if convolutions call the GPU's library, or ``-opt-GPU``. GPU is
    the first word of the node's name, such as "a100" for A100_SXM_40GB.
    """
    gpu = cell.node.split("_")[0].lower()
    ends = [f"-opt-cudnn-{gpu}", f"-opt-{gpu}"] if start == OPTIMISED else [""]
    for end in ends:
        for name in (f"{cell.workload}_{cell.devices}_devices", cell.workload):
            if name + end in programs_by_name:
                return programs_by_name[name + end]
    return None


def draw_validation(path: str, by_flow: Predictions, *, compares_nodes: bool) -> None:
    """Write the plots of a validation below each other.

    They are predicted against measured times, the relative error of each workload by each flow, and
    the speed-up between machines, as measured and by each flow.

    Args:
        path: The file.
        by_flow: The predictions by flow, one or more of each.
        compares_nodes: Whether a workload is one program, so that its cells on several nodes give
            speed-ups.

    Raises:
        HespasError: The file cannot be written.
    """
    from matplotlib.figure import Figure

    lines = _group_errors(by_flow)
    speed_ups = list_speed_ups(by_flow) if compares_nodes else []
    bars = sum(1 + len(one.predicted) for one in speed_ups)
    heights = [SCATTER_HEIGHT, PANEL_HEIGHT + LINE_HEIGHT * len(lines)]
    if speed_ups:
        heights.append(PANEL_HEIGHT + BAR_HEIGHT * (bars + len(speed_ups)))
    figure = Figure(figsize=(WIDTH, sum(heights)), layout="constrained")
    panels = figure.subplots(len(heights), 1, squeeze=False, height_ratios=heights)[:, 0]
    draw_scatter(panels[0], by_flow)
    _draw_errors(panels[1], lines, list(by_flow))
    if speed_ups:
        _draw_speed_ups(panels[2], speed_ups, list(by_flow))
    save_figure(figure, path)


def draw_scatter(axes: Any, by_flow: Predictions) -> None:
    """Draw predicted over measured times, with logarithmic axes in milliseconds."""
    times_ms = [1e3 * p.cell.measured_s for predictions in by_flow.values() for p in predictions]
    low, high = 0.5 * min(times_ms), 2 * max(times_ms)
    axes.fill_between(
        [low, high], [0.9 * low, 0.9 * high], [1.1 * low, 1.1 * high], alpha=0.15, label="±10 %"
    )
    axes.plot([low, high], [low, high], linewidth=1, color="gray")
    for i, (name, predictions) in enumerate(by_flow.items()):
        bands = [
            (p.step_s - (p.low_s or p.step_s), (p.high_s or p.step_s) - p.step_s)
            for p in predictions
        ]
        axes.errorbar(
            [1e3 * p.cell.measured_s for p in predictions],
            [1e3 * p.step_s for p in predictions],
            xerr=[1e3 * p.cell.uncertainty_s for p in predictions],
            yerr=[[1e3 * band[side] for band in bands] for side in (0, 1)],
            fmt=MARKS[i % len(MARKS)],
            color=COLOURS[i % len(COLOURS)],
            markersize=5,
            elinewidth=1,
            capsize=2,
            label=name,
        )
    for axis in (axes.xaxis, axes.yaxis):
        make_logarithmic(axis, low, high)
    axes.set(
        xlim=(low, high), ylim=(low, high),
        xlabel="measured step time (ms)", ylabel="predicted step time (ms)",
    )  # fmt: skip
    axes.legend(frameon=False)


ErrorLines = Mapping[str, Mapping[str, Sequence[float]]]
"""By the label of a line and by flow, the relative errors of its cells."""


def _group_errors(by_flow: Predictions) -> ErrorLines:
    """Group errors by workload and node, or by workload alone if there are many."""
    cells = [p.cell for predictions in by_flow.values() for p in predictions]
    has_nodes = len({(cell.workload, cell.devices, cell.node) for cell in cells}) <= MAX_LINES
    lines: dict[str, dict[str, list[float]]] = {}
    order = sorted({cell.line: cell.workload for cell in cells}.items())
    workloads = list(dict.fromkeys(workload for _, workload in order))
    for workload in workloads:
        for name, predictions in by_flow.items():
            for p in predictions:
                if p.cell.workload == workload:
                    place = f", {p.cell.devices} x {p.cell.node}" if has_nodes else ""
                    line = lines.setdefault(f"{workload}{place}", {})
                    line.setdefault(name, []).append(p.relative_error)
    return lines


def _draw_errors(axes: Any, lines: ErrorLines, flows: Sequence[str]) -> None:
    """Draw the relative errors of each line, with the mark and colour of their flow."""
    errors = [error for line in lines.values() for values in line.values() for error in values]
    for i, flow in enumerate(flows):
        points = [
            (100 * error, place)
            for place, line in enumerate(lines.values())
            for error in line.get(flow, ())
        ]
        axes.plot(
            [error for error, _ in points], [place for _, place in points],
            MARKS[i % len(MARKS)], color=COLOURS[i % len(COLOURS)], markersize=5, label=flow,
            alpha=0.8,
        )  # fmt: skip
    axes.axvspan(-10, 10, alpha=0.15)
    axes.axvline(0, linewidth=1, color="gray")
    if max(errors) > LARGE_ERROR:
        axes.set_xscale("symlog", linthresh=LINEAR_PERCENT)
    axes.set_yticks(range(len(lines)), list(lines), fontsize=8)
    axes.set_ylim(len(lines) - 0.5, -0.5)
    axes.grid(axis="y", linewidth=0.4)
    axes.set_xlabel("predicted over measured step time, minus 1 (%)")
    axes.legend(fontsize=8, loc="upper left", bbox_to_anchor=(1, 1), frameon=False)


def _draw_speed_ups(axes: Any, speed_ups: Sequence[MachineSpeedUp], flows: Sequence[str]) -> None:
    """Draw a group of bars for each program and node: as measured, then by each flow."""
    place, ticks, labels = 0, [], []
    drawn: set[str] = set()
    for one in speed_ups:
        bars = [("measured", MEASURED_COLOUR, one.measured)]
        bars += [
            (flow, COLOURS[i % len(COLOURS)], one.predicted[flow])
            for i, flow in enumerate(flows)
            if flow in one.predicted
        ]
        ticks.append(place + (len(bars) - 1) / 2)
        labels.append(f"{one.workload}, {one.devices} x {one.node}")
        for name, colour, value in bars:
            axes.barh(
                place, value, color=colour, height=0.85, label=None if name in drawn else name,
                xerr=one.uncertainty if name == "measured" else None, ecolor="gray", capsize=2,
            )  # fmt: skip
            drawn.add(name)
            place += 1
        place += 1
    axes.axvline(1, linewidth=1, color="gray")
    axes.set_yticks(ticks, labels, fontsize=8)
    axes.set_ylim(place - 1.5, -1)
    references = dict.fromkeys(one.reference for one in speed_ups)
    axes.set_xlabel(f"speed-up over {' or '.join(references)}")
    axes.legend(fontsize=8, loc="upper left", bbox_to_anchor=(1, 1), frameon=False)
