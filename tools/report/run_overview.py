"""The top of a run's page: its main figures, and warnings about their validity."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from hespas.support.text_tables import (
    format_count,
    format_scaled,
    format_time_range,
)
from hespas.tools.report import html_table
from hespas.tools.report.markup import Markup, join_markup, tag
from hespas.tools.report.memory_usage import RunMemory
from hespas.workflows.figures import list_figures
from hespas.workflows.run_results import RunResult

CardTexts = tuple[str, str, str]  # name, value and explanation


def render_figure_cards(result: RunResult) -> Markup:
    """Render the main figures of a run; those that are unknown are left out."""
    return html_table.render_cards(list(_list_figure_cards(result)))


def _list_figure_cards(result: RunResult) -> Iterator[CardTexts]:
    for figure in list_figures("page"):
        value = result.get_figure(figure.name)
        if value is not None:
            explanation = figure.explain(result.figures).strip(" ,:()")
            yield figure.title, figure.format(value), explanation


def format_band(ends: Sequence[float] | None) -> str:
    """Format the 80 % band, given by its ends in seconds."""
    return f"80 % band {format_time_range(*ends)}" if ends else "no band known"


def render_alerts(result: RunResult, used: RunMemory | None) -> Markup | None:
    """Render what makes the numbers unreliable, the worst first; None if nothing does."""
    figures, problems = result.figures, []
    if used is not None and used.fits_capacity is False and used.capacity is not None:
        needed, available = format_scaled(used.peak, "B"), format_scaled(used.capacity, "B")
        problems.append(f"The program does not fit: it needs {needed}, the device has {available}.")
    if figures["gaps"]:
        has = "has" if figures["gaps"] == 1 else "have"
        problems.append(
            f"{format_count(figures['gaps'], 'op')} {has} no estimate: the times are too low."
        )
    if figures["step_time_s"] is None:
        problems.append("Not simulated: there is no step time. Run with --system to get one.")
    alerts = [tag("div", problem, class_="alert bad", role="alert") for problem in problems]
    if figures["warnings"]:
        items = (tag("li", warning) for warning in figures["warnings"])
        alerts.append(tag("div", "Warnings of the run", tag("ul", *items), class_="alert"))
    return join_markup(*alerts) if alerts else None
