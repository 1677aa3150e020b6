"""The measured constants of a device, from ``calibration`` in the file of its node.

Efficiencies are shares of the peak rates and bandwidth of the node, so that constants of one device
can be used for another. A node without measurements uses those of the node that it is ``like``, and
the estimates have the tag ``transferred``. Classes of kernels that none of these nodes has measured
are estimated from related classes, or else by the roofline, with the tag ``assumed``.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Self

from hespas import configs
from hespas.configs.node_spec import NodeSpec
from hespas.configs.source_errors import ErrorCause, LogEnds
from hespas.estimators.calibrated.board_power import BoardPower
from hespas.estimators.calibrated.correction_surface import CorrectionSurface

CONTENTION = "contention"  # depends on how many updates hit one row
TRANSFERRED = "transferred"  # from another device or type, scaled by its data sheet
ASSUMED = "assumed"  # without a table for the class; as in XLA's cost model
EXTRAPOLATED = "extrapolated"  # outside the measured shapes
NO_CONSTANTS = "no constants: rates of the data sheet, as the roofline"
SAME_CHIP: ErrorCause = "same chip"
SUSTAINED = "_sustained"  # suffix of the class of products at the power limit of the board
BATCHED = "_batched"  # suffix of the class of several products in one kernel
COMPILED = "_xla"  # suffix of the class of products in kernels that XLA chose

_EQUAL_LIMITS_SHARE = 0.01  # power limits that differ by less are the same

# The classes that every device needs, each with the classes whose constants can replace its own.
_RELATED_CLASSES: Mapping[str, tuple[str, ...]] = {
    "product.bf16": ("product.f16", "product.f32"),
    "product.f32": ("product.tf32", "product.bf16"),
    "attention": ("product.bf16",),
    "decode_attention": ("stream.loop",),
    "stream.loop": (),
    "stream.reduce": ("stream.loop",),
    "stream.softmax": ("stream.reduce", "stream.loop"),
    "stream.layer_norm": ("stream.softmax", "stream.reduce", "stream.loop"),
}
_NUMBERS = ("launch_s", "core_bandwidth_bytes_per_s", "sector_bytes", "issue_per_flop")


@dataclass(frozen=True, slots=True)
class ErrorBand:
    """The 80 % interval of measured over estimated time, as a function of the estimated time.

    ``steps`` are (upper limit in seconds, low, high), ascending, with logarithms of factors.
    """

    steps: tuple[tuple[float, float, float], ...]

    @classmethod
    def from_preset_rows(cls, rows: Sequence[Sequence[float]]) -> Self:
        """Build the band from the rows of a preset, whose ends are relative: -0.1 is 10 % less."""
        return cls(tuple((up_to, math.log1p(low), math.log1p(high)) for up_to, low, high in rows))

    def get_log_ends_at(self, time_s: float) -> LogEnds:
        """Return the low and the high end, as logarithms of factors."""
        _, low, high = next((step for step in self.steps if time_s <= step[0]), self.steps[-1])
        return low, high


# The roofline is a lower bound. Its band reaches to twice its time, because large kernels of the
# measured devices reach half of the data sheet or more.
_ROOFLINE_BAND = ErrorBand(((math.inf, 0.0, math.log(2)),))


@dataclass(frozen=True, slots=True)
class KernelFit:
    """The time of one class of kernels.

    In seconds, a kernel takes

        fixed_s + ((F / (efficiency P))^p + (B / (bandwidth W))^p + (k s_per_k)^p)^(1/p)

    for F operations and B bytes at the node's peak rate P and bandwidth W, and k sequential steps.
    The result is multiplied by the exponential of ``residual`` at the sizes of the kernel; of
    eager kernels, without ``fixed_s``.

    Attributes:
        backward: Of fused attention: the logarithm of the time of a backward call over that of a
            forward call of as many operations, as a function of the queries and the head size.
        backward_tags: The tags of ``backward``, which may be that of another device.
        causes: What the constants lack besides what the tags say, see ``configs.source_errors``.
        covered_tags: Further tags, whose errors are among the causes already.
        eager_s: Additional launch time, in seconds, that the measurements contain.
        error: The median relative error of held-out shapes.
        windowed_efficiency: The efficiency of products of which the bytes that they read again are
            known; None if these bytes do not count.
    """

    name: str
    fixed_s: float
    bandwidth: float
    band: ErrorBand
    efficiency: float = 1.0
    power: float = 1.0
    s_per_k: float = 0.0
    eager_s: float = 0.0
    residual: CorrectionSurface | None = None
    backward: CorrectionSurface | None = None
    tags: frozenset[str] = frozenset()
    error: float | None = None
    source: str = ""
    backward_tags: frozenset[str] = frozenset()
    causes: frozenset[str] = frozenset()
    covered_tags: frozenset[str] = frozenset()
    windowed_efficiency: float | None = None

    @classmethod
    def from_preset(
        cls,
        name: str,
        data: Mapping[str, Any],
        tags: frozenset[str],
        causes: frozenset[str] = frozenset(),
    ) -> Self:
        """Build the fit from the object of a preset."""
        fit_report = data.get("fit") or {}
        efficiency, windows = data.get("efficiency", 1.0), data.get("windows")
        return cls(
            name,
            data["fixed_s"],
            data["bandwidth"],
            ErrorBand.from_preset_rows(data["band"]),
            efficiency,
            data.get("power", 1.0),
            data.get("s_per_k", 0.0),
            data.get("eager_s", 0.0),
            CorrectionSurface.from_preset(data["residual"]) if "residual" in data else None,
            CorrectionSurface.from_preset(data["backward"]) if "backward" in data else None,
            tags | frozenset(data.get("tags", ())),
            fit_report.get("median"),
            fit_report.get("source") or data.get("source", ""),
            causes=causes | {data["origin"]} if "origin" in data else causes,
            windowed_efficiency=(
                None if windows is None else windows.get("efficiency") or efficiency
            ),
        )

    @property
    def is_eager(self) -> bool:
        """Whether the measurements contain eager launches, so that the correction leaves them out.

        The launch that replaces them was not measured with these kernels.
        """
        return self.eager_s > 0

    def compute_busy_s(self, compute_s: float, memory_s: float, steps: float = 0.0) -> float:
        """Return the time without the fixed time and the correction, from times at peak rates."""
        p = self.power
        parts = (compute_s / self.efficiency, memory_s / self.bandwidth, steps * self.s_per_k)
        if p == 1.0:
            return sum(parts)
        largest = max(parts)
        return largest and largest * sum((part / largest) ** p for part in parts) ** (1 / p)

    def apply_correction(self, time_s: float, *point: float) -> tuple[float, bool]:
        """Return the corrected time, and whether the sizes lie outside the measured ones."""
        if self.residual is None:
            return time_s, False
        outside = bool(self.residual.list_axes_outside(*point))
        launch_s = self.fixed_s if self.is_eager else 0.0
        factor = math.exp(self.residual.interpolate_at(*point))
        return launch_s + (time_s - launch_s) * factor, outside

    def with_backward_of(self, other: Self) -> Self:
        """Return a copy that uses the backward factor of another fit if it has none."""
        if self.backward is not None or other.backward is None:
            return self
        return replace(self, backward=other.backward, backward_tags=other.tags)

    def with_range(self, least: float, most: float) -> Self:
        """Return a copy whose band also contains kernels of ``least`` to ``most`` of the time."""
        steps = tuple(
            (up_to, low + math.log(least), high + math.log(most))
            for up_to, low, high in self.band.steps
        )
        return replace(self, band=ErrorBand(steps))

    def with_tags(self, *tags: str) -> Self:
        """Return a copy with more tags."""
        return replace(self, tags=self.tags | set(tags))

    def with_covered_tags(self, *tags: str) -> Self:
        """Return a copy with more tags whose errors its band contains already."""
        return replace(self, covered_tags=self.covered_tags | set(tags))

    def with_cause(self, cause: ErrorCause) -> Self:
        """Return a copy with one more cause of errors."""
        return replace(self, causes=self.causes | {cause})


ROOFLINE_FIT = KernelFit(
    "data sheet", 0.0, 1.0, _ROOFLINE_BAND, power=math.inf, tags=frozenset((ASSUMED,))
)


@dataclass(frozen=True, slots=True)
class DeviceConstants:
    """The measured constants of a device.

    Attributes:
        launch_s: The least time from one kernel to the next in a stream, in seconds; 0 if unknown.
        core_bandwidth_bytes_per_s: The bytes per second that one core can move; 0 if unknown.
        sector_bytes: The bytes that are read from memory at once; 0 if unknown.
        cache_bytes: The capacity of the last-level cache; 0 if unknown.
        is_measured: Whether any constant is known; otherwise all estimates are the roofline's.
        issue_per_flop: Instructions that all lanes issue for each operation of the f32 peak rate; 0
            if the instruction counts of ``kernel_traits`` do not apply.
        power: The power of the board; None if the energies or the limit are unknown.
        fits: The fits by class, such as ``product.bf16`` and ``stream.loop``.
        provenance: The source of the constants.
        same_chip: The nodes that are known to have the same chip, itself included.
    """

    node: NodeSpec
    launch_s: float
    core_bandwidth_bytes_per_s: float
    sector_bytes: int
    cache_bytes: int
    is_measured: bool
    issue_per_flop: float
    power: BoardPower | None
    fits: Mapping[str, KernelFit]
    provenance: str
    same_chip: frozenset[str]

    @classmethod
    def from_node(cls, node: NodeSpec) -> Self:
        """Collect the constants of a node, and those that it lacks from nodes that it is like.

        Raises:
            HespasError: The file of a node cannot be read.
        """
        fits: dict[str, KernelFit] = {}
        numbers: dict[str, Any] = {}
        power: BoardPower | None = None
        donors: list[str] = []
        own_calibration = node.calibration or {}
        name, data, tags = node.name, own_calibration, frozenset[str]()
        visited = set[str]()
        same_chip = frozenset[str]()
        causes = frozenset[str]()
        cache_bytes = node.l2_bytes
        while name and name not in visited:
            visited.add(name)
            same_chip = same_chip if tags else frozenset({*visited, node.unchanged_name})
            before = (len(fits), len(numbers))
            # Products of the device itself are better than special ones of another device.
            measured = frozenset(fits) if tags else frozenset[str]()
            if power is None and "power" in data:
                power = _build_board_power(
                    data["power"], node, tags, is_own=data is own_calibration
                )
            for key, fit_data in data.get("fits", {}).items():
                if _is_at_other_limit(fit_data, node):
                    continue
                fit = KernelFit.from_preset(f"{name} {key}", fit_data, tags, causes)
                if key in fits:
                    fits[key] = fits[key].with_backward_of(fit)
                elif strip_variant(key) not in measured:
                    fits[key] = fit
            numbers = {key: data[key] for key in _NUMBERS if key in data} | numbers
            if data is not own_calibration and (len(fits), len(numbers)) != before:
                donors.append(name)
            if not data.get("same_silicon"):
                tags = frozenset((TRANSFERRED,))
            causes = frozenset() if tags else frozenset((SAME_CHIP,))
            name = data.get("like", "")
            donor = configs.load_node(name) if name else None
            data = (donor.calibration if donor is not None else None) or {}
            if not cache_bytes and donor is not None:
                cache_bytes = donor.l2_bytes
        origins = [f"calibrated {own_calibration['date']}"] if "date" in own_calibration else []
        if donors:
            origins.append(f"{'the rest' if origins else 'constants'} of {' and '.join(donors)}")
        return cls(
            node,
            numbers.get("launch_s", 0.0),
            numbers.get("core_bandwidth_bytes_per_s", 0.0),
            numbers.get("sector_bytes", 0),
            cache_bytes or 0,
            bool(fits or numbers),
            numbers.get("issue_per_flop", 0.0),
            power,
            complete_classes(fits),
            ", ".join(origins) or NO_CONSTANTS,
            same_chip,
        )

    def scale_launches(self, factor: float) -> Self:
        """Return a copy whose launches and fixed times of kernels take ``factor`` times as long."""
        fits = {key: replace(fit, fixed_s=fit.fixed_s * factor) for key, fit in self.fits.items()}
        return replace(self, launch_s=self.launch_s * factor, fits=fits)


def _build_board_power(
    power_data: Mapping[str, Any], node: NodeSpec, tags: frozenset[str], *, is_own: bool
) -> BoardPower | None:
    """Return the power of a node with the energies of a preset, or None if they do not apply.

    Args:
        power_data: The energies.
        node: The node.
        tags: The tags of constants of the preset; none if it has the same chip as the node.
        is_own: Whether the preset is that of the node.
    """
    if not node.tdp_w:
        return None
    is_measured = is_own or not (tags or _is_at_other_limit(power_data, node))
    if power_data.get("only_at_limit") and not is_measured:
        return None
    power_tags = frozenset(() if is_measured else (TRANSFERRED,))
    return BoardPower.from_preset(power_data, node.tdp_w, power_tags)


def _is_at_other_limit(measured_data: Mapping[str, Any], node: NodeSpec) -> bool:
    """Return whether constants were measured at another power limit than that of the node."""
    limit_w = measured_data.get("limit_w")
    if limit_w is None or node.tdp_w is None:
        return False
    return abs(node.tdp_w / limit_w - 1) > _EQUAL_LIMITS_SHARE


def strip_variant(name: str) -> str:
    """Return the name of a class of products, or of its type, without the suffix of a variant."""
    for suffix in (SUSTAINED, BATCHED, COMPILED):
        name = name.removesuffix(suffix)
    return name


def complete_classes(fits: Mapping[str, KernelFit]) -> dict[str, KernelFit]:
    """Return the fits with one for each required class.

    A class without measurements takes the constants of its first related class that has some, and
    otherwise reaches the rates of the data sheet, which makes it the roofline. Both are tagged.
    Corrections over sizes hold for the measured class only, and are left out.
    """
    completed = dict(fits)
    eager, graphed = fits.get("product.f32"), fits.get("product.bf16")
    if eager is not None and graphed is not None and eager.eager_s:
        # The launch that replaces that of an eager product is shorter than its shortest kernel.
        completed["product.f32"] = replace(eager, fixed_s=max(eager.fixed_s, graphed.fixed_s))
    for key, relatives in _RELATED_CLASSES.items():
        if key in completed:
            continue
        relative = next((fits[other] for other in relatives if other in fits), None)
        completed[key] = (
            replace(ROOFLINE_FIT, name=f"data sheet {key}")
            if relative is None
            else replace(relative, residual=None, backward=None).with_tags(ASSUMED)
        )
    return completed
