"""What estimators share that give matrix products to a simulator, and the rest to a vector unit.

Each distinct product of a program is simulated once, in a worker process, and kept in the cache of
measurements by its shape and the simulated hardware.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
from abc import abstractmethod
from collections.abc import Iterable, Iterator
from typing import Any, ClassVar, Literal

from hespas.dialects.attrs import Cost
from hespas.dialects.errors import name_of, position
from hespas.dialects.mlir import ir
from hespas.dialects.ops import CALLEE, CONTROL, TERMINATORS
from hespas.estimators.accelerators import dataflow as flow
from hespas.estimators.accelerators.cost import overlapped
from hespas.estimators.accelerators.machine import Machine, MachineConfig
from hespas.estimators.accelerators.products import Product, other_flops, products
from hespas.estimators.base import Item, costing
from hespas.estimators.measure.base import Job, Measuring
from hespas.estimators.rules.region import callee
from hespas.estimators.work import UnknownCost

Payload = dict[str, Any]


class ProductItem(Item):
    """One matrix product of an op: what is simulated, whatever op it comes from."""

    def __init__(self, op: ir.Operation, payload: Payload) -> None:
        super().__init__(op)
        self.payload = payload

    @property
    def digest(self) -> str:
        text = json.dumps(self.payload, sort_keys=True)
        return hashlib.sha256(text.encode()).hexdigest()[:16]


class Simulating(Measuring):
    """Base of the estimators whose matrix products a simulator times.

    A subclass names the ``worker`` that runs its simulator and says in ``simulated`` what it is
    given; the worker answers with ``median_s``, the seconds of the product on the hardware.
    """

    granularity: ClassVar[Literal["op", "kernel", "region"]] = "op"
    turns: ClassVar[Literal["whole", "own"]] = "own"  # nothing is timed: all may run side by side

    def __init__(self, config: MachineConfig) -> None:
        super().__init__(config)
        self.machine = Machine(config)
        self.shapeless = 0

    @abstractmethod
    def simulated(self, product: Product) -> tuple[Payload, float]:
        """What the worker is given for a product, and how many times that takes place.

        JSON data that say all that the result depends on. Raises HespasError.
        """

    def parts(self, item: Item) -> Iterator[Item]:
        """The products of all ops of an item; what cannot be told is for ``estimate`` to say."""
        if isinstance(item, ProductItem):
            yield item
            return
        for op in _leaves(item.op):
            with contextlib.suppress(UnknownCost):
                yield from [ProductItem(op, payload) for payload, _ in self._shapes(op)]

    def job(self, item: Item) -> Job:
        assert isinstance(item, ProductItem)
        name = name_of(item.op.location) or item.op.name
        return Job(item.payload, name, position(item.op.location))

    def estimate(self, item: Item) -> Cost:
        work = item.work
        found, shapes = products(item.op), self._shapes(item.op)
        self._measure([ProductItem(item.op, payload) for payload, _ in shapes])
        matrix_s = 0.0
        for payload, times in shapes:
            answer = self.answers[ProductItem(item.op, payload).digest]
            if isinstance(answer, UnknownCost):
                raise answer
            matrix_s += times * answer["median_s"]
        other = other_flops(work, found)
        with costing(item.op):
            cost = overlapped(self.name, work, self.machine, matrix_s, other)
        self.shapeless += bool(other)
        return cost

    def provenance(self) -> str:
        parts = [
            self.machine.provenance(),
            str(self.environment.get("device", "nothing simulated")),
        ]
        parts += [f"{name} {v}" for name, v in self.environment.get("versions", {}).items()]
        if self.shapeless:
            parts.append(f"at full rate, for want of a shape (distinct ops): {self.shapeless}")
        return "; ".join(parts)

    def _shapes(self, op: ir.Operation) -> list[tuple[Payload, float]]:
        with costing(op):
            return [self.simulated(product) for product in products(op)]

    def _measure(self, items: Iterable[Item]) -> None:
        """Simulate those that nobody has simulated yet."""
        missing = [item for item in items if item.digest not in self.answers]
        if missing:
            from hespas.estimators.measure.run import measure

            measure(self, missing)  # pyright: ignore[reportArgumentType]


class OnArrays(Simulating):
    """Base of those that simulate one array, with its share of products and of the bandwidth.

    Where a row takes more or less than one cycle, for its type or for all, it is simulated at a
    clock that is that much lower or higher.
    """

    def share(
        self,
        product: Product,
        variant: flow.Variant = "pipelined",
        dataflow: flow.Dataflow = "ws",
    ) -> tuple[Payload, float]:
        """The share of one array, and how many times that takes place.

        Shared out as is best in that closed form. The share has its sizes, the array, ``clock_hz``,
        ``bits_per_cycle`` to memory, and ``sram_bytes``.
        """
        unit = self.machine.unit
        row, arrays = self.machine.row(product.dtype), unit.cores * unit.arrays
        sizes = (product.m, product.k, product.n)
        _, times, (m, k, n) = flow.shared(
            variant, dataflow, sizes, product.count, arrays, unit.rows, unit.columns
        )
        clock_hz = unit.clock_hz / row
        payload: Payload = {
            "m": m,
            "k": k,
            "n": n,
            "in_bits": product.in_bits,
            "out_bits": product.out_bits,
            "rows": unit.rows,
            "columns": unit.columns,
            "clock_hz": clock_hz,
            "bits_per_cycle": max(int(8 * self.machine.bandwidth / arrays / clock_hz), 1),
            "sram_bytes": unit.sram_bytes // unit.arrays,
        }
        return payload, times


def _leaves(op: ir.Operation) -> Iterator[ir.Operation]:
    """The ops that an op, a region function or control flow runs, calls followed."""
    name = op.name
    if name in CALLEE:
        yield from _leaves(callee(op))
    elif name == "func.func" or name in CONTROL:
        for region in op.regions:
            for block in region.blocks:
                for view in block.operations:
                    yield from _leaves(view.operation)
    elif name not in TERMINATORS:
        yield op
