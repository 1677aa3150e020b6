"""Fits of ``Fit``'s form to measurements: five constants, then a correction table on top.

The constants minimise the mean absolute logarithm of estimate over measurement on 60 % of the
shapes, chosen by their hash. The correction is piecewise linear in the logarithms of the sizes; its
values minimise the same residuals, with second differences and size held down so that a knot
without data follows its neighbours. Of the other shapes half say how wide the band is and half test
it; all of them say how good the fit is.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from hespas.configs.calibration import AXES
from hespas.estimators.calibrated.fitting.tables import BANDS, LEAST_S, TRAIN, Measurement
from hespas.estimators.calibrated.kernels import QUANTISE_BYTES, QUANTISED

# Knots where the data reaches so far; the ends are the range of the data.
_KNOTS = {
    "m": (1, 16, 64, 128, 256, 512, 1024, 2048, 4096, 8192, 32768),
    "n": (32, 128, 512, 1024, 2048, 4096, 8192, 16384, 65536),
    "k": (32, 128, 512, 1024, 2048, 4096, 8192, 16384, 65536),
    "heads": (1, 4, 16, 64, 256, 1024, 4096),
    "queries": (2, 16, 64, 256, 512, 1024, 2048, 4096, 8192, 16384),
    "head_size": (64, 128, 256),
    "columns": (512, 724, 1024, 1030, 1448, 2048, 4096, 8192, 16384),
    "rows": (4096, 8192, 16384, 65536, 1048576, 4194304),
}
_SMOOTH, _SMALL, _ROUNDS, _LEAST_RESIDUAL = 0.3, 0.03, 6, 0.02
_BAND_STEPS_S = (3e-6, 1e-5, 3e-5, 1e-4, 1e-3)
_BAND_POINTS = 40  # a step of the band with fewer is joined to the next
_MOST_EAGER_S = 30e-6
_LEAST_LOG_S = math.log(1e-13)  # per step; less than that is none
_LEAST_KERNEL = 0.2  # of an eager measurement is the kernel, whatever its launch was
_FASTER_THAN_PEAK = 1.03  # a row that needs more than this of the peak rate is a mistake


class Sample:
    """The measurements of one class as arrays, those that no device can reach left out."""

    def __init__(self, rows: Sequence[Measurement], peak_flops: float, bandwidth: float) -> None:
        kept = [
            row
            for row in rows
            if row.time_s > LEAST_S and row.flops <= _FASTER_THAN_PEAK * peak_flops * row.time_s
        ]
        self.dropped = len(rows) - len(kept)
        self.kind = kept[0].kind
        self.time_s = np.array([row.time_s for row in kept])
        self.compute_s = np.array([row.flops for row in kept]) / peak_flops
        self.memory_s = np.array([_moved(row) for row in kept]) / bandwidth
        self.points = np.array([point(row) for row in kept], float)
        self.part = np.array([row.part for row in kept])
        self.is_eager = kept[0].eager

    @property
    def steps(self) -> Any:
        """The steps that run one after the other: the inner dimension of a product."""
        is_product = self.kind.startswith("product")
        return self.points[:, 2] if is_product else np.zeros(len(self.time_s))


def point(row: Measurement) -> tuple[int, ...]:
    """Where a measurement lies in the correction table: batches count as rows."""
    if row.kind.startswith("product"):
        batch, m, n, k = row.sizes
        return batch * m, n, k
    return row.sizes


def _moved(row: Measurement) -> float:
    """Bytes, with those of quantising the left operand where that is in the measurement."""
    if not row.kind.endswith(QUANTISED):
        return row.bytes
    batch, m, _, k = row.sizes
    return row.bytes + QUANTISE_BYTES * batch * m * k


def fit_class(
    rows: Sequence[Measurement],
    peak_flops: float,
    bandwidth: float,
    source: str,
    launch_s: float | None = None,
) -> dict[str, Any]:
    """The object of one class of ``calibration.fits``, as in ``configs.calibration.FitFile``.

    ``launch_s`` is what a kernel of an eager table is started with in a compiled program.
    """
    sample = Sample(rows, peak_flops, bandwidth)
    train = sample.part < TRAIN
    x = _constants(sample, train)
    data = _named(sample.kind, x)
    eager_s = 0.0
    if sample.is_eager and launch_s is not None:
        eager_s = max(data["fixed_s"] - launch_s, 0.0)
        data["fixed_s"] = _round(min(data["fixed_s"], launch_s))
        data["eager_s"] = _round(eager_s)
    base = _form(x, sample.compute_s, sample.memory_s, sample.steps) - eager_s
    if sample.kind not in ("stream.loop", "stream.reduce"):
        names = AXES[sample.kind.partition(".")[0]]
        axes = [_axis(name, column) for name, column in zip(names, sample.points.T, strict=True)]
        kernel_s = np.maximum(sample.time_s - eager_s, _LEAST_KERNEL * sample.time_s)
        permille, factor = _correction(sample.points, np.log(kernel_s / base), axes, train)
        base = base * factor
        data["residual"] = dict(zip(names, axes, strict=True)) | {"permille": permille}
    estimate = base + eager_s
    data["band"] = _band(estimate, sample)
    data["fit"] = _errors(estimate, sample, data["band"], source)
    return data


def _form(x: Sequence[float], compute_s: Any, memory_s: Any, steps: Any) -> Any:
    fixed, efficiency, bandwidth, power, s_per_k = x
    parts = (compute_s / efficiency) ** power + (memory_s / bandwidth) ** power
    return fixed + (parts + (steps * s_per_k) ** power) ** (1 / power)


def _constants(sample: Sample, train: Any) -> tuple[float, float, float, float, float]:
    """(fixed_s, efficiency, bandwidth, power, s_per_k) that fit best."""
    from scipy.optimize import minimize

    compute_s, memory_s = sample.compute_s[train], sample.memory_s[train]
    steps, time_s = sample.steps[train], sample.time_s[train]
    is_stream = sample.kind.startswith("stream")

    def unpack(x: Any) -> tuple[float, float, float, float, float]:
        fixed, bandwidth = math.exp(x[0]), math.exp(x[1])
        if is_stream:
            return fixed, 1.0, bandwidth, 1.0, 0.0
        s_per_k = math.exp(x[4]) if steps.any() and x[4] > _LEAST_LOG_S else 0.0
        return fixed, math.exp(x[2]), bandwidth, 1 + math.exp(x[3]), s_per_k

    def loss(x: Any) -> float:
        values = unpack(x)
        above = max(values[1] - 1, 0) + max(values[2] - 1, 0)
        if sample.is_eager:
            above += max(values[0] / _MOST_EAGER_S - 1, 0)
        estimate = _form(values, compute_s, memory_s, steps)
        return float(np.abs(np.log(estimate / time_s)).mean()) + 10 * above

    start = [math.log(5e-6), math.log(0.8)]
    if not is_stream:
        start += [math.log(0.85), math.log(0.8), math.log(3e-10)]
    options = {"maxiter": 4000, "xatol": 1e-4, "fatol": 1e-7, "adaptive": True}
    best = minimize(loss, start, method="Nelder-Mead", options=options)
    return unpack(best.x)


def _named(kind: str, x: Sequence[float]) -> dict[str, Any]:
    fixed, efficiency, bandwidth, power, s_per_k = x
    data: dict[str, Any] = {"fixed_s": _round(fixed), "bandwidth": _round(min(bandwidth, 1.0))}
    if not kind.startswith("stream"):
        data |= {"efficiency": _round(min(efficiency, 1.0)), "power": _round(power)}
    if kind.startswith("product"):
        data["s_per_k"] = _round(s_per_k)
    return data


def _round(value: float, digits: int = 4) -> float:
    return float(f"{value:.{digits}g}")


def _axis(name: str, column: Any) -> list[float]:
    low, high = float(column.min()), float(column.max())
    inner = [float(k) for k in _KNOTS[name] if low * 1.2 < k < high / 1.2]
    return [low, *inner, high] if high > low else [low]


def _weights(points: Any, axes: Sequence[Sequence[float]]) -> Any:
    """The matrix that interpolates: a row per point, a column per knot of the table."""
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


def _correction(
    points: Any, wanted: Any, axes: Sequence[Sequence[float]], train: Any
) -> tuple[list[int], Any]:
    """The table in thousandths, and the factor that it gives at each point.

    ``wanted`` is the logarithm of the factor that each measurement would have.
    """
    from scipy.sparse import csr_matrix, diags, identity, vstack
    from scipy.sparse.linalg import lsqr

    matrix: Any = _weights(points, axes)
    held = [_SMOOTH * second for second in _second_differences([len(axis) for axis in axes])]
    held.append(_SMALL * identity(matrix.shape[1]))
    calm: Any = vstack(held)
    zeros = np.zeros(calm.shape[0])
    weight = np.ones(int(train.sum()))
    values = np.zeros(matrix.shape[1])
    for _ in range(_ROUNDS):  # of least squares, reweighted to minimise absolute residuals
        system = csr_matrix(vstack([diags(weight) @ matrix[train], calm]))
        target = np.concatenate([weight * wanted[train], zeros])
        values = np.asarray(lsqr(system, target, iter_lim=2000, atol=1e-8, btol=1e-8)[0])
        residual = np.abs(wanted[train] - matrix[train] @ values)
        weight = 1 / np.sqrt(np.maximum(residual, _LEAST_RESIDUAL))
        weight /= weight.mean()
    permille = np.round(1000 * values).astype(int)
    return permille.tolist(), np.exp(matrix @ permille / 1000)


def _second_differences(sizes: Sequence[int]) -> list[Any]:
    from scipy.sparse import eye, kron

    found = []
    for at, size in enumerate(sizes):
        if size < 3:
            continue
        second = eye(size - 2, size) - 2 * eye(size - 2, size, 1) + eye(size - 2, size, 2)
        product = eye(1)
        for other, length in enumerate(sizes):
            product = kron(product, second if other == at else eye(length))
        found.append(product)
    return found


def _band(estimate: Any, sample: Sample) -> list[list[float]]:
    """Rows of (up to this time, 10th and 90th percentile of measured / estimated - 1).

    Where half of the held-out shapes are too few, all of them make the band, and none test it.
    """
    chosen = (sample.part >= TRAIN) & (sample.part < BANDS)
    if chosen.sum() < _BAND_POINTS:
        chosen = sample.part >= TRAIN
    ratio, time_s = (sample.time_s / estimate)[chosen], estimate[chosen]
    rows: list[list[float]] = []
    below = 0.0
    for up_to in (*_BAND_STEPS_S, math.inf):
        inside = (time_s > below) & (time_s <= up_to)
        last = up_to == math.inf
        if inside.sum() < _BAND_POINTS and not (last and not rows):
            if last:
                rows[-1][0] = 1e3
            continue
        low, high = np.quantile(ratio[inside], _levels(int(inside.sum()))) - 1
        rows.append([1e3 if last else up_to, _round(min(low, 0.0), 3), _round(max(high, 0.0), 3)])
        below = up_to
    return rows


def _levels(count: int) -> tuple[float, float]:
    """Quantiles of so many residuals that hold 80 % of new ones (split conformal prediction)."""
    share = min(math.ceil((count + 1) * 0.9) / count, 1.0)
    return 1 - share, share


def _errors(
    estimate: Any, sample: Sample, band: Sequence[Sequence[float]], source: str
) -> dict[str, Any]:
    held = sample.part >= TRAIN
    test = sample.part >= BANDS
    error = np.abs(estimate / sample.time_s - 1)[held]
    inside = in_band(estimate, sample.time_s, band)[test]
    tested = ((sample.part >= TRAIN) & ~test).sum() >= _BAND_POINTS
    return {
        "source": source,
        "points": len(sample.time_s),
        "dropped": sample.dropped,
        "held_out": int(held.sum()),
        "median": _round(float(np.median(error)), 3),
        "mean": _round(float(error.mean()), 3),
        "p90": _round(float(np.quantile(error, 0.9)), 3),
    } | ({"coverage": _round(float(inside.mean()), 3)} if tested else {})


def in_band(estimate: Any, time_s: Any, band: Sequence[Sequence[float]]) -> Any:
    """Whether each measurement lies inside the band of its estimate."""
    rows = np.array(band)
    at = np.minimum(np.searchsorted(rows[:, 0], estimate), len(rows) - 1)
    return (time_s >= estimate * (1 + rows[at, 1])) & (time_s <= estimate * (1 + rows[at, 2]))
