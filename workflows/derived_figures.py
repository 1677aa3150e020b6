"""Figures derived from those of a run: utilisation, rates, energy and cost of a step.

Two utilisations are kept apart. MFU, *model* FLOPs utilisation, counts the operations of the
forward and backward pass once (PaLM, arXiv 2204.02311, appendix B). HFU, *hardware* FLOPs
utilisation, counts the operations that the program executes, including recomputation. Both are
shares of the dense peak of all devices over the step. The peak is that of the type of most
operations; operations of faster types count at their own rates, so that no step that keeps to the
peak rates has an HFU above 1.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from hespas.configs.node_spec import NodeSpec
from hespas.support.errors import HespasError
from hespas.support.text_tables import format_percent, format_scaled
from hespas.workflows.step_energy import StepEnergy, estimate_step_energy

ROUNDING = 1e-9  # relative error of sums and quotients of times
SECONDS_PER_HOUR = 3600.0


@dataclass(frozen=True)
class StepWork:
    """The work of a step, summed over all devices, and the price of a device; None if unknown.

    Attributes:
        model_flops: Operations of the model, without recomputation.
        tokens_per_step: Tokens processed.
        samples_per_step: Samples processed.
        price_per_hour: US dollars for an hour of one device.
        model_flops_source: How the operations of the model were found, if the exporter says it.
    """

    model_flops: float | None = None
    tokens_per_step: float | None = None
    samples_per_step: float | None = None
    price_per_hour: float | None = None
    model_flops_source: str | None = None

    @classmethod
    def from_facts(
        cls, facts: Mapping[str, Any], node: NodeSpec | None, overrides: Mapping[str, Any]
    ) -> StepWork:
        """Use the overrides, then the facts that the exporter wrote, then the node's price."""
        known = {
            "model_flops": facts.get("flops_per_step"),
            "tokens_per_step": facts.get("tokens_per_step"),
            "samples_per_step": facts.get("samples_per_step", facts.get("images_per_step")),
            "price_per_hour": node.price_per_hour if node else None,
        }
        requested = {name: overrides.get(name) for name in known}
        source = None if requested["model_flops"] else facts.get("flops_per_step_source")
        return cls(
            **{n: known[n] if value is None else value for n, value in requested.items()},
            model_flops_source=source,
        )


@dataclass(frozen=True, kw_only=True)
class DerivedFigures(StepEnergy):
    """Figures of one step, with its energy; None if an input is unknown.

    Attributes:
        executed_flops: Floating-point operations, and products of integers, on all devices.
        model_flops: Operations of the model on all devices, without recomputation.
        peak_dtype: The element type of most executed operations.
        peak_flops_per_s: The dense rate of one device's matrix unit for ``peak_dtype``, or a higher
            one if some operations have a faster type.
        mfu: ``model_flops`` over the peak of all devices during the step.
        hfu: ``executed_flops`` over the same.
        tokens_per_s: Tokens per second.
        samples_per_s: Samples per second.
        average_power_w: Watts of one device, on average over the step.
        energy_delay_js: ``energy_j`` times the step time.
        area_mm2: The area of the chip of one device.
        price_per_hour: US dollars for an hour of one device.
        cost_usd: US dollars, summed over all devices.
        model_flops_source: How ``model_flops`` was found, if the exporter says it.
    """

    executed_flops: int
    model_flops: float | None
    peak_dtype: str | None
    peak_flops_per_s: float | None
    mfu: float | None
    hfu: float | None
    tokens_per_s: float | None
    samples_per_s: float | None
    average_power_w: float | None
    energy_delay_js: float | None
    area_mm2: float | None
    price_per_hour: float | None
    cost_usd: float | None
    model_flops_source: str | None = None

    def to_json(self) -> dict[str, Any]:
        return asdict(self)

    @property
    def has_step_figures(self) -> bool:
        """Whether any figure of a step is known."""
        names = ("mfu", "hfu", "tokens_per_s", "samples_per_s", "energy_j", "cost_usd")
        return any(getattr(self, name) is not None for name in names)


def price_million_tokens(
    cost_usd: float | None, tokens_per_s: float | None, step_s: float | None
) -> float | None:
    """Return the US dollars for a million tokens at the cost of a step; None if one is unknown."""
    if not (cost_usd and tokens_per_s and step_s):
        return None
    return 1e6 * cost_usd / (tokens_per_s * step_s)


def derive_step_figures(
    stats: Mapping[str, Any], step_time_s: float | None, node: NodeSpec | None, work: StepWork
) -> DerivedFigures:
    """Derive the figures of a step.

    Args:
        stats: The contents of module_stats.json, which describe one device.
        step_time_s: The simulated step time; None if the program was not simulated. The step time
            of a program that does not communicate is its compute time.
        node: The node; None if it is unknown.
        work: The work of the step.
    """
    devices = stats["program"]["devices"]
    flops = {
        name: row["executed_flops"]
        for name, row in stats["dtypes"].items()
        if row["executed_flops"]
    }
    executed = devices * sum(flops.values())
    dtype = max(flops, key=flops.__getitem__, default=None)
    peak = _compute_peak_rate(node, dtype, flops)
    model_flops, price = work.model_flops, work.price_per_hour
    seconds = step_time_s
    if seconds is None and not stats["totals"]["comm_ops"]:
        seconds = stats["totals"]["time_ns"] * 1e-9
    seconds = seconds or None  # an empty program has no rates
    attainable_flops = devices * peak * seconds if peak and seconds else None
    energy = estimate_step_energy(stats, seconds, node)
    return DerivedFigures(
        executed_flops=executed,
        model_flops=model_flops,
        peak_dtype=dtype,
        peak_flops_per_s=peak,
        mfu=_divide_known(model_flops, attainable_flops),
        hfu=_divide_known(executed, attainable_flops),
        tokens_per_s=_divide_known(work.tokens_per_step, seconds),
        samples_per_s=_divide_known(work.samples_per_step, seconds),
        **asdict(energy),
        average_power_w=_divide_known(energy.energy_j, devices * seconds if seconds else None),
        energy_delay_js=None
        if energy.energy_j is None or seconds is None
        else energy.energy_j * seconds,
        area_mm2=stats["program"].get("area_mm2"),
        price_per_hour=price,
        cost_usd=None
        if price is None or seconds is None
        else price * devices * seconds / SECONDS_PER_HOUR,
        model_flops_source=work.model_flops_source,
    )


def compute_scaling_efficiency(
    devices: Sequence[int], step_time_s: Sequence[float], work: Sequence[float] | None = None
) -> list[float]:
    """Return the work per device and second of each entry over that of the first.

    Args:
        devices: The number of devices of each entry.
        step_time_s: The step time of each entry, in seconds.
        work: The work of a step, such as tokens; None if it is the same for all entries, which
            gives the efficiency of strong scaling.

    Raises:
        HespasError: The lists differ in length, or a number is not positive.
    """
    step_work = [1.0] * len(devices) if work is None else list(work)
    if not len(devices) == len(step_time_s) == len(step_work):
        raise HespasError("scaling efficiency: the lists differ in length")
    if any(number <= 0 for numbers in (devices, step_time_s, step_work) for number in numbers):
        raise HespasError("scaling efficiency: devices, times and work must be more than 0")
    rates = [w / (n * t) for n, t, w in zip(devices, step_time_s, step_work, strict=True)]
    return [rate / rates[0] for rate in rates]


def _find_peak_rate(node: NodeSpec | None, dtype: str | None) -> float | None:
    """Return the dense rate of the unit that computes products of the type, in FLOP/s."""
    if node is None or dtype is None:
        return None
    try:
        return node.find_peak_rate("matrix", dtype).flops_per_s
    except HespasError:
        return None


def _compute_peak_rate(
    node: NodeSpec | None, dtype: str | None, flops: Mapping[str, int]
) -> float | None:
    """Return the rate of operations of several types at the peak of their unit, in FLOP/s.

    Types slower than ``dtype``, that of most operations, count at its rate.
    """
    peak = _find_peak_rate(node, dtype)
    if peak is None:
        return None
    rates = {name: max(peak, _find_peak_rate(node, name) or 0.0) for name in flops}
    if set(rates.values()) == {peak}:
        return peak
    return sum(flops.values()) / sum(count / rates[name] for name, count in flops.items())


def list_figure_warnings(figures: DerivedFigures, node: NodeSpec | None) -> list[str]:
    """Describe the contradictions between the figures of a step and what they were made from."""
    warnings = []
    if figures.hfu is not None and node is not None and figures.hfu > 1 + ROUNDING:
        warnings.append(
            f"an HFU of {format_percent(figures.hfu)} is impossible: the estimated times are "
            f"shorter than the peak rates of node {node.name} allow, so the two do not describe "
            "the same device"
        )
    model, executed = figures.model_flops, figures.executed_flops
    if model is not None and model > executed * (1 + ROUNDING):
        reason = "such as the masked scores of causal attention or the padding of convolutions"
        if figures.model_flops_source is not None:
            reason = "such as those whose results nothing needs"
        warnings.append(
            f"the program executes {format_scaled(executed, 'FLOP').strip()}, fewer than the "
            f"{format_scaled(model, 'FLOP').strip()} that its model is said to need, so MFU is "
            f"above HFU: model-flops counts operations that the program skips, {reason}"
        )
    return warnings


def _divide_known(numerator: float | None, denominator: float | None) -> float | None:
    return None if numerator is None or not denominator else numerator / denominator
