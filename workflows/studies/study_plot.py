"""A study's plot: its panels side by side, the next facet below them."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

from hespas.workflows.plot_files import COLOURS, MARKS
from hespas.workflows.studies.study_definition import Study, StudyPanel, describe_label

Row = Mapping[str, Any]

STYLES = ("-", "--", ":")
WIDE, HIGH = 4.6, 3.8  # inches of a panel


def compute_figure_size(study: Study, rows: Sequence[Row]) -> tuple[float, float]:
    """Inches of the plot."""
    high, wide = _arrange_panels(study, _list_facets(study, rows))
    return (0.6 + WIDE * wide, 0.9 + HIGH * high)


def draw_study(figure: Any, study: Study, rows: Sequence[Row]) -> None:
    """Put all panels into a figure, one legend for them above."""
    facets = _list_facets(study, rows)
    grid = figure.subplots(*_arrange_panels(study, facets), squeeze=False).flat
    series = _label_series(study, rows)
    places = list(dict.fromkeys(row[study.across] for row in rows))
    if study.across == "devices":
        places.sort()
    for facet in facets:
        facet_rows = [row for row in rows if facet is None or row[study.facet] == facet]
        for panel in study.panels:
            axes = next(grid)
            _draw_panel(axes, study, panel, facet_rows, series, places)
            if facet is not None:
                axes.set_title(str(facet), fontsize=9)
    handles, labels = figure.axes[0].get_legend_handles_labels()
    if labels:
        figure.legend(handles, labels, loc="outside upper center", ncols=6, fontsize=8,
                      frameon=False)  # fmt: skip


def _arrange_panels(study: Study, facets: Sequence[Any]) -> tuple[int, int]:
    """Rows and columns of panels: a study's one panel is repeated to the right."""
    if len(study.panels) == 1:
        return 1, len(facets)
    return len(facets), len(study.panels)


def _list_facets(study: Study, rows: Sequence[Row]) -> list[Any]:
    """The values that have panels of their own; [None] where all share them."""
    facet_values = list(dict.fromkeys(row[study.facet] for row in rows)) if study.facet else [None]
    return facet_values if len(facet_values) > 1 or len(study.panels) == 1 else [None]


def _label_series(study: Study, rows: Sequence[Row]) -> dict[tuple[Any, ...], str]:
    """The lines, each by its values of what tells lines apart, and its name in the legend."""
    names = list(study.series)
    if study.facet != "node" and "node" not in names and study.across != "node":
        names.append("node")
    varied = [name for name in names if len({row[name] for row in rows}) > 1]
    series_labels: dict[tuple[Any, ...], str] = {}
    for row in rows:
        texts = [describe_label(name, row[name]) for name in varied]
        series_labels.setdefault(_get_series_key(study, row), ", ".join(texts))
    return series_labels


def _get_series_key(study: Study, row: Row) -> tuple[Any, ...]:
    return (*(row[name] for name in study.series), row["node"] if study.facet != "node" else None)


def _draw_panel(
    axes: Any,
    study: Study,
    panel: StudyPanel,
    rows: Sequence[Row],
    series: Mapping[tuple[Any, ...], str],
    places: Sequence[Any],
) -> None:
    """The lines of one panel; places are as far apart as their order, or as doubled devices."""
    numeric = study.across == "devices"
    for number, (key, label) in enumerate(series.items()):
        series_rows = [row for row in rows if _get_series_key(study, row) == key]
        for name, style in zip(panel.names, STYLES, strict=False):
            points = sorted(
                (math.log2(row[study.across]) if numeric else places.index(row[study.across]),
                 row[name], row["devices"])
                for row in series_rows
                if row.get(name) is not None
            )  # fmt: skip
            if not points:
                continue
            at, values, devices = zip(*points, strict=True)
            colour, mark = COLOURS[number % len(COLOURS)], MARKS[number % len(MARKS)]
            axes.plot(
                at, values, style, color=colour, marker=mark, ms=4, lw=1.2,
                label=label if style == "-" else None,
            )  # fmt: skip
            if panel.ideal:
                ideal = [values[0] * n / devices[0] for n in devices]
                axes.plot(at, ideal, "--", color=colour, lw=0.8, alpha=0.6)
    ticks = [math.log2(place) for place in places] if numeric else range(len(places))
    texts = [f"{place:,}" if isinstance(place, int) else str(place) for place in places]
    axes.set_xticks(ticks, texts, rotation=45 if len(places) > 6 else 0, fontsize=8)
    axes.set(xlabel=study.across, ylabel=panel.label)
    if panel.log:
        axes.set_yscale("log")
    else:
        axes.set_ylim(bottom=0)
    if panel.share:
        axes.yaxis.set_major_formatter(lambda share, _: f"{100 * share:g} %")
    axes.grid(alpha=0.3)
