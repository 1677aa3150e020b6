"""Measured collectives instead of the network model: time by size and number of devices.

``configs/collectives/DEVICE.json`` holds what was measured between 2, 4 and 8 devices of one node.
Between two sizes time is a power of the size (a line in a double logarithm), and between two
numbers of devices likewise. Larger groups are not measured, and nothing is extrapolated to them.
On a system with another bandwidth within the node the curves are scaled to it, and tagged. Sizes
beyond the measured ones are tagged: smaller ones take as long as the smallest, larger ones
have the bandwidth of the largest.
"""

from __future__ import annotations

import functools
import math
from bisect import bisect_left
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from hespas import configs
from hespas.configs.system_spec import SystemSpec
from hespas.support.errors import UsageError
from hespas.support.suggestions import suggest_nearest

from .collective_timing import CollectiveFinish

MEASURED, BETWEEN, BEYOND = "measured", "between measured group sizes", "beyond measured bytes"
SCALED = "scaled to the system's bandwidth"
MODELLED = "by the network model: not measured for such devices"
_EQUAL_BANDWIDTH_SHARE = 0.1  # presets count NVLink in GiB or GB, which differ by 7 %

_FOLDER = Path(configs.__file__).parent / "collectives"


@dataclass(frozen=True, slots=True)
class CollectiveCurve:
    """Times of one collective between so many devices, by ``sizes`` of the whole buffer, rising.

    ``error`` is the share within which 80 % of the measured points lie of what their neighbours
    give.
    """

    devices: int
    sizes_bytes: tuple[int, ...]
    times_ns: tuple[float, ...]
    error: float

    def interpolate_ns(self, whole_bytes: int) -> float:
        """The time of a buffer of that size, in floating point."""
        sizes, times = self.sizes_bytes, self.times_ns
        if whole_bytes <= sizes[0]:
            return times[0]
        if whole_bytes >= sizes[-1]:
            return times[-1] * whole_bytes / sizes[-1]
        at = bisect_left(sizes, whole_bytes)
        return interpolate_power(whole_bytes, sizes[at - 1], times[at - 1], sizes[at], times[at])


@dataclass(frozen=True, slots=True)
class DeviceCurves:
    """A device's curves by kind of collective, by rising number of devices.

    ``device_gb_s`` is what it can send to the others of its node, in 1e9 bytes per second.
    """

    device: str
    source: str
    device_gb_s: float
    curves: Mapping[str, tuple[CollectiveCurve, ...]]

    def compute_bandwidth_ratio(self, system: SystemSpec) -> float:
        """A device's bandwidth in a system's dimension 0 over that of the devices measured.

        1 where it is that to 10 %.
        """
        ratio = system.device_gb_s / self.device_gb_s
        return 1.0 if abs(ratio - 1) <= _EQUAL_BANDWIDTH_SHARE else ratio

    def has_measured_group(self, kind: str, devices: int) -> bool:
        """Whether groups of that size are within what was measured."""
        curves = self.curves.get(kind, ())
        return bool(curves) and curves[0].devices <= devices <= curves[-1].devices

    def interpolate_collective(
        self, kind: str, operand_bytes: int, devices: int, ratio: float = 1.0
    ) -> tuple[int, str]:
        """A collective's time, and how it was got: MEASURED, BETWEEN, SCALED or BEYOND.

        ``operand_bytes`` are those of one device, as in a trace; ``knows`` must hold. With
        ``ratio`` times the bandwidth so many times the bytes take as long: what a collective takes
        at least stays, and its share of the bandwidth.
        """
        whole_bytes = operand_bytes * devices if kind == "all_gather" else operand_bytes
        whole_bytes = whole_bytes if ratio == 1 else round(whole_bytes / ratio)
        curves = self.curves[kind]
        at = bisect_left(curves, devices, key=lambda curve: curve.devices)
        above, tag = curves[at], MEASURED
        used, time = [above], above.interpolate_ns(whole_bytes)
        if above.devices != devices:
            below, tag = curves[at - 1], BETWEEN
            used.append(below)
            time = interpolate_power(
                devices, below.devices, below.interpolate_ns(whole_bytes), above.devices, time
            )
        if ratio != 1:
            tag = SCALED
        if not all(curve.sizes_bytes[0] <= whole_bytes <= curve.sizes_bytes[-1] for curve in used):
            tag = BEYOND
        return round(time), tag


def interpolate_power(x: float, x0: float, y0: float, x1: float, y1: float) -> float:
    """The value at ``x`` of the power of x that goes through both points."""
    return y0 * (y1 / y0) ** (math.log(x / x0) / math.log(x1 / x0))


class MeasuredCollectives:
    """Times the collectives of a simulation by curves, where there are any for them.

    Curves hold within one node, which is dimension 0 of the network. All devices finish a measured
    collective together, its time after the last of them started.
    """

    def __init__(self, curves: DeviceCurves, system: SystemSpec) -> None:
        self.curves = curves
        self._ratio = curves.compute_bandwidth_ratio(system)
        self._node = system.npus_count[0]
        self.counts: Counter[str] = Counter()

    def has_measured_group(self, kind: str, members: Sequence[int]) -> bool:
        """Whether there is a curve for a collective of these devices."""
        return (
            self.curves.has_measured_group(kind, len(members))
            and len({member // self._node for member in members}) == 1
        )

    def compute_finishes(
        self, kind: str, operand_bytes: int, starts: Sequence[int], copies: int = 1
    ) -> list[CollectiveFinish]:
        """When the devices finish; ``knows`` must hold. It counts as ``copies`` collectives."""
        time, tag = self.curves.interpolate_collective(
            kind, operand_bytes, len(starts), self._ratio
        )
        self.counts[tag] += copies
        last = max(starts)
        return [CollectiveFinish(last + time, last)] * len(starts)

    def summarise_counts(self) -> str:
        """How many collectives were got how, for people."""
        tags = (MEASURED, BETWEEN, SCALED, BEYOND, MODELLED)
        parts = [f"{self.counts[tag]} {tag}" for tag in tags if self.counts[tag]]
        return f"{self.curves.device} ({', '.join(parts) or 'no collectives'})"


def list_devices() -> list[str]:
    """The devices that there are curves of, alphabetical."""
    return sorted(path.stem for path in _FOLDER.glob("*.json"))


@functools.cache
def load_curves(device: str) -> DeviceCurves:
    """The curves of a device; raises UsageError that suggests the near name."""
    if device not in list_devices():
        raise UsageError(
            f"there are no measured collectives of '{device}'",
            remedy=suggest_nearest(device, list_devices()),
        )
    data = configs.read_json(_FOLDER / f"{device}.json")
    curves = {
        kind: tuple(
            CollectiveCurve(
                int(devices),
                tuple(curve["sizes_bytes"]),
                tuple(1000 * time_us for time_us in curve["times_us"]),
                curve["error"],
            )
            for devices, curve in sorted(by_devices.items(), key=lambda item: int(item[0]))
        )
        for kind, by_devices in data["curves"].items()
    }
    return DeviceCurves(device, data["source"], data["device_gb_s"], curves)
