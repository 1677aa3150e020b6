"""The ``onnxim`` estimator: matrix products in ONNXim, a program that the user has built."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

from hespas.plugin import (
    ExternalSimulatorConfig,
    ExternalSimulatorEstimator,
    MatrixProduct,
    setting,
)


@dataclass(frozen=True)
class OnnximConfig(ExternalSimulatorConfig):
    """The configuration of ``OnnximEstimator``.

    The default ``config`` is modified: it gets one core per array of the node, with the size and
    clock of the array; its memory (614 GB/s) and network are kept. With another ``config``, the
    arrays of the node are ignored. A type with a lower rate is simulated at a lower clock.
    """

    config: str = setting("", "ONNXim's .json file; default: that for TPU v4 in its home folder")


class OnnximEstimator(ExternalSimulatorEstimator):
    """Simulate matrix products in ONNXim; estimate other ops on a vector unit."""

    name: ClassVar[str] = "onnxim"
    version: ClassVar[str] = "2"
    Config: ClassVar[type] = OnnximConfig
    tested_version: ClassVar[str] = "a1e8629"
    worker: ClassVar[str] = "hespas.estimators.accelerators.onnxim_worker:simulate_product"
    probe: ClassVar[str] = "hespas.estimators.accelerators.onnxim_worker:probe_simulator"

    def __init__(self, config: OnnximConfig) -> None:
        super().__init__(config)
        self.simulator_settings["config"] = config.config
        self.simulates_node = not config.config

    def build_product_payload(self, product: MatrixProduct) -> tuple[dict[str, Any], float]:
        payload: dict[str, Any] = {
            "m": product.m,
            "k": product.k,
            "n": product.n,
            "element_bytes": max(product.in_bits // 8, 1),
            "slower": self.machine.compute_peak_rate_ratio(product.dtype),
        }
        if not self.simulator_settings["config"]:
            unit = self.machine.unit
            payload["cores"] = {
                "count": unit.cores * unit.arrays,
                "rows": unit.rows,
                "columns": unit.columns,
                "clock_mhz": unit.clock_hz / 1e6,
            }
        return payload, product.count
