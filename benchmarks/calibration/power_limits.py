"""Infer the power limit of a board from the times of its matrix products.

``python -m benchmarks.calibration.power_limits`` prints the limit of each machine in
``docs/data/second-sources.csv`` whose products ran slower than those of the same board at its own
limit. The products of such a machine are all that is read: no step of a whole program.
"""

from __future__ import annotations

import csv
import math
import statistics
from collections.abc import Mapping, Sequence
from dataclasses import replace

from benchmarks.calibration.source_comparisons import SECOND_SOURCES
from hespas import configs
from hespas.configs.node_spec import NodeSpec
from hespas.estimators.calibrated.device_constants import SUSTAINED, DeviceConstants
from hespas.support.errors import HespasError
from hespas.workflows.calibration.measurement_tables import KernelMeasurement, read_measurements
from hespas.workflows.calibration.node_calibration import estimate_measured_kernel

LEAST_S = 1e-4
"""Seconds from which a product of a short benchmark runs long enough to be slowed by the limit."""
_LEAST_SHARE = 0.4  # of the board's own limit
_TOLERANCE_W = 0.5


def infer_power_limit(node: NodeSpec, products: Sequence[KernelMeasurement]) -> float:
    """Solve for the limit in watts at which the median product takes its measured time.

    Args:
        node: The board with the limit of its data sheet, whose constants know the energy of an
            operation.
        products: Products that were measured on the machine, those from ``LEAST_S`` on count.

    Raises:
        HespasError: The energies are not known, no product is long enough, or no limit explains
            the times.
    """
    long_products = [product for product in products if product.time_s >= LEAST_S]
    if node.tdp_w is None or DeviceConstants.from_node(node).power is None:
        raise HespasError(f"the energy of an operation is not known for {node.name}")
    if not long_products:
        raise HespasError(f"no product takes {LEAST_S * 1e6:g} us or more")
    low_w, high_w = _LEAST_SHARE * node.tdp_w, node.tdp_w
    if (
        not _compute_bias(node, low_w, long_products)
        < 0
        < _compute_bias(node, high_w, long_products)
    ):
        raise HespasError(f"no limit of {node.name} below {high_w:g} W explains the products")
    while high_w - low_w > _TOLERANCE_W:
        middle_w = (low_w + high_w) / 2
        is_faster = _compute_bias(node, middle_w, long_products) < 0
        low_w, high_w = (middle_w, high_w) if is_faster else (low_w, middle_w)
    return (low_w + high_w) / 2


def _compute_bias(node: NodeSpec, limit_w: float, products: Sequence[KernelMeasurement]) -> float:
    """Return the median logarithm of measured over estimated time at a limit."""
    constants = DeviceConstants.from_node(replace(node, tdp_w=limit_w))
    return statistics.median(
        math.log(product.time_s / estimate_measured_kernel(constants, product).time_s)
        for product in products
    )


def infer_published_limits() -> Mapping[str, float]:
    """Return the limit of each machine in the second sources that one explains, by device."""
    with SECOND_SOURCES.open(encoding="utf-8") as file:
        kind = f"product.bf16{SUSTAINED}"
        devices = sorted({row["device"] for row in csv.DictReader(file) if row["kernel"] == kind})
    limits_w = {}
    for device in devices:
        products = read_measurements(str(SECOND_SOURCES), device).measurements
        node = configs.load_node(device.partition(" ")[0])
        limits_w[device] = infer_power_limit(node, [p for p in products if p.kind == kind])
    return limits_w


if __name__ == "__main__":
    for name, limit_w in infer_published_limits().items():
        print(f"{name}: {limit_w:.0f} W")
