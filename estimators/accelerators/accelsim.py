"""The ``accelsim`` estimator: the cycles of each region from a report that Accel-Sim wrote.

Accel-Sim simulates traces of SASS, which NVBit records on a GPU. ``hespas measure accelsim`` writes
each region as a program to be traced (``accelsim_export``). The estimator reads what Accel-Sim
printed for it from ``REPORTS/<digest>.log``, where the digest is that of the region.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar, Literal

from hespas.plugin import (
    Cost,
    CostItem,
    Estimator,
    HespasError,
    UnknownCost,
    UsageError,
    build_work_cost,
    build_zero_cost,
    compute_region_work,
    has_only_free_ops,
    read_trip_count,
    setting,
)

END_OF_SIMULATION = "GPGPU-Sim: *** exit detected ***"
TOTAL_CYCLES = re.compile(r"^gpu_tot_sim_cycle\s*=\s*(\d+)\s*$", re.MULTILINE)
KERNEL_CYCLES = re.compile(r"^gpu_sim_cycle\s*=\s*\d+\s*$", re.MULTILINE)
CLOCK_DOMAINS = re.compile(r"^-gpgpu_clock_domains\s+([\d.]+):", re.MULTILINE)


@dataclass(frozen=True)
class AccelsimReport:
    """The total cycles and number of kernels of a report, and the core clock if it contains one."""

    cycles: int
    kernels: int
    clock_hz: float | None


def parse_accelsim_report(text: str) -> AccelsimReport:
    """Parse the report of a complete run of Accel-Sim; raises HespasError for an incomplete one."""
    totals = TOTAL_CYCLES.findall(text)
    if not totals:
        raise HespasError("it has no gpu_tot_sim_cycle: is it what Accel-Sim printed?")
    if END_OF_SIMULATION not in text:
        raise HespasError("the simulation did not end", remedy="run Accel-Sim again, to its end")
    clock = CLOCK_DOMAINS.search(text)
    clock_hz = 1e6 * float(clock[1]) if clock else None
    return AccelsimReport(int(totals[-1]), len(KERNEL_CYCLES.findall(text)), clock_hz)


@dataclass(frozen=True)
class AccelsimConfig:
    """The configuration of ``AccelsimEstimator``."""

    reports: str = setting("", "folder with the output of Accel-Sim, one REGION.log per region")
    clock_hz: float | None = setting(None, "core clock in Hz; default: that of each report")

    def __post_init__(self) -> None:
        if not Path(self.reports).is_dir() or not self.reports:
            raise UsageError(
                f"reports: {self.reports} is not a folder"
                if self.reports
                else "reports is not set",
                remedy="set reports to the folder with the output of Accel-Sim, a REGION.log each",
            )
        if self.clock_hz is not None and not 0 < self.clock_hz < float("inf"):
            raise UsageError(f"clock-hz must be more than 0, not {self.clock_hz}")


class AccelsimEstimator(Estimator):
    """Read the time of each region from a report of Accel-Sim."""

    name: ClassVar[str] = "accelsim"
    version: ClassVar[str] = "1"
    granularity: ClassVar[Literal["op", "kernel", "region"]] = "region"
    Config: ClassVar[type] = AccelsimConfig

    def __init__(self, config: AccelsimConfig) -> None:
        self.folder = Path(config.reports)
        self.clock_hz = config.clock_hz
        self.clocks: set[float] = set()

    def estimate(self, item: CostItem) -> Cost:
        if has_only_free_ops(item.op):
            return build_zero_cost(self.name)
        path = self.folder / f"{item.digest}.log"
        if not path.is_file():
            raise UnknownCost(
                f"there is no report {path}",
                op=item.op,
                remedy="hespas measure accelsim writes the regions under the same names",
            )
        try:
            report = parse_accelsim_report(path.read_text(errors="replace"))
        except OSError as error:
            raise UnknownCost(f"{path} cannot be read: {error.strerror}", op=item.op) from None
        except HespasError as error:
            raise UnknownCost(f"{path}: {error.message}", op=item.op, remedy=error.remedy) from None
        clock_hz = self.clock_hz or report.clock_hz
        if clock_hz is None:
            raise UnknownCost(
                f"{path} does not contain the clock", op=item.op, remedy="set clock-hz"
            )
        self.clocks.add(clock_hz)
        time_s = report.cycles / clock_hz
        return build_work_cost(
            self.name,
            compute_region_work(item.op),
            time_s,
            "measured",
            trips=read_trip_count(item.op),
        )

    def describe_provenance(self) -> str:
        clocks = ", ".join(f"{clock / 1e9:g} GHz" for clock in sorted(self.clocks))
        return f"Accel-Sim's reports in {self.folder}, {clocks or 'none read'}"
