"""Fitting the kernel model to measurements: five constants, and a correction table on top.

The constants minimise the mean absolute logarithm of estimate over measurement on 60 % of the
shapes, chosen by their hash. The correction is piecewise linear in the logarithms of the sizes. Its
values minimise the same residuals; penalties on second differences and on the values themselves
make a knot without data follow its neighbours. The other shapes are held out: all of them give the
error of the fit, half of them the width of the band, and the other half test the band.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from hespas.configs.calibration import AXES
from hespas.estimators.calibrated.device_constants import BATCHED
from hespas.estimators.calibrated.kernel_times import QUANTISE_BYTES, find_quantise_bytes
from hespas.workflows.calibration.measurement_tables import (
    BANDS,
    LEAST_S,
    TRAIN,
    KernelMeasurement,
    describe_kernel,
    is_cached_stream,
)

# Inner knots of each axis, used within the range of the data; the end knots are its range.
_KNOTS: dict[str, tuple[int, ...]] = {
    "m": (1, 16, 64, 128, 256, 512, 1024, 2048, 4096, 8192, 32768),
    "n": (32, 128, 512, 1024, 2048, 4096, 8192, 16384, 65536),
    "k": (32, 128, 512, 1024, 2048, 4096, 8192, 16384, 65536),
    "heads": (1, 4, 16, 64, 256, 1024, 4096),
    "queries": (2, 16, 64, 256, 512, 1024, 2048, 4096, 8192, 16384),
    "head_size": (64, 128, 256),
    "streams": (1, 4, 16, 64, 256, 1024),
    "keys": (1, 16, 128, 512, 1024, 2048, 4096, 8192, 16384, 32768, 65536),
    "columns": (512, 724, 1024, 1030, 1448, 2048, 4096, 8192, 16384),
    "rows": (4096, 8192, 16384, 65536, 1048576, 4194304),
}
# Batched products have few measurements, in a wider range of rows.
_KNOTS_BY_CLASS: dict[str, dict[str, tuple[int, ...]]] = {
    f"product.bf16{BATCHED}": {"m": (16, 128, 1024, 4096, 16384, 65536, 262144, 1048576)}
}
_SMOOTH, _SMALL = 0.3, 0.03  # weights of second differences and of values in the correction
# vLLM's layers in 8 bits take less time with more rows in 5 % of neighbouring rows of its tables,
# by up to 49 % (H100: 257 x 51200 x 7168 in 541 us, 512 x 51200 x 7168 in 276 us): they may fall.
_MEASURED_TO_FALL = tuple(QUANTISE_BYTES)
_PROJECTIONS, _CONVERGED = 300, 1e-5  # of the correction to one with which no time falls
# Classes that other boards and types use too: with these shares of the times of operations and of
# bytes, and of the bytes. Boards with L4's table are faster than it, and products in bf16 on V100's
# vector units have half of the bytes.
_BORROWED = {"product.f32": ((0.25, 1.0), (1.0, 0.5))}
_PARTS = 8  # of an interval of knots, whose flattest one limits how fast a correction falls
_TOLERANCE = 0.002  # by which the logarithm of a time may fall in an interval
_ROUNDS, _LEAST_RESIDUAL = 6, 0.02  # of reweighting; smaller residuals get equal weights
_BAND_STEPS_S = (3e-6, 1e-5, 3e-5, 1e-4, 1e-3)  # upper ends of the steps of the band
_BAND_POINTS = 40  # a step with fewer points is merged into the next
_MOST_EAGER_S = 30e-6  # limit of the launch time of an eager kernel
_LEAST_LOG_S = math.log(1e-13)  # a smaller time per serial step is treated as 0
_LEAST_KERNEL = 0.2  # the least share of an eager measurement that is the kernel itself
_FASTER_THAN_PEAK = 1.03  # a row that needs more than this share of the peak rate is an error


class _FitSample:
    """The measurements of one class as arrays, without cached streams and impossible rates."""

    def __init__(
        self,
        rows: Sequence[KernelMeasurement],
        peak_flops: float,
        bandwidth: float,
        l2_bytes: int | None,
    ) -> None:
        usable_rows = [
            row
            for row in rows
            if row.time_s > LEAST_S
            and not is_faster_than_peak(row, peak_flops)
            and not is_cached_stream(row, l2_bytes, bandwidth)
        ]
        self.dropped = len(rows) - len(usable_rows)
        self.kind = usable_rows[0].kind
        self.time_s = np.array([row.time_s for row in usable_rows])
        self.compute_s = np.array([row.flops for row in usable_rows]) / peak_flops
        self.memory_s = np.array([_count_moved_bytes(row) for row in usable_rows]) / bandwidth
        self.points = np.array([_locate_point(row) for row in usable_rows], float)
        self.split_position = np.array([row.split_position for row in usable_rows])
        self.is_eager = usable_rows[0].eager

    @property
    def serial_steps(self) -> Any:
        """The number of serial steps: the inner dimension of a product, else 0."""
        is_product = self.kind.startswith("product")
        return self.points[:, 2] if is_product else np.zeros(len(self.time_s))


def is_faster_than_peak(row: KernelMeasurement, peak_flops: float) -> bool:
    """Return whether a measurement needs more than the peak rate, which no kernel reaches."""
    return row.flops > _FASTER_THAN_PEAK * peak_flops * row.time_s


def _locate_point(row: KernelMeasurement) -> tuple[int, ...]:
    """Return the coordinates in the correction table; a batch dimension counts as rows."""
    if row.kind.startswith("product"):
        batch, m, n, k = row.sizes
        return batch * m, n, k
    return row.sizes


def _count_moved_bytes(row: KernelMeasurement) -> float:
    """Count the bytes moved, including quantisation of the left operand if it was measured."""
    quantise_bytes = find_quantise_bytes(row.kind)
    if not quantise_bytes:
        return row.bytes
    batch, m, _, k = row.sizes
    return row.bytes + quantise_bytes * batch * m * k


def fit_kernel_class(
    rows: Sequence[KernelMeasurement],
    peak_flops: float,
    bandwidth: float,
    source: str,
    launch_s: float | None = None,
    l2_bytes: int | None = None,
    efficiency: float | None = None,
    most_bandwidth: float = 1.0,
) -> dict[str, Any]:
    """Fit one class of kernels.

    Args:
        rows: The measurements of the class.
        peak_flops: The peak rate that the efficiency refers to, in FLOP/s.
        bandwidth: The memory bandwidth in bytes/s.
        source: The provenance of the measurements.
        launch_s: The launch time in a compiled program, in seconds, which replaces that of an
            eager measurement.
        l2_bytes: The last-level cache of the device, whose streams are left out.
        efficiency: The efficiency, if it is not to be fitted.
        most_bandwidth: The largest share of the bandwidth that the class may reach.

    Returns:
        The object of the class in ``calibration.fits``, see ``configs.calibration.FitFile``.
    """
    sample = _FitSample(rows, peak_flops, bandwidth, l2_bytes)
    train = sample.split_position < TRAIN
    x = _fit_constants(sample, train, efficiency, most_bandwidth)
    data = _name_constants(sample.kind, x)
    eager_s = 0.0
    if sample.is_eager and launch_s is not None:
        eager_s = max(data["fixed_s"] - launch_s, 0.0)
        data["fixed_s"] = _round_significant(min(data["fixed_s"], launch_s))
        data["eager_s"] = _round_significant(eager_s)
    base = _evaluate_time_model(x, sample.compute_s, sample.memory_s, sample.serial_steps) - eager_s
    peaks = (peak_flops, bandwidth)
    if sample.kind not in ("stream.loop", "stream.reduce"):
        names = AXES[sample.kind.partition(".")[0]]
        axes = [
            _choose_axis_knots(_KNOTS_BY_CLASS.get(sample.kind, {}).get(name, _KNOTS[name]), column)
            for name, column in zip(names, sample.points.T, strict=True)
        ]
        # The correction of eager kernels leaves the launch out, see ``KernelFit.is_eager``.
        launch_part_s = data["fixed_s"] if eager_s else 0.0
        kernel_s = np.maximum(sample.time_s - eager_s, _LEAST_KERNEL * sample.time_s)
        busy_s = np.maximum(kernel_s - launch_part_s, _LEAST_KERNEL * kernel_s)

        def compute_log_base(points: Any) -> Any:
            base_s = evaluate_at_sizes(sample.kind, x, points, peaks) - eager_s
            return np.log(base_s - launch_part_s)

        permille, factor = _fit_correction(
            sample.points,
            np.log(busy_s / (base - launch_part_s)),
            axes,
            train,
            None if sample.kind.endswith(_MEASURED_TO_FALL) else compute_log_base,
        )
        base = launch_part_s + (base - launch_part_s) * factor
        data["residual"] = dict(zip(names, axes, strict=True)) | {"permille": permille}
    estimate = base + eager_s
    data["band"] = _fit_band(estimate, sample)
    data["fit"] = _summarise_errors(estimate, sample, data["band"], source)
    return data


def _evaluate_time_model(x: Sequence[float], compute_s: Any, memory_s: Any, steps: Any) -> Any:
    fixed, efficiency, bandwidth, power, s_per_k = x
    parts = (compute_s / efficiency) ** power + (memory_s / bandwidth) ** power
    return fixed + (parts + (steps * s_per_k) ** power) ** (1 / power)


def evaluate_at_sizes(
    kind: str, x: Sequence[float], points: Any, peaks: tuple[float, float]
) -> Any:
    """Return the time of kernels at sizes of the correction table, before the correction.

    There is a row for each use of the class: that of ``_BORROWED`` besides its own.
    """
    kernels = [describe_kernel(kind, point) for point in points]
    compute_s = np.array([kernel.flops for kernel in kernels]) / peaks[0]
    memory_s = np.array([_count_moved_bytes(kernel) for kernel in kernels]) / peaks[1]
    steps = points[:, 2] if kind.startswith("product") else np.zeros(len(points))
    return np.stack(
        [
            _evaluate_time_model(x, time * compute_s, share * time * memory_s, steps)
            for time, share in ((1.0, 1.0), *_BORROWED.get(kind, ()))
        ]
    )


def _fit_constants(
    sample: _FitSample, train: Any, efficiency: float | None, most_bandwidth: float
) -> tuple[float, float, float, float, float]:
    """Return the best (fixed_s, efficiency, bandwidth, power, s_per_k)."""
    from scipy.optimize import minimize

    compute_s, memory_s = sample.compute_s[train], sample.memory_s[train]
    steps, time_s = sample.serial_steps[train], sample.time_s[train]
    is_stream = sample.kind.startswith("stream")

    def unpack_constants(x: Any) -> tuple[float, float, float, float, float]:
        fixed, bandwidth = math.exp(x[0]), math.exp(x[1])
        if is_stream:
            return fixed, 1.0, bandwidth, 1.0, 0.0
        s_per_k = math.exp(x[4]) if steps.any() and x[4] > _LEAST_LOG_S else 0.0
        return fixed, efficiency or math.exp(x[2]), bandwidth, 1 + math.exp(x[3]), s_per_k

    def compute_loss(x: Any) -> float:
        values = unpack_constants(x)
        above = max(values[1] - 1, 0) + max(values[2] - most_bandwidth, 0)
        if sample.is_eager:
            above += max(values[0] / _MOST_EAGER_S - 1, 0)
        estimate = _evaluate_time_model(values, compute_s, memory_s, steps)
        return float(np.abs(np.log(estimate / time_s)).mean()) + 10 * above

    start = [math.log(5e-6), math.log(0.8)]
    if not is_stream:
        start += [math.log(0.85), math.log(0.8), math.log(3e-10)]
    options = {"maxiter": 4000, "xatol": 1e-4, "fatol": 1e-7, "adaptive": True}
    best = minimize(compute_loss, start, method="Nelder-Mead", options=options)
    return unpack_constants(best.x)


def _name_constants(kind: str, x: Sequence[float]) -> dict[str, Any]:
    fixed, efficiency, bandwidth, power, s_per_k = x
    data: dict[str, Any] = {
        "fixed_s": _round_significant(fixed),
        "bandwidth": _round_significant(min(bandwidth, 1.0)),
    }
    if not kind.startswith("stream"):
        data |= {
            "efficiency": _round_significant(min(efficiency, 1.0)),
            "power": _round_significant(power),
        }
    if kind.startswith("product"):
        data["s_per_k"] = _round_significant(s_per_k)
    return data


def _round_significant(value: float, digits: int = 4) -> float:
    return float(f"{value:.{digits}g}")


def _choose_axis_knots(knots: Sequence[int], column: Any) -> list[float]:
    low, high = float(column.min()), float(column.max())
    inner = [float(k) for k in knots if low * 1.2 < k < high / 1.2]
    return [low, *inner, high] if high > low else [low]


def _build_interpolation_matrix(points: Any, axes: Sequence[Sequence[float]]) -> Any:
    """Build the matrix of multilinear interpolation: a row per point, a column per knot."""
    from scipy.sparse import csr_matrix

    count = len(points)
    index = np.zeros((count, 1), int)
    weight = np.ones((count, 1))
    for axis, column in zip(axes, points.T, strict=True):
        if len(axis) == 1:
            continue
        knots = np.log2(np.array(axis))
        at = np.clip(np.log2(column), knots[0], knots[-1])
        low = np.clip(np.searchsorted(knots, at, side="right") - 1, 0, len(knots) - 2)
        part = (at - knots[low]) / (knots[low + 1] - knots[low])
        pair = np.stack([low, low + 1], 1)
        shares = np.stack([1 - part, part], 1)
        index = (index[:, :, None] * len(knots) + pair[:, None, :]).reshape(count, -1)
        weight = (weight[:, :, None] * shares[:, None, :]).reshape(count, -1)
    rows = np.repeat(np.arange(count), index.shape[1])
    size = math.prod(len(axis) for axis in axes)
    return csr_matrix((weight.ravel(), (rows, index.ravel())), shape=(count, size))


def _fit_correction(
    points: Any,
    log_factors: Any,
    axes: Sequence[Sequence[float]],
    train: Any,
    compute_log_base: Callable[[Any], Any] | None,
) -> tuple[list[int], Any]:
    """Fit the correction table, with which no time falls where a size grows.

    Args:
        points: The coordinates of each measurement.
        log_factors: The logarithm of measured over estimated time.
        axes: The knots of each axis.
        train: Selects the measurements to fit.
        compute_log_base: Returns the logarithm of the time without the correction at sizes; None
            if the time may fall.

    Returns:
        The logarithms at the knots in thousandths, and the factor at each point.
    """
    from scipy.sparse import csr_matrix, diags, identity, vstack
    from scipy.sparse.linalg import lsqr

    matrix: Any = _build_interpolation_matrix(points, axes)
    penalties = [
        _SMOOTH * second for second in _build_second_differences([len(axis) for axis in axes])
    ]
    penalties.append(_SMALL * identity(matrix.shape[1]))
    regulariser: Any = vstack(penalties)
    zeros = np.zeros(regulariser.shape[0])
    weight = np.ones(int(train.sum()))
    values = np.zeros(matrix.shape[1])
    system: Any = None
    for _ in range(_ROUNDS):  # least squares, reweighted to minimise absolute residuals
        system = csr_matrix(vstack([diags(weight) @ matrix[train], regulariser]))
        target = np.concatenate([weight * log_factors[train], zeros])
        values = np.asarray(lsqr(system, target, iter_lim=2000, atol=1e-8, btol=1e-8)[0])
        residual = np.abs(log_factors[train] - matrix[train] @ values)
        weight = 1 / np.sqrt(np.maximum(residual, _LEAST_RESIDUAL))
        weight /= weight.mean()
    if compute_log_base is None:
        permille = np.round(1000 * values).astype(int)
        return permille.tolist(), np.exp(matrix @ permille / 1000)
    growth = [sum_least_growth(axes, at, compute_log_base) for at in range(len(axes))]
    weights = np.asarray(system.multiply(system).sum(axis=0)).ravel()
    values = project_monotone(values, growth, weights)
    permille = np.round(1000 * values).astype(int)
    return permille.tolist(), np.exp(matrix @ permille / 1000)


def project_monotone(values: Any, growth: Sequence[Any], weights: Any) -> Any:
    """Return the nearest correction with which no time falls from knot to knot of an axis.

    Between two knots the correction is linear in the logarithm of the size, so that the time does
    not fall if the correction falls nowhere faster than the time without it grows. Along each line
    of knots that is an isotonic regression; Dykstra's algorithm finds the nearest point of all
    lines (Boyle and Dykstra, 1986).

    Args:
        values: The correction at the knots, with the last axis fastest.
        growth: For each axis, the least growth of the time up to each knot.
        weights: The weight of each value.
    """
    from scipy.optimize import isotonic_regression

    shape = growth[0].shape
    table, weight = values.reshape(shape), weights.reshape(shape)
    excess = [np.zeros(shape) for _ in growth]
    for _ in range(_PROJECTIONS):
        before = table
        for at, least in enumerate(growth):
            start = table - excess[at]
            lines = np.moveaxis(start + least, at, -1)
            line_weights = np.moveaxis(weight, at, -1)
            falling = (np.diff(lines, axis=-1) < 0).any(axis=-1)
            fitted = lines.copy()
            for index in zip(*np.nonzero(falling), strict=True):
                line = isotonic_regression(lines[index], weights=line_weights[index])
                fitted[index] = line.x
            table = np.moveaxis(fitted, -1, at) - least
            excess[at] = table - start
        if float(np.abs(table - before).max()) < _CONVERGED:
            break
    return table.ravel()


def sum_least_growth(
    axes: Sequence[Sequence[float]],
    at: int,
    compute_log_base: Callable[[Any], Any],
    between: Callable[[Sequence[float]], Sequence[Sequence[float]]] = lambda axis: [axis],
) -> Any:
    """Return, along an axis, the sum of the least growth of the time in each interval of knots.

    The growth is that of the logarithm for the whole interval, at the rate of its flattest part.

    Args:
        axes: The knots.
        at: The axis.
        compute_log_base: Returns the logarithm of the time without the correction at sizes.
        between: Lists the sizes of another axis that the lines along this one lie at, as rows with
            one for each knot.
    """
    fine = [
        low * (high / low) ** (part / _PARTS)
        for low, high in itertools.pairwise(axes[at])
        for part in range(_PARTS)
    ]
    choices = [[[*fine, axis[-1]]] if i == at else between(axis) for i, axis in enumerate(axes)]
    least: Any = None
    for lines in itertools.product(*choices):
        grids = np.meshgrid(*lines, indexing="ij")
        points = np.stack([grid.ravel() for grid in grids], 1)
        for row in compute_log_base(points):
            steps = np.moveaxis(np.diff(row.reshape(grids[0].shape), axis=at), at, -1)
            growth = _TOLERANCE + _PARTS * steps.reshape(*steps.shape[:-1], -1, _PARTS).min(axis=-1)
            least = growth if least is None else np.minimum(least, growth)
    total = np.concatenate([np.zeros((*least.shape[:-1], 1)), np.cumsum(least, axis=-1)], axis=-1)
    return np.moveaxis(total, -1, at)


def _build_second_differences(sizes: Sequence[int]) -> list[Any]:
    from scipy.sparse import eye, kron

    differences = []
    for at, size in enumerate(sizes):
        if size < 3:
            continue
        second = eye(size - 2, size) - 2 * eye(size - 2, size, 1) + eye(size - 2, size, 2)
        product = eye(1)
        for other, length in enumerate(sizes):
            product = kron(product, second if other == at else eye(length))
        differences.append(product)
    return differences


def _fit_band(estimate: Any, sample: _FitSample) -> list[list[float]]:
    """Return rows of (upper end in seconds, 10th and 90th percentile of measured / estimated - 1).

    If half of the held-out shapes are too few, all of them determine the band and none test it.
    """
    band_shapes = (sample.split_position >= TRAIN) & (sample.split_position < BANDS)
    if band_shapes.sum() < _BAND_POINTS:
        band_shapes = sample.split_position >= TRAIN
    ratio, time_s = (sample.time_s / estimate)[band_shapes], estimate[band_shapes]
    rows: list[list[float]] = []
    below = 0.0
    for up_to in (*_BAND_STEPS_S, math.inf):
        inside = (time_s > below) & (time_s <= up_to)
        last = up_to == math.inf
        if inside.sum() < _BAND_POINTS and not (last and not rows):
            if last:
                rows[-1][0] = 1e3
            continue
        low, high = np.quantile(ratio[inside], _compute_quantile_levels(int(inside.sum()))) - 1
        rows.append(
            [
                1e3 if last else up_to,
                _round_significant(min(low, 0.0), 3),
                _round_significant(max(high, 0.0), 3),
            ]
        )
        below = up_to
    return rows


def _compute_quantile_levels(count: int) -> tuple[float, float]:
    """Return quantile levels that contain 80 % of new residuals (split conformal prediction)."""
    share = min(math.ceil((count + 1) * 0.9) / count, 1.0)
    return 1 - share, share


def _summarise_errors(
    estimate: Any, sample: _FitSample, band: Sequence[Sequence[float]], source: str
) -> dict[str, Any]:
    held_out = sample.split_position >= TRAIN
    test = sample.split_position >= BANDS
    error = np.abs(estimate / sample.time_s - 1)[held_out]
    inside = _is_in_band(estimate, sample.time_s, band)[test]
    tested = ((sample.split_position >= TRAIN) & ~test).sum() >= _BAND_POINTS
    return {
        "source": source,
        "points": len(sample.time_s),
        "dropped": sample.dropped,
        "held_out": int(held_out.sum()),
        "median": _round_significant(float(np.median(error)), 3),
        "mean": _round_significant(float(error.mean()), 3),
        "p90": _round_significant(float(np.quantile(error, 0.9)), 3),
    } | ({"coverage": _round_significant(float(inside.mean()), 3)} if tested else {})


def _is_in_band(estimate: Any, time_s: Any, band: Sequence[Sequence[float]]) -> Any:
    """Return for each measurement whether it lies inside the band of its estimate."""
    rows = np.array(band)
    at = np.minimum(np.searchsorted(rows[:, 0], estimate), len(rows) - 1)
    return (time_s >= estimate * (1 + rows[at, 1])) & (time_s <= estimate * (1 + rows[at, 2]))
