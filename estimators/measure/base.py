"""What a measuring estimator is: a module to compile, a worker function, and the cost of an answer.

The parent makes a ``Job`` of each distinct item: JSON data that say completely what is measured.
A worker process runs ``worker(payload)`` and answers JSON data. The cache, the processes, Dask,
progress and counters (``hespas.estimators.measure.run``) are the same for every estimator.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, ClassVar, Literal

from hespas.dialects.attrs import Cost, trips_of
from hespas.dialects.errors import name_of, position
from hespas.dialects.mlir import ir, symbol
from hespas.estimators.base import Estimator, Item, cost_of, no_cost
from hespas.estimators.measure.failure import Failure
from hespas.estimators.measure.region import is_nothing, region_work, standalone
from hespas.estimators.work import UnknownCost, Work

Answer = dict[str, Any]

REMEDIES = {
    "unsupported": "use --keep-going to count it as a gap",
    "error": "use --keep-going to count it as a gap",
    "memory": "allow more with memory-limit, or use --keep-going to count it as a gap",
    "crash": "use --keep-going to count it as a gap",
    "timeout": "allow more seconds with timeout, or use --keep-going to count it as a gap",
}


class MeasureError(UnknownCost):
    """A region could not be measured; ``failure`` says why."""

    def __init__(self, failure: Failure, name: str, op: ir.Operation) -> None:
        self.failure = failure
        message = f"{name} could not be measured: {failure.text()}"
        remedy = REMEDIES[failure.kind]
        super().__init__(message, where=position(op.location), remedy=remedy)


@dataclass(frozen=True)
class Job:
    """One thing to measure: ``payload`` goes to the worker, the rest names it in messages.

    ``payload`` is JSON data and says all that the result depends on, but for the environment: its
    hash is the key of the cache. So it holds no paths, no times, and nothing of how it is run.
    """

    payload: dict[str, Any]
    name: str
    where: str = ""


class Measuring(Estimator):
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
    probe: ClassVar[str] = "hespas.estimators.measure.host:probe"
    packages: ClassVar[tuple[str, ...]] = ()
    turns: ClassVar[Literal["whole", "own"]] = "whole"

    def __init__(self, config: Any) -> None:
        self.config = config
        self.answers: dict[str, Answer | UnknownCost] = {}  # by the item's digest
        self.environment: dict[str, Any] = {}
        self.uncounted: set[str] = set()  # digests of items with an op that has no cost rule

    def parts(self, item: Item) -> Iterable[Item]:
        """What of a region, or of an op between regions, is measured on its own: all of it."""
        return (item,)

    def module(self, item: Item) -> str:
        """The text of the module to compile, its function ``main``; raises UnknownCost.

        The region as ``standalone`` gives it; rewriting it to what the compiler accepts is the
        estimator's. Called once for each distinct item, in the parent. Equal regions must give
        equal text: it is in the key of the cache.
        """
        return str(standalone(item.op))

    def payload(self, item: Item) -> dict[str, Any]:
        """What the worker is given: ``{"module": text, **settings}``; raises UnknownCost."""
        return {"module": self.module(item), **self.settings()}

    def settings(self) -> dict[str, Any]:
        """What of the configuration results depend on, as JSON data; also given to ``probe``."""
        if dataclasses.is_dataclass(self.config):
            return {f.name: getattr(self.config, f.name) for f in dataclasses.fields(self.config)}
        return self.config.model_dump(mode="json")

    def job(self, item: Item) -> Job:
        """The item's payload and what it is called; raises UnknownCost."""
        op = item.op
        name = f"@{symbol(op)}" if op.name == "func.func" else name_of(op.location) or op.name
        return Job(self.payload(item), name, position(op.location))

    def cost(self, item: Item, measured: Answer) -> Cost:
        """The cost of an answer: its median time, and the work that the item's ops do.

        Where an op has no cost rule the work is the compiler's own count, if the answer has it.
        """
        work = self._work(item, measured)
        cost = cost_of(self.name, work, measured["median_s"], "measured", trips=trips_of(item.op))
        if "low_s" not in measured or "high_s" not in measured:
            return cost
        low_ns, high_ns = 1e9 * measured["low_s"], 1e9 * measured["high_s"]
        return dataclasses.replace(cost, low_ns=low_ns, high_ns=high_ns)

    def estimate(self, item: Item) -> Cost:
        """The cost of an item, measured now where that was not done yet; raises UnknownCost."""
        if is_nothing(item.op):
            return no_cost(self.name)
        if item.digest not in self.answers:
            from hespas.estimators.measure.run import measure

            # Seen as a file of the folder and as a module of the package, the class is two.
            measure(self, [item])  # pyright: ignore[reportArgumentType]
        answer = self.answers[item.digest]
        if isinstance(answer, UnknownCost):
            raise answer
        return self.cost(item, answer)

    def provenance(self) -> str:
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

    def _work(self, item: Item, measured: Answer) -> Work:
        try:
            return region_work(item.op)
        except UnknownCost:
            self.uncounted.add(item.digest)
            from hespas.estimators.rules.base import vector

            flops, moved = int(measured.get("flops", 0)), int(measured.get("bytes", 0))
            return Work("region", moved, 0, vector("f32", flops))
