"""``hespas study goodput``: what failures and checkpoints leave of the time of a training job.

Failures are a Poisson process, with a rate proportional to the number of devices. After a failure
the job restarts and repeats the work since its last checkpoint; a failure may also strike while a
checkpoint is written or the job restarts. The mean time until an interval of work and its
checkpoint are done is then ``M exp(R / M) (exp((w + c) / M) - 1)``, with the mean time between
failures M, the restart R, the work w and the checkpoint c.
Source: J. T. Daly, A higher order estimate of the optimum checkpoint interval for restart dumps,
Future Generation Computer Systems 22 (2006) 303-312, which also has the estimate of the best
interval; an earlier one is J. W. Young's, Communications of the ACM 17 (1974) 530.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any

from hespas.support.errors import UsageError
from hespas.support.html_tables import PrintedTables
from hespas.support.text_tables import (
    TextTable,
    format_percent,
    format_seconds,
)
from hespas.workflows.plot_files import COLOURS, make_logarithmic
from hespas.workflows.studies.study_output import StudyOutput

DESCRIPTION = """\
The share of time in which a training job makes progress, from the rate of failures of its devices,
the time of a checkpoint and that of a restart, for the interval of checkpoints that maximises it.

  hespas study goodput --devices 1024,16384 --device-mtbf-h 50700 --checkpoint-s 30 --restart-s 300
"""
DEVICE_MTBF_H = 50_700.0
DEVICE_MTBF_SOURCE = (
    "16,384 H100 for 54 days with 419 unexpected interruptions: one in 50,700 hours of a device "
    "(arXiv 2407.21783, The Llama 3 Herd of Models, table 5)"
)
_HOUR_S = 3600.0


@dataclass(frozen=True)
class FailureModel:
    """The failures of a job and what they cost, in seconds.

    Attributes:
        mtbf_s: The mean time between failures of the job.
        checkpoint_s: The time for which a checkpoint stops the job.
        restart_s: The time from a failure until the job computes again.
    """

    mtbf_s: float
    checkpoint_s: float
    restart_s: float

    def __post_init__(self) -> None:
        if not (self.mtbf_s > 0 and self.checkpoint_s > 0 and self.restart_s >= 0):  # or NaN
            raise UsageError(
                "the times between failures and of a checkpoint must be positive, and that of a "
                "restart not negative"
            )

    def compute_goodput(self, interval_s: float) -> float:
        """Compute the share of time that makes progress.

        Args:
            interval_s: The work between two checkpoints, in seconds.
        """
        exponent = (interval_s + self.checkpoint_s) / self.mtbf_s
        if exponent + self.restart_s / self.mtbf_s > 700:  # exp overflows; there is no progress
            return 0.0
        mean_s = self.mtbf_s * math.exp(self.restart_s / self.mtbf_s) * math.expm1(exponent)
        return interval_s / mean_s

    def find_best_interval_s(self) -> float:
        """Return the interval with the most goodput.

        The derivative is zero where ``exp((w + c) / M) (1 - w / M) = 1``, which has one solution
        between 0 and M. It does not depend on the restart.
        """
        low, high = 0.0, math.nextafter(1.0, 0.0)  # of the mean time between failures
        share = self.checkpoint_s / self.mtbf_s
        for _ in range(100):
            middle = (low + high) / 2
            if middle + share + math.log1p(-middle) > 0:
                low = middle
            else:
                high = middle
        return self.mtbf_s * low

    def estimate_interval_s(self) -> float:
        """Return Daly's estimate of the best interval."""
        ratio = self.checkpoint_s / (2 * self.mtbf_s)
        if ratio >= 1:
            return self.mtbf_s
        young_s = self.estimate_young_interval_s()
        return young_s * (1 + math.sqrt(ratio) / 3 + ratio / 9) - self.checkpoint_s

    def estimate_young_interval_s(self) -> float:
        """Return Young's estimate of the best interval."""
        return math.sqrt(2 * self.checkpoint_s * self.mtbf_s)


@dataclass(frozen=True)
class GoodputRow:
    """The goodput of one number of devices.

    Attributes:
        devices: The number of devices.
        mtbf_s: The mean time between failures of the job, in seconds.
        interval_s: The interval between checkpoints.
        is_best: Whether the interval is the best one, and not given.
        young_s: Young's estimate of the best interval.
        daly_s: Daly's estimate of it.
        goodput: The share of time that makes progress.
        checkpoint_share: The share of time that checkpoints take without failures.
        steps: The steps of the program between two checkpoints; None without a step time.
        effective_step_s: The mean time of a step with all losses; None without a step time.
    """

    devices: int
    mtbf_s: float
    interval_s: float
    is_best: bool
    young_s: float
    daly_s: float
    goodput: float
    checkpoint_share: float
    steps: float | None = None
    effective_step_s: float | None = None

    @property
    def failure_share(self) -> float:
        """The share of time that failures cost: repeated work and restarts."""
        return 1 - self.goodput - self.checkpoint_share * self.goodput / (1 - self.checkpoint_share)


@dataclass(frozen=True, repr=False)
class JobGoodput(PrintedTables):
    """The goodput of a job on several numbers of devices; ``print`` shows it as a table.

    Attributes:
        rows: One row for each number of devices.
        device_mtbf_h: The mean time between failures of one device, in hours.
        checkpoint_s: The time for which a checkpoint stops the job.
        restart_s: The time of a restart.
    """

    rows: Sequence[GoodputRow]
    device_mtbf_h: float
    checkpoint_s: float
    restart_s: float

    def to_json(self) -> dict[str, Any]:
        """Convert to the object that docs/how-to/variation.md describes."""
        return {
            "device_mtbf_h": self.device_mtbf_h,
            "checkpoint_s": self.checkpoint_s,
            "restart_s": self.restart_s,
            "rows": self._list_json_rows(),
        }

    def _list_json_rows(self) -> list[dict[str, Any]]:
        return [{**asdict(row), "failure_share": row.failure_share} for row in self.rows]

    def build_tables(self) -> list[TextTable]:
        """Build the table of the numbers of devices."""
        has_steps = self.rows[0].steps is not None
        header = ("devices", "failure every", "checkpoint every", "goodput", "checkpoints",
                  "failures", *(("steps", "a step takes") if has_steps else ()))  # fmt: skip
        rows = [self._format_row(row) for row in self.rows]
        title = f"Goodput, a checkpoint of {format_seconds(self.checkpoint_s)}"
        return [TextTable(title, rows, header)]

    def _format_row(self, row: GoodputRow) -> tuple[str, ...]:
        texts = (
            f"{row.devices:,}",
            _format_duration(row.mtbf_s),
            _format_duration(row.interval_s),
            format_percent(row.goodput),
            format_percent(row.goodput * row.checkpoint_share / (1 - row.checkpoint_share)),
            format_percent(row.failure_share),
        )
        if row.steps is None or row.effective_step_s is None:
            return texts
        return (*texts, f"{row.steps:,.0f}", format_seconds(row.effective_step_s))

    def build_output(self) -> StudyOutput:
        """Return the result as the output of a study."""
        notes = [
            "failures strike at random and independently, one device at a time; devices of a kind "
            "replace failed ones at once",
        ]
        return StudyOutput(
            self._list_json_rows(), self.to_json(), self.build_tables(), notes,
            self._draw_goodputs, (6, 3.6),
        )  # fmt: skip

    def _draw_goodputs(self, figure: Any) -> None:
        """Draw the goodput over the interval, for each number of devices."""
        axes = figure.add_subplot()
        for number, row in enumerate(self.rows):
            model = FailureModel(row.mtbf_s, self.checkpoint_s, self.restart_s)
            best_s = model.find_best_interval_s()
            intervals_s = [best_s * 10 ** (k / 20 - 1) for k in range(41)]
            shares = [model.compute_goodput(interval_s) for interval_s in intervals_s]
            colour = COLOURS[number % len(COLOURS)]
            axes.plot(intervals_s, shares, color=colour, label=f"{row.devices:,} devices")
            axes.plot([row.interval_s], [row.goodput], "o", color=colour)
        make_logarithmic(axes.xaxis, *axes.dataLim.intervalx)
        axes.set_xlabel("work between checkpoints in s")
        axes.set_ylabel("goodput")
        axes.legend(fontsize=8)


def _format_duration(time_s: float) -> str:
    """Return a time in hours or minutes, or as ``format_seconds`` does if it is short."""
    if time_s >= 2 * _HOUR_S:
        return f"{time_s / _HOUR_S:.1f} h"
    return f"{time_s / 60:.1f} min" if time_s >= 120 else format_seconds(time_s)


def goodput(
    devices: int | Sequence[int],
    checkpoint_s: float,
    *,
    restart_s: float = 0.0,
    device_mtbf_h: float = DEVICE_MTBF_H,
    interval_s: float | None = None,
    step_time_s: float | None = None,
) -> JobGoodput:
    """Compute what failures and checkpoints leave of the time of a training job.

    Args:
        devices: The number of devices, or several; a failure of any device stops the job.
        checkpoint_s: The time for which a checkpoint stops the job.
        restart_s: The time from a failure until the job computes again.
        device_mtbf_h: The mean time between failures of one device, in hours. The default is that
            of DEVICE_MTBF_SOURCE.
        interval_s: The work between two checkpoints; None for the best interval.
        step_time_s: The time of a step, for the steps between checkpoints.

    Returns:
        The share of time that makes progress, with the best interval between checkpoints.

    Raises:
        UsageError: A time or a number is not positive.
    """
    counts = [devices] if isinstance(devices, int) else devices
    if not counts or min(counts) < 1 or device_mtbf_h <= 0:
        raise UsageError("a job needs devices, and a positive time between their failures")
    if any(time_s is not None and not time_s > 0 for time_s in (interval_s, step_time_s)):
        raise UsageError("an interval and the time of a step must be positive")
    rows = [
        _compute_row(
            count,
            FailureModel(device_mtbf_h * _HOUR_S / count, checkpoint_s, restart_s),
            interval_s,
            step_time_s,
        )
        for count in counts
    ]
    return JobGoodput(rows, device_mtbf_h, checkpoint_s, restart_s)


def _compute_row(
    devices: int, model: FailureModel, interval_s: float | None, step_time_s: float | None
) -> GoodputRow:
    work_s = interval_s or model.find_best_interval_s()
    goodput = model.compute_goodput(work_s)
    steps = effective_step_s = None
    if step_time_s is not None:
        steps = work_s / step_time_s
        effective_step_s = step_time_s / goodput if goodput else math.inf
    return GoodputRow(
        devices,
        model.mtbf_s,
        work_s,
        interval_s is None,
        model.estimate_young_interval_s(),
        model.estimate_interval_s(),
        goodput,
        model.checkpoint_s / (work_s + model.checkpoint_s),
        steps,
        effective_step_s,
    )
