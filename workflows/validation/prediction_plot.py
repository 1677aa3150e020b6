"""Plots of predicted against measured step times: errors, and speed-ups between machines."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from hespas.workflows.plot_files import COLOURS, MARKS, make_logarithmic, save_figure
from hespas.workflows.validation.prediction_scores import (
    MachineSpeedUp,
    StepPrediction,
    list_speed_ups,
)

Predictions = Mapping[str, Sequence[StepPrediction]]
WIDTH = 8.0  # inches of the figure
SCATTER_HEIGHT = 4.2
LINE_HEIGHT = 0.22  # of a workload
BAR_HEIGHT = 0.13
PANEL_HEIGHT = 1.2  # of a panel without its lines: title and axis
MAX_LINES = 30  # from which the errors of all nodes of a workload share a line
LARGE_ERROR = 1.0  # from which errors are on a logarithmic axis
LINEAR_PERCENT = 50  # up to which that axis is linear
MEASURED_COLOUR = "#202428"


def draw_predictions(path: str, by_flow: Predictions) -> None:
    """Write the plot of predicted against measured times; raises HespasError."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(6.4, 6.0), layout="constrained")
    _draw_scatter(figure.add_subplot(), by_flow)
    save_figure(figure, path)


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
    _draw_scatter(panels[0], by_flow)
    _draw_errors(panels[1], lines, list(by_flow))
    if speed_ups:
        _draw_speed_ups(panels[2], speed_ups, list(by_flow))
    save_figure(figure, path)


def _draw_scatter(axes: Any, by_flow: Predictions) -> None:
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
