"""The 80 % band of a step: the errors of compute and of exposed communication."""

from __future__ import annotations

import math

from hespas.configs.source_errors import ErrorCause, find_shared_error
from hespas.simulators.report_rows import SimulationReport
from hespas.simulators.simulation_result import CurveTag, SimulationSettings


def compute_step_band(
    compute_ns: float, compute_band_ns: tuple[float, float], simulation: SimulationReport
) -> tuple[float, float]:
    """Return the band of the step time in nanoseconds.

    Compute and exposed communication err independently. Communication that is hidden behind compute
    is assumed to stay hidden.

    Args:
        compute_ns: The compute time.
        compute_band_ns: Its band.
        simulation: The simulation of the step.
    """
    step_ns = simulation.result.step_time_ns
    exposed_ns = max(simulation.critical_result.exposed_ns, 0)
    network = find_shared_error("collective", [find_network_cause(simulation.result.settings)])
    below, above = (
        math.hypot(end_ns - compute_ns, exposed_ns * math.expm1(network_end))
        for end_ns, network_end in zip(compute_band_ns, network, strict=True)
    )
    return max(step_ns - below, 0.0), step_ns + above


def add_network_error(
    step_s: float, band_s: tuple[float, float], exposed_s: float, cause: ErrorCause
) -> tuple[float, float]:
    """Return the band with one more error of the exposed communication, in seconds."""
    low, high = find_shared_error("collective", [cause])
    below = math.hypot(step_s - band_s[0], exposed_s * math.expm1(low))
    above = math.hypot(band_s[1] - step_s, exposed_s * math.expm1(high))
    return max(step_s - below, 0.0), step_s + above


def find_network_cause(settings: SimulationSettings) -> ErrorCause:
    """Return the least certain way in which collectives were timed."""
    if settings.curves is None or (settings.between_hosts and settings.between_hosts.counts):
        return "modelled"
    tags = settings.curves.counts
    if CurveTag.MODELLED in tags:
        return "modelled"
    return "scaled" if CurveTag.SCALED in tags else "curve"
