"""The measurement jobs of an estimator, and the error of a job that fails."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, ClassVar, Literal, Protocol

from hespas.dialects.mlir import ir
from hespas.estimators.base import CostItem
from hespas.estimators.measure.failure import FailureKind, WorkerFailure
from hespas.estimators.work import UnknownCost
from hespas.support.errors import format_source_position

Answer = dict[str, Any]  # the JSON data that a worker returned for one payload

_COUNT_AS_GAP = "use --keep-going to count it as a gap"
_REMEDIES: dict[FailureKind, str] = {
    "unsupported": _COUNT_AS_GAP,
    "error": _COUNT_AS_GAP,
    "memory": f"allow more with memory-limit, or {_COUNT_AS_GAP}",
    "crash": _COUNT_AS_GAP,
    "timeout": f"allow more seconds with timeout, or {_COUNT_AS_GAP}",
}


@dataclass(frozen=True)
class MeasurementJob:
    """The description of one measurement.

    ``payload`` is sent to the worker. It is JSON data and holds everything that the result depends
    on except the environment, because its hash is the key in the cache. So it contains no paths,
    no times, and nothing about how the job is run. ``name`` and ``where`` (a source position)
    appear in messages only.
    """

    payload: dict[str, Any]
    name: str
    where: str = ""


class MeasureError(UnknownCost):
    """A region could not be measured."""

    def __init__(self, failure: WorkerFailure, name: str, op: ir.Operation) -> None:
        message = f"{name} could not be measured: {failure.format_message()}"
        where = format_source_position(op.location)
        super().__init__(message, where=where, remedy=_REMEDIES[failure.kind])


class MeasurableEstimator(Protocol):
    """The part of ``MeasuringEstimator`` that ``measure_items`` uses.

    ``answers`` maps the digest of an item to its answer or error; ``measure_items`` fills it.
    """

    name: ClassVar[str]
    version: ClassVar[str]
    worker: ClassVar[str]
    probe: ClassVar[str]
    packages: ClassVar[tuple[str, ...]]
    turns: ClassVar[Literal["whole", "own"]]
    answers: dict[str, Answer | UnknownCost]
    environment: dict[str, Any]

    def list_measured_items(self, item: CostItem) -> Iterable[CostItem]: ...

    def build_measurement_job(self, item: CostItem) -> MeasurementJob: ...

    def collect_settings(self) -> dict[str, Any]: ...
