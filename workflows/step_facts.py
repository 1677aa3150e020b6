"""What the figures of a step are computed from: its work, rates, energy and price.

Two utilisations are kept apart. MFU, *model* FLOPs utilisation, counts the operations of the
forward and backward pass once (PaLM, arXiv 2204.02311, appendix B). HFU, *hardware* FLOPs
utilisation, counts the operations that the program executes, including recomputation. Both are
shares of the dense peak of all devices over the step. The peak is that of the type of most
operations; operations of faster types count at their own rates, so that no step that keeps to the
peak rates has an HFU above 1.
"""

from __future__ import annotations

import contextlib
import functools
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from hespas.configs.node_spec import NodeSpec
from hespas.configs.source_errors import ErrorCause, find_shared_error
from hespas.dialects.attrs import MemoryAttr
from hespas.simulators.report_rows import SimulationReport
from hespas.simulators.simulation_result import CurveTag, SimulationSettings
from hespas.simulators.timeline import count_sent_bytes
from hespas.support.errors import HespasError
from hespas.support.text_tables import format_percent, format_scaled
from hespas.workflows.compiler_rematerialisation import CompilerRematerialisation

ROUNDING = 1e-9  # relative error of sums and quotients of times
SECONDS_PER_HOUR = 3600.0
# How the energy of a step was computed.
ANNOTATED = "power model of the node, idle power while nothing computes"
BY_LEVEL = "operations, memories, links and leakage"
LIMITS = "power limit while it computes, idle power else"
AT_MOST = "at most: power limit throughout"


# The facts of a program, the first of which counts, by the option that replaces them.
STEP_FACTS = {
    "model_flops": ("flops_per_step",),
    "tokens_per_step": ("tokens_per_step",),
    "samples_per_step": ("samples_per_step", "images_per_step"),
}


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
            option: next((facts[name] for name in names if name in facts), None)
            for option, names in STEP_FACTS.items()
        }
        known["price_per_hour"] = node.price_per_hour if node else None
        requested = {name: overrides.get(name) for name in known}
        is_stated = "flops_per_step" in facts and requested["model_flops"] is None
        source = facts.get("flops_per_step_source") if is_stated else None
        return cls(
            **{n: known[n] if value is None else value for n, value in requested.items()},
            model_flops_source=source,
        )


@dataclass(frozen=True, kw_only=True)
class StepFacts:
    """What the figures of a step are computed from.

    Attributes:
        stats: The contents of module_stats.json, which describe one device.
        node: The node; None if it is unknown.
        work: The work of the step.
        simulated: The totals of the device that finishes last, by the keys of run.json; {} if the
            program was not simulated.
        simulation: The simulation that the totals are of; None if there are only totals, or none.
        memory: The memory on one device; None if it was not computed.
        memory_plan: The bytes of each part of XLA's own plan for one device; empty if not known.
        nodes_per_device: The number of nodes of the longest trace.
        rematerialisation: What XLA computes again; None if XLA has not compiled the program.
    """

    stats: Mapping[str, Any]
    node: NodeSpec | None
    work: StepWork
    simulated: Mapping[str, Any] = field(default_factory=dict)
    simulation: SimulationReport | None = None
    memory: MemoryAttr | None = None
    memory_plan: Mapping[str, int] = field(default_factory=dict)
    nodes_per_device: int | None = None
    rematerialisation: CompilerRematerialisation | None = None

    @property
    def devices(self) -> int:
        return self.stats["program"]["devices"]

    @property
    def totals(self) -> Mapping[str, Any]:
        """The sums over the ops of one device."""
        return self.stats["totals"]

    @property
    def time_ns(self) -> float:
        """The compute time of one device in nanoseconds."""
        return self.totals["time_ns"]

    @property
    def compute_s(self) -> float:
        """The compute time of one device in seconds."""
        return self.time_ns * 1e-9

    @property
    def band_ns(self) -> tuple[float, float] | None:
        """80 % band of the compute time in nanoseconds; None if the estimator has no band."""
        low_ns = self.totals.get("low_ns")
        return None if low_ns is None else (low_ns, self.totals["high_ns"])

    @property
    def step_band_s(self) -> tuple[float, float] | None:
        """80 % band of the step time in seconds; None without a band or a step time."""
        if self.band_ns is None or self.step_time_s is None:
            return None
        if self.simulation is None:  # copies to the host have no band of their own
            added_s = self.step_time_s - self.compute_s
            return self.band_ns[0] * 1e-9 + added_s, self.band_ns[1] * 1e-9 + added_s
        low_ns, high_ns = compute_step_band(self.time_ns, self.band_ns, self.simulation)
        return 1e-9 * low_ns, 1e-9 * high_ns

    @property
    def hidden_s(self) -> float | None:
        """How much longer a step without overlap would be in seconds; None without a simulation."""
        if self.simulation is None:
            return None
        return 1e-9 * compute_hidden_ns(self.time_ns, self.simulation)

    @property
    def fits_memory(self) -> bool | None:
        """Whether the peak memory fits the node; None if either is unknown.

        A program with a memory plan of XLA fits, because XLA refuses others.
        """
        if self.memory_plan:
            return True
        if self.memory is None or self.node is None or self.node.memory_bytes is None:
            return None
        return self.memory.peak_bytes <= self.node.memory_bytes

    @property
    def step_time_s(self) -> float | None:
        """The step time in seconds; None if devices exchange data and nothing was simulated.

        A device that exchanges nothing takes the time of its kernels and its copies to the host.
        """
        seconds = self.simulated.get("step_time_s")
        return compute_lone_step_s(self.stats) if seconds is None else seconds

    @functools.cached_property
    def seconds(self) -> float | None:
        """The step time in seconds; None if it is not known.

        It is None of an empty program, too, which has no rates.
        """
        return self.step_time_s or None

    @property
    def serial_step_s(self) -> float | None:
        """The step time in seconds if nothing ran alongside; None if it was not simulated."""
        return None if self.hidden_s is None else self.simulated["step_time_s"] + self.hidden_s

    @functools.cached_property
    def flops_by_dtype(self) -> Mapping[str, int]:
        """The operations on one device that utilisation counts, by element type.

        Of integers these are the products only: indices and random numbers are no operations of a
        model.
        """
        return {
            name: row["executed_flops"]
            for name, row in self.stats["dtypes"].items()
            if row["executed_flops"]
        }

    @property
    def executed_flops(self) -> int:
        """Floating-point operations, and products of integers, on all devices."""
        return self.devices * sum(self.flops_by_dtype.values())

    @property
    def peak_dtype(self) -> str | None:
        """The element type of most executed operations."""
        return max(self.flops_by_dtype, key=self.flops_by_dtype.__getitem__, default=None)

    @functools.cached_property
    def peak_flops_per_s(self) -> float | None:
        """The dense rate of one device's matrix unit for its types at their peaks, in FLOP/s.

        Types slower than that of most operations count at its rate.
        """
        peak = self._find_peak_rate(self.peak_dtype)
        if peak is None:
            return None
        flops = self.flops_by_dtype
        rates = {name: max(peak, self._find_peak_rate(name) or 0.0) for name in flops}
        if set(rates.values()) == {peak}:
            return peak
        return sum(flops.values()) / sum(count / rates[name] for name, count in flops.items())

    def _find_peak_rate(self, dtype: str | None) -> float | None:
        """Return the dense rate of the unit that computes products of the type, in FLOP/s."""
        if self.node is None or dtype is None:
            return None
        with contextlib.suppress(HespasError):
            return self.node.find_peak_rate("matrix", dtype).flops_per_s
        return None

    @functools.cached_property
    def energy(self) -> StepEnergy:
        """The energy of the step on all devices."""
        return estimate_step_energy(self.stats, self.seconds, self.node)

    def get_utilisation(self, resource: str) -> float | None:
        """Return the used share of the peak of ``flops`` or ``bandwidth``.

        The share is 0 if nothing takes time, and None if no node defines the peak.
        """
        if self.stats["program"]["node"] is None:
            return None
        return (self.stats["utilisation"] or {}).get(resource, 0.0)

    def compute_utilisation(self, flops: float | None) -> float | None:
        """Return the share of the peak of all devices during the step that operations take."""
        peak, seconds = self.peak_flops_per_s, self.seconds
        return divide(flops, self.devices * peak * seconds if peak and seconds else None)


def compute_lone_step_s(stats: Mapping[str, Any]) -> float | None:
    """Return the step time of devices that exchange nothing in seconds; None if they do.

    It is the time of the kernels and of copies between the device and its host.

    Args:
        stats: The contents of module_stats.json.
    """
    copies = stats.get("host_copies")
    if copies is not None:
        step_ns = copies["step_ns"]
        return None if step_ns is None else step_ns * 1e-9
    return None if stats["totals"]["comm_ops"] else stats["totals"]["time_ns"] * 1e-9


def divide(numerator: float | None, denominator: float | None) -> float | None:
    """Return a quotient; None if either is not known or the denominator is 0."""
    return None if numerator is None or not denominator else numerator / denominator


def multiply(*factors: float | None) -> float | None:
    """Return a product; None if a factor is not known."""
    known = [factor for factor in factors if factor is not None]
    return math.prod(known) if len(known) == len(factors) else None


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


def list_figure_warnings(facts: StepFacts) -> list[str]:
    """Describe the contradictions between the figures of a step and what they were made from."""
    warnings = []
    hfu = facts.compute_utilisation(facts.executed_flops)
    if hfu is not None and facts.node is not None and hfu > 1 + ROUNDING:
        warnings.append(
            f"an HFU of {format_percent(hfu)} is impossible: the estimated times are shorter than "
            f"the peak rates of node {facts.node.name} allow, so the two do not describe the same "
            "device"
        )
    model, executed = facts.work.model_flops, facts.executed_flops
    if model is not None and model > executed * (1 + ROUNDING):
        reason = "such as the masked scores of causal attention or the padding of convolutions"
        if facts.work.model_flops_source is not None:
            reason = "such as those whose results nothing needs"
        warnings.append(
            f"the program executes {format_scaled(executed, 'FLOP').strip()}, fewer than the "
            f"{format_scaled(model, 'FLOP').strip()} that its model is said to need, so MFU is "
            f"above HFU: model-flops counts operations that the program skips, {reason}"
        )
    return warnings


@dataclass(frozen=True)
class StepEnergy:
    """The energy of a step on all devices in joules; None for what is not known.

    Attributes:
        energy_j: The sum of the known levels.
        energy_model: How it was computed, and which levels are missing.
        energy_compute_j: Operations.
        energy_sram_j: On-chip memory.
        energy_memory_j: Device memory.
        energy_network_j: Messages, once for each byte that a device has to send.
        energy_leakage_j: What the chips draw while nothing switches, over the whole step.
    """

    energy_j: float | None = None
    energy_model: str | None = None
    energy_compute_j: float | None = None
    energy_sram_j: float | None = None
    energy_memory_j: float | None = None
    energy_network_j: float | None = None
    energy_leakage_j: float | None = None


def estimate_step_energy(
    stats: Mapping[str, Any], seconds: float | None, node: NodeSpec | None
) -> StepEnergy:
    """Estimate the energy of a step that takes ``seconds``, as exactly as its inputs permit.

    Args:
        stats: The contents of module_stats.json, which describe one device.
        seconds: The step time; None if it is not known.
        node: The node; None if it is unknown.
    """
    if seconds is None or node is None:
        return StepEnergy()
    devices, totals = stats["program"]["devices"], stats["totals"]
    if totals.get("compute_nj") is not None:
        return _sum_levels(stats, seconds)
    compute_s = min(totals["time_ns"] * 1e-9, seconds)
    idle_s = seconds - compute_s
    if totals["energy_nj"] is not None and (node.idle_w is not None or not idle_s):
        idle_j = idle_s * (node.idle_w or 0.0)
        return StepEnergy(devices * (totals["energy_nj"] * 1e-9 + idle_j), ANNOTATED)
    if node.tdp_w is None:
        return StepEnergy()
    if node.idle_w is not None:
        return StepEnergy(devices * (compute_s * node.tdp_w + idle_s * node.idle_w), LIMITS)
    return StepEnergy(devices * seconds * node.tdp_w, AT_MOST)


def _sum_levels(stats: Mapping[str, Any], seconds: float) -> StepEnergy:
    """Sum the energy by level on all devices, and name the levels that are missing."""
    program, totals = stats["program"], stats["totals"]
    devices, leakage_w = program["devices"], program.get("leakage_w")
    levels = {
        level: None if totals.get(f"{level}_nj") is None else devices * totals[f"{level}_nj"] * 1e-9
        for level in ("compute", "sram", "memory")
    }
    sent_bytes, pj_per_byte = _sum_sent_bytes(stats), program.get("link_pj_per_byte")
    if not sent_bytes:
        levels["network"] = 0.0
    else:
        levels["network"] = None if pj_per_byte is None else sent_bytes * pj_per_byte * 1e-12
    levels["leakage"] = None if leakage_w is None else devices * seconds * leakage_w
    missing = [level for level, energy_j in levels.items() if energy_j is None]
    model = f"{BY_LEVEL}; without {', '.join(missing)}" if missing else BY_LEVEL
    known_j = sum(energy_j or 0.0 for energy_j in levels.values())
    return StepEnergy(known_j, model, *levels.values())


def _sum_sent_bytes(stats: Mapping[str, Any]) -> float:
    """Return the bytes that all devices have to send in a step."""
    collectives_bytes = sum(
        len(row["ranks"]) * count_sent_bytes(kind, sums["operand_bytes"], len(row["ranks"]))
        for row in stats["communicators"].values()
        for kind, sums in row["collectives"].items()
    )
    return collectives_bytes + stats["transfers"]["message_bytes"]


def compute_step_band(
    compute_ns: float, compute_band_ns: tuple[float, float], simulation: SimulationReport
) -> tuple[float, float]:
    """Return the band of the step time in nanoseconds.

    Compute and exposed communication err independently, and the communication that compute hides
    may not be hidden, which is a third error at the upper end: whether a step overlaps depends on
    the scheduler of one version of a compiler, and on flags that a measurement may not have had.

    Args:
        compute_ns: The compute time.
        compute_band_ns: Its band.
        simulation: The simulation of the step.
    """
    step_ns = simulation.result.step_time_ns
    exposed_ns = max(simulation.critical_result.exposed_ns, 0)
    speed = _find_critical_speed(simulation)
    low_ns, high_ns = (abs(end - compute_ns) / speed for end in compute_band_ns)
    cause = find_network_cause(simulation.result.settings)
    above_ns = math.hypot(high_ns, compute_hidden_ns(compute_ns, simulation))
    return _build_band(step_ns, low_ns, above_ns, exposed_ns, cause)


def compute_hidden_ns(compute_ns: float, simulation: SimulationReport) -> float:
    """Return by how much a step would be longer if nothing ran alongside anything, in nanoseconds.

    That is the overlap on the device that finishes last, less what compute loses to it.

    Args:
        compute_ns: The compute time of the program, without the slowdown by communication.
        simulation: The simulation of the step.
    """
    critical = simulation.critical_result
    lost_ns = max(critical.compute_ns - compute_ns / _find_critical_speed(simulation), 0.0)
    return max(critical.overlap_ns - lost_ns, 0.0)


def _find_critical_speed(simulation: SimulationReport) -> float:
    """Return the speed of compute on the device that finishes last, relative to the traces."""
    result = simulation.result
    return result.settings.device_speeds.get(result.critical_device, 1.0)


def add_network_error(
    step_s: float, band_s: tuple[float, float], exposed_s: float, cause: ErrorCause
) -> tuple[float, float]:
    """Return the band with one more error of the exposed communication, in seconds."""
    low_s, high_s = band_s
    return _build_band(step_s, step_s - low_s, high_s - step_s, exposed_s, cause)


def _build_band(
    step: float, below: float, above: float, exposed: float, cause: ErrorCause
) -> tuple[float, float]:
    """Return the band of a step, in one unit of time, from two independent errors.

    Args:
        step: The step time.
        below: How far it may be below without an error of the communication.
        above: How far it may be above.
        exposed: The exposed communication.
        cause: Why its time may be wrong.
    """
    low, high = find_shared_error("collective", frozenset((cause,)))
    below = math.hypot(below, exposed * math.expm1(low))
    above = math.hypot(above, exposed * math.expm1(high))
    return max(step - below, 0.0), step + above


def find_network_cause(settings: SimulationSettings) -> ErrorCause:
    """Return the least certain way in which collectives were timed."""
    if settings.curves is None or (settings.between_hosts and settings.between_hosts.counts):
        return "modelled"
    tags = settings.curves.counts
    if CurveTag.MODELLED in tags:
        return "modelled"
    return "scaled" if CurveTag.SCALED in tags else "curve"
