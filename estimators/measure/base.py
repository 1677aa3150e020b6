"""The base class of measuring estimators.

The parent process builds a ``MeasurementJob`` for each distinct item: JSON data that completely
describe what is measured. A worker process calls ``worker(payload)`` and returns JSON data. All
measuring estimators share the cache, the processes, the Dask client, the progress display and the
counters (``hespas.estimators.measure.measurement_run``).
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
    """The base class of estimators that compile and run regions.

    ``Config`` is a dataclass or a pydantic model whose fields are plain JSON data.

    Attributes:
        worker: "module:function", called in a worker process as ``worker(payload)``. It returns
            JSON data: ``median_s`` (the time, required), and optionally ``min_s``, ``mad_s``
            (median absolute deviation), ``low_s`` and ``high_s`` (10th and 90th percentile),
            ``repetitions``, ``compile_s``, ``flops`` and ``bytes`` (counted by the compiler), and
            any other data to keep in the cache. It raises ``UnsupportedError``
            (hespas.estimators.measure.failure) for a payload that can never be measured; this is
            cached. Other exceptions, crashes, timeouts and lack of memory are not cached.
        probe: "module:function", called in a worker process as ``probe(settings)``. It returns
            everything except the payload that results depend on: ``{"device": "...", ...}``. The
            ``versions`` of the distributions in ``packages`` are added.
        packages: The distributions whose versions results depend on.
        tested_version: The version of the simulator whose results were checked; "" for a package
            whose supported versions are declared as a dependency.
        turns: "whole" runs only one worker call at a time on a machine, whatever the number of
            workers. "own" is for a worker that calls ``hold_compile_turn`` and
            ``hold_timing_turn`` (of hespas.plugin) itself, so that
            compilations run in parallel and only timed code runs alone. The timeout does not
            include the time spent waiting for a turn.
    """

    granularity: ClassVar[Literal["op", "kernel", "region"]] = "region"
    measures: ClassVar[bool] = True
    worker: ClassVar[str]
    probe: ClassVar[str] = "hespas.estimators.measure.host:probe_host"
    packages: ClassVar[tuple[str, ...]] = ()
    tested_version: ClassVar[str] = ""
    turns: ClassVar[Literal["whole", "own"]] = "whole"

    def __init__(self, config: Any) -> None:
        self.config = config
        self.answers: dict[str, Answer | UnknownCost] = {}  # by digest of the item
        self.environment: dict[str, Any] = {}
        self.uncounted: set[str] = set()  # digests of items with an op that has no cost rule

    def list_measured_items(self, item: CostItem) -> Iterable[CostItem]:
        """List the parts of a region, or of an op between regions, that are measured separately.

        By default this is the whole item.
        """
        return (item,)

    def build_module_text(self, item: CostItem) -> str:
        """Return the text of the module to compile, whose function is ``main``.

        By default this is the result of ``build_standalone_module``. A subclass rewrites it into
        what its compiler accepts. The parent process calls this once for each distinct item. Equal
        regions must give equal text, because the cache key contains it. Raises UnknownCost.
        """
        return str(build_standalone_module(item.op))

    def build_payload(self, item: CostItem) -> dict[str, Any]:
        """Return the argument of the worker: ``{"module": text, **settings}``.

        Raises UnknownCost.
        """
        return {"module": self.build_module_text(item), **self.collect_settings()}

    def collect_settings(self) -> dict[str, Any]:
        """Return, as JSON data, the configuration that results depend on; ``probe`` gets it too."""
        if dataclasses.is_dataclass(self.config):
            return {f.name: getattr(self.config, f.name) for f in dataclasses.fields(self.config)}
        return self.config.model_dump(mode="json")

    def build_measurement_job(self, item: CostItem) -> MeasurementJob:
        """Return the payload of an item with its name for messages; raises UnknownCost."""
        op = item.op
        name = (
            f"@{get_symbol_name(op)}"
            if op.name == "func.func"
            else find_framework_name(op.location) or op.name
        )
        return MeasurementJob(self.build_payload(item), name, format_source_position(op.location))

    def build_cost_from_answer(self, item: CostItem, answer: Answer) -> Cost:
        """Return the cost of an item: the median time of the answer, and the work of its ops.

        If an op has no cost rule, the work is the compiler's count, as far as the answer has one.
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
        """Return the cost of an item, which is measured if needed; raises UnknownCost."""
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
        """Return one line with the device, versions, and the deviation of the repetitions."""
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
