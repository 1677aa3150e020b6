"""Pictures of a sweep: the front of two figures, a heat map of two axes, parallel coordinates."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any, Literal

from hespas.support.errors import UsageError
from hespas.workflows.plot_files import COLOURS, make_logarithmic
from hespas.workflows.sweep.sweep_analysis import (
    PROGRAM,
    Objective,
    find_pareto_front,
    group_by_program,
    group_comparable,
    relate_to_program_best,
    select_known_rows,
)
from hespas.workflows.sweep.sweep_table import CELL, SweepRow

PlotKind = Literal["front", "heat-map", "parallel"]
_FONT_SIZE = 8  # points
_COLUMN_WIDTH, _ROW_HEIGHT = 0.75, 0.35  # inches
_MOST_LABELS = 30  # of an axis
_TICKS = 6
_MOST_PANELS_ACROSS, _PANEL_WIDTH = 3, 4.2  # panels of programs; inches
_GREY, _BLUE, _RED = COLOURS[5], COLOURS[0], COLOURS[4]


def choose_plot_kind(axes: Sequence[str], objectives: Sequence[Objective]) -> PlotKind:
    """Return the kind that shows these axes and figures; a front needs two figures."""
    if len(objectives) > 1:
        return "front"
    return "heat-map" if len(axes) == 2 else "parallel"


def draw_sweep(
    rows: Sequence[SweepRow],
    allowed: Sequence[SweepRow],
    kind: PlotKind,
    columns: Sequence[str],
    objectives: Sequence[Objective],
) -> Any:
    """Return a figure of matplotlib.

    Args:
        rows: The cells with a result.
        allowed: Those of them that meet the limits.
        kind: What to draw.
        columns: The axes: of a heat map two, of parallel coordinates any number.
        objectives: The figures: of a front two or more, otherwise the first is the colour.

    Raises:
        UsageError: No cell has the columns, or their number is wrong for the kind.
    """
    if kind == "front":
        return _draw_fronts(rows, allowed, objectives)
    objective = objectives[0]
    draw = _draw_heat_map if kind == "heat-map" else _draw_parallel_coordinates
    if len(group_by_program(select_known_rows(allowed, [objective.column]))) == 1:
        return draw(allowed, columns, objective, _shorten_name(objective.column))
    label = f"{_shorten_name(objective.column)} / best of the program"
    others = [column for column in columns if column != PROGRAM]
    return draw(relate_to_program_best(allowed, objective), others, objective, label)


def _draw_fronts(
    rows: Sequence[SweepRow], allowed: Sequence[SweepRow], objectives: Sequence[Objective]
) -> Any:
    """Scatter the cells that compete over the first two objectives, in a panel for each program."""
    if len(objectives) < 2:
        raise UsageError("a plot of the front needs two figures", remedy="--front FIGURE,FIGURE")
    columns = [objective.column for objective in objectives[:2]]
    known = group_comparable(select_known_rows(rows, columns))
    chosen = {id(row) for row in allowed}
    across = min(len(known), _MOST_PANELS_ACROSS)
    down = -(-len(known) // across)
    width = 6.0 if across == 1 else _PANEL_WIDTH * across
    figure, panels = _create_figure(width, 4.2 * down, down, across)
    for (label, cells), axes in zip(known.items(), panels, strict=False):
        _draw_front(axes, cells, [row for row in cells if id(row) in chosen], objectives[:2])
        axes.set_title(label, fontsize=_FONT_SIZE + 1)
    for axes in panels[len(known) :]:
        axes.remove()
    return figure


def _draw_front(
    axes: Any,
    known: Sequence[SweepRow],
    fitting: Sequence[SweepRow],
    objectives: Sequence[Objective],
) -> None:
    """Scatter the cells of one program; the front is a stepped line."""
    x, y = (objective.column for objective in objectives)
    for cells, colour, label in (
        (known, _GREY, f"{len(known)} cells"),
        (fitting, _BLUE, f"{len(fitting)} within the limits"),
    ):
        axes.scatter(
            [row[x] for row in cells], [row[y] for row in cells], s=9, color=colour, label=label
        )
    front = find_pareto_front(fitting, objectives) if fitting else []
    axes.plot(
        [row[x] for row in front], [row[y] for row in front],
        color=_RED, drawstyle="steps-post", marker="o", markersize=4, linewidth=1,
        label=f"{len(front)} on the front",
    )  # fmt: skip
    for name, axis in ((x, axes.xaxis), (y, axes.yaxis)):
        values = [row[name] for row in known]
        if min(values) > 0 and max(values) > 20 * min(values):
            make_logarithmic(axis, min(values), max(values))
        axis.set_label_text(_shorten_name(name))
    axes.legend(fontsize=_FONT_SIZE - 1, frameon=False)


def _draw_heat_map(
    rows: Sequence[SweepRow], columns: Sequence[str], figure: Objective, label: str
) -> Any:
    """Colour the best figure of the cells with each pair of values of two axes.

    Of several programs, it is the geometric mean of their best figures; a pair of values that one
    of them lacks is blank, because the others alone do not compare with the pairs of all.
    """
    if len(columns) != 2:
        raise UsageError("a heat map needs two axes", remedy="--plot-axes KEY,KEY")
    known = select_known_rows(rows, [figure.column])
    best: dict[tuple[Any, Any], dict[str, float]] = {}
    programs = group_by_program(known)
    for program, cells in programs.items():
        for row in sorted(cells, key=figure.read_loss, reverse=True):
            place = row.get(columns[0]), row.get(columns[1])
            best.setdefault(place, {})[program] = row[figure.column]
    across, down = (_sort_values({place[i] for place in best}) for i in range(2))
    values = [
        [_average_programs(best.get((a, d), {}), len(programs)) for a in across] for d in down
    ]
    shown, (axes,) = _create_figure(
        2.2 + _COLUMN_WIDTH * len(across), 1.2 + _ROW_HEIGHT * len(down)
    )
    image = axes.imshow(values, aspect="auto", cmap="viridis")
    shown.colorbar(image, ax=axes, label=label)
    _label_axis(axes.xaxis, across)
    _label_axis(axes.yaxis, down)
    axes.set_xlabel(_shorten_name(columns[0]))
    axes.set_ylabel(_shorten_name(columns[1]))
    return shown


def _average_programs(by_program: Mapping[str, float], count: int) -> float:
    """Return the geometric mean over programs; NaN if there are not all, 0 if one is."""
    figures = list(by_program.values())
    if len(figures) < count:
        return math.nan
    if count == 1 or min(figures) <= 0:
        return figures[0] if count == 1 else 0.0
    return math.exp(math.fsum(map(math.log, figures)) / count)


def _draw_parallel_coordinates(
    rows: Sequence[SweepRow], columns: Sequence[str], figure: Objective, label: str
) -> Any:
    """Draw each cell as a line over the axes, coloured by the figure; the best are on top."""
    import matplotlib as mpl

    known = select_known_rows(rows, [figure.column])
    names = [*columns, figure.column]
    scales = [_sort_values({row.get(name) for row in known}) for name in names]
    shown, (axes,) = _create_figure(1.5 + 1.3 * len(names), 4.0)
    ranked = sorted(known, key=figure.read_loss, reverse=True)
    colours = mpl.colormaps["viridis_r"]
    for i, row in enumerate(ranked):
        heights = [_find_height(row.get(n), scale) for n, scale in zip(names, scales, strict=True)]
        axes.plot(heights, color=colours(i / len(ranked)), linewidth=0.8, alpha=0.7)
    for position, scale in enumerate(scales):
        axes.axvline(position, color=_GREY, linewidth=0.8)
        labelled = scale if len(scale) <= _TICKS else [scale[0], scale[len(scale) // 2], scale[-1]]
        for value in labelled:
            height = _find_height(value, scale)
            axes.text(position, height, f" {_format_label(value)}", fontsize=_FONT_SIZE - 1)
    titles = [*map(_shorten_name, columns), label]
    axes.set_xticks(
        range(len(names)), titles, rotation=20, horizontalalignment="right", rotation_mode="anchor"
    )
    axes.set_yticks([])
    axes.set_xlim(-0.2, len(names) - 0.4)
    return shown


def _create_figure(
    width: float, height: float, down: int = 1, across: int = 1
) -> tuple[Any, list[Any]]:
    """Create a figure of so many inches and its panels, row by row."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(width, height), layout="constrained")
    panels = list(figure.subplots(down, across, squeeze=False).flat)
    for axes in panels:
        axes.tick_params(labelsize=_FONT_SIZE)
        axes.xaxis.label.set_size(_FONT_SIZE)
        axes.yaxis.label.set_size(_FONT_SIZE)
    return figure, panels


def _sort_values(values: set[Any]) -> list[Any]:
    """Sort numbers by value, and other values by their text."""
    return sorted(
        values, key=lambda v: (0, v, "") if isinstance(v, (int, float)) else (1, 0, str(v))
    )


def _find_height(value: Any, scale: Sequence[Any]) -> float:
    """Return where a value is on its scale, from 0 to 1: by its place if it is no number."""
    first, last = scale[0], scale[-1]
    if all(isinstance(end, (int, float)) for end in (first, last, value)):
        return (value - first) / (last - first) if last > first else 0.5
    return scale.index(value) / max(len(scale) - 1, 1)


def _label_axis(axis: Any, values: Sequence[Any]) -> None:
    """Label the values of an axis, or every n-th of them if they are many."""
    every = -(-len(values) // _MOST_LABELS)
    places = range(0, len(values), every)
    labels = [_format_label(values[i]) for i in places]
    is_slanted = axis.axis_name == "x" and max(map(len, labels)) > _COLUMN_WIDTH * 10
    axis.set_ticks(places, labels)
    for text in axis.get_ticklabels():
        text.set_rotation(35 if is_slanted else 0)
        if is_slanted:
            text.set_horizontalalignment("right")


def _format_label(value: Any) -> str:
    text = f"{value:.4g}" if isinstance(value, float) else str(value)
    return text if len(text) <= 24 else f"{text[:22]}..."


def _shorten_name(column: str) -> str:
    """Return the name of a column without what all keys of its kind have in front."""
    name = column.removeprefix(CELL)
    for prefix in ("node.accelerator.", "node.", "setting.", "let.", "derived."):
        name = name.removeprefix(prefix)
    return name
