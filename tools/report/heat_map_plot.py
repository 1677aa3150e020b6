"""Drawing a heat map of times with matplotlib, in a picture that is as large as its labels need."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from hespas.support.text_tables import format_seconds

FONT_SIZE = 8  # points
CELL_WIDTHS = (0.95, 1.7)  # least and greatest width of a cell, in inches
CELL_HEIGHT = 0.4  # inches
BAR_HEIGHT = 0.8  # inches, of the colour bar with its label and ticks
PADDING = 0.3  # inches, around labels
MIN_MAP_WIDTH = 2.6  # inches; the label of the colour bar fits it
SLANT = math.radians(35)  # of column labels that are wider than their cells
BAR_TICKS = (1.0, 1.2, 1.5, 2.0, 3.0, 5.0, 10.0, 20.0, 50.0, 100.0, 1e3, 1e4, 1e5, 1e6)


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


@dataclass(frozen=True)
class HeatMapLayout:
    """The size of a picture in inches, and whether its column labels are slanted."""

    width: float
    height: float
    is_slanted: bool


def measure_text(text: str, size: float = FONT_SIZE) -> float:
    """Measure the width of the longest line of a text in inches."""
    from matplotlib.textpath import TextPath

    lines = [line for line in text.splitlines() if line.strip()]
    return max(
        (TextPath((0, 0), line, size=size).get_extents().x1 / 72 for line in lines), default=0
    )


def compute_layout(heat_map: HeatMap) -> HeatMapLayout:
    """Compute the size that leaves room for every label."""
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
    return HeatMapLayout(
        row_width + map_width + PADDING,
        BAR_HEIGHT + map_height + label_height + PADDING,
        is_slanted,
    )


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
    is_slanted = compute_layout(heat_map).is_slanted
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
