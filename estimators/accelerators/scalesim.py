"""The ``scalesim`` estimator: matrix products in SCALE-Sim v3, one array at a time.

SCALE-Sim is slow, and keeps every cycle of every port in memory. The ``systolic`` estimator with
``variant=scalesim`` computes the same cycles in closed form; this estimator checks it.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar, Literal

from hespas.estimators.accelerators.scalesim_memory import BUFFERS
from hespas.estimators.accelerators.scalesim_run import BANKS
from hespas.plugin import (
    ArraySimulatingEstimator,
    HespasError,
    MatrixProduct,
    SimulatingConfig,
    UsageError,
    setting,
)

CLOSED_FORM = "use the closed form: --systolic-annotate=variant=scalesim"


@dataclass(frozen=True)
class ScalesimConfig(SimulatingConfig):
    """The configuration of ``ScalesimEstimator``.

    An array's share of the memory bandwidth is rounded to a multiple of 8 elements per cycle; a
    share below 8 is an error.
    """

    dataflow: Literal["ws", "os", "is"] = setting(
        "ws", "matrix that stays in the arrays: ws (weights), is (inputs), os (outputs)"
    )
    python: str = setting(
        "", "Python interpreter with scalesim; default: HESPAS_SCALESIM_PYTHON, else this one"
    )
    largest: int = setting(40_000, "most cycles of a product that is simulated")
    time_limit: float = setting(300.0, "seconds for one product")

    def __post_init__(self) -> None:
        super().__post_init__()
        for name in ("largest", "time_limit"):
            if not 0 < getattr(self, name) < float("inf"):
                raise UsageError(f"{name.replace('_', '-')} must be more than 0")


class ScalesimEstimator(ArraySimulatingEstimator):
    """Simulate matrix products in SCALE-Sim v3; estimate other ops on a vector unit."""

    name: ClassVar[str] = "scalesim"
    version: ClassVar[str] = "1"
    Config: ClassVar[type] = ScalesimConfig
    tested_version: ClassVar[str] = "3.0.0"
    worker: ClassVar[str] = "hespas.estimators.accelerators.scalesim_worker:simulate_product"
    probe: ClassVar[str] = "hespas.estimators.accelerators.scalesim_worker:probe_simulator"

    def __init__(self, config: ScalesimConfig) -> None:
        super().__init__(config)
        self.dataflow: Literal["ws", "os", "is"] = config.dataflow
        self.largest = config.largest
        self.simulator_settings = {"python": config.python, "time_limit": config.time_limit}

    def collect_settings(self) -> dict[str, Any]:
        return self.simulator_settings

    def build_product_payload(self, product: MatrixProduct) -> tuple[dict[str, Any], float]:
        share, times = self.compute_array_share(product, "scalesim", self.dataflow)
        words = share["bits_per_cycle"] / product.in_bits
        if words < BANKS:
            raise HespasError(
                f"an array's share of the memory is {words:.3g} elements a cycle, and SCALE-Sim's "
                f"memory gives {BANKS} or more",
                remedy=f"increase memory-bandwidth, or {CLOSED_FORM}",
            )
        buffer_bits = 8 * share["sram_bytes"] / BUFFERS
        cycles = self.count_share_cycles(share, "scalesim", self.dataflow)
        if cycles > self.largest:
            raise HespasError(
                f"the product takes {cycles:.0f} cycles, of which SCALE-Sim keeps every one in "
                f"memory; the limit is {self.largest}",
                remedy=f"allow more by largest, or {CLOSED_FORM}",
            )
        share_keys = ("m", "k", "n", "rows", "columns", "clock_hz")
        payload: dict[str, Any] = {
            **{key: share[key] for key in share_keys},
            "dataflow": self.dataflow,
            "words_per_cycle": round(words / BANKS) * BANKS,
            "sram_kb": max(int(buffer_bits / product.in_bits / 1024), 1),
        }
        return payload, times
