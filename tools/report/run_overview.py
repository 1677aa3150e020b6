"""What stands at the top of a run's page: its main figures, and what makes them doubtful."""

from __future__ import annotations

from collections.abc import Sequence

from hespas.support.text_tables import (
    format_count,
    format_percent,
    format_scaled,
    format_seconds,
)
from hespas.tools.report import html_table
from hespas.tools.report.markup import Markup, join_markup, tag
from hespas.tools.report.memory_usage import RunMemory
from hespas.workflows.run_results import RunResult


def render_figure_cards(result: RunResult, used: RunMemory | None) -> Markup:
    figures = result.figures
    step, compute, exposed = (figures[f"{n}_s"] for n in ("step_time", "compute", "exposed_comm"))
    card_texts: list[tuple[str, str, str]] = []
    if step is not None:
        card_texts.append(
            ("step time", format_seconds(step), format_band(figures["step_time_band_s"]))
        )
    share = f"{format_percent(compute / step)} of the step" if step else ""
    card_texts.append(
        ("compute", format_seconds(compute), share or format_band(figures["compute_band_s"]))
    )
    if exposed is not None:
        card_texts.append(
            (
                "exposed communication",
                format_seconds(exposed),
                f"{format_percent(figures['exposed_share'])} of the step",
            )
        )
    for key, name, more in (
        ("mfu", "MFU", "the model's operations, of the dense peak"),
        ("hfu", "HFU", "operations executed, of the dense peak"),
    ):
        share = result.get_figure(f"derived.{key}")
        if share is not None:
            card_texts.append((name, format_percent(share), more))
    if figures["flops_utilisation"] is not None:
        bandwidth = format_percent(figures["bandwidth_utilisation"])
        peak = format_percent(figures["flops_utilisation"])
        card_texts.append(("of the peak, computing", peak, f"{bandwidth} of the bandwidth"))
    for key, name, unit in (
        ("tokens_per_s", "tokens", "/s"), ("samples_per_s", "samples", "/s"),
        ("energy_j", "energy", "J"),
    ):  # fmt: skip
        amount = result.get_figure(f"derived.{key}")
        if amount is not None:
            more = result.get_figure("derived.energy_model") if unit == "J" else "of all devices"
            card_texts.append((name, format_scaled(amount, unit), str(more)))
    cost = result.get_figure("derived.cost_usd")
    if cost is not None:
        price = result.get_figure("derived.price_per_hour")
        card_texts.append(
            ("cost of a step", f"{cost:.3g} USD", f"{price:g} USD an hour and device")
        )
    if used is not None:
        capacity_text = (
            f"of {format_scaled(used.capacity, 'B')}" if used.capacity else "on one device"
        )
        card_texts.append(("peak memory", format_scaled(used.peak, "B"), capacity_text))
    return html_table.render_cards(card_texts)


def format_band(ends: Sequence[float] | None) -> str:
    return (
        f"80 % band {format_seconds(ends[0])} to {format_seconds(ends[1])}"
        if ends
        else "no band known"
    )


def render_alerts(result: RunResult, used: RunMemory | None) -> Markup | None:
    """What makes the numbers doubtful, the worst first."""
    figures, problems = result.figures, []
    if used is not None and used.fits_capacity is False and used.capacity is not None:
        needed, there = format_scaled(used.peak, "B"), format_scaled(used.capacity, "B")
        problems.append(f"The program does not fit: it needs {needed}, the device has {there}.")
    if figures["gaps"]:
        has = "has" if figures["gaps"] == 1 else "have"
        problems.append(
            f"{format_count(figures['gaps'], 'op')} {has} no estimate: the times are too low."
        )
    if figures["step_time_s"] is None:
        problems.append("Not simulated: there is no step time. A run with --system has one.")
    alerts = [tag("div", one, class_="alert bad", role="alert") for one in problems]
    if figures["warnings"]:
        items = (tag("li", warning) for warning in figures["warnings"])
        alerts.append(tag("div", "Warnings of the run", tag("ul", *items), class_="alert"))
    return join_markup(*alerts) if alerts else None
