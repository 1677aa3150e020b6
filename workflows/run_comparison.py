"""Results side by side: each against the first, and how well more devices are used."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from hespas.workflows.derived_figures import compute_scaling_efficiency
from hespas.workflows.run_results import RunResult

WorkScaling = Literal["auto", "flops", "strong", "weak"]


@dataclass(frozen=True)
class ComparedResult:
    """A result beside the first one.

    ``time_s`` is the step, or the compute where one of the results was not simulated: ``measure``.
    ``speed_up`` is the first one's time over this one's. ``efficiency`` is the work that a device
    does in a second, over that of the first result; None where all have as many devices.
    """

    result: RunResult
    measure: str
    time_s: float
    speed_up: float | None
    efficiency: float | None

    @property
    def relative_time(self) -> float | None:
        """The time over the first one's."""
        return 1.0 / self.speed_up if self.speed_up else None

    @property
    def band_s(self) -> tuple[float, float] | None:
        """The 80 % band of ``time_s``."""
        key = {"step_time_s": "step_time_band_s", "compute_s": "compute_band_s"}[self.measure]
        ends = self.result.figures.get(key)
        return (ends[0], ends[1]) if ends else None


def _select_measure(results: Sequence[RunResult]) -> str:
    """What results are compared by: ``step_time_s``, or ``compute_s`` where one has no step."""
    simulated = all(result.figures.get("step_time_s") is not None for result in results)
    return "step_time_s" if simulated else "compute_s"


def compare_results(
    results: Sequence[RunResult], work: WorkScaling = "auto"
) -> list[ComparedResult]:
    """Each result against the first.

    ``work`` says how much the programs do, for the efficiency: by ``flops`` as many operations as
    they have on all their devices; ``strong``: all the same; ``weak``: each device the same;
    ``auto``: the tokens or samples of a step where all tell them, else as ``flops``.
    """
    measure = _select_measure(results)
    times = [result.figures[measure] for result in results]
    efficiencies = _compute_efficiencies(results, times, work)
    return [
        ComparedResult(result, measure, time_s, times[0] / time_s if time_s else None, efficiency)
        for result, time_s, efficiency in zip(results, times, efficiencies, strict=True)
    ]


def _compute_efficiencies(
    results: Sequence[RunResult], times_s: Sequence[float], work: WorkScaling
) -> Sequence[float | None]:
    devices = [result.figures["devices"] for result in results]
    step_work = _compute_step_work(results, devices, work)
    if len({*devices}) == 1 or not all(times_s) or not all(step_work):
        return [None for _ in results]
    return compute_scaling_efficiency(devices, times_s, step_work)


def _compute_step_work(
    results: Sequence[RunResult], devices: Sequence[int], work: WorkScaling
) -> Sequence[float]:
    """What a step of each does, on all its devices."""
    if work in ("strong", "weak"):
        return [1.0 if work == "strong" else n for n in devices]
    if work == "auto":
        for rate in ("derived.tokens_per_s", "derived.samples_per_s"):
            rates_and_times = [(r.get_figure(rate), r.figures.get("step_time_s")) for r in results]
            step_work = [per_s * step_s for per_s, step_s in rates_and_times if per_s and step_s]
            if len(step_work) == len(results):
                return step_work
    return [result.figures["flops"] * n for result, n in zip(results, devices, strict=True)]
