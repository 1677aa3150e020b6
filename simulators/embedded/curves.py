"""Measured collectives instead of the network model: ``alpha + bytes / beta``, by device.

``configs/collectives/DEVICE.json`` holds the lines that were fitted to measurements between 2, 4
and 8 devices of one node. Between these, alpha is interpolated linearly in the number of devices,
which a ring's steps are proportional to, and so is the bus bandwidth: beta times the share of the
bytes that cross a device's link, (n - 1) / n, twice that for an all-reduce. (Source: nccl-tests,
doc/PERFORMANCE.md.) Larger groups are not measured, and nothing is extrapolated to them; sizes
beyond the measured ones follow the line, and are tagged.
"""

from __future__ import annotations

from bisect import bisect_left
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from hespas import configs
from hespas.dialects.errors import UsageError
from hespas.passes.base import nearest

from .collectives import Finish
from .network import Network

MEASURED, BETWEEN, BEYOND = "measured", "between measured group sizes", "beyond measured bytes"
MODELLED = "by the network model: not measured for such devices"

_FOLDER = Path(configs.__file__).parent / "collectives"


@dataclass(frozen=True, slots=True)
class Line:
    """``alpha_ns + bytes / bytes_per_ns`` between ``devices``; bytes are the whole buffer's."""

    devices: int
    alpha_ns: float
    bytes_per_ns: float


@dataclass(frozen=True, slots=True)
class Curves:
    """A device's lines by kind of collective, by rising number of devices."""

    device: str
    source: str
    least_bytes: int
    most_bytes: int
    lines: dict[str, tuple[Line, ...]]

    def knows(self, kind: str, devices: int) -> bool:
        """Whether groups of that size are within what was measured."""
        lines = self.lines.get(kind, ())
        return bool(lines) and lines[0].devices <= devices <= lines[-1].devices

    def time_ns(self, kind: str, operand_bytes: int, devices: int) -> tuple[int, str]:
        """A collective's time, and how it was got: MEASURED, BETWEEN or BEYOND.

        ``operand_bytes`` are those of one device, as in a trace; ``knows`` must hold.
        """
        whole = operand_bytes * devices if kind == "all_gather" else operand_bytes
        line, tag = self._line(kind, devices)
        if not self.least_bytes <= whole <= self.most_bytes:
            tag = BEYOND
        return round(line.alpha_ns + whole / line.bytes_per_ns), tag

    def _line(self, kind: str, devices: int) -> tuple[Line, str]:
        lines = self.lines[kind]
        at = bisect_left(lines, devices, key=lambda line: line.devices)
        above = lines[at]
        if above.devices == devices:
            return above, MEASURED
        below = lines[at - 1]
        share = (devices - below.devices) / (above.devices - below.devices)
        alpha = below.alpha_ns + share * (above.alpha_ns - below.alpha_ns)
        low, high = (line.bytes_per_ns * _crossing(kind, line.devices) for line in (below, above))
        bus = low + share * (high - low)
        return Line(devices, alpha, bus / _crossing(kind, devices)), BETWEEN


class Measured:
    """Times the collectives of a simulation by curves, where there are any for them.

    Curves hold within one node, which is dimension 0 of the network. All devices finish a measured
    collective together, its time after the last of them started.
    """

    def __init__(self, curves: Curves, network: Network) -> None:
        self.curves = curves
        self._node = network.counts[0]
        self.counts: Counter[str] = Counter()

    def knows(self, kind: str, members: Sequence[int]) -> bool:
        """Whether there is a curve for a collective of these devices."""
        return (
            self.curves.knows(kind, len(members))
            and len({member // self._node for member in members}) == 1
        )

    def finish(self, kind: str, operand_bytes: int, starts: Sequence[int]) -> list[Finish]:
        """When the devices finish; ``knows`` must hold."""
        time, tag = self.curves.time_ns(kind, operand_bytes, len(starts))
        self.counts[tag] += 1
        last = max(starts)
        return [Finish(last + time, last)] * len(starts)

    def summary(self) -> str:
        """How many collectives were got how, for people."""
        tags = (MEASURED, BETWEEN, BEYOND, MODELLED)
        parts = [f"{self.counts[tag]} {tag}" for tag in tags if self.counts[tag]]
        return f"{self.curves.device} ({', '.join(parts) or 'no collectives'})"


def _crossing(kind: str, devices: int) -> float:
    """The bytes that cross a device's link for each byte of the buffer."""
    return (2 if kind == "all_reduce" else 1) * (devices - 1) / devices


def names() -> list[str]:
    """The devices that there are curves of, alphabetical."""
    return sorted(path.stem for path in _FOLDER.glob("*.json"))


def load(device: str) -> Curves:
    """The curves of a device; raises UsageError that suggests the near name."""
    path = _FOLDER / f"{device}.json"
    if device not in names():
        raise UsageError(
            f"there are no measured collectives of '{device}'", remedy=nearest(device, names())
        )
    data = configs.read_json(path)
    lines = {
        kind: tuple(
            Line(int(n), values["alpha_us"] * 1000, values["beta_gb_s"])
            for n, values in sorted(by_size.items(), key=lambda item: int(item[0]))
        )
        for kind, by_size in data["curves"].items()
    }
    return Curves(device, data["source"], data["least_bytes"], data["most_bytes"], lines)
