"""Compare the boards of one chip: the standard deviations of ``configs/clock_spread.json``.

``python -m benchmarks.calibration.board_comparisons`` prints that file. It is computed from
``docs/data/device-spread.csv``, the times of one kernel on each board of a cluster. Steps of whole
programs are not read.
"""

from __future__ import annotations

import csv
import json
import math
import statistics
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import date
from typing import Any, Self

from benchmarks import DATA

SPREADS = DATA / "device-spread.csv"
SOURCES = {
    "longhorn": "hal-uw/blox-pal da726cab (MIT), aggregated_data/sim/sgemm-longhorn-agg.csv: SGEMM "
    "on TACC Longhorn (Sinha et al., SC22, arXiv 2208.11035), the median run of each board",
    "aicr": "mghpcc/aicr-benchmarks 9fd27bd2 (no licence file): Benchmark_WG/gpu-fryer/all-out, "
    "five minutes on all eight boards of a host at once; Dell, NVIDIA's STREAM (triad in f64, "
    "device 0, 2026-05-10)",
    "orcd": "mit-orcd/orcd-benchmarks bca7147f (no licence file), out-gpu-fryer, the last run of "
    "each host",
}
# The chip of each measured preset, and the preset that those with the same chip are like.
_CHIPS = {
    "V100_16GB": ("V100", "V100_PCIe_32GB"),
    "B200_180GB": ("B200", "B200_180GB"),
    "RTX_PRO_6000_96GB": ("RTX PRO 6000", "RTX_PRO_6000_96GB"),
}
_LEAST_POWER_SHARE = 0.97  # of the limit, of a board that the power limits


@dataclass(frozen=True, slots=True)
class BoardTime:
    """The time of a kernel on one board.

    Attributes:
        source: The key of the source, which is one cluster.
        device: The preset of the board.
        kernel: The class of the kernel.
        time_s: Seconds.
        power_share: Its power while it ran, over its limit; None if it is not known.
    """

    source: str
    device: str
    kernel: str
    time_s: float
    power_share: float | None

    @classmethod
    def from_row(cls, row: dict[str, str]) -> Self:
        """Read a row of the file."""
        share = float(row["power_w"]) / float(row["limit_w"]) if row["power_w"] else None
        return cls(row["source"], row["device"], row["kernel"], float(row["time_s"]), share)


def read_board_times() -> list[BoardTime]:
    """Read the times of the boards, without those that draw less than their limit.

    A few V100 were slower than the others, far below the limit: the power was not what slowed them.
    """
    with SPREADS.open(encoding="utf-8", newline="") as file:
        times = [BoardTime.from_row(row) for row in csv.DictReader(file)]
    return [
        time for time in times if time.power_share is None or time.power_share >= _LEAST_POWER_SHARE
    ]


def compute_relative_deviation(clusters: Sequence[Sequence[float]]) -> float:
    """Return the standard deviation of times over the mean of their cluster.

    Clusters differ by more than chips, such as in cooling, so each has its own mean.
    """
    squares = math.fsum(
        (time_s / statistics.fmean(cluster) - 1) ** 2 for cluster in clusters for time_s in cluster
    )
    return math.sqrt(squares / (sum(map(len, clusters)) - len(clusters)))


def compare_boards() -> Iterator[dict[str, Any]]:
    """Yield the comparison of each chip and kernel."""
    groups: dict[tuple[str, str], dict[str, list[float]]] = {}
    for time in read_board_times():
        clusters = groups.setdefault((time.device, time.kernel), {})
        clusters.setdefault(time.source, []).append(time.time_s)
    for (device, kernel), clusters in groups.items():
        chip, node = _CHIPS[device]
        yield {
            "chip": chip,
            "node": node,
            "kernel": kernel,
            "boards": sum(map(len, clusters.values())),
            "deviation": float(f"{compute_relative_deviation([*clusters.values()]):.3g}"),
            "sources": sorted(clusters),
        }


if __name__ == "__main__":
    comparisons = list(compare_boards())
    today = date.today().isoformat()
    print(json.dumps({"date": today, "sources": SOURCES, "comparisons": comparisons}, indent=1))
