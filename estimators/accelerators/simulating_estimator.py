"""The bases of estimators that simulate matrix products and estimate other ops on a vector unit.

Each distinct product of a program is simulated once, in a worker process. Its result is cached by
the shape of the product and the simulated hardware.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
from abc import abstractmethod
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any, ClassVar, Literal

from hespas.dialects.attrs import Cost
from hespas.dialects.executions import LEAF, iterate_op_executions
from hespas.dialects.mlir import ir
from hespas.estimators.accelerators import dataflow as flow
from hespas.estimators.accelerators.accelerator_machine import (
    AcceleratorMachine,
    AcceleratorMachineConfig,
)
from hespas.estimators.accelerators.chip_energy import ChipTraffic, count_array_bytes
from hespas.estimators.accelerators.overlapped_cost import (
    OverlappedUnits,
    UnitLoad,
    find_array_bound,
)
from hespas.estimators.base import ChipFigures, CostItem, raise_as_unknown_cost
from hespas.estimators.matrix_products import (
    MatrixProduct,
    collect_matrix_products,
    collect_unit_products,
    count_other_flops,
    sum_flops,
)
from hespas.estimators.measure.base import MeasurementJob, MeasuringEstimator
from hespas.estimators.work import OpWork, UnknownCost
from hespas.support.errors import find_framework_name, format_source_position
from hespas.support.settings import setting

Payload = dict[str, Any]


@dataclass(frozen=True)
class SimulatingConfig(AcceleratorMachineConfig):
    """The hardware of ``SimulatingEstimator``, and what the time of a matrix product depends on."""

    simulator_alone: bool = setting(
        False,
        "take the time of a product from the simulator alone, whatever the type of its elements: "
        "not at least that of the node's memory, and not longer for types with a lower rate",
    )


class ProductItem(CostItem):
    """One matrix product of an op; equal products of different ops have equal digests."""

    def __init__(self, op: ir.Operation, payload: Payload) -> None:
        super().__init__(op)
        self.payload = payload

    @property
    def digest(self) -> str:
        text = json.dumps(self.payload, sort_keys=True)
        return hashlib.sha256(text.encode()).hexdigest()[:16]


class SimulatingEstimator(MeasuringEstimator):
    """Base of the estimators whose matrix products a simulator times.

    A subclass names the ``worker`` that runs its simulator, and defines ``build_product_payload``.
    The worker answers with ``median_s``, the seconds of the product on the hardware.
    """

    granularity: ClassVar[Literal["op", "kernel", "region"]] = "op"
    turns: ClassVar[Literal["whole", "own"]] = (
        "own"  # nothing is timed, so workers may run alongside
    )

    def __init__(self, config: SimulatingConfig) -> None:
        super().__init__(config)
        self.simulator_alone = config.simulator_alone
        self.machine = AcceleratorMachine(config, has_equal_rates=config.simulator_alone)
        self.shapeless = 0
        # False if a description of the simulator's own replaces the arrays of the node: its
        # products are not compared with the vector unit of another chip.
        self.simulates_node = True

    @abstractmethod
    def build_product_payload(self, product: MatrixProduct) -> tuple[Payload, float]:
        """Return the payload of a product, and how many times it is executed.

        The payload is JSON data with everything that the result depends on.

        Raises:
            HespasError: The simulator does not support the product.
        """

    def list_measured_items(self, item: CostItem) -> Iterator[CostItem]:
        """Yield the products of all ops of an item; ``estimate`` raises other errors."""
        if isinstance(item, ProductItem):
            yield item
            return
        for op, _, kind, _ in iterate_op_executions(item.op):
            if kind == LEAF:
                with contextlib.suppress(UnknownCost):
                    yield from [ProductItem(op, payload) for payload, _ in self._build_payloads(op)]

    def build_measurement_job(self, item: CostItem) -> MeasurementJob:
        assert isinstance(item, ProductItem)
        name = find_framework_name(item.op.location) or item.op.name
        return MeasurementJob(item.payload, name, format_source_position(item.op.location))

    def estimate(self, item: CostItem) -> Cost:
        work = item.work
        products, payload_counts = collect_unit_products(item.op), self._build_payloads(item.op)
        on_arrays = [each.on_arrays for each in products]
        other_flops = count_other_flops(work, on_arrays)
        self._measure_missing_items(
            [ProductItem(item.op, payload) for payload, _ in payload_counts]
        )
        answers: list[tuple[dict[str, Any], float]] = []
        for payload, times in payload_counts:
            answer = self.answers[ProductItem(item.op, payload).digest]
            if isinstance(answer, UnknownCost):
                raise answer
            answers.append((answer, times))
        matrix_s = sum(times * answer["median_s"] for answer, times in answers)
        with raise_as_unknown_cost(item.op):
            traffic = ChipTraffic(sum(count_array_bytes(on_arrays, self.machine.unit, "ws")))
            load = UnitLoad(matrix_s, "", traffic)
            units = OverlappedUnits(self.name, self.machine)
            cost = units.compute_cost(work, load, other_flops)
            energy = _sum_simulated_energy(answers)
            if energy is not None:
                cost = replace(cost, **energy)
            if not self.simulator_alone:
                if self.simulates_node:
                    on_lanes = units.find_faster_on_lanes(cost, work, products, other_flops)
                    cost = on_lanes or cost
            elif products and not other_flops and _is_matrix_work(work):
                ideal_s = self.machine.compute_full_rate_time_s(sum_flops(on_arrays))
                memory_s = units.compute_memory_s(work, traffic)
                bound = find_array_bound(matrix_s, ideal_s, memory_s)
                cost = replace(cost, latency_ns=matrix_s * 1e9, bound=bound)
        self.shapeless += bool(other_flops)
        return cost

    def describe_provenance(self) -> str:
        parts = [
            self.machine.describe_provenance(),
            str(self.environment.get("device", "nothing simulated")),
        ]
        parts += [f"{name} {v}" for name, v in self.environment.get("versions", {}).items()]
        if self.shapeless:
            parts.append(
                f"at full rate, because the shape is not known (distinct ops): {self.shapeless}"
            )
        return "; ".join(parts)

    def describe_chip(self) -> ChipFigures:
        return self.machine.describe_chip()

    def list_warnings(self) -> list[str]:
        return self.machine.list_warnings()

    def _build_payloads(self, op: ir.Operation) -> list[tuple[Payload, float]]:
        with raise_as_unknown_cost(op):
            return [self.build_product_payload(product) for product in collect_matrix_products(op)]

    def _measure_missing_items(self, items: Iterable[CostItem]) -> None:
        """Simulate the items that have no answer yet."""
        missing = [item for item in items if item.digest not in self.answers]
        if missing:
            from hespas.estimators.measure.measurement_run import measure_items

            measure_items(self, missing)


class ArraySimulatingEstimator(SimulatingEstimator):
    """Base of the estimators that simulate one array, with its share of products and bandwidth.

    If a row does not take exactly one cycle, the clock of the simulated array is scaled instead.
    """

    def compute_array_share(
        self,
        product: MatrixProduct,
        variant: flow.Variant = "pipelined",
        dataflow: flow.Dataflow = "ws",
    ) -> tuple[Payload, float]:
        """Return the share of one array as a payload, and how many times it is executed.

        The division is the fastest in the closed form of ``variant``. The payload contains the
        sizes, the array, ``clock_hz``, ``bits_per_cycle`` to memory, and ``sram_bytes``.
        """
        unit = self.machine.unit
        cycles_per_row, arrays = (
            self.machine.compute_cycles_per_row(product.dtype),
            unit.cores * unit.arrays,
        )
        sizes = (product.m, product.k, product.n)
        _, times, (m, k, n) = flow.share_products(
            flow.SystolicArray(variant, dataflow, unit.rows, unit.columns),
            sizes,
            product.count,
            arrays,
        )
        clock_hz = unit.clock_hz / cycles_per_row
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

    def count_share_cycles(
        self, share: Payload, variant: flow.Variant = "pipelined", dataflow: flow.Dataflow = "ws"
    ) -> float:
        """Return the cycles of a share of ``compute_array_share`` in the closed form."""
        array = flow.SystolicArray(variant, dataflow, share["rows"], share["columns"])
        return flow.count_product_cycles(array, (share["m"], share["k"], share["n"]))


def _is_matrix_work(work: OpWork) -> bool:
    """Return whether all operations of an op are on the matrix unit."""
    return not work.transcendentals and all(part.unit == "matrix" for part in work.parts)


def _sum_simulated_energy(answers: Sequence[tuple[dict[str, Any], float]]) -> Payload | None:
    """Return the energy fields of a cost by the simulator; None if it has no figures of energy."""
    levels = [(answer.get("energy_pj", {}), times) for answer, times in answers]
    sums_nj = {
        f"{level}_nj": 1e-3 * sum(times * energies.get(level, 0.0) for energies, times in levels)
        for level in ("compute", "sram", "memory")
    }
    total_nj = sum(sums_nj.values())
    return {"energy_nj": total_nj, **sums_nj, "leakage_nj": None} if total_nj else None
