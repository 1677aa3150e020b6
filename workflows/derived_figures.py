"""What follows from a run's figures: utilisation of the hardware, rates, energy and cost of a step.

Two utilisations are told apart and never mixed. MFU, *model* FLOPs utilisation, counts what the
model needs: forward and backward pass, nothing twice (PaLM, arXiv 2204.02311, appendix B). HFU,
*hardware* FLOPs utilisation, counts what the program executes, recomputation included. Both are
shares of the dense peak of all devices over the step.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, fields
from typing import Any

from hespas.configs.node_spec import NodeSpec
from hespas.support.errors import HespasError

SECONDS_PER_HOUR = 3600.0
# The energy of a step, by what it was made from.
ANNOTATED = "power model of the node, idle power while nothing computes"
LIMITS = "power limit while it computes, idle power else"
AT_MOST = "at most: power limit throughout"


@dataclass(frozen=True)
class StepWork:
    """What a step does, of all devices: given, or known to the exporter; None: unknown.

    ``model_flops`` leaves out what is computed twice; ``price_per_hour`` is in US dollars for one
    device.
    """

    model_flops: float | None = None
    tokens_per_step: float | None = None
    samples_per_step: float | None = None
    price_per_hour: float | None = None

    @classmethod
    def from_facts(
        cls, facts: Mapping[str, Any], node: NodeSpec | None, overrides: Mapping[str, Any]
    ) -> StepWork:
        """``given``, else what the exporter knew, else the node's price."""
        known = {
            "model_flops": facts.get("flops_per_step"),
            "tokens_per_step": facts.get("tokens_per_step"),
            "samples_per_step": facts.get("samples_per_step", facts.get("images_per_step")),
            "price_per_hour": node.price_per_hour if node else None,
        }
        requested = {name: overrides.get(name) for name in known}
        return cls(**{n: known[n] if value is None else value for n, value in requested.items()})


@dataclass(frozen=True)
class DerivedFigures:
    """Figures of one step; None where something that it needs is not known.

    ``executed_flops``: floating-point operations of all devices. ``peak_flops_per_s``: dense rate
    of one device's matrix unit for ``peak_dtype``, the type that most of them have. ``energy_j``
    and ``cost_usd`` are of all devices.
    """

    executed_flops: int
    model_flops: float | None
    peak_dtype: str | None
    peak_flops_per_s: float | None
    mfu: float | None
    hfu: float | None
    tokens_per_s: float | None
    samples_per_s: float | None
    energy_j: float | None
    energy_model: str | None
    price_per_hour: float | None
    cost_usd: float | None

    def to_json(self) -> dict[str, Any]:
        return asdict(self)

    @property
    def has_step_figures(self) -> bool:
        """Whether there is any figure of a step."""
        names = ("mfu", "hfu", "tokens_per_s", "samples_per_s", "energy_j", "cost_usd")
        return any(getattr(self, name) is not None for name in names)


def derive_step_figures(
    stats: Mapping[str, Any], step_time_s: float | None, node: NodeSpec | None, work: StepWork
) -> DerivedFigures:
    """The figures of a step: ``stats`` is what module_stats.json holds, of one device.

    ``step_time_s`` is None where it was not simulated; a program that does not communicate needs no
    simulation.
    """
    devices = stats["program"]["devices"]
    flops = {
        name: row["flops"]
        for name, row in stats["dtypes"].items()
        if row["flops"] and not name.startswith("i")
    }
    executed = devices * sum(flops.values())
    dtype = max(flops, key=flops.__getitem__, default=None)
    peak = _find_peak_rate(node, dtype)
    known = [getattr(work, f.name) for f in fields(StepWork)]
    model_flops, tokens, samples, price = known
    seconds = step_time_s
    if seconds is None and not stats["totals"]["comm_ops"]:
        seconds = stats["totals"]["time_ns"] * 1e-9
    seconds = seconds or None  # an empty program takes no time, and has no rates
    attainable_flops = devices * peak * seconds if peak and seconds else None
    energy_j, energy_model = _estimate_step_energy(stats, seconds, node)
    return DerivedFigures(
        executed_flops=executed,
        model_flops=model_flops,
        peak_dtype=dtype,
        peak_flops_per_s=peak,
        mfu=_divide_known(model_flops, attainable_flops),
        hfu=_divide_known(executed, attainable_flops),
        tokens_per_s=_divide_known(tokens, seconds),
        samples_per_s=_divide_known(samples, seconds),
        energy_j=energy_j,
        energy_model=energy_model,
        price_per_hour=price,
        cost_usd=None
        if price is None or seconds is None
        else price * devices * seconds / SECONDS_PER_HOUR,
    )


def compute_scaling_efficiency(
    devices: Sequence[int], step_time_s: Sequence[float], work: Sequence[float] | None = None
) -> list[float]:
    """Work per device and second, over that of the first entry.

    ``work`` is what a step of each does (tokens, samples); None: the same, which is strong scaling.
    Raises HespasError where the lists differ in length, or a number is not more than 0.
    """
    step_work = [1.0] * len(devices) if work is None else list(work)
    if not len(devices) == len(step_time_s) == len(step_work):
        raise HespasError("scaling efficiency: the lists differ in length")
    if any(number <= 0 for numbers in (devices, step_time_s, step_work) for number in numbers):
        raise HespasError("scaling efficiency: devices, times and work must be more than 0")
    rates = [w / (n * t) for n, t, w in zip(devices, step_time_s, step_work, strict=True)]
    return [rate / rates[0] for rate in rates]


def _find_peak_rate(node: NodeSpec | None, dtype: str | None) -> float | None:
    """The dense rate of the matrix unit, or of what serves the type."""
    if node is None or dtype is None:
        return None
    try:
        return node.find_peak_rate("matrix", dtype).flops_per_s
    except HespasError:
        return None


def _estimate_step_energy(
    stats: Mapping[str, Any], seconds: float | None, node: NodeSpec | None
) -> tuple[float | None, str | None]:
    """Joules of a step of all devices, and what they were made from."""
    if seconds is None or node is None:
        return None, None
    devices, totals = stats["program"]["devices"], stats["totals"]
    compute_s = min(totals["time_ns"] * 1e-9, seconds)
    idle_s = seconds - compute_s
    if totals["energy_nj"] is not None and (node.idle_w is not None or not idle_s):
        idle_j = idle_s * (node.idle_w or 0.0)
        return devices * (totals["energy_nj"] * 1e-9 + idle_j), ANNOTATED
    if node.tdp_w is None:
        return None, None
    if node.idle_w is not None:
        return devices * (compute_s * node.tdp_w + idle_s * node.idle_w), LIMITS
    return devices * seconds * node.tdp_w, AT_MOST


def _divide_known(numerator: float | None, denominator: float | None) -> float | None:
    return None if numerator is None or not denominator else numerator / denominator
