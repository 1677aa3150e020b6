"""The ``calibrated`` estimator: kernel times with constants that were measured on the device.

The time of a matrix product, convolution or attention call is that of the fit of its class
(``KernelFit``), with the operations of its epilogue alongside. Any other kernel takes

    launch + memory + compute - 0.95 min(memory, compute)

with the overlap of XLA's ``gpu_performance_model_base``. ``memory`` is the bytes, with the unused
parts of sectors, over the bandwidth that this class of kernels reaches; a reduction with few
results uses few cores, which limits its bandwidth. ``compute`` is issue slots (``kernel_traits``).
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import ClassVar

from hespas.configs.kernel_families import find_kernel_family
from hespas.configs.node_spec import NodeSpec
from hespas.configs.source_errors import combine_independent, find_shared_error
from hespas.dialects.attrs import Cost
from hespas.dialects.mlir import get_call_target, ir
from hespas.dialects.op_kinds import CUSTOM_CALLS, FUSION
from hespas.estimators.base import (
    CompilerEstimateConfig,
    CostItem,
    DeviceRate,
    Estimator,
    raise_as_unknown_cost,
    setting,
)
from hespas.estimators.calibrated.attention_library import CUDNN, AttentionLibrary
from hespas.estimators.calibrated.attention_shape import AttentionShape, read_attention_shape
from hespas.estimators.calibrated.data_passes import (
    MEASURED_KINDS,
    DataPasses,
    count_data_passes,
    get_compute_share,
)
from hespas.estimators.calibrated.device_constants import (
    ASSUMED,
    CONTENTION,
    EXTRAPOLATED,
    ROOFLINE_FIT,
    TRANSFERRED,
    DeviceConstants,
)
from hespas.estimators.calibrated.kernel_times import (
    COMPILER,
    OVERLAP,
    KernelTime,
    estimate_attention_time,
    estimate_convolution_time,
    estimate_product_time,
    estimate_row_time,
    estimate_shapeless_s,
    estimate_stream_time,
)
from hespas.estimators.calibrated.kernel_traits import KernelTraits, collect_traits
from hespas.estimators.calibrated.linalg_steps import BAND_FACTOR
from hespas.estimators.calibrated.row_lookups import CACHE_SPEEDUP
from hespas.estimators.calibrated.slowest_device import SlowestDevice
from hespas.estimators.product_shapes import count_other_flops
from hespas.estimators.roofline import RooflineConfig, RooflineEstimator
from hespas.estimators.rules.custom_calls import find_kernel_name
from hespas.estimators.work import OpWork

_SHOWN_KERNELS = 3  # in a warning
_LOOP_SHARE = 0.25  # of the integer rate that a product in loops reaches: it loads two for each
_STRIDED_SHARE = 0.58
_CORE_THREADS = 2048  # threads that a core of an NVIDIA GPU holds
_INTEGER_SHARE = 0.5  # of the f32 rate that integers have on GPUs from Ampere on, without their own
# XLA:TPU expects up to twice the measured time of streams; large products agree within 15 %.
_COMPILER_BAND = (0.5, 1.15)
TAG_MEANINGS = {
    ASSUMED: "kernels of this class were not measured, the band is wider",
    CONTENTION: "atomic updates may hit the same rows, the upper end is for sorted indices",
    EXTRAPOLATED: "beyond the measured sizes, the band is wider",
    TRANSFERRED: "with constants of another device or type, the band is wider",
}


@dataclass(frozen=True, slots=True)
class CalibratedConfig(CompilerEstimateConfig):
    """The configuration of ``CalibratedEstimator``; ``node`` contains the constants."""

    node: NodeSpec
    quantise: bool = setting(
        False, "products of 8 and 4 bits quantise their left operand, as in inference engines"
    )
    attention: str = setting(
        CUDNN,
        "library whose kernels compute fused attention: cudnn, as XLA calls it, or cudnn-fp8, "
        "flash-attention-2, flash-attention-triton, flex-attention or aiter for programs of other "
        "frameworks",
    )
    job_devices: int = setting(
        0,
        "devices of the job, whose slowest one every step waits for; 0: those of the program, "
        "1: a mean device",
    )

    def __post_init__(self) -> None:
        if self.job_devices < 0:
            raise ValueError(f"setting 'job-devices' is {self.job_devices}, less than 0")


class CalibratedEstimator(Estimator):
    """Estimate each kernel and its band with constants measured on the device."""

    name: ClassVar[str] = "calibrated"
    version: ClassVar[str] = "17"
    measured_network: ClassVar[bool] = True
    Config: ClassVar[type] = CalibratedConfig

    def __init__(self, config: CalibratedConfig) -> None:
        self.config = config
        self.node = config.node
        self.quantise = config.quantise
        self.attention_library = AttentionLibrary.load(config.attention, config.node)
        self.uses_compiler_estimates = config.compiler_estimates
        self.roofline = RooflineEstimator(RooflineConfig(config.node))
        self.constants = DeviceConstants.from_node(config.node)
        self.slowest_device = _find_slowest_device(self.constants, config.job_devices)
        self.tag_counts: Counter[str] = Counter()
        self.shapeless_kernels: set[str] = set()

    def estimate(self, item: CostItem) -> Cost:
        work = item.work
        with raise_as_unknown_cost(item.op):
            base = self.roofline.compute_cost(work)
            if self.uses_compiler_estimates:
                time_ns = item.take_compiler_time_ns()
                if time_ns is not None:
                    return self._build_banded_cost(base, time_ns, *_COMPILER_BAND)
            is_roofline = work.is_free or not self.constants.is_measured
            timed = None if is_roofline else self.estimate_kernel_time(item)
        if not work.is_free and timed is None:  # the node has no constants
            ends = ROOFLINE_FIT.band.get_log_ends_at(1e-9 * base.latency_ns)
            return self._build_banded_cost(base, base.latency_ns, *map(math.exp, ends))
        if timed is None:
            return replace(base, estimator=self.name, low_ns=base.time_ns, high_ns=base.time_ns)
        self.tag_counts.update(timed.tags)
        return self._build_cost(base, timed, work.kind)

    def estimate_time_ns(self, item: CostItem) -> float:
        if item.work.is_free or self.uses_compiler_estimates or not self.constants.is_measured:
            return self.estimate(item).time_ns
        with raise_as_unknown_cost(item.op):
            self.roofline.check_rates(item.work)
            return 1e9 * self.estimate_kernel_time(item).time_s

    def estimate_kernel_time(self, item: CostItem) -> KernelTime:
        """Return the time of one execution of a leaf op or fusion; raises HespasError."""
        work, content = item.work, item.find_traits(read_kernel, self.constants.sector_bytes)
        moved = work.read_bytes + work.write_bytes
        if content.attention is not None:
            attention = content.attention
            timed = estimate_attention_time(
                self.constants, attention, moved, self.attention_library
            )
            return self._delay_kernel(timed, attention.dtype, attention.flops, moved)
        if content.shapeless_flops:
            self.shapeless_kernels.add(_name_kernel(item.op))
        vector_s = self._compute_vector_s(content) + self._compute_loop_products_s(content)
        if content.traits.products:
            timed = self._estimate_products(content, moved, work.kind)
            hidden = OVERLAP * min(timed.time_s - timed.launch_s, vector_s)
            return replace(timed, time_s=timed.time_s + vector_s - hidden)
        return self._estimate_stream(work, content, vector_s)

    def _compute_vector_s(self, content: KernelContent) -> float:
        """Return the time in which the lanes issue the instructions of a kernel.

        Without an issue rate of the device, it is that of the operations, as in the roofline.
        Operations in double precision have lanes of their own, few on some devices.
        """
        flops: float = sum(content.vector_flops.values())
        double_flops = content.vector_flops.get("f64", 0)
        if self.constants.issue_per_flop:
            issue_s = self.constants.compute_issue_s(flops + content.traits.slots)
            issue_s = max(issue_s, self.constants.compute_dispatch_s(content.traits))
        else:
            issue_s = flops / self.node.find_peak_rate("vector", "f32").flops_per_s if flops else 0
        if not double_flops:
            return issue_s
        return max(issue_s, double_flops / self.node.find_peak_rate("vector", "f64").flops_per_s)

    def _compute_update_s(self, content: KernelContent, vector_s: float) -> float:
        """Return the time in which the lanes compute, and update elements in atomic operations.

        The slots of a sort contain its comparisons, which are among the operations of the work.
        """
        constants, passes = self.constants, content.passes
        if not (passes.slots or content.traits.lookups):  # as most kernels
            return vector_s
        cores = constants.count_cores()
        slots = sum(each.count_slots(cores * _CORE_THREADS) for each in content.traits.lookups)
        sort_s = constants.compute_issue_s(max(passes.slots, passes.row_slots * cores))
        return constants.compute_issue_s(slots) + (sort_s or vector_s)

    def _compute_loop_products_s(self, content: KernelContent) -> float:
        """Return the time of products whose results XLA computes one by one, in loops.

        Each multiply-add loads two elements, of which a core loads 32 in a clock, while it issues
        64 instructions of integers. On an A100, which then computes at most 4.9 TOP/s, products of
        int8 or int16 run at 4.6 to 5.1 TOP/s (jax-ml/jax#17688), and at 2.83 where neighbouring
        results read different rows of an operand (openxla/xla#7117).
        """
        flops = sum(product.flops for product in content.traits.loop_products)
        if not flops:
            return 0.0
        rate = self.node.peaks_flops.get("vector", {}).get("i32")
        rate = rate or _INTEGER_SHARE * self.node.find_peak_rate("vector", "f32").flops_per_s
        share = _STRIDED_SHARE if content.traits.strided_loop else 1.0
        return flops / (rate * _LOOP_SHARE * share)

    def describe_provenance(self) -> str:
        text = f"{self.node.describe_provenance()}, {self.constants.provenance}"
        if self.slowest_device is not None:
            text += f", {self.slowest_device.describe()}"
        if self.roofline.fallbacks:
            text += self.roofline.describe_provenance().removeprefix(
                self.node.describe_provenance()
            )
        if self.tag_counts:
            text += "; distinct kernels: " + ", ".join(
                f"{count} {tag}" for tag, count in sorted(self.tag_counts.items())
            )
        return text

    def list_device_rates(self) -> list[DeviceRate]:
        """List the clock, and the power limit if energies are known.

        At a higher clock all peak rates are higher, and so is the energy of an operation.
        """
        rates = [DeviceRate("clock", "clock", None, "", self._scale_clock)]
        power, limit_w = self.constants.power, self.node.tdp_w
        if power is not None and limit_w is not None:

            def scale_power(factor: float) -> CalibratedEstimator:
                node = replace(self.node, tdp_w=factor * limit_w)
                return CalibratedEstimator(replace(self.config, node=node))

            least = power.idle_w / limit_w
            rates.append(DeviceRate("power", "power", limit_w, "W", scale_power, least))
        return rates

    def _scale_clock(self, factor: float) -> CalibratedEstimator:
        """Return the estimator of a device with another clock."""
        node = self.node.scale_clock(factor)
        scaled = CalibratedEstimator(replace(self.config, node=node))
        constants = scaled.constants
        scaled.constants = replace(
            constants,
            core_bandwidth_bytes_per_s=constants.core_bandwidth_bytes_per_s * factor,
            power=constants.power.scale_clock(factor) if constants.power is not None else None,
        )
        return scaled

    def list_notes(self) -> list[str]:
        """Count the distinct kernels whose constants are uncertain, by tag."""
        return [
            f"{count} distinct {'kernel' if count == 1 else 'kernels'} {tag}: {TAG_MEANINGS[tag]}"
            for tag, count in sorted(self.tag_counts.items())
        ]

    def list_warnings(self) -> list[str]:
        """Name the kernels whose operations are known by their number only."""
        names = sorted(self.shapeless_kernels)
        if not names:
            return []
        more = f" and {len(names) - _SHOWN_KERNELS} more" if len(names) > _SHOWN_KERNELS else ""
        return [
            f"the operations of {', '.join(names[:_SHOWN_KERNELS])}{more} are declared without the "
            "shapes of their products: they count at the rate of large products, so the time is a "
            "lower bound"
        ]

    def _estimate_products(self, content: KernelContent, moved: int, kind: str) -> KernelTime:
        """Return the time of the products of one kernel, as one product with the largest shape."""
        shapes = content.traits.products
        largest = max(shapes, key=lambda shape: shape.flops)
        shape = replace(largest, flops=sum(shape.flops for shape in shapes))
        if kind == "conv":
            timed = estimate_convolution_time(self.constants, shape, moved)
        else:
            timed = estimate_product_time(
                self.constants,
                shape,
                moved,
                self.quantise,
                refetched_bytes=content.refetched_bytes,
                compiled=content.compiled,
            )
        return self._delay_kernel(timed, shape.dtype, shape.flops, moved)

    def _delay_kernel(
        self, timed: KernelTime, dtype: str, flops: float, moved: float
    ) -> KernelTime:
        """Return the time of a kernel on the slowest device of the job."""
        power = self.constants.power.select_type(dtype) if self.constants.power else None
        if self.slowest_device is None or power is None:
            return timed
        return self.slowest_device.delay_kernel(timed, power, flops, moved)

    def _estimate_stream(self, work: OpWork, content: KernelContent, vector_s: float) -> KernelTime:
        kind, traits = work.kind, content.traits
        moved = work.read_bytes + work.write_bytes
        if traits.rows is not None:
            timed = estimate_row_time(self.constants, *traits.rows, moved + traits.wasted_bytes)
            least_s = self.constants.compute_issue_s(traits.shared_row_slots)
            tags = (ASSUMED,) if traits.has_scores else ()
            time_s = max(timed.time_s, timed.launch_s + least_s)
            return replace(timed, time_s=time_s, compute_s=least_s, fit=timed.fit.with_tags(*tags))
        fit = self.constants.fits["stream.reduce" if kind == "reduction" else "stream.loop"]
        if content.passes.serial_s:
            fit = fit.with_range(1 / BAND_FACTOR, BAND_FACTOR).with_covered_tags(ASSUMED)
        elif kind not in MEASURED_KINDS or content.shapeless_flops or traits.has_scores:
            fit = fit.with_tags(ASSUMED)
        if traits.loop_products:
            fit = fit.with_range(1.0, BAND_FACTOR).with_covered_tags(ASSUMED)
        contention = max((each.contention for each in traits.lookups), default=1.0)
        if contention > 1:
            fit = fit.with_range(1.0, contention).with_covered_tags(CONTENTION)
        shapeless_s = estimate_shapeless_s(self.constants, content.shapeless_flops)
        return estimate_stream_time(
            self.constants,
            fit,
            _count_memory_bytes(content, self.constants.cache_bytes),
            shapeless_s + self._compute_update_s(content, vector_s / get_compute_share(kind)),
            blocks=traits.blocks,
            launches=max(content.passes.launches, traits.launches),
            serial_s=content.passes.serial_s,
        )

    def _build_banded_cost(self, base: Cost, latency_ns: float, low: float, high: float) -> Cost:
        """Return a cost with a time that is assumed, and its band as factors."""
        self.tag_counts[ASSUMED] += 1
        return replace(
            base,
            estimator=self.name,
            latency_ns=latency_ns,
            low_ns=latency_ns * low,
            high_ns=latency_ns * high,
            tag=ASSUMED,
        )

    def _build_cost(self, base: Cost, timed: KernelTime, kind: str) -> Cost:
        """Return the cost of the roofline with the time of the kernel and its band."""
        latency_ns = 1e9 * timed.time_s
        kernel_class = _name_kernel_class(timed, kind)
        band = estimate_kernel_band(timed, find_kernel_family(kernel_class))
        return replace(
            base,
            estimator=self.name,
            latency_ns=latency_ns,
            bound=timed.bound,
            low_ns=latency_ns * band.low,
            high_ns=latency_ns * band.high,
            tag=" ".join(sorted(timed.tags)) or None,
            kernel_class=kernel_class,
            shared_low_ns=latency_ns * band.shared_low,
            shared_high_ns=latency_ns * band.shared_high,
            slowest_device=timed.slowest_device if timed.slowest_device != 1.0 else None,
        )


def _name_kernel(op: ir.Operation) -> str:
    target = get_call_target(op) if op.name in CUSTOM_CALLS else ""
    return find_kernel_name(op) or target or op.name


def _count_memory_bytes(content: KernelContent, cache_capacity_bytes: int) -> float:
    """Return the bytes that a kernel moves, or those of the cache if these take longer."""
    moved_bytes = content.passes.moved_bytes + content.traits.wasted_bytes
    extra = [each.count_extra_bytes(cache_capacity_bytes) for each in content.traits.lookups]
    return max(
        moved_bytes + sum(memory_bytes for memory_bytes, _ in extra),
        (moved_bytes + sum(cache_bytes for _, cache_bytes in extra)) / CACHE_SPEEDUP,
    )


def _find_slowest_device(constants: DeviceConstants, devices: int) -> SlowestDevice | None:
    """Return the slowest device of a job; None for one device, or if no power limit is known."""
    if devices < 2 or constants.power is None:
        return None
    return SlowestDevice.from_job(constants.same_chip, devices)


def _name_kernel_class(timed: KernelTime, kind: str) -> str:
    """Return the class of a kernel; attention and convolutions may use constants of others."""
    name = timed.fit.name.rpartition(" ")[2]
    if kind == "conv":
        return "product.convolution"
    return kind if kind == "attention" and not name.endswith(kind) else name


@dataclass(frozen=True, slots=True)
class KernelBand:
    """The ends of the 80 % band as factors of the time: of all errors, and of the shared ones.

    The error of a kernel's own is that of held-out shapes of the same table (``ErrorBand``). It
    differs from kernel to kernel and averages out in a step. The error that it shares with its
    family (``configs.source_errors``) is what the table itself may be wrong by on another board, at
    another clock, or with another library. All kernels of a family have it at once, so it stays in
    the sum. Both are independent of each other.
    """

    low: float
    high: float
    shared_low: float
    shared_high: float


def list_error_causes(timed: KernelTime) -> frozenset[str]:
    """Return the causes of the error that a kernel shares with its family.

    A compiler's estimate was compared with measurements, so it needs no second source.
    """
    causes = timed.fit.causes | timed.error_tags
    return causes if COMPILER in causes else causes | {"source"}


def estimate_kernel_band(timed: KernelTime, family: str) -> KernelBand:
    """Return the band of a kernel of a family of ``configs.source_errors``."""
    shared = find_shared_error(family, list_error_causes(timed))
    if timed.slowest_device != 1.0:
        shared = combine_independent((shared, timed.slowest_ends))
    low, high = combine_independent((timed.fit.band.get_log_ends_at(timed.time_s), shared))
    return KernelBand(*map(math.exp, (low, high, *shared)))


@dataclass(frozen=True, slots=True)
class KernelContent:
    """What a kernel does, on all devices with sectors of one size.

    Attributes:
        traits: Its traits.
        attention: The shape of an attention call; None for other kernels.
        vector_flops: The operations on the vector unit, by type.
        shapeless_flops: The operations on the matrix unit that are in no product, by type.
        passes: The bytes that all its passes over the data move, and their launches.
        refetched_bytes: The bytes that a product reads again; None if they are not known.
        compiled: Whether XLA chose the kernel of a product.
    """

    traits: KernelTraits
    attention: AttentionShape | None
    vector_flops: Mapping[str, int]
    shapeless_flops: Mapping[str, int]
    passes: DataPasses
    refetched_bytes: int | None
    compiled: bool


def read_kernel(item: CostItem, sector_bytes: int) -> KernelContent:
    """Read a leaf op or fusion for devices with sectors of ``sector_bytes``; raises HespasError."""
    op, work = item.op, item.work
    traits = collect_traits(op, work, sector_bytes)
    products = [*traits.products, *traits.loop_products]
    compiled = item.compiler_estimate
    return KernelContent(
        traits,
        read_attention_shape(op, work) if work.kind == "attention" else None,
        count_other_flops(work, products, "vector"),
        count_other_flops(work, products),
        count_data_passes(op, work, is_gpu=sector_bytes > 0),
        compiled.refetched_bytes if compiled is not None else None,
        bool(traits.products) and _is_kernel_of_xla(op),
    )


def _is_kernel_of_xla(op: ir.Operation) -> bool:
    """Return whether a product is one of XLA's kernels: a fusion of Triton, or a call of cuBLAS.

    ``--fuse`` makes the fusions that XLA would.
    """
    if op.name == FUSION:
        return "kCustom" in str(op.attributes["fusion_kind"])
    return op.name in CUSTOM_CALLS and get_call_target(op).startswith("__cublas")
