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
    low_ns, high_ns = compute_band_ns
    cause = find_network_cause(simulation.result.settings)
    hidden_ns = compute_hidden_ns(compute_ns, simulation)
    above_ns = math.hypot(high_ns - compute_ns, hidden_ns)
    return _build_band(step_ns, compute_ns - low_ns, above_ns, exposed_ns, cause)


def compute_hidden_ns(compute_ns: float, simulation: SimulationReport) -> float:
    """Return by how much a step would be longer if nothing ran alongside anything, in nanoseconds.

    That is the overlap on the device that finishes last, less what compute loses to it.

    Args:
        compute_ns: The compute time of the program, without the slowdown by communication.
        simulation: The simulation of the step.
    """
    critical = simulation.critical_result
    lost_ns = max(critical.compute_ns - compute_ns, 0.0)
    return max(critical.overlap_ns - lost_ns, 0.0)


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
