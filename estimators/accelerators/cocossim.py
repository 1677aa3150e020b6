"""The ``cocossim`` estimator: matrix products in COCOSSim, a program that the user has built."""

from __future__ import annotations

from typing import Any, ClassVar

from hespas.plugin import (
    ExternalSimulatorConfig,
    ExternalSimulatorEstimator,
    HespasError,
    MatrixProduct,
)

MAX_INT = 2**31 - 1


class CocossimEstimator(ExternalSimulatorEstimator):
    """Simulate matrix products in COCOSSim; estimate other ops on a vector unit.

    Its elements have two bytes, and its memory is of eight channels of HBM2, whatever the node has.
    A type that takes longer on the node's arrays is simulated at that much lower a clock.
    """

    name: ClassVar[str] = "cocossim"
    version: ClassVar[str] = "1"
    Config: ClassVar[type] = ExternalSimulatorConfig
    tested_version: ClassVar[str] = "8da7e20"
    worker: ClassVar[str] = "hespas.estimators.accelerators.cocossim_worker:simulate_product"
    probe: ClassVar[str] = "hespas.estimators.accelerators.cocossim_worker:probe_simulator"

    def build_product_payload(self, product: MatrixProduct) -> tuple[dict[str, Any], float]:
        unit = self.machine.unit
        if unit.rows != unit.columns:
            raise HespasError(
                f"COCOSSim's arrays are square, not {unit.rows} x {unit.columns}",
                remedy="set rows and columns to equal numbers",
            )
        cores = unit.cores * unit.arrays
        n = -(-product.n // cores) * cores  # COCOSSim drops a remainder
        if max(product.m * product.k, product.k * n, product.m * n) > MAX_INT:
            raise HespasError("COCOSSim counts elements in 32 bits, and this product has more")
        payload: dict[str, Any] = {
            "m": product.m,
            "k": product.k,
            "n": n,
            "cores": cores,
            "size": unit.rows,
            "lanes": unit.lanes,
            "clock_hz": unit.clock_hz / self.machine.compute_cycles_per_row(product.dtype),
        }
        return payload, product.count
