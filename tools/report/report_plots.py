"""Plots of runs, comparisons and sweeps, drawn with matplotlib."""

from __future__ import annotations

import math
import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from hespas.support.text_tables import format_seconds
from hespas.tools.report.charts import make_bar_segments
from hespas.tools.report.roofline_chart import (
    RooflinePlot,
    build_roofline_plot,
    format_rate,
    spread_labels,
)
from hespas.tools.report.run_page import list_memory_points
from hespas.workflows import kernel_rows
from hespas.workflows.plot_files import COLOURS, MARKS, check_plot_file, save_figure

if TYPE_CHECKING:
    from hespas.workflows.run_comparison import ComparedResult
    from hespas.workflows.run_results import RunResult

__all__ = ("check_plot_file", "write_comparison_plot", "write_heat_map", "write_run_plots")
KINDS = ("png", "svg")
LABEL_FONT_SIZE = 9  # points, of the names of compared results
LABEL_GAP = 0.04  # of the height of the roofline, between two labels of peaks
FONT_SIZE = 8  # points
CELL_WIDTHS = (0.95, 1.7)  # least and greatest width of a cell, in inches
CELL_HEIGHT = 0.4  # inches
BAR_HEIGHT = 0.8  # inches, of the colour bar with its label and ticks
PADDING = 0.3  # inches, around labels
MIN_MAP_WIDTH = 2.6  # inches; the label of the colour bar fits it
SLANT = math.radians(35)  # of column labels that are wider than their cells
BAR_TICKS = (1.0, 1.2, 1.5, 2.0, 3.0, 5.0, 10.0, 20.0, 50.0, 100.0, 1e3, 1e4, 1e5, 1e6)

Drawing = Callable[[Any], None]
"""Draws into a figure of matplotlib."""


def write_run_plots(result: RunResult, folder: str) -> list[str]:
    """Write the plots of a run to ``folder``, which is created if needed; returns their paths.

    Raises:
        HespasError: The result is incomplete, or a file cannot be written.
    """
    plot = build_roofline_plot(kernel_rows.merge_layers(result.kernel_rows), result.resolved_node)
    points = list_memory_points(result)
    breakdown: dict[str, Drawing] = {"breakdown": lambda figure: _draw_breakdown(figure, result)}
    drawings: dict[str, Drawing] = {}
    if plot.points:
        drawings["roofline"] = lambda figure: _draw_roofline(figure, plot)
    if points:
        drawings["memory"] = lambda figure: _draw_memory(figure, points, result.figures["memory"])
    return [*_write_plots(breakdown, folder, (7.2, 3.2)), *_write_plots(drawings, folder)]


def _write_plots(
    drawings: dict[str, Drawing], folder: str, size: tuple[float, float] = (7.2, 4.8)
) -> list[str]:
    from matplotlib.figure import Figure

    os.makedirs(folder, exist_ok=True)
    paths = []
    for name, draw in drawings.items():
        figure = Figure(figsize=size, layout="constrained")
        draw(figure)
        for kind in KINDS:
            paths.append(os.path.join(folder, f"{name}.{kind}"))
            save_figure(figure, paths[-1])
    return paths


def _draw_roofline(figure: Any, plot: RooflinePlot) -> None:
    axes = figure.add_subplot()
    largest = max(point.share for point in plot.points)
    least_rate = plot.rate_range[0]
    axes.set(
        xscale="log", yscale="log", xlim=plot.intensity_range, ylim=plot.rate_range,
        xlabel="operations per byte", ylabel="operations/s",
    )  # fmt: skip
    for colour, kind in enumerate(plot.kinds):
        points_of_kind = [point for point in plot.points if point.colour == colour + 1]
        axes.scatter(
            [point.intensity for point in points_of_kind],
            [max(point.rate, least_rate) for point in points_of_kind],
            s=[16 + 300 * point.share / largest for point in points_of_kind],
            c=[COLOURS[colour] if p.rate >= least_rate else "white" for p in points_of_kind],
            edgecolors=["white" if p.rate >= least_rate else "gray" for p in points_of_kind],
            marker=MARKS[colour], alpha=0.7, clip_on=False, zorder=3,
        )  # fmt: skip
        axes.scatter([], [], s=36, c=COLOURS[colour], marker=MARKS[colour], label=kind)
    if plot.bandwidth:
        _draw_roofs(axes, plot, plot.bandwidth)
    axes.grid(alpha=0.3)
    figure.legend(loc="outside upper center", ncols=4, frameon=False, fontsize=8)
    if text := plot.describe_points_below():
        axes.set_xlabel(f"operations per byte\n{text}")


def _draw_roofs(axes: Any, plot: RooflinePlot, bandwidth: float) -> None:
    """Draw the memory bandwidth, and the peak rates with their labels beside the axes."""
    low, high = plot.intensity_range
    end = min(high, (plot.roofs[0].rate if plot.roofs else plot.rate_range[1]) / bandwidth)
    axes.plot(
        [low, end], [low * bandwidth, end * bandwidth], c="black", lw=1.2,
        label=f"memory {format_rate(bandwidth)}B/s",
    )  # fmt: skip
    roofs = [roof for roof in reversed(plot.roofs) if roof.rate / bandwidth < high]
    least, most = map(math.log10, plot.rate_range)
    line_places = [(math.log10(roof.rate) - least) / (most - least) for roof in roofs]
    label_places = spread_labels(line_places, LABEL_GAP, 0.0, 1.0)
    for roof, line_place, label_place in zip(roofs, line_places, label_places, strict=True):
        axes.plot([max(roof.rate / bandwidth, low), high], [roof.rate] * 2, c="black", lw=1.2)
        axes.annotate(
            roof.label, (1.0, line_place), xytext=(1.02, label_place), xycoords="axes fraction",
            va="center", fontsize=8, arrowprops={"arrowstyle": "-", "lw": 0.6, "shrinkB": 0},
        )  # fmt: skip


def _draw_breakdown(figure: Any, result: RunResult) -> None:
    """Draw the step, and below it the compute time by kind of kernel, as bars."""
    figures = result.figures
    bars: list[tuple[str, list[tuple[str, float, str]]]] = []
    if figures["step_time_s"] is not None:
        exposed = figures["exposed_comm_s"]
        bars.append(
            (
                "step",
                [("compute", figures["step_time_s"] - exposed, COLOURS[0]),
                 ("exposed communication", exposed, COLOURS[1])],
            )
        )  # fmt: skip
    groups = kernel_rows.sum_time_by(result.kernel_rows, lambda row: row.kind)
    segments = make_bar_segments([(name, 1e-9 * ns) for name, ns, _ in groups])
    bars.append(("compute", [(p.name, p.time_s, COLOURS[p.colour - 1]) for p in segments]))
    longest = 1e3 * max(sum(time_s for _, time_s, _ in shown) for _, shown in bars)
    for panel, (name, shown) in enumerate(bars):
        axes = figure.add_subplot(len(bars), 1, panel + 1)
        left = 0.0
        for label, time_s, colour in shown:
            if time_s > 0:
                text = f"{label}, {1e3 * time_s:.3g} ms"
                axes.barh([name], [1e3 * time_s], 0.8, left=left, color=colour, label=text)
                left += 1e3 * time_s
        axes.set(xlim=(0, 1.02 * longest or 1), ylim=(-0.5, 0.5))
        axes.spines[["top", "right"]].set_visible(False)
        axes.legend(frameon=False, fontsize=8, ncols=3, loc="lower left", bbox_to_anchor=(0, 1))
        if panel == len(bars) - 1:
            axes.set_xlabel("time (ms)")
        else:
            axes.tick_params(labelbottom=False)


def _draw_memory(figure: Any, points: Sequence[tuple[int, int]], memory: dict[str, Any]) -> None:
    axes = figure.add_subplot()
    at, sizes = zip(*points, strict=True)
    axes.fill_between(at, [1e-9 * size for size in sizes], step="post", alpha=0.4, color=COLOURS[0])
    capacity = memory["node_bytes"]
    if capacity is not None and capacity <= 2.5 * memory["peak_bytes"]:
        axes.axhline(1e-9 * capacity, ls="--", c=COLOURS[4], label="memory of the device")
        axes.legend(frameon=False)
    axes.set(xlabel="point of the program", ylabel="live memory of one device (GB)")
    axes.set(xlim=(at[0], max(at[-1], at[0] + 1)), ylim=(0, None))


def write_comparison_plot(
    path: str, comparisons: Sequence[ComparedResult], labels: Sequence[str]
) -> None:
    """Write a bar chart of compute and exposed communication, with the 80 % bands."""
    from matplotlib.figure import Figure

    label_width = max(measure_text(label, LABEL_FONT_SIZE) for label in labels)
    size = 5.5 + label_width, 1.3 + 0.45 * len(comparisons)
    figure = Figure(figsize=size, layout="constrained")
    axes = figure.add_subplot()
    places = range(len(comparisons))
    exposed = [
        1e3 * (comparison.result.get_figure("exposed_comm_s") or 0.0) for comparison in comparisons
    ]
    if comparisons[0].measure == "compute_s":
        exposed = [0.0 for _ in comparisons]
    times = [1e3 * comparison.time_s for comparison in comparisons]
    rest = [time - part for time, part in zip(times, exposed, strict=True)]
    axes.barh(places, rest, color=COLOURS[0], label="compute")
    if any(exposed):
        axes.barh(places, exposed, left=rest, color=COLOURS[1], label="exposed communication")
    for i, comparison in enumerate(comparisons):
        if comparison.band_s:
            low, high = (1e3 * end for end in comparison.band_s)
            errors = [[max(times[i] - low, 0.0)], [max(high - times[i], 0.0)]]
            axes.errorbar(times[i], i, xerr=errors, c="black", capsize=3, lw=1)
        if comparison.speed_up is not None:
            end = max(times[i], 1e3 * comparison.band_s[1] if comparison.band_s else 0.0)
            axes.annotate(f"{comparison.speed_up:.2f} x", (end, i), xytext=(5, -3), fontsize=8,
                          textcoords="offset points")  # fmt: skip
    axes.set_yticks(list(places), labels, fontsize=LABEL_FONT_SIZE)
    axes.invert_yaxis()
    ends = [1e3 * comparison.band_s[1] for comparison in comparisons if comparison.band_s]
    axes.set_xlim(0, 1.15 * max(*times, *ends, 1e-9))  # the speed-ups stand beside the bars
    measure = "step" if comparisons[0].measure == "step_time_s" else "compute"
    axes.set_xlabel(f"{measure} time (ms)")
    figure.legend(loc="outside upper center", ncols=2, frameon=False, fontsize=8)
    save_figure(figure, path)


def write_heat_map(
    folder: str,
    rows: Sequence[str],
    columns: Sequence[str],
    times_s: Sequence[Sequence[float | None]],
) -> list[str]:
    """Write a heat map of times, shaded by the ratio to the best of the row; returns the paths."""
    heat_map = HeatMap(rows, columns, times_s)
    width, height, _ = compute_layout(heat_map)
    size = width, height
    return _write_plots({"grid": lambda figure: draw_heat_map(figure, heat_map)}, folder, size)


@dataclass(frozen=True)
class HeatMap:
    """The content of a heat map.

    Attributes:
        rows: The labels of the rows.
        columns: The labels of the columns.
        times_s: The times of each row; None where there is none.
    """

    rows: Sequence[str]
    columns: Sequence[str]
    times_s: Sequence[Sequence[float | None]]

    @property
    def column_labels(self) -> list[str]:
        """The labels of the columns, with what a node replaces on a line of its own."""
        return [name.replace("[", "\n[", 1) for name in self.columns]

    @property
    def ratios(self) -> list[list[float]]:
        """The times over the best of their row; NaN where there is no time."""
        rows = []
        for times in self.times_s:
            best = min((time for time in times if time is not None), default=None)
            rows.append([math.nan if time is None or not best else time / best for time in times])
        return rows


def measure_text(text: str, size: float = FONT_SIZE) -> float:
    """Measure the width of the longest line of a text in inches."""
    from matplotlib.textpath import TextPath

    lines = [line for line in text.splitlines() if line.strip()]
    return max(
        (TextPath((0, 0), line, size=size).get_extents().x1 / 72 for line in lines), default=0
    )


def compute_layout(heat_map: HeatMap) -> tuple[float, float, bool]:
    """Compute the size that leaves room for every label.

    Returns:
        The width and the height in inches, and whether the labels of columns are slanted.
    """
    row_width = max(map(measure_text, heat_map.rows), default=0.0) + PADDING
    label_width = max(map(measure_text, heat_map.column_labels), default=0.0) + 0.1
    least, most = CELL_WIDTHS
    is_slanted = label_width > most
    cell_width = least if is_slanted else max(least, label_width)
    line_count = max((text.count("\n") + 1 for text in heat_map.column_labels), default=1)
    label_height = 1.5 * FONT_SIZE / 72 * line_count
    if is_slanted:  # a label ends below the middle of its column and begins to the left of it
        row_width = max(row_width, label_width * math.cos(SLANT) - cell_width / 2 + PADDING)
        label_height = label_width * math.sin(SLANT) + label_height
    map_width = max(cell_width * len(heat_map.columns), MIN_MAP_WIDTH)
    map_height = CELL_HEIGHT * len(heat_map.rows)
    height = BAR_HEIGHT + map_height + label_height + PADDING
    return row_width + map_width + PADDING, height, is_slanted


def draw_heat_map(figure: Any, heat_map: HeatMap) -> None:
    """Draw a heat map, shaded by the ratio to the best of the row."""
    from matplotlib.colors import LogNorm

    axes = figure.add_subplot()
    ratios = heat_map.ratios
    top = max((ratio for row in ratios for ratio in row if ratio == ratio), default=1.0)
    norm = LogNorm(1.0, max(top, 1.2))
    image = axes.imshow(ratios, cmap="Blues", norm=norm, aspect="auto")
    _draw_colour_bar(figure, axes, image)
    slanted = {"rotation": math.degrees(SLANT), "ha": "right", "rotation_mode": "anchor"}
    _, _, is_slanted = compute_layout(heat_map)
    axes.set_xticks(
        range(len(heat_map.columns)), heat_map.column_labels, fontsize=FONT_SIZE,
        **(slanted if is_slanted else {}),
    )  # fmt: skip
    axes.set_yticks(range(len(heat_map.rows)), heat_map.rows, fontsize=FONT_SIZE)
    for i, row in enumerate(heat_map.times_s):
        for k, time_s in enumerate(row):
            colour = "white" if time_s is not None and norm(ratios[i][k]) > 0.5 else "black"
            text = "-" if time_s is None else _format_short_time(time_s)
            axes.text(k, i, text, ha="center", va="center", fontsize=FONT_SIZE, color=colour)


def _draw_colour_bar(figure: Any, axes: Any, image: Any) -> None:
    """Draw the colour bar above the map, where its label has room beside the cells."""
    bar = figure.colorbar(image, ax=axes, location="top", aspect=30, fraction=0.08)
    bar.set_label("time over the best of the row", fontsize=FONT_SIZE)
    top = image.norm.vmax
    ticks = [tick for tick in BAR_TICKS if tick <= top * (1 + 1e-9)]
    if top > 5:
        ticks = [tick for tick in ticks if tick not in (1.2, 1.5, 3.0)]
    bar.set_ticks(ticks, labels=[f"{tick:g} x" for tick in ticks], fontsize=FONT_SIZE)
    bar.ax.minorticks_off()


def _format_short_time(time_s: float) -> str:
    """Format a time with three digits."""
    number, unit = format_seconds(time_s).split()
    return f"{float(f'{float(number):.3g}'):g} {unit}"
