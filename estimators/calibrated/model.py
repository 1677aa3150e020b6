"""``calibrated``: kernels timed from first principles, with constants measured on the device.

A matrix product, convolution or attention call takes what the fit of its class says (``Fit``), with
the operations of its epilogue beside it. Any other kernel takes

    launch + memory + compute - 0.95 min(memory, compute)

with the overlap of XLA's ``gpu_performance_model_base``. ``memory`` is bytes, and sectors read for
nothing, over the bandwidth that such a kernel reaches, or over what the few cores can move that a
reduction with few results runs on; ``compute`` is issue slots (``traits``).
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, replace
from typing import ClassVar

from hespas.configs.node import Node
from hespas.dialects.attrs import Cost
from hespas.dialects.mlir import ir
from hespas.estimators.base import Estimator, Item, costing
from hespas.estimators.calibrated.attention import attention_shape
from hespas.estimators.calibrated.constants import ASSUMED, Constants
from hespas.estimators.calibrated.kernels import (
    OVERLAP,
    Timed,
    attention_time,
    convolution_time,
    product_time,
    row_time,
    shapeless_s,
    stream_time,
)
from hespas.estimators.calibrated.passes import MEASURED, compute_share, passes
from hespas.estimators.calibrated.traits import FLOPS_PER_SLOT, Traits, traits
from hespas.estimators.products import Product, other_flops
from hespas.estimators.roofline import Roofline, RooflineConfig
from hespas.estimators.work import Work


@dataclass(frozen=True, slots=True)
class CalibratedConfig:
    """``node`` gives the constants, under ``calibration`` in its file.

    ``quantise`` says that products of 8-bit types quantise their left operand themselves, as the
    dynamic linear layers of inference engines do.
    """

    node: Node
    quantise: bool = False


class Calibrated(Estimator):
    """Kernel times with the constants that were measured on the device."""

    name: ClassVar[str] = "calibrated"
    version: ClassVar[str] = "1"
    measured_network: ClassVar[bool] = True
    Config: ClassVar[type] = CalibratedConfig

    def __init__(self, config: CalibratedConfig) -> None:
        self.node = config.node
        self.quantise = config.quantise
        self.roofline = Roofline(RooflineConfig(config.node))
        self.constants = Constants.of(config.node)
        self.tagged: Counter[str] = Counter()

    def estimate(self, item: Item) -> Cost:
        work = item.work
        with costing(item.op):
            base = self.roofline.cost(work)
            timed = None if work.free else self.time(item.op, work)
        if timed is not None:
            self.tagged.update(timed.tags)
        return self._cost(base, timed)

    def time(self, op: ir.Operation, work: Work) -> Timed:
        """The time of one execution of a leaf op or fusion; raises HespasError."""
        found = traits(op, work)
        slots = found.slots + sum(other_flops(work, found.products, "vector").values())
        rate = self.node.peak("vector", "f32").flops_per_s if slots else 1.0
        vector_s = FLOPS_PER_SLOT * slots / rate
        moved = work.read_bytes + work.write_bytes
        if work.kind == "attention":
            return attention_time(self.constants, attention_shape(op, work), moved)
        if found.products:
            timed = self._products(found.products, moved, work.kind)
            hidden = OVERLAP * min(timed.time_s - timed.launch_s, vector_s)
            return replace(timed, time_s=timed.time_s + vector_s - hidden)
        return self._stream(op, work, found, vector_s)

    def provenance(self) -> str:
        text = f"{self.node.provenance()}, {self.constants.text}"
        if self.roofline.fallbacks:
            text += self.roofline.provenance().removeprefix(self.node.provenance())
        if self.tagged:
            text += "; distinct kernels: " + ", ".join(
                f"{count} {tag}" for tag, count in sorted(self.tagged.items())
            )
        return text

    def _products(self, shapes: list[Product], moved: int, kind: str) -> Timed:
        """The products of one kernel: the largest decides on the fit, the others add to it."""
        largest = max(shapes, key=lambda shape: shape.flops)
        shape = replace(largest, flops=sum(shape.flops for shape in shapes))
        if kind == "conv":
            return convolution_time(self.constants, shape, moved)
        return product_time(self.constants, shape, moved, self.quantise)

    def _stream(self, op: ir.Operation, work: Work, found: Traits, vector_s: float) -> Timed:
        kind = work.kind
        if found.rows is not None:
            return row_time(self.constants, *found.rows, work.read_bytes + work.write_bytes)
        fit = self.constants.fits["stream.reduce" if kind == "reduction" else "stream.loop"]
        shapeless = other_flops(work, found.products)
        if kind not in MEASURED or shapeless:
            fit = fit.tagged(ASSUMED)
        times, launches = passes(op, work)
        return stream_time(
            self.constants,
            fit,
            times * (work.read_bytes + work.write_bytes) + found.wasted_bytes,
            vector_s / compute_share(kind) + shapeless_s(self.constants, shapeless),
            blocks=found.blocks,
            launches=max(launches, found.launches),
        )

    def _cost(self, base: Cost, timed: Timed | None) -> Cost:
        """The roofline's cost with the time of the kernel and its band."""
        if timed is None:
            return replace(
                base, estimator=self.name, low_ns=base.latency_ns, high_ns=base.latency_ns
            )
        latency_ns = 1e9 * timed.time_s
        low, high = timed.fit.band.at(timed.time_s, bool(timed.tags))
        return replace(
            base,
            estimator=self.name,
            latency_ns=latency_ns,
            bound=timed.bound,
            low_ns=latency_ns * low,
            high_ns=latency_ns * high,
            tag=" ".join(sorted(timed.tags)) or None,
        )
