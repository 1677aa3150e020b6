"""``hespas study variation``: the step time of devices and kernels that are not all alike.

The simulated step of a folder is replayed with drawn times of compute. Devices differ for a whole
step, kernels from one execution to the next.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from statistics import NormalDist
from typing import Any

import numpy as np

from hespas.simulators import simulator_choice
from hespas.simulators.simulation_inputs import load_inputs
from hespas.support.errors import HespasError, UsageError
from hespas.support.html_tables import PrintedTables
from hespas.support.text_tables import TextTable, format_percent, format_seconds
from hespas.workflows.network_settings import resolve_network
from hespas.workflows.run_results import read_run_figures
from hespas.workflows.studies.study_output import StudyOutput
from hespas.workflows.variation.trace_replay import DrawArray, TraceReplay

DESCRIPTION = """\
Draw the speeds of devices and the jitter of kernels, and replay the step of a run, or of any folder
of traces, with each draw: the median and the tails of the step time, and the cost of a straggler.

  hespas run --mlir step.mlir --node H100_80GB --system DGX_H100_SuperPOD_4 --output out
  hespas study variation out --device-spread 0.03 --jitter 0.02
"""
BANDS = "bands"  # the spread of devices that the band of a run stands for
QUANTILES = (0.5, 0.95, 0.99)
STRAGGLER_SPEEDS = (0.95, 0.9, 0.8, 0.5)
LARGEST_SPREAD = 0.3  # a normal distribution of times makes no sense beyond it
_LEAST_FACTOR = 0.05  # of a drawn time
_BLOCK_CELLS = 1 << 20  # draws times devices that are replayed at once
_BAND_SIGMAS = NormalDist().inv_cdf(0.9)  # from the middle of an 80 % band to its ends


@dataclass(frozen=True)
class VariationOptions:
    """What varies, as standard deviations relative to the time of compute.

    Attributes:
        device_spread: That of the devices: one factor for all compute of a device in a step.
        jitter: That of each execution of a compute node.
        draws: The number of draws.
        seed: The seed of the random numbers; equal seeds give equal results.
    """

    device_spread: float = 0.0
    jitter: float = 0.0
    draws: int = 1000
    seed: int = 0

    def __post_init__(self) -> None:
        for name in ("device_spread", "jitter"):
            if not 0 <= getattr(self, name) <= LARGEST_SPREAD:
                raise UsageError(f"{name} is {getattr(self, name):g}, not from 0 to 0.3")
        if self.draws < 1:
            raise UsageError("at least one draw is needed")


@dataclass(frozen=True)
class StragglerCost:
    """The step time with one device of another speed, in seconds: the device that costs most."""

    speed: float
    device: int
    step_time_s: float


@dataclass(frozen=True, repr=False)
class StepVariation(PrintedTables):
    """The distribution of a step time; ``print`` shows it as tables.

    Attributes:
        devices: The number of devices.
        step_time_s: The step time without variation.
        options: What varies.
        draws_s: The step time of each draw in seconds, ascending.
        stragglers: The costs of one slow device.
    """

    devices: int
    step_time_s: float
    options: VariationOptions
    draws_s: Sequence[float]
    stragglers: Sequence[StragglerCost]

    def compute_quantile_s(self, share: float) -> float:
        """Return the step time that a share of the draws does not exceed."""
        return float(np.quantile(self.draws_s, share))

    @property
    def mean_s(self) -> float:
        """The mean step time in seconds."""
        return float(np.mean(self.draws_s))

    def to_json(self) -> dict[str, Any]:
        """Convert to the object that docs/how-to/variation.md describes."""
        return {
            "devices": self.devices,
            "step_time_s": self.step_time_s,
            **asdict(self.options),
            "mean_s": self.mean_s,
            **{f"p{share * 100:.0f}_s": self.compute_quantile_s(share) for share in QUANTILES},
            "stragglers": list(map(asdict, self.stragglers)),
        }

    def build_tables(self) -> list[TextTable]:
        """Build the table of the distribution and that of the stragglers."""
        times_s = {
            "without variation": self.step_time_s,
            "mean": self.mean_s,
            **{f"P{share * 100:.0f}": self.compute_quantile_s(share) for share in QUANTILES},
        }
        title = f"Step of {self.devices} devices, {self.options.draws} draws"
        stragglers = [
            (f"{cost.speed:.2f}", *self._format_growth(cost.step_time_s), str(cost.device))
            for cost in self.stragglers
        ]
        return [
            TextTable(
                title,
                [(name, *self._format_growth(time_s)) for name, time_s in times_s.items()],
                ("step time", "", "more"),
            ),
            TextTable(
                "One slow device, the one that costs most",
                stragglers,
                ("speed", "step time", "more", "device"),
            ),
        ]

    def _format_growth(self, time_s: float) -> tuple[str, str]:
        return format_seconds(time_s), format_percent(time_s / self.step_time_s - 1)

    def build_output(self) -> StudyOutput:
        """Return the result as the output of a study: each draw is a row of the CSV file."""
        rows = [{"rank": rank, "step_time_s": time_s} for rank, time_s in enumerate(self.draws_s)]
        notes = [
            "devices and kernels vary independently, by normal distributions; collectives and "
            "messages do not vary",
            "each device runs its nodes in the order of the simulation without variation",
            "an estimate of the calibrated estimator already contains the slowest device, unless "
            "the run has job-devices=1",
        ]
        return StudyOutput(
            rows, self.to_json(), self.build_tables(), notes, self._draw_distribution, (6, 3.6)
        )

    def _draw_distribution(self, figure: Any) -> None:
        """Draw the share of draws below each step time."""
        axes = figure.add_subplot()
        times_ms = 1e3 * np.asarray(self.draws_s)
        axes.plot(times_ms, np.arange(1, len(times_ms) + 1) / len(times_ms), color="#2f69e1")
        axes.axvline(1e3 * self.step_time_s, color="#8a919c", linestyle="dashed")
        for share in QUANTILES:
            time_ms = 1e3 * self.compute_quantile_s(share)
            axes.plot([time_ms], [share], "o", color="#a85c08")
            axes.annotate(
                f"P{share * 100:.0f}", (time_ms, share), (4, -10), textcoords="offset points"
            )
        axes.set_xlabel("step time in ms (dashed: without variation)")
        axes.set_ylabel("share of steps")


def vary_step(replay: TraceReplay, options: VariationOptions) -> StepVariation:
    """Draw the step time of a replayed simulation; raises UsageError."""
    generator = np.random.default_rng(options.seed)
    count = replay.device_count
    block = max(1, _BLOCK_CELLS // count)

    def vary_node(factors: DrawArray) -> DrawArray:
        if not options.jitter:
            return factors
        jitter = 1 + options.jitter * generator.standard_normal(factors.shape)
        return factors * np.maximum(jitter, _LEAST_FACTOR)

    draws_ns: list[float] = []
    for first in range(0, options.draws, block):
        shape = (min(block, options.draws - first), count)
        factors = 1 + options.device_spread * generator.standard_normal(shape)
        draws_ns += replay.replay_draws(np.maximum(factors, _LEAST_FACTOR), vary_node).tolist()
    return StepVariation(
        count,
        1e-9 * replay.step_time_ns,
        options,
        [1e-9 * draw_ns for draw_ns in sorted(draws_ns)],
        list_straggler_costs(replay),
    )


def list_straggler_costs(replay: TraceReplay) -> list[StragglerCost]:
    """Compute the step time with one slow device, for the worst device and some speeds.

    The devices of an equivalence class cost the same, so that one of each is tried.
    """
    devices = replay.class_representatives
    costs = []
    for speed in STRAGGLER_SPEEDS:
        factors = np.ones((len(devices), replay.device_count))
        factors[np.arange(len(devices)), devices] = 1 / speed
        times_ns = replay.replay_draws(factors)
        worst = int(times_ns.argmax())
        costs.append(StragglerCost(speed, devices[worst], 1e-9 * float(times_ns[worst])))
    return costs


def variation(
    folder: str | os.PathLike[str],
    *,
    device_spread: float | str = 0.0,
    jitter: float = 0.0,
    draws: int = 1000,
    seed: int = 0,
    system: str | None = None,
) -> StepVariation:
    """Draw the step time of devices and kernels that are not all alike.

    Args:
        folder: The output folder of a run, or other traces.
        device_spread: Standard deviation of the time of compute between devices, 0.03 for 3 %, or
            "bands" for that of the band of the run's compute.
        jitter: That of each compute node from one execution to the next.
        draws: The number of draws.
        seed: The seed of the random numbers; equal seeds give equal results.
        system: The network; None for that of the run.

    Returns:
        The distribution of the step time, and what one slow device costs.

    Raises:
        HespasError: The traces cannot be simulated, or the run has no band.
    """
    folder = os.fspath(folder)
    if device_spread == BANDS:
        device_spread = _read_band_spread(folder)
    if isinstance(device_spread, str):
        raise UsageError(f"device_spread is '{device_spread}'", remedy=f"a number, or '{BANDS}'")
    options = VariationOptions(device_spread, jitter, draws, seed)
    network = resolve_network(folder, {"system": system} if system else {})
    inputs = load_inputs(folder, network.system)
    result = simulator_choice.simulate_inputs(inputs, network.choice)
    return vary_step(TraceReplay(inputs, result), options)


def _read_band_spread(folder: str) -> float:
    """Return the relative standard deviation of compute that the band of a run stands for."""
    figures = read_run_figures(folder)
    band_s = figures.get("compute_band_s")
    if band_s is None:
        raise HespasError(
            "the run has no band of compute",
            where=folder,
            remedy="use an estimator with bands, such as calibrated, or give a number",
        )
    low_s, high_s = band_s
    return (high_s - low_s) / (2 * _BAND_SIGMAS * figures["compute_s"])
