"""Measured curves of collectives: the time by size and number of devices.

``configs/collectives/DEVICE.json`` holds measurements between 2, 4 and 8 devices of one host. The
time between two sizes is a power of the size (a line in a double logarithmic plot), and likewise
between two numbers of devices. Larger groups are not extrapolated: the network model times them. On
a system with another bandwidth within the host the curves are scaled, with a tag. Sizes outside the
measured range have a tag too: smaller ones take as long as the smallest, and what a message has
beyond the largest is sent at the bandwidth between the two largest, which contains no latency.
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
from hespas.simulators.simulation_result import CurveTag, ModelUse
from hespas.simulators.simulation_steps import SimulationStep
from hespas.support.errors import UsageError
from hespas.support.suggestions import suggest_nearest

_EQUAL_BANDWIDTH_SHARE = 0.1  # presets count NVLink in GiB or GB, which differ by 7 %

# A load from memory and the store to another device of XLA's kernel for a ragged all-to-all. Eight
# B200 send 58.7 MB each by 8 blocks of 128 threads, 7,168 rounds, at 16.42 GiB/s
# (openxla/xla#33386). [Assumed for other GPUs, whose memories have similar latencies.]
_COPY_ROUND_NS = 465

_FOLDER = Path(configs.__file__).parent / "collectives"


@dataclass(frozen=True, slots=True)
class CollectiveCurve:
    """The times of one kind of collective between a number of devices.

    Attributes:
        devices: The number of devices.
        sizes_bytes: Bytes of the whole buffer, rising.
        times_ns: The time of each size.
        error: The relative error that 80 % of the measured points do not exceed if each is
            interpolated from its neighbours.
    """

    devices: int
    sizes_bytes: tuple[int, ...]
    times_ns: tuple[float, ...]
    error: float

    def interpolate_ns(self, whole_bytes: int) -> float:
        """Interpolate the time in nanoseconds of a buffer of ``whole_bytes``."""
        sizes, times = self.sizes_bytes, self.times_ns
        if whole_bytes <= sizes[0]:
            return times[0]
        if whole_bytes >= sizes[-1]:
            return times[-1] + self._find_last_ns_per_byte() * (whole_bytes - sizes[-1])
        at = bisect_left(sizes, whole_bytes)
        return interpolate_power(whole_bytes, sizes[at - 1], times[at - 1], sizes[at], times[at])

    def _find_last_ns_per_byte(self) -> float:
        """Return the time of a byte between the two largest sizes; of the largest if it is 0."""
        sizes, times = self.sizes_bytes, self.times_ns
        ns_per_byte = times[-1] / sizes[-1]
        if len(sizes) > 1 and times[-1] > times[-2]:
            ns_per_byte = (times[-1] - times[-2]) / (sizes[-1] - sizes[-2])
        return ns_per_byte


@dataclass(frozen=True, slots=True)
class DeviceCurves:
    """The curves of a device.

    Attributes:
        device: The name of the device.
        source: Where the measurements come from.
        device_gb_s: Bandwidth at which it can send to the other devices of its host, in 1e9 B/s.
        curves: The curves by kind of collective, with a rising number of devices.
    """

    device: str
    source: str
    device_gb_s: float
    curves: Mapping[str, tuple[CollectiveCurve, ...]]

    def compute_bandwidth_ratio(self, system: SystemSpec) -> float:
        """Return the bandwidth of a device in dimension 0 of a system over the measured one.

        The result is exactly 1 if both differ by at most 10 %.
        """
        ratio = system.device_gb_s / self.device_gb_s
        return 1.0 if is_equal_bandwidth(ratio) else ratio

    def has_measured_group(self, kind: str, devices: int) -> bool:
        """Return whether a number of devices is within the measured range."""
        curves = self.curves.get(kind, ())
        return bool(curves) and curves[0].devices <= devices <= curves[-1].devices

    def interpolate_collective(
        self, kind: str, operand_bytes: int, devices: int, ratio: float = 1.0
    ) -> tuple[int, CurveTag]:
        """Interpolate the time of a collective; ``has_measured_group`` must hold.

        Args:
            kind: The kind of collective.
            operand_bytes: Operand bytes of one device, as in a trace.
            devices: The number of devices.
            ratio: The bandwidth of the system over the measured one. With it, ``ratio`` times the
                bytes take the same time, so that the minimum time and the share of the bandwidth
                stay the same.

        Returns:
            The time in nanoseconds, and how it was obtained.
        """
        whole_bytes = operand_bytes * devices if kind == "all_gather" else operand_bytes
        whole_bytes = whole_bytes if ratio == 1 else round(whole_bytes / ratio)
        curves = self.curves[kind]
        at = bisect_left(curves, devices, key=lambda curve: curve.devices)
        above, tag = curves[at], CurveTag.MEASURED
        used, time = [above], above.interpolate_ns(whole_bytes)
        if above.devices != devices:
            below, tag = curves[at - 1], CurveTag.BETWEEN
            used.append(below)
            time = interpolate_power(
                devices, below.devices, below.interpolate_ns(whole_bytes), above.devices, time
            )
        if ratio != 1:
            tag = CurveTag.SCALED
        if not all(curve.sizes_bytes[0] <= whole_bytes <= curve.sizes_bytes[-1] for curve in used):
            tag = CurveTag.BEYOND
        return round(time), tag


def is_equal_bandwidth(ratio: float) -> bool:
    """Return whether the ratio of two bandwidths is so close to 1 that a curve holds for both."""
    return abs(ratio - 1) <= _EQUAL_BANDWIDTH_SHARE


def interpolate_power(x: float, x0: float, y0: float, x1: float, y1: float) -> float:
    """Return the value at ``x`` of the power function through (x0, y0) and (x1, y1)."""
    return y0 * (y1 / y0) ** (math.log(x / x0) / math.log(x1 / x0))


class MeasuredCollectives:
    """Times the collectives of a simulation by measured curves, and counts them by tag.

    Curves hold within one host, which is dimension 0 of the network unless that is a ring or a
    mesh. All devices of a measured collective finish together, its time after the last of them has
    started.
    """

    def __init__(self, curves: DeviceCurves, system: SystemSpec) -> None:
        self.curves = curves
        self._ratio = curves.compute_bandwidth_ratio(system)
        self._host_devices = system.npus_count[0]
        self._has_hosts = system.has_hosts
        self.counts: Counter[CurveTag] = Counter()

    def covers_group(self, kind: str, members: Sequence[int]) -> bool:
        """Return whether a collective between these devices has a curve."""
        return (
            self._has_hosts
            and self.curves.has_measured_group(kind, len(members))
            and len({member // self._host_devices for member in members}) == 1
        )

    def compute_time_ns(self, step: SimulationStep, members: Sequence[int], copies: int) -> int:
        """Compute the time of a collective, and count it ``copies`` times.

        ``covers_group`` must hold. A kernel that copies takes at least its ``copy_rounds``.
        """
        time, tag = self.curves.interpolate_collective(
            step.kind, step.size, len(members), self._ratio
        )
        time = max(time, round(step.copy_rounds * _COPY_ROUND_NS))
        self.counts[tag] += copies
        return time

    def to_model_use(self) -> ModelUse:
        """Return the device and the number of collectives by tag."""
        return ModelUse(
            self.curves.device, {tag: self.counts[tag] for tag in CurveTag if self.counts[tag]}
        )


def list_devices() -> list[str]:
    """Return the names of the devices with measured curves, in alphabetical order."""
    return sorted(path.stem for path in _FOLDER.glob("*.json"))


@functools.cache
def load_curves(device: str) -> DeviceCurves:
    """Read the curves of a device; raises UsageError, which suggests a similar name."""
    if device not in list_devices():
        raise UsageError(
            f"no measured collectives for the device '{device}'",
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
