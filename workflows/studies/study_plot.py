"""Drawing the plot of a study: panels side by side, a row for each facet."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

from hespas.workflows.plot_files import COLOURS, MARKS, make_logarithmic
from hespas.workflows.studies.study_definition import Study, StudyPanel, describe_label

Row = Mapping[str, Any]

STYLES = ("-", "--", ":")
WIDE, HIGH = 4.6, 3.8  # size of a panel in inches


def compute_figure_size(study: Study, rows: Sequence[Row]) -> tuple[float, float]:
    """Return width and height of the plot in inches."""
    high, wide = _arrange_panels(study, _list_facets(study, rows))
    return (0.6 + WIDE * wide, 0.9 + HIGH * high)


def draw_study(figure: Any, study: Study, rows: Sequence[Row]) -> None:
    """Draw all panels into a figure, with one legend above them."""
    facets = _list_facets(study, rows)
    grid = figure.subplots(*_arrange_panels(study, facets), squeeze=False).flat
    series = _label_series(study, rows)
    places = list(dict.fromkeys(row[study.across] for row in rows))
    if all(isinstance(place, int | float) for place in places):
        places.sort()
    for facet in facets:
        facet_rows = [row for row in rows if facet is None or row[study.facet] == facet]
        for panel in study.panels:
            axes = next(grid)
            _draw_panel(axes, study, panel, facet_rows, series, places)
            if facet is not None:
                axes.set_title(f"{study.facet} {facet}", fontsize=9)
    handles, labels = figure.axes[0].get_legend_handles_labels()
    if labels:
        figure.legend(handles, labels, loc="outside upper center", ncols=6, fontsize=8,
                      frameon=False)  # fmt: skip


def _arrange_panels(study: Study, facets: Sequence[Any]) -> tuple[int, int]:
    """Return the rows and columns of panels; the facets of a single panel are side by side."""
    if len(study.panels) == 1:
        return 1, len(facets)
    return len(facets), len(study.panels)


def _list_facets(study: Study, rows: Sequence[Row]) -> list[Any]:
    """List the values with separate panels; [None] if all share the panels."""
    facet_values = list(dict.fromkeys(row[study.facet] for row in rows)) if study.facet else [None]
    return facet_values if len(facet_values) > 1 or len(study.panels) == 1 else [None]


def _label_series(study: Study, rows: Sequence[Row]) -> dict[tuple[Any, ...], str]:
    """Map the key of each line to its name in the legend."""
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


def _format_place(place: Any) -> str:
    if isinstance(place, float):
        return f"{place:.3g}"
    return f"{place:,}" if isinstance(place, int) else str(place)


def _draw_panel(
    axes: Any,
    study: Study,
    panel: StudyPanel,
    rows: Sequence[Row],
    series: Mapping[tuple[Any, ...], str],
    places: Sequence[Any],
) -> None:
    """Draw the lines of one panel; the horizontal axis is ordinal, or log2 of the devices."""
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
    texts = [_format_place(place) for place in places]
    axes.set_xticks(ticks, texts, rotation=45 if len(places) > 6 else 0, fontsize=8)
    axes.set(xlabel=study.across, ylabel=panel.label)
    if panel.log:
        make_logarithmic(axes.yaxis, *axes.dataLim.intervaly)
    else:
        axes.set_ylim(bottom=0)
    if panel.share:
        axes.yaxis.set_major_formatter(lambda share, _: f"{100 * share:g} %")
    axes.grid(alpha=0.3)
