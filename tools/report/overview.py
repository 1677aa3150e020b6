"""What stands at the top of a run's page: its main figures, and what makes them doubtful."""

from __future__ import annotations

from collections.abc import Sequence

from hespas.tools.commands.render import counted, percent, scaled, seconds
from hespas.tools.report import table
from hespas.tools.report.markup import Markup, join, tag
from hespas.tools.report.memory import Memory
from hespas.tools.results import Result


def cards(result: Result, used: Memory | None) -> Markup:
    figures = result.figures
    step, compute, exposed = (figures[f"{n}_s"] for n in ("step_time", "compute", "exposed_comm"))
    found: list[tuple[str, str, str]] = []
    if step is not None:
        found.append(("step time", seconds(step), band(figures["step_time_band_s"])))
    share = f"{percent(compute / step)} of the step" if step else ""
    found.append(("compute", seconds(compute), share or band(figures["compute_band_s"])))
    if exposed is not None:
        found.append(
            (
                "exposed communication",
                seconds(exposed),
                f"{percent(figures['exposed_share'])} of the step",
            )
        )
    for key, name, more in (
        ("mfu", "MFU", "the model's operations, of the dense peak"),
        ("hfu", "HFU", "operations executed, of the dense peak"),
    ):
        share = result.figure(f"derived.{key}")
        if share is not None:
            found.append((name, percent(share), more))
    if figures["flops_utilisation"] is not None:
        bandwidth = percent(figures["bandwidth_utilisation"])
        peak = percent(figures["flops_utilisation"])
        found.append(("of the peak, computing", peak, f"{bandwidth} of the bandwidth"))
    for key, name, unit in (
        ("tokens_per_s", "tokens", "/s"), ("samples_per_s", "samples", "/s"),
        ("energy_j", "energy", "J"),
    ):  # fmt: skip
        amount = result.figure(f"derived.{key}")
        if amount is not None:
            more = result.figure("derived.energy_model") if unit == "J" else "of all devices"
            found.append((name, scaled(amount, unit), str(more)))
    cost = result.figure("derived.cost_usd")
    if cost is not None:
        price = result.figure("derived.price_per_hour")
        found.append(("cost of a step", f"{cost:.3g} USD", f"{price:g} USD an hour and device"))
    if used is not None:
        of = f"of {scaled(used.capacity, 'B')}" if used.capacity else "on one device"
        found.append(("peak memory", scaled(used.peak, "B"), of))
    return table.cards(found)


def band(ends: Sequence[float] | None) -> str:
    return f"80 % band {seconds(ends[0])} to {seconds(ends[1])}" if ends else "no band known"


def alerts(result: Result, used: Memory | None) -> Markup | None:
    """What makes the numbers doubtful, the worst first."""
    figures, bad = result.figures, []
    if used is not None and used.fits is False and used.capacity is not None:
        needed, there = scaled(used.peak, "B"), scaled(used.capacity, "B")
        bad.append(f"The program does not fit: it needs {needed}, the device has {there}.")
    if figures["gaps"]:
        has = "has" if figures["gaps"] == 1 else "have"
        bad.append(f"{counted(figures['gaps'], 'op')} {has} no estimate: the times are too low.")
    if figures["step_time_s"] is None:
        bad.append("Not simulated: there is no step time. A run with --system has one.")
    alerts = [tag("div", one, class_="alert bad", role="alert") for one in bad]
    if figures["warnings"]:
        items = (tag("li", warning) for warning in figures["warnings"])
        alerts.append(tag("div", "Warnings of the run", tag("ul", *items), class_="alert"))
    return join(*alerts) if alerts else None
