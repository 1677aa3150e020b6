"""The top of a run's page: its main figures, and warnings about their validity."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from hespas.support.text_tables import (
    format_count,
    format_percent,
    format_scaled,
    format_seconds,
    format_time_range,
)
from hespas.tools.report import html_table
from hespas.tools.report.markup import Markup, join_markup, tag
from hespas.tools.report.memory_usage import RunMemory
from hespas.workflows.run_results import RunResult

CardTexts = tuple[str, str, str]  # name, value and explanation

DERIVED_SHARES = {  # of the peak rate
    "mfu": ("MFU", "the model's operations, of the dense peak"),
    "hfu": ("HFU", "operations executed, of the dense peak"),
}
DERIVED_AMOUNTS = {"tokens_per_s": ("tokens", "/s"), "samples_per_s": ("samples", "/s")}


def render_figure_cards(result: RunResult, used: RunMemory | None) -> Markup:
    """Render the main figures of a run; those that are unknown are left out."""
    return html_table.render_cards(
        [
            *_list_time_cards(result),
            *_list_utilisation_cards(result),
            *_list_step_cards(result),
            *_list_memory_cards(used),
        ]
    )


def _list_time_cards(result: RunResult) -> Iterator[CardTexts]:
    figures = result.figures
    step, compute, exposed = (figures[f"{n}_s"] for n in ("step_time", "compute", "exposed_comm"))
    if step is not None:
        yield "step time", format_seconds(step), format_band(figures["step_time_band_s"])
    share = f"{format_percent(compute / step)} of the step" if step else ""
    yield "compute", format_seconds(compute), share or format_band(figures["compute_band_s"])
    if exposed is not None:
        share = f"{format_percent(figures['exposed_share'])} of the step"
        yield "exposed communication", format_seconds(exposed), share


def _list_utilisation_cards(result: RunResult) -> Iterator[CardTexts]:
    for key, (name, explanation) in DERIVED_SHARES.items():
        share = result.get_figure(f"derived.{key}")
        if share is not None:
            yield name, format_percent(share), explanation
    if result.figures["flops_utilisation"] is not None:
        peak = format_percent(result.figures["flops_utilisation"])
        bandwidth = format_percent(result.figures["bandwidth_utilisation"])
        yield "of the peak, computing", peak, f"{bandwidth} of the bandwidth"


def _list_step_cards(result: RunResult) -> Iterator[CardTexts]:
    """Yield rates, energy and cost of a step of all devices."""
    for key, (name, unit) in DERIVED_AMOUNTS.items():
        rate = result.get_figure(f"derived.{key}")
        if rate is not None:
            yield name, format_scaled(rate, unit), "of all devices"
    energy = result.get_figure("derived.energy_j")
    if energy is not None:
        model = str(result.get_figure("derived.energy_model"))
        yield "energy", format_scaled(energy, "J"), model
    power, delay = (
        result.get_figure("derived.average_power_w"),
        result.get_figure("derived.energy_delay_js"),
    )
    if power is not None and delay is not None:
        product = f"energy x delay {format_scaled(delay, 'Js').strip()}"
        yield "average power", f"{format_scaled(power, 'W').strip()} a device", product
    area = result.get_figure("derived.area_mm2")
    if area is not None:
        yield "area of a chip", f"{area:.4g} mm\u00b2", "arrays, SRAM, links, memory interfaces"
    cost = result.get_figure("derived.cost_usd")
    if cost is not None:
        price = result.get_figure("derived.price_per_hour")
        yield "cost of a step", f"{cost:.3g} USD", f"{price:g} USD per hour and device"


def _list_memory_cards(used: RunMemory | None) -> Iterator[CardTexts]:
    if used is not None:
        capacity = f"of {format_scaled(used.capacity, 'B')}" if used.capacity else "on one device"
        yield "peak memory", format_scaled(used.peak, "B"), capacity


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
