"""The fits of products on TPUs to the cycles of ``hespas measure cycles``: ``configs/nodes``."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy

from hespas.configs.node_spec import NodeSpec
from hespas.workflows.calibration.measurement_tables import TRAIN, KernelMeasurement
from hespas.workflows.calibration.micro_benchmarks import (
    compute_peak_times_s,
    is_bound_by_matrix_units,
)

POWER = 4.0  # copies run alongside products, and the longer of both counts [assumed]
_BAND_SHARE = 0.1  # of the products above the band, and below it


def fit_cycle_products(
    rows: Sequence[KernelMeasurement], node: NodeSpec, fixed_s: float, bandwidth: float, source: str
) -> dict[str, Any]:
    """Fit the efficiency of one class of products to their cycles.

    Args:
        rows: The products of the class, in seconds; those that memory bounds are left out.
        node: The device whose peak rates the efficiency refers to.
        fixed_s: The fixed time of a kernel.
        bandwidth: The share of the memory bandwidth that kernels reach.
        source: The provenance of the cycles.

    Returns:
        The object of the class in ``calibration.fits``, see ``configs.calibration.FitFile``.
    """
    bound_rows = [
        row for row in rows if is_bound_by_matrix_units(node, row.kind, row.flops, row.bytes)
    ]
    times_s = numpy.array([row.time_s for row in bound_rows])
    peak_times_s = [
        compute_peak_times_s(node, row.kind, row.flops, row.bytes) for row in bound_rows
    ]
    compute_s, memory_s = numpy.array(peak_times_s).T
    position = numpy.array([row.split_position for row in bound_rows])
    # The efficiency with which the model takes exactly the time of a product.
    busy_power = (times_s - fixed_s) ** POWER - (memory_s / bandwidth) ** POWER
    solved = compute_s / numpy.maximum(busy_power, compute_s**POWER) ** (1 / POWER)
    efficiency = float(f"{numpy.median(solved[position < TRAIN]):.4g}")
    estimate = fixed_s + ((compute_s / efficiency) ** POWER + (memory_s / bandwidth) ** POWER) ** (
        1 / POWER
    )
    held_out = position >= TRAIN
    error = numpy.abs(estimate / times_s - 1)[held_out]
    low, high = numpy.quantile(times_s / estimate - 1, (_BAND_SHARE, 1 - _BAND_SHARE))
    return {
        "fixed_s": fixed_s,
        "bandwidth": bandwidth,
        "efficiency": efficiency,
        "power": POWER,
        "origin": "compiler",
        "band": [[1000, min(float(f"{low:.3g}"), 0.0), max(float(f"{high:.3g}"), 0.0)]],
        "fit": {
            "source": source,
            "points": len(bound_rows),
            "dropped": len(rows) - len(bound_rows),
            "held_out": int(held_out.sum()),
            "median": float(f"{numpy.median(error):.3g}"),
            "mean": float(f"{error.mean():.3g}"),
            "p90": float(f"{numpy.quantile(error, 0.9):.3g}"),
        },
    }
