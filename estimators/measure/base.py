"""What a measuring estimator is: a module to compile, a worker function, and the cost of an answer.

The parent makes a ``Job`` of each distinct item: JSON data that say completely what is measured. A
worker process runs ``worker(payload)`` and answers JSON data. The cache, the processes, Dask,
progress and counters (``hespas.estimators.measure.measurement_run``) are the same for every
estimator.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable
from typing import Any, ClassVar, Literal

from hespas.dialects.attr_codec import read_trip_count
from hespas.dialects.attrs import Cost
from hespas.dialects.mlir import get_symbol_name
from hespas.estimators.base import CostItem, Estimator, build_work_cost, build_zero_cost
from hespas.estimators.measure.measurement_job import Answer, MeasurementJob
from hespas.estimators.measure.standalone_region import (
    build_standalone_module,
    compute_region_work,
    has_only_free_ops,
)
from hespas.estimators.work import OpWork, UnknownCost
from hespas.support.errors import find_framework_name, format_source_position


class MeasuringEstimator(Estimator):
    """Base of the estimators that compile and run what they estimate.

    A subclass names its ``worker``, "module:function", which is called in a process of its own as
    ``worker(payload)`` and returns JSON data: ``median_s`` (the time, required), and where it has
    them ``min_s``, ``mad_s`` (median absolute deviation), ``low_s`` and ``high_s`` (10th and 90th
    percentile), ``repetitions``, ``compile_s``, ``flops`` and ``bytes`` (the compiler's own count),
    and what else is worth keeping in the cache.
    It raises ``Unsupported`` (hespas.estimators.measure.failure) for what can never be measured;
    that is cached. Whatever else it raises, a crash, a hang and a lack of memory are not.

    ``probe``, "module:function" too, is called in a worker as ``probe(settings)`` and returns what
    results depend on beside the payload: ``{"device": "...", ...}``. The ``versions`` of the
    distributions named in ``packages`` are added to it.

    ``turns`` "whole" gives each worker call the machine to itself, however many workers there are.
    A worker that does so itself with ``turns.compiling()`` and ``turns.running()``
    (hespas.estimators.measure.turns) says "own": then compiles run side by side, and only what is
    timed is alone. Time spent waiting for a turn does not count for the timeout.

    ``Config`` is a dataclass or a pydantic model whose fields are plain JSON data.
    """

    granularity: ClassVar[Literal["op", "kernel", "region"]] = "region"
    measures: ClassVar[bool] = True
    worker: ClassVar[str]
    probe: ClassVar[str] = "hespas.estimators.measure.host:probe_host"
    packages: ClassVar[tuple[str, ...]] = ()
    turns: ClassVar[Literal["whole", "own"]] = "whole"

    def __init__(self, config: Any) -> None:
        self.config = config
        self.answers: dict[str, Answer | UnknownCost] = {}  # by the item's digest
        self.environment: dict[str, Any] = {}
        self.uncounted: set[str] = set()  # digests of items with an op that has no cost rule

    def list_measured_items(self, item: CostItem) -> Iterable[CostItem]:
        """What of a region, or of an op between regions, is measured on its own: all of it."""
        return (item,)

    def build_module_text(self, item: CostItem) -> str:
        """The text of the module to compile, its function ``main``; raises UnknownCost.

        The region as ``standalone`` gives it; rewriting it to what the compiler accepts is the
        estimator's. Called once for each distinct item, in the parent. Equal regions must give
        equal text: it is in the key of the cache.
        """
        return str(build_standalone_module(item.op))

    def build_payload(self, item: CostItem) -> dict[str, Any]:
        """What the worker is given: ``{"module": text, **settings}``; raises UnknownCost."""
        return {"module": self.build_module_text(item), **self.collect_settings()}

    def collect_settings(self) -> dict[str, Any]:
        """What of the configuration results depend on, as JSON data; also given to ``probe``."""
        if dataclasses.is_dataclass(self.config):
            return {f.name: getattr(self.config, f.name) for f in dataclasses.fields(self.config)}
        return self.config.model_dump(mode="json")

    def build_measurement_job(self, item: CostItem) -> MeasurementJob:
        """The item's payload and what it is called; raises UnknownCost."""
        op = item.op
        name = (
            f"@{get_symbol_name(op)}"
            if op.name == "func.func"
            else find_framework_name(op.location) or op.name
        )
        return MeasurementJob(self.build_payload(item), name, format_source_position(op.location))

    def build_cost_from_answer(self, item: CostItem, answer: Answer) -> Cost:
        """The cost of an answer: its median time, and the work that the item's ops do.

        Where an op has no cost rule the work is the compiler's own count, if the answer has it.
        """
        work = self._count_region_work(item, answer)
        cost = build_work_cost(
            self.name, work, answer["median_s"], "measured", trips=read_trip_count(item.op)
        )
        if "low_s" not in answer or "high_s" not in answer:
            return cost
        low_ns, high_ns = 1e9 * answer["low_s"], 1e9 * answer["high_s"]
        return dataclasses.replace(cost, low_ns=low_ns, high_ns=high_ns)

    def estimate(self, item: CostItem) -> Cost:
        """The cost of an item, measured now where that was not done yet; raises UnknownCost."""
        if has_only_free_ops(item.op):
            return build_zero_cost(self.name)
        if item.digest not in self.answers:
            from hespas.estimators.measure.measurement_run import measure_items

            measure_items(self, [item])
        answer = self.answers[item.digest]
        if isinstance(answer, UnknownCost):
            raise answer
        return self.build_cost_from_answer(item, answer)

    def describe_provenance(self) -> str:
        """Device, versions, and how far the repetitions of a region are apart, in one line."""
        parts = [str(self.environment.get("device", "nothing measured"))]
        parts += [f"{name} {v}" for name, v in self.environment.get("versions", {}).items()]
        answers = [a for a in self.answers.values() if not isinstance(a, UnknownCost)]
        spreads = [a["mad_s"] / a["median_s"] for a in answers if a.get("mad_s") and a["median_s"]]
        if spreads:
            import statistics

            middle, most = 100 * statistics.median(spreads), 100 * max(spreads)
            parts.append(f"deviation of repetitions {middle:.1f} %, at most {most:.1f} %")
        if self.uncounted:
            parts.append(f"regions with operations that no rule counts: {len(self.uncounted)}")
        return "; ".join(parts)

    def _count_region_work(self, item: CostItem, answer: Answer) -> OpWork:
        try:
            return compute_region_work(item.op)
        except UnknownCost:
            self.uncounted.add(item.digest)
            from hespas.estimators.rules.base import build_vector_parts

            flops, moved = int(answer.get("flops", 0)), int(answer.get("bytes", 0))
            return OpWork("region", moved, 0, build_vector_parts("f32", flops))
