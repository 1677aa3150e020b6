"""The section of a run's page on what faster parts of the device and the network would be worth."""

from __future__ import annotations

import functools
from typing import Any

from hespas.support.text_tables import format_percent, format_seconds
from hespas.tools.report.html_table import (
    TableCell,
    TableColumn,
    format_text_cell,
    format_time_cell,
    render_table,
)
from hespas.tools.report.markup import Markup, join_markup, tag
from hespas.tools.report.page_frame import PageSection
from hespas.workflows.sensitivity.step_sensitivity import (
    CANNOT_RUN,
    RateSensitivity,
    StepSensitivity,
)

FASTER_COLOUR, SLOWER_COLOUR = 1, 2
WIDTH, ROW_HEIGHT, LABEL_WIDTH, MARGIN = 900, 24, 250, 90
STEPS = {"slower": "20 % less", "faster": "25 % more", "limit": "No limit"}
LEAD = (
    "The step at other rates of the node and the network: 20 % less and 25 % more of each. A rate "
    "stops to matter where no more than 1 % of the step can be gained."
)


def build_sensitivity_section(figures: dict[str, Any]) -> PageSection | None:
    """Build the section; None for a run without ``--sensitivity``."""
    data = figures.get("sensitivity")
    if not data or not data["rates"]:
        return None
    sensitivity = StepSensitivity.from_json(data)
    findings = tag("ul", *(tag("li", line) for line in sensitivity.list_findings()))
    body = join_markup(_draw_tornado(sensitivity), _render_rates(sensitivity), findings)
    return PageSection("sensitivity", "What faster parts would be worth", body, LEAD)


def _draw_tornado(sensitivity: StepSensitivity) -> Markup:
    """Draw for each rate by how much the step is longer or shorter, to both sides of a line."""
    rows, step_s = sensitivity.rows, sensitivity.step_time_s
    times_s = [time_s for row in rows for time_s in (row.slower_s, row.faster_s)]
    largest_s = max(abs(time_s - step_s) for time_s in times_s if time_s is not None) or 1.0
    middle = (LABEL_WIDTH + WIDTH) / 2
    scale = (WIDTH - LABEL_WIDTH - 2 * MARGIN) / 2 / largest_s
    drawn: list[Markup] = []
    for number, row in enumerate(rows):
        y = number * ROW_HEIGHT
        label = tag("text", row.name, x=LABEL_WIDTH - 8, y=y + 16, text_anchor="end")
        drawn.append(label)
        for time_s, colour in ((row.faster_s, FASTER_COLOUR), (row.slower_s, SLOWER_COLOUR)):
            change_s = 0.0 if time_s is None else time_s - step_s
            drawn += _draw_change(change_s, colour, middle, scale, y, step_s)
    height = ROW_HEIGHT * len(rows)
    drawn.append(tag("line", x1=middle, x2=middle, y1=0, y2=height, class_="axis"))
    title = f"Change of the step of {format_seconds(step_s)} by rate"
    box = f"0 0 {WIDTH} {height}"
    return tag("svg", *drawn, viewBox=box, class_="chart", role="img", aria_label=title)


def _draw_change(
    change_s: float, colour: int, middle: float, scale: float, y: float, step_s: float
) -> list[Markup]:
    """Draw the bar of one change with its share of the step."""
    length = abs(change_s) * scale
    is_longer = change_s > 0
    bar = tag(
        "rect", x=f"{middle if is_longer else middle - length:.1f}", y=y + 4,
        width=f"{length:.1f}", height=ROW_HEIGHT - 8, class_=f"s{colour}",
    )  # fmt: skip
    x = middle + length + 6 if is_longer else middle - length - 6
    anchor = "start" if is_longer else "end"
    text = f"{'+' if is_longer else '-'}{format_percent(abs(change_s) / step_s)}"
    label = tag("text", text, x=f"{x:.1f}", y=y + 16, text_anchor=anchor, class_="quiet")
    return [bar, label] if length >= 1 else []


def _render_rates(sensitivity: StepSensitivity) -> Markup:
    columns = [
        TableColumn("rate", "Rate", lambda row: format_text_cell(row.name), "text"),
        TableColumn("now", "Now", lambda row: format_text_cell(row.format_value()), "text"),
        TableColumn(
            "elasticity", "Elasticity",
            lambda row: TableCell(f"{row.elasticity:+.3f}", row.elasticity),
            help="change of the step over that of the rate",
        ),
        *(
            TableColumn(key, title, functools.partial(_format_step_cell, key), help="step time")
            for key, title in STEPS.items()
        ),
    ]  # fmt: skip
    return render_table("rates", "Rates of the node and the network", columns, sensitivity.rows)


def _format_step_cell(key: str, row: RateSensitivity) -> TableCell:
    time_s = getattr(row, f"{key}_s")
    return format_text_cell(CANNOT_RUN) if time_s is None else format_time_cell(time_s)
