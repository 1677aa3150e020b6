"""How a node's calibration does on measurements, by the estimator's own functions."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass

from hespas.estimators.calibrated.attention import Attention
from hespas.estimators.calibrated.constants import Constants
from hespas.estimators.calibrated.fitting.tables import BANDS, LEAST_S, TRAIN, Measurement
from hespas.estimators.calibrated.kernels import (
    QUANTISED,
    Timed,
    attention_time,
    product_time,
    row_time,
    stream_time,
)
from hespas.estimators.products import Product


@dataclass(frozen=True, slots=True)
class Score:
    """Errors |estimate / measurement - 1| of measurements, and the share inside their bands.

    ``in_band`` is of the shapes that neither the fit nor its band has seen.
    """

    kind: str
    points: int
    median: float
    mean: float
    p90: float
    bias: float
    in_band: float


def timed(constants: Constants, one: Measurement) -> Timed:
    """The estimate of a measured kernel, without the launch by an eager framework."""
    family, _, kind = one.kind.partition(".")
    if family == "product":
        batch, m, n, k = one.sizes
        quantise = kind == QUANTISED
        dtype = "f8" if quantise else kind
        shape = Product(m, k, n, batch, dtype, round(one.flops))
        return product_time(constants, shape, one.bytes, quantise)
    if family == "attention":
        heads, queries, size = one.sizes
        shape = Attention(heads, queries, size, "bf16", round(one.flops), False)
        return attention_time(constants, shape, one.bytes)
    if kind in ("softmax", "layer_norm"):
        columns, rows = one.sizes
        return row_time(constants, kind, columns, rows, one.bytes)
    return stream_time(constants, constants.fits[one.kind], one.bytes)


def scores(
    constants: Constants,
    rows: Iterable[Measurement],
    chosen: Callable[[Measurement], bool] = lambda one: one.part >= TRAIN,
) -> list[Score]:
    """A score per class, of the measurements chosen: without a choice those held out of fits."""
    by_kind: dict[str, list[tuple[float, bool | None]]] = {}
    for one in rows:
        if not chosen(one) or one.time_s <= LEAST_S:
            continue
        found = timed(constants, one)
        eager_s = found.fit.eager_s if one.eager else 0.0
        ratio = (found.time_s + eager_s) / one.time_s
        low, high = found.fit.band.at(found.time_s + eager_s, bool(found.tags))
        inside = low <= 1 / ratio <= high if one.part >= BANDS else None
        by_kind.setdefault(one.kind, []).append((ratio, inside))
    return [_score(kind, pairs) for kind, pairs in sorted(by_kind.items())]


def _score(kind: str, pairs: list[tuple[float, bool | None]]) -> Score:
    errors = sorted(abs(ratio - 1) for ratio, _ in pairs)
    ratios = sorted(ratio for ratio, _ in pairs)
    inside = [flag for _, flag in pairs if flag is not None]
    return Score(
        kind,
        len(pairs),
        _quantile(errors, 0.5),
        sum(errors) / len(errors),
        _quantile(errors, 0.9),
        _quantile(ratios, 0.5) - 1,
        sum(inside) / len(inside) if inside else float("nan"),
    )


def _quantile(values: list[float], share: float) -> float:
    at = share * (len(values) - 1)
    low = int(at)
    high = min(low + 1, len(values) - 1)
    return values[low] + (at - low) * (values[high] - values[low])
