"""The time of each class of kernels, from the constants of a device and the sizes of the kernel."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Self

from hespas.configs.node_spec import NodeSpec
from hespas.configs.source_errors import ErrorCause, LogEnds
from hespas.estimators.calibrated.attention_library import AttentionLibrary
from hespas.estimators.calibrated.attention_shape import AttentionShape
from hespas.estimators.calibrated.device_constants import (
    ASSUMED,
    BATCHED,
    COMPILED,
    EXTRAPOLATED,
    SUSTAINED,
    TRANSFERRED,
    DeviceConstants,
    KernelFit,
)
from hespas.estimators.product_shapes import MatrixProduct

SCALED_F4_BYTES = 9 / 16  # of an element of 4 bits with its share of a scale of 8 bits
# The classes of products that quantise their left operand, and the bytes that they move for each of
# its elements besides. For 8 bits, two bytes are read for the scale, and again to convert. For 4
# bits the scale of the array is known: two bytes are read, and the values written with a scale for
# each 16 (collector/vllm/collect_gemm.py of ai-dynamo/aiconfigurator).
QUANTISE_BYTES = {"f8_quantised": 4.0, "f4_quantised": 2 + SCALED_F4_BYTES}
COMPILER: ErrorCause = "compiler"  # constants from a compiler's estimates
OVERLAP = 0.95  # kMemoryComputeParallelism of XLA's gpu_performance_model_base
_LEAST_TILE = 32  # columns and inner elements of a tile: fewer of them take as long
_BITS = {  # bits of an element
    "f64": 64, "f32": 32, "tf32": 32, "bf16": 16, "f16": 16, "f8": 8, "f6": 6, "f4": 4,
    "i64": 64, "i32": 32, "i16": 16, "i8": 8, "i4": 4, "i2": 2, "i1": 8,
}  # fmt: skip
# The elements whose multiples the rows of a product have after XLA's pass GemmPad.
_ALIGNED_ELEMENTS = {"bf16": 8, "f16": 8, "f8": 16, "i8": 4}
# Convolutions with one channel for each group reach this share of the bandwidth of others: 32
# channels of 512 x 512 in f32 take 1.02 ms on a Titan Xp, of 547 GB/s (pytorch/pytorch#18631). The
# share of more channels is assumed to grow with this power of their number.
_DEPTHWISE_SHARE, _DEPTHWISE_POWER = 0.28, 0.61
# The types that bound the time of others; the chains end at bf16, which has a table.
_AT_MOST = {
    "f4": "f6", "f6": "f8", "f8": "bf16", "f16": "bf16",
    "i1": "i8", "i2": "i4", "i4": "i8", "i8": "bf16",
}  # fmt: skip
_AT_LEAST = {"f64": "f32", "f32": "tf32", "tf32": "bf16"}
_NEXT_TYPES = {**_AT_MOST, **_AT_LEAST}
_BELOW_F32 = frozenset(("tf32", "bf16", "f16"))


@dataclass(frozen=True, slots=True)
class KernelTime:
    """The time of a kernel, its components, and the fit that it was computed with.

    Attributes:
        slowest_device: The factor in ``time_s`` for the slowest of the devices of a job.
        slowest_ends: The 80 % interval of the logarithm of the factor over the expected one.
        power_slowdown: The factor in ``time_s`` of the power limit, at least 1.
    """

    time_s: float
    compute_s: float
    memory_s: float
    launch_s: float
    fit: KernelFit
    extrapolated: bool = False
    slowest_device: float = 1.0
    slowest_ends: LogEnds = (0.0, 0.0)
    power_slowdown: float = 1.0

    @property
    def tags(self) -> frozenset[str]:
        """The tags of the estimate."""
        return self.error_tags | self.fit.covered_tags

    @property
    def error_tags(self) -> frozenset[str]:
        """The tags that are causes of errors of their own."""
        return self.fit.tags | {EXTRAPOLATED} if self.extrapolated else self.fit.tags

    @property
    def bound(self) -> str:
        """The bound of the kernel."""
        if self.launch_s > self.time_s / 2:
            return "launch"
        if self.power_slowdown > 1:
            return "power"
        return "compute" if self.compute_s > self.memory_s else "memory"

    def slow_down(self, slowdown: float, contained: float, fit: KernelFit) -> Self:
        """Return the time at the power limit, at least that of the operations at the peak rate.

        Args:
            slowdown: The factor of the power limit on the time at full clock.
            contained: The part of it that this time contains already.
            fit: The fit with the tags and causes of both.
        """
        least_s = self.compute_s * self.fit.efficiency
        time_s = max(self.time_s * slowdown / contained, least_s)
        return replace(self, time_s=time_s, fit=fit, power_slowdown=slowdown)


@dataclass(frozen=True, slots=True)
class _ProductConditions:
    """What the time of a product depends on besides its shape, as ``estimate_product_time``."""

    quantise: bool = False
    sustained: bool = True
    compiled: bool = False
    refetched_bytes: int | None = None


def find_quantise_bytes(name: str) -> float:
    """Return the bytes that a class moves for each element of an operand that it quantises."""
    return next((moved for kind, moved in QUANTISE_BYTES.items() if name.endswith(kind)), 0.0)


def estimate_product_time(
    constants: DeviceConstants,
    shape: MatrixProduct,
    moved_bytes: float,
    quantise: bool = False,
    *,
    sustained: bool = True,
    refetched_bytes: int | None = None,
    compiled: bool = False,
) -> KernelTime:
    """Return the time of the kernel of a matrix product.

    A type without a table uses that of bf16 with an inner dimension of the same size in bytes. The
    tables are measurements, which need not be monotone in the sizes, so a time that was not
    measured is bounded by that of the next type (``_NEXT_TYPES``).

    Args:
        moved_bytes: The bytes that the kernel reads and writes.
        quantise: Whether the kernel of a product of 8 or 4 bits first quantises its left operand.
        sustained: Whether the board is at its power limit, as in a training step, where this was
            measured; otherwise the kernel runs alone.
        refetched_bytes: The bytes that the kernel reads again besides; None if they are not known.
        compiled: Whether XLA chose the kernel; otherwise a library does, as in an eager framework.
    """

    def find_rate(node: NodeSpec) -> float:
        return node.find_peak_rate("matrix", shape.dtype).flops_per_s

    conditions = _ProductConditions(quantise, sustained, compiled, refetched_bytes)
    time = _estimate_at_rate(constants, shape, moved_bytes, find_rate, conditions)
    return _add_alignment_copies(constants, shape, time)


def _add_alignment_copies(
    constants: DeviceConstants, shape: MatrixProduct, time: KernelTime
) -> KernelTime:
    """Add the copies that align the rows of operands and result, where these are not aligned.

    The fast kernels of cuBLAS need rows of whole multiples of 16 bytes. XLA pads the operands of
    narrow types, and slices the result (its pass GemmPad, to the multiples of
    ``_ALIGNED_ELEMENTS``), unless a kernel without padding is faster, so this is an upper limit. On
    Hopper a product with 588 inner elements takes 3.5 times as long as one with 592 without padding
    (m87-labs/kestrel pull request 143); NVIDIA's guide to linear layers names 1.3 to 4 times.
    Products narrower than a tile have no copies: memory bounds them, and their rows fill no tile
    anyway, so the kernel without padding wins (assumed).
    """
    elements = _ALIGNED_ELEMENTS.get(_resolve_rate(constants.node, shape.dtype)[1])
    if elements is None or not constants.sector_bytes:  # XLA pads for GPUs
        return time
    if min(shape.m, shape.n) < _LEAST_TILE:
        return time
    lhs, rhs, result = shape.m * shape.k, shape.k * shape.n, shape.m * shape.n
    bits = shape.in_bits or _BITS[shape.dtype]
    copies = []
    if shape.k % elements and shape.k >= elements:
        copies = [lhs * bits, rhs * bits]
    if shape.n % elements:
        copies = [*copies[:1], rhs * bits, result * (shape.out_bits or bits)]
    if not copies:
        return time
    # Each is read and written, by the kernels before and after the product.
    moved_bytes = 2 * shape.count * sum(copies) / 8
    stream = constants.fits["stream.loop"]
    bandwidth = stream.bandwidth * constants.node.memory_bandwidth_bytes_per_s
    return replace(
        time, time_s=time.time_s + moved_bytes / bandwidth, fit=time.fit.with_tags(ASSUMED)
    )


def _estimate_at_rate(
    constants: DeviceConstants,
    shape: MatrixProduct,
    moved_bytes: float,
    find_rate: Callable[[NodeSpec], float],
    conditions: _ProductConditions,
) -> KernelTime:
    """Return the time of a product at the peak rate that ``find_rate`` returns for a node.

    A type in ``_AT_MOST`` takes at most the time of the next one at the lower of both rates. One in
    ``_AT_LEAST`` takes at least that at the higher of both. Time thus never grows with a rate. One
    in ``_BELOW_F32`` takes at most the time of the f32 product, where that was measured, here or
    on the board whose constants it has.
    """
    node = constants.node
    unit, key = _resolve_rate(node, shape.dtype)
    time = _estimate_type_time(constants, shape, moved_bytes, find_rate, conditions)
    next_key = _NEXT_TYPES.get(key, "")
    while next_key and _resolve_rate(node, next_key) == (unit, key):
        next_key = _NEXT_TYPES.get(next_key, "")
    if conditions.quantise or time.tags.isdisjoint((TRANSFERRED, EXTRAPOLATED)):
        return time
    time_s = time.time_s
    if key in _BELOW_F32 and ASSUMED not in constants.fits["product.f32"].tags:

        def find_f32_rate(node: NodeSpec) -> float:
            return min(find_rate(node), node.find_peak_rate("matrix", "f32").flops_per_s)

        f32_time = _estimate_type_time(
            constants,
            replace(shape, dtype="f32"),
            moved_bytes,
            find_f32_rate,
            replace(conditions, refetched_bytes=None),
        )
        time_s = min(time_s, f32_time.time_s)
    if not next_key:
        return replace(time, time_s=time_s)
    choose = max if key in _AT_LEAST else min

    def find_next_rate(node: NodeSpec) -> float:
        return choose(find_rate(node), node.find_peak_rate("matrix", next_key).flops_per_s)

    if choose is min:  # with the bytes of the wider operands, as the times of the type are measured
        wider_bits = max(_BITS[next_key] - _BITS[key], 0)
        moved_bytes += shape.count * shape.k * (shape.m + shape.n) * wider_bits / 8
    shape = replace(shape, dtype=next_key)
    other = _estimate_at_rate(constants, shape, moved_bytes, find_next_rate, conditions)
    return replace(time, time_s=choose(time_s, other.time_s))


def _estimate_type_time(
    constants: DeviceConstants,
    shape: MatrixProduct,
    moved_bytes: float,
    find_rate: Callable[[NodeSpec], float],
    conditions: _ProductConditions,
) -> KernelTime:
    """Return the time of a product by the constants of its type alone."""
    node = constants.node
    unit, key = _resolve_rate(node, shape.dtype)
    sustained, refetched_bytes = conditions.sustained, conditions.refetched_bytes
    variants = _list_variants(shape.count, conditions)
    fit, bits = _select_product_fit(constants.fits, unit, key, conditions.quantise, variants)
    k = shape.k * _BITS[key] / bits
    padding = 1.0
    if fit.residual is not None:  # a kernel of a GPU, with tiles
        padded = replace(shape, n=max(shape.n, _LEAST_TILE), k=max(shape.k, _LEAST_TILE))
        moved_bytes += _count_operand_bytes(padded, key) - _count_operand_bytes(shape, key)
        padding = padded.n * padded.k / (shape.n * shape.k)
        k *= padded.k / shape.k
    moved_bytes += find_quantise_bytes(fit.name) * shape.count * shape.m * shape.k
    read_bytes = moved_bytes
    if refetched_bytes is not None and fit.windowed_efficiency is not None:
        fit = replace(fit, efficiency=fit.windowed_efficiency)
        read_bytes += refetched_bytes
    timed = _TimedProduct(
        shape, k, moved_bytes, read_bytes, find_rate, padding, constants.cache_bytes
    )
    return (
        _limit_power(constants, fit, timed, key, bits) if sustained else timed.estimate(node, fit)
    )


def estimate_convolution_time(
    constants: DeviceConstants, shape: MatrixProduct, moved_bytes: float
) -> KernelTime:
    """Return the time of a convolution, as that of its implicit product.

    The correction table, which contains linear layers, is not applied. The tag is ``assumed``,
    because convolutions were not measured. Grouped ones of few channels, such as depthwise ones,
    waste most of each access on GPUs.
    """

    def find_rate(node: NodeSpec) -> float:
        return node.find_peak_rate("matrix", shape.dtype).flops_per_s

    fit, bits = _select_product_fit(constants.fits, *_resolve_rate(constants.node, shape.dtype))
    read_bytes = moved_bytes
    if shape.count > 1 and constants.sector_bytes:
        read_bytes /= min(_DEPTHWISE_SHARE * shape.n**_DEPTHWISE_POWER, 1.0)
    timed = _TimedProduct(shape, shape.k, moved_bytes, read_bytes, find_rate)
    time = _limit_power(constants, fit.without_correction(), timed, shape.dtype, bits)
    return replace(time, fit=time.fit.with_tags(ASSUMED))


@dataclass(frozen=True, slots=True)
class _TimedProduct:
    """A product whose time at full clock follows from a fit, on any board.

    Attributes:
        shape: Its sizes and operations.
        k: Its inner dimension in elements of the type of the fit.
        moved_bytes: The bytes that it reads and writes.
        read_bytes: The same with those that it reads again.
        find_rate: Finds the peak rate on a node.
        padding: The operations of the kernel over those of the product.
        cache_bytes: The capacity of the last-level cache; 0 if unknown.
    """

    shape: MatrixProduct
    k: float
    moved_bytes: float
    read_bytes: float
    find_rate: Callable[[NodeSpec], float]
    padding: float = 1.0
    cache_bytes: int = 0

    def estimate(self, node: NodeSpec, fit: KernelFit) -> KernelTime:
        """Return the time on a board with the shares of its rates that the fit reaches."""
        compute_s = self.shape.flops / self.find_rate(node)
        memory_s = self.read_bytes / node.memory_bandwidth_bytes_per_s
        time_s = fit.fixed_s + fit.compute_busy_s(self.padding * compute_s, memory_s, self.k)
        time_s, outside = fit.apply_correction(time_s, *_locate_in_table(fit, self.shape, self.k))
        if outside and fit.name.endswith(COMPILED) and self.read_bytes > self.cache_bytes:
            # The operands of the measured products are partly in the cache.
            time_s = max(time_s, fit.fixed_s + memory_s / fit.bandwidth)
        return _build_kernel_time(fit, time_s, compute_s, memory_s, outside)

    def is_equal_on(self, node: NodeSpec, other: NodeSpec) -> bool:
        """Return whether two boards have the rate and bandwidth that the time depends on."""
        return (
            node.memory_bandwidth_bytes_per_s == other.memory_bandwidth_bytes_per_s
            and self.find_rate(node) == self.find_rate(other)
        )


def _resolve_rate(node: NodeSpec, key: str) -> tuple[str, str]:
    """Return the unit and the type whose peak rate products of a type use."""
    unit, dot, rate_key = node.find_peak_rate("matrix", key).via.partition(".")
    return (unit, rate_key) if dot else ("matrix", key)


def _build_kernel_time(
    fit: KernelFit, time_s: float, compute_s: float, memory_s: float, outside: bool = False
) -> KernelTime:
    """Build the time of a kernel, which is at least that of its operations at the peak rate."""
    at_rate = (compute_s / fit.efficiency, memory_s / fit.bandwidth)
    return KernelTime(max(time_s, compute_s), *at_rate, fit.fixed_s, fit, outside)


def _limit_power(
    constants: DeviceConstants, fit: KernelFit, timed: _TimedProduct, key: str, bits: int
) -> KernelTime:
    """Return the time of a product at the power limit of the board.

    At full clock a product takes the time of a burst. The limit lengthens it by the slowdown that
    the energies give, and by what the product took longer than so on the board on which it was
    timed at the limit:

        burst x slowdown x (sustained / (burst x slowdown) on the measured board)

    The last factor does not depend on the rates and the limit of this board. Therefore time never
    grows with a rate or the limit, and at those of the measured board it is the measured time.
    Without a table at the limit, the factor is one over the slowdown that long bursts contain.

    Args:
        constants: The constants of the board.
        fit: The class of the product.
        timed: The product.
        key: Its type.
        bits: The bits of the type of the fit, whose energies apply to a type without energies of
            its own.
    """
    node, board, at_limit = constants.node, fit.board, fit.name.endswith(SUSTAINED)
    flops, moved = float(timed.shape.flops), timed.moved_bytes
    limit = constants.power
    if COMPILER in fit.causes:  # cycles at the nominal clock
        return timed.estimate(node, fit)
    power = limit.select_type(key) if limit is not None else None
    if not at_limit:
        time = timed.estimate(node, fit)
        if power is None:
            return replace(time, fit=fit.with_cause("burst"))
        slowdown = power.compute_slowdown(flops, moved, time.time_s)
        contained = 1.0
        if board is not None and board.power is not None:
            burst_s = timed.estimate(board.node, fit).time_s
            burst_power = board.power.select_type(key) or board.power
            contained = burst_power.compute_burst_slowdown(flops, moved, burst_s)
        # The energy of 8-bit operations was measured on one board only, at a limit of its own.
        tags = power.tags if key in ("bf16", "f16") else frozenset((TRANSFERRED,))
        return time.slow_down(slowdown, contained, _mark_power_limit(fit, tags, slowdown))
    timed_flops = flops * _BITS[key] / bits  # of the kernel of the table
    if power is None:
        power, flops = limit, timed_flops
    if board is None or board.power is None or power is None:
        return timed.estimate(node, fit)
    burst = fit.burst or fit
    if timed.is_equal_on(node, board.node) and (power, flops) == (board.power, timed_flops):
        time = timed.estimate(node, fit)
        full_s = timed.estimate(node, burst).time_s
        return replace(time, power_slowdown=power.compute_slowdown(flops, moved, full_s))
    time = timed.estimate(node, burst)
    slowdown = power.compute_slowdown(flops, moved, time.time_s)
    full_s, sustained_s = (timed.estimate(board.node, each).time_s for each in (burst, fit))
    measured = board.power.compute_slowdown(timed_flops, moved, full_s)
    return time.slow_down(
        slowdown, full_s * measured / sustained_s, _mark_power_limit(burst, power.tags, slowdown)
    )


def _mark_power_limit(fit: KernelFit, tags: frozenset[str], slowdown: float) -> KernelFit:
    """Return the fit of a kernel that the power slows, with the error of the energies.

    Energies without tags were fitted to kernels of the board at its limit, and have no such error.
    """
    if not tags:
        return fit
    fit = fit.with_cause("power limit")
    return fit if slowdown == 1.0 else replace(fit, covered_tags=fit.covered_tags | tags)


def _list_variants(count: int, conditions: _ProductConditions) -> tuple[str, ...]:
    """Return the suffixes of the classes of a product, the most specific one first."""
    compiled = (COMPILED,) if conditions.compiled else ()
    batched = (BATCHED,) if count > 1 else ()
    sustained = (SUSTAINED,) if conditions.sustained else ()
    return (*compiled, *batched, *sustained, "")


def _count_operand_bytes(shape: MatrixProduct, key: str) -> float:
    """Count the bytes of the operands and results of a product, as far as padding changes them."""
    bits = _BITS[key]
    elements = shape.k * (shape.m + shape.n) + shape.m * shape.n
    return shape.count * elements * (shape.in_bits or bits) / 8


def _locate_in_table(fit: KernelFit, shape: MatrixProduct, k: float) -> tuple[float, float, float]:
    """Return the sizes (m, n, k) at which the correction table is read for a product.

    A batch counts as rows. If m or n exceeds the table, half of the excess, in the logarithm, is
    moved to the other, because the number of tiles depends on m n. Fewer columns than the table has
    are those of its edge: the transposed product was measured, but takes up to 1.6 times as long.
    """
    m, n = shape.count * shape.m, shape.n
    if fit.residual is None or fit.name.endswith(BATCHED):
        return m, n, k
    high_m, high_n = (2 ** knots[-1] for knots in fit.residual.knots[:2])
    if m > high_m:
        n = max(n, min(n * math.sqrt(m / high_m), high_n))
    elif n > high_n:
        m = max(m, min(m * math.sqrt(n / high_n), high_m))
    return m, n, k


def _select_product_fit(
    fits: Mapping[str, KernelFit],
    unit: str,
    key: str,
    quantise: bool = False,
    variants: Sequence[str] = (SUSTAINED, ""),
) -> tuple[KernelFit, int]:
    """Return the fit for products of a type on a unit, and the bits of the measured type."""

    def find_fit(dtype: str) -> KernelFit | None:
        keys = (f"product.{dtype}{variant}" for variant in variants)
        return next((fits[key] for key in keys if key in fits), None)

    bits = _BITS[key]
    if quantise and f"product.{key}_quantised" in fits:
        return fits[f"product.{key}_quantised"], bits
    if unit == "vector" or key in ("f32", "f64"):
        fit = fits["product.f32"]
        return (fit if key == "f32" else fit.with_tags(TRANSFERRED)), 32
    own_fit = find_fit(key)
    if own_fit is not None:
        return own_fit, bits
    fit = find_fit("bf16") or fits["product.bf16"]
    return (fit if key == "f16" else fit.with_tags(TRANSFERRED)), 16


def estimate_shapeless_s(constants: DeviceConstants, flops: Mapping[str, int]) -> float:
    """Return the seconds of matrix operations, by type, of products without a known shape.

    They run at the share of the peak rate that large products reach.
    """
    total_s = 0.0
    for key, count in flops.items():
        fit, _ = _select_product_fit(constants.fits, *_resolve_rate(constants.node, key))
        total_s += count / (
            fit.efficiency * constants.node.find_peak_rate("matrix", key).flops_per_s
        )
    return total_s


def estimate_attention_time(
    constants: DeviceConstants,
    shape: AttentionShape,
    moved_bytes: float,
    library: AttentionLibrary | None = None,
) -> KernelTime:
    """Return the time of one fused attention call of a library; None: cuDNN.

    A backward call takes as long as a forward call of as many operations, but for the launch times
    the factor of the fit. It takes no less than one of the next smaller heads that were measured:
    where the time hardly grows with the heads, a smaller factor of larger ones does not count. Its
    tag is ``transferred`` without such a factor, and in types other than 16-bit ones, and
    ``extrapolated`` for other sizes than those of the factor.
    Calls with one query for each sequence, which decode, have a class of their own.
    """
    is_decoding = shape.queries == 1 and shape.streams > 0 and not shape.backward
    if library is not None and library.cudnn_factors and not is_decoding:
        time = estimate_attention_time(constants, shape, moved_bytes)
        factor, outside = library.find_cudnn_factor(shape)
        return replace(time, time_s=factor * time.time_s, extrapolated=time.extrapolated or outside)
    if library is not None and not is_decoding:
        return _estimate_library_attention(constants, shape, moved_bytes, library)
    fit = constants.fits["decode_attention" if is_decoding else "attention"]

    def estimate_on(node: NodeSpec) -> KernelTime:
        compute_s = shape.flops / node.find_peak_rate("matrix", shape.dtype).flops_per_s
        memory_s = moved_bytes / node.memory_bandwidth_bytes_per_s
        time_s, outside = _estimate_attention_s(fit, shape, compute_s, memory_s)
        return _build_kernel_time(fit, time_s, compute_s, memory_s, outside)

    time = estimate_on(constants.node)
    power, board = constants.power, fit.board
    if power is not None and shape.dtype in ("bf16", "f16"):
        slowdown = power.compute_slowdown(shape.flops, moved_bytes, time.time_s)
        if slowdown > 1 and board is not None and board.power is not None:
            # The limit of the measured boards does not slow attention (B200 in aiconfigurator).
            board_s = estimate_on(board.node).time_s
            measured = board.power.compute_slowdown(shape.flops, moved_bytes, board_s)
            slowdown = max(slowdown / measured, 1.0)
        if slowdown > 1:
            fit = _mark_power_limit(fit, power.tags, slowdown)
            time = time.slow_down(slowdown, 1.0, fit)
    if shape.backward and fit.backward is not None:
        fit = fit.with_tags(*fit.backward_tags)
    if shape.backward and (fit.backward is None or shape.dtype not in ("bf16", "f16")):
        fit = fit.with_tags(TRANSFERRED)
    return replace(time, fit=fit)


def _estimate_attention_s(
    fit: KernelFit, shape: AttentionShape, compute_s: float, memory_s: float
) -> tuple[float, bool]:
    """Return the seconds of a call at full clock, and whether its sizes lie outside the tables."""
    time_s, outside = _estimate_forward_s(fit, shape, compute_s, memory_s)
    backward = fit.backward
    if not shape.backward or backward is None:
        return time_s, outside
    sizes = (shape.queries, shape.head_size)
    launch_s = min(fit.fixed_s, time_s)
    time_s = launch_s + (time_s - launch_s) * math.exp(backward.interpolate_at(*sizes))
    for smaller in [size for size in backward.list_knots(1) if size < shape.head_size]:
        part = smaller / shape.head_size
        alike = replace(shape, head_size=smaller, flops=round(part * shape.flops))
        least_s, _ = _estimate_forward_s(fit, alike, part * compute_s, part * memory_s)
        factor = math.exp(backward.interpolate_at(shape.queries, smaller))
        time_s = max(time_s, launch_s + (least_s - launch_s) * factor)
    return time_s, outside or bool(backward.list_axes_outside(*sizes))


def _estimate_forward_s(
    fit: KernelFit, shape: AttentionShape, compute_s: float, memory_s: float
) -> tuple[float, bool]:
    """Return the seconds of a forward call of as many operations, and whether it is outside."""
    is_decoding = fit.name.endswith("decode_attention")
    point = (
        (shape.streams, shape.keys, shape.head_size)
        if is_decoding
        else (shape.heads, shape.queries, shape.head_size)
    )
    busy_s = fit.compute_busy_s(compute_s, memory_s)
    return fit.apply_correction(fit.fixed_s + busy_s, *point)


def _estimate_library_attention(
    constants: DeviceConstants, shape: AttentionShape, moved_bytes: float, library: AttentionLibrary
) -> KernelTime:
    """Return the time of a call of a library other than cuDNN, with the band of cuDNN's.

    The time of a library that was not measured is that of another one on the same board, whose
    error is that of another source.
    """
    compute_s = shape.flops / constants.node.find_peak_rate("matrix", shape.dtype).flops_per_s
    memory_s = moved_bytes / constants.node.memory_bandwidth_bytes_per_s
    time_s, outside = library.estimate_time(shape)
    fit = KernelFit(
        f"{library.name} attention",
        0.0,
        1.0,
        constants.fits["attention"].band,
        efficiency=compute_s / time_s if time_s else 1.0,
        covered_tags=frozenset(() if library.is_measured else (TRANSFERRED,)),
    )
    return _build_kernel_time(fit, time_s, compute_s, memory_s, outside)


def estimate_row_time(
    constants: DeviceConstants, kind: str, columns: int, rows: int, moved: float
) -> KernelTime:
    """Return the time of a ``softmax`` or ``layer_norm`` kernel over rows of ``columns``."""
    fit = constants.fits[f"stream.{kind}"]
    memory_s = moved / constants.node.memory_bandwidth_bytes_per_s
    time_s, outside = fit.apply_correction(
        fit.fixed_s + fit.compute_busy_s(0.0, memory_s), columns, rows
    )
    return _build_kernel_time(fit, max(time_s, constants.launch_s), 0.0, memory_s, outside)


def estimate_stream_time(
    constants: DeviceConstants,
    fit: KernelFit,
    moved_bytes: float,
    compute_s: float = 0.0,
    *,
    blocks: int | None = None,
    launches: int = 1,
    serial_s: float = 0.0,
) -> KernelTime:
    """Return the time of a kernel that streams data, from its launches, memory and compute.

    Memory and compute overlap as in XLA's model. On an NVIDIA GPU the launch of a kernel overlaps
    with the run of the one before, so that a kernel takes the time to start, its data and its
    steps, or the time of a launch if that is longer.

    Args:
        blocks: How many blocks run at the same time, each on one core; None if all cores are used.
            It counts if the bandwidth of a core is known.
        launches: The number of kernels.
        serial_s: The seconds of steps that depend on each other, beside the launches.
    """
    bandwidth = constants.node.memory_bandwidth_bytes_per_s * fit.bandwidth
    if blocks is not None and constants.core_bandwidth_bytes_per_s:
        bandwidth = min(bandwidth, blocks * constants.core_bandwidth_bytes_per_s)
    memory_s = moved_bytes / bandwidth
    busy_s = memory_s + compute_s - OVERLAP * min(memory_s, compute_s) + serial_s
    launch_s = constants.launch_s
    start_s = min(fit.fixed_s, launch_s) if constants.clock_hz else launch_s
    time_s = max(launches * launch_s, launches * start_s + busy_s)
    return KernelTime(time_s, compute_s, memory_s, time_s - busy_s + serial_s, fit)
