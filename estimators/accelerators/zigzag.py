"""The ``zigzag`` estimator: matrix products in ZigZag's cost model, one array at a time."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar, Literal

from hespas.estimators.accelerators.zigzag_worker import find_shipped_files
from hespas.plugin import (
    ArraySimulatingEstimator,
    MatrixProduct,
    SimulatingConfig,
    UsageError,
    setting,
)


@dataclass(frozen=True)
class ZigzagConfig(SimulatingConfig):
    """The configuration of ``ZigzagEstimator``.

    By default ZigZag simulates one array of the node. With ``accelerator`` it simulates that
    hardware, which computes each product whole; the default mapping has the same name.
    """

    accelerator: str = setting(
        "", "ZigZag's own description of the hardware: a .yaml file, or a name that it ships"
    )
    mapping: str = setting("", "ZigZag's mapping for that description: a .yaml file or a name")
    lpf_limit: int = setting(5, "most loops whose order is searched")
    sum_bits: int = setting(32, "bits of a partial sum")
    element_bits: int | None = setting(None, "bits of an element; default: those of its type")
    loops: Literal["product", "any"] = setting(
        "product",
        "loops in mapping: product (only D, K, C), any (M, N mean D, K; others are ignored)",
    )

    def __post_init__(self) -> None:
        super().__post_init__()
        for name in ("lpf_limit", "sum_bits", "element_bits"):
            value = getattr(self, name)
            if value is not None and value < 1:
                raise UsageError(f"{name.replace('_', '-')} is {value}, less than 1")
        if self.mapping and not self.accelerator:
            raise UsageError("mapping needs accelerator", remedy="set both")
        if _is_file_name(self.accelerator) and not self.mapping:
            raise UsageError(f"{self.accelerator} needs a mapping", remedy="set mapping")


class ZigzagEstimator(ArraySimulatingEstimator):
    """Estimate matrix products by ZigZag's cost model, other ops on a vector unit."""

    name: ClassVar[str] = "zigzag"
    version: ClassVar[str] = "2"
    Config: ClassVar[type] = ZigzagConfig
    tested_version: ClassVar[str] = "3.9.1"
    worker: ClassVar[str] = "hespas.estimators.accelerators.zigzag_worker:simulate_product"
    probe: ClassVar[str] = "hespas.estimators.accelerators.zigzag_worker:probe_simulator"
    packages: ClassVar[tuple[str, ...]] = ("zigzag-dse",)

    def __init__(self, config: ZigzagConfig) -> None:
        super().__init__(config)
        self.zigzag_settings: dict[str, Any] = {
            "lpf_limit": config.lpf_limit,
            "sum_bits": config.sum_bits,
        }
        if config.accelerator:
            mapping = config.mapping or config.accelerator
            named = {"accelerator": config.accelerator, "mapping": mapping}
            self.zigzag_settings |= {key: _read_source(key, value) for key, value in named.items()}
            if config.loops == "any":
                self.zigzag_settings["loops"] = config.loops
        self.element_bits = config.element_bits
        self.simulates_node = not config.accelerator

    def collect_settings(self) -> dict[str, Any]:
        return {}

    def build_product_payload(self, product: MatrixProduct) -> tuple[dict[str, Any], float]:
        if "accelerator" not in self.zigzag_settings:
            payload, times = self.compute_array_share(product)
            return {**payload, **self._select_bits(product), **self.zigzag_settings}, times
        sizes = {"m": product.m, "k": product.k, "n": product.n}
        bits = self._select_bits(product)
        clock_hz = self.machine.unit.clock_hz
        return {**sizes, **bits, "clock_hz": clock_hz, **self.zigzag_settings}, product.count

    def _select_bits(self, product: MatrixProduct) -> dict[str, int]:
        """Return the bits of the operands and of the result of a product."""
        return {
            "in_bits": self.element_bits or product.in_bits,
            "out_bits": self.element_bits or product.out_bits,
        }


def _is_file_name(name: str) -> bool:
    """Return whether this names a file, and not a configuration that ZigZag ships."""
    return "/" in name or name.endswith((".yaml", ".yml"))


def _read_source(kind: str, name: str) -> dict[str, str]:
    """Return ``{"text": ...}`` of a file, ``{"name": ...}`` of a configuration that ZigZag ships.

    Args:
        kind: ``accelerator`` or ``mapping``.

    Raises:
        UsageError: The file cannot be read.
    """
    if not _is_file_name(name):
        return {"name": name}
    try:
        return {"text": Path(name).read_text("utf-8")}
    except (OSError, UnicodeDecodeError) as error:
        why = error.strerror if isinstance(error, OSError) else "it is not UTF-8 text"
        shipped = ", ".join(sorted(find_shipped_files(kind) or ()))
        remedy = f"by name, without .yaml, ZigZag has {shipped}" if shipped else ""
        raise UsageError(f"{name} cannot be read: {why}", remedy=remedy) from None
