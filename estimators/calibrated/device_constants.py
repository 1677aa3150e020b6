"""The measured constants of a device, from ``calibration`` in the file of its node.

Efficiencies are shares of the peak rates and bandwidth of the node, so that constants of one device
can be used for another. A node without measurements uses those of the node that it is ``like``, and
the estimates have the tag ``transferred``. Classes of kernels that none of these nodes has measured
are estimated from related classes, or else by the roofline, with the tag ``assumed``.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Self

from hespas import configs
from hespas.configs.node_spec import NodeSpec
from hespas.configs.source_errors import ErrorCause, LogEnds
from hespas.estimators.calibrated.board_power import BoardPower, MeasuredBoard
from hespas.estimators.calibrated.correction_surface import CorrectionSurface
from hespas.estimators.calibrated.kernel_traits import THREAD_ELEMENTS, KernelTraits
from hespas.estimators.power_limit import check_idle_power

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
# Of NVIDIA's cores: the lanes, and the bytes that XLA's target_config counts for a cycle.
_CORE_LANES, _CORE_BYTES_PER_CYCLE = 128, 32
# An H200 fills 2**26 numbers of 8, 16 or 32 bits in 80 us, in blocks of 512, and copies 2**24
# numbers to places that are not aligned in the same time, in blocks of 128.
_BLOCKS_PER_CYCLE = 0.83
_BLOCK_THREADS = 128  # of XLA's loop kernels
_NUMBERS = (
    "launch_s", "core_bandwidth_bytes_per_s", "sector_bytes", "issue_per_flop", "narrow_elements",
)  # fmt: skip


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
        board: The board on which the class was timed; None if the constants are not measured.
        burst: Of a class at the power limit: the same kernels of that board at full clock.
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
    board: MeasuredBoard | None = None
    burst: KernelFit | None = None

    @classmethod
    def from_preset(
        cls,
        name: str,
        data: Mapping[str, Any],
        tags: frozenset[str],
        causes: frozenset[str] = frozenset(),
        board: MeasuredBoard | None = None,
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
            board=board,
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

    def without_correction(self) -> Self:
        """Return a copy for sizes of another kind of kernel, which the correction is not for."""
        burst = self.burst and replace(self.burst, residual=None)
        return replace(self, residual=None, burst=burst)

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
        burst = self.burst and self.burst.with_tags(*tags)
        return replace(self, tags=self.tags | set(tags), burst=burst)

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
        narrow_elements: The most elements of less than 32 bits that a thread of XLA's loop kernels
            computes.
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
    narrow_elements: int
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
        donors = _list_donors(node)
        fits: dict[str, KernelFit] = {}
        numbers: dict[str, Any] = {}
        used: list[str] = []
        for number, donor in enumerate(donors):
            before = (len(fits), len(numbers))
            # Products of the device itself are better than special ones of another device.
            measured = frozenset(fits) if donor.tags else frozenset[str]()
            for key, fit in _build_donor_fits(donors[number:]).items():
                if key in fits:
                    fits[key] = fits[key].with_backward_of(fit)
                elif strip_variant(key) not in measured:
                    fits[key] = fit
            numbers = {key: donor.data[key] for key in _NUMBERS if key in donor.data} | numbers
            if number and (len(fits), len(numbers)) != before:
                used.append(donor.name)
        date = donors[0].data.get("date")
        origins = [f"calibrated {date}"] if date else []
        if used:
            origins.append(f"{'the rest' if origins else 'constants'} of {' and '.join(used)}")
        return cls(
            node,
            numbers.get("launch_s", 0.0),
            numbers.get("core_bandwidth_bytes_per_s", 0.0),
            numbers.get("sector_bytes", 0),
            next((each.node.l2_bytes for each in donors if each.node.l2_bytes), 0),
            bool(fits or numbers),
            numbers.get("issue_per_flop", 0.0),
            numbers.get("narrow_elements", THREAD_ELEMENTS),
            _find_board_power(donors),
            complete_classes(fits),
            ", ".join(origins) or NO_CONSTANTS,
            frozenset({node.unchanged_name, *(each.name for each in donors if not each.tags)}),
        )

    @property
    def clock_hz(self) -> float:
        """The clock of the cores, of which each moves 32 bytes in a cycle; 0 if unknown."""
        return self.core_bandwidth_bytes_per_s / _CORE_BYTES_PER_CYCLE

    @property
    def issue_per_s(self) -> float:
        """The instructions that the lanes of all cores issue in a second; 0 if unknown."""
        if not self.issue_per_flop:
            return 0.0
        return self.issue_per_flop * self.node.find_peak_rate("vector", "f32").flops_per_s

    def count_cores(self) -> float:
        """Return the number of cores, from their rates; 1 if unknown."""
        rate = self.issue_per_s
        return rate / (_CORE_LANES * self.clock_hz) if rate and self.clock_hz else 1.0

    def compute_issue_s(self, slots: float) -> float:
        """Return the seconds in which the lanes of all cores issue instructions; 0 if unknown."""
        rate = self.issue_per_s
        return slots / rate if rate else 0.0

    def compute_dispatch_s(self, traits: KernelTraits) -> float:
        """Return the seconds in which the device starts the blocks of a kernel; 0 if unknown."""
        width = traits.thread_elements
        if width == THREAD_ELEMENTS and traits.is_narrow:
            width = self.narrow_elements
        blocks = traits.dispatched_elements / (_BLOCK_THREADS * width)
        return blocks / (_BLOCKS_PER_CYCLE * self.clock_hz) if self.clock_hz else 0.0

    def scale_launches(self, factor: float) -> Self:
        """Return a copy whose launches and fixed times of kernels take ``factor`` times as long."""
        fits = {key: replace(fit, fixed_s=fit.fixed_s * factor) for key, fit in self.fits.items()}
        return replace(self, launch_s=self.launch_s * factor, fits=fits)


@dataclass(frozen=True, slots=True)
class _Donor:
    """A node whose constants another one uses, or that node itself.

    Attributes:
        name: The name or the file under which it was found.
        node: The node.
        tags: The tags of its constants; none if it has the same chip.
        causes: What its constants lack besides, see ``configs.source_errors``.
    """

    name: str
    node: NodeSpec
    tags: frozenset[str] = frozenset()
    causes: frozenset[str] = frozenset()

    @property
    def data(self) -> Mapping[str, Any]:
        """Its calibration."""
        return self.node.calibration or {}


def _list_donors(node: NodeSpec) -> list[_Donor]:
    """List a node, the node that it is like, the one that this is like, and so on."""
    donors = [_Donor(node.name, node)]
    while (name := donors[-1].data.get("like")) and name not in {each.name for each in donors}:
        is_preset = name in configs.list_node_presets()
        donor = _load_preset(name) if is_preset else configs.load_node(name)
        is_same_chip = donors[-1].data.get("same_silicon") and not donors[-1].tags
        donors.append(
            _Donor(name, donor, causes=frozenset((SAME_CHIP,)))
            if is_same_chip
            else _Donor(name, donor, frozenset((TRANSFERRED,)))
        )
    return donors


def _build_donor_fits(donors: Sequence[_Donor]) -> dict[str, KernelFit]:
    """Build the classes that the first of these nodes has measured.

    Args:
        donors: The node, and those that it is like, whose energies it may have.
    """
    donor, fits = donors[0], dict[str, KernelFit]()
    if not donor.data.get("fits"):
        return fits
    measured_node, power_data = _find_measured_node(donor.node), _find_power_data(donors)
    for key, data in donor.data["fits"].items():
        power = None
        if power_data is not None:
            measured_limit_w = data.get("limit_w") or power_data["limit_w"]
            power = BoardPower.from_preset(power_data, measured_limit_w)
        board = MeasuredBoard(measured_node, power)
        title = f"{donor.name} {key}"
        fits[key] = KernelFit.from_preset(title, data, donor.tags, donor.causes, board)
    return {
        key: replace(fit, burst=fits.get(key.removesuffix(SUSTAINED)))
        if key.endswith(SUSTAINED)
        else fit
        for key, fit in fits.items()
    }


def _find_measured_node(node: NodeSpec) -> NodeSpec:
    """Return the node on which the constants of a node were measured.

    It is the preset, where a sweep or an analysis has changed other values of it.
    """
    name = node.unchanged_name
    if name not in configs.list_node_presets():
        return node
    preset = _load_preset(name)
    own, measured = node.calibration or {}, preset.calibration or {}
    is_same = all(own.get(key) == measured.get(key) for key in ("fits", "power"))
    return preset if is_same else node


@functools.cache
def _load_preset(name: str) -> NodeSpec:
    return configs.load_node(name)


def _find_power_data(donors: Sequence[_Donor]) -> Mapping[str, Any] | None:
    """Return the energies that the first of these nodes has, if they are known.

    A node that states ``null`` has other energies than those that it is like.
    """
    return next((each.data["power"] for each in donors if "power" in each.data), None)


def _find_board_power(donors: Sequence[_Donor]) -> BoardPower | None:
    """Return the power of the first of these nodes; None if its energies or limit are not known.

    Raises:
        HespasError: The idle board draws more than the limit.
    """
    node, power_data = donors[0].node, _find_power_data(donors)
    if not node.tdp_w or power_data is None:
        return None
    check_idle_power(f"the idle power of {node.name}", power_data["idle_w"], node.tdp_w)
    source = next(each for each in donors if "power" in each.data)
    is_at_other_limit = abs(node.tdp_w / power_data["limit_w"] - 1) > _EQUAL_LIMITS_SHARE
    power_tags = frozenset((TRANSFERRED,) if source.tags or is_at_other_limit else ())
    return BoardPower.from_preset(power_data, node.tdp_w, power_tags)


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
