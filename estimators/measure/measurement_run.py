"""Measuring the distinct items of a program, with a cache of results and a pool of workers."""

from __future__ import annotations

import itertools
import sys
import time
from collections.abc import Callable, Generator, Iterable, Iterator, Sequence
from contextlib import closing, contextmanager
from dataclasses import asdict, dataclass
from typing import Any, Protocol

from hespas.estimators.base import CostItem
from hespas.estimators.measure.failure import WorkerFailure
from hespas.estimators.measure.measure_options import MeasureOptions
from hespas.estimators.measure.measurement_cache import MeasurementCache, compute_cache_key
from hespas.estimators.measure.measurement_job import (
    Answer,
    MeasurableEstimator,
    MeasureError,
    MeasurementJob,
)
from hespas.estimators.measure.processes import LocalWorkerPool, WorkerOutcome, WorkerSpec
from hespas.estimators.measure.progress import ProgressCounter, open_progress_display
from hespas.estimators.measure.standalone_region import has_only_free_ops
from hespas.estimators.work import UnknownCost
from hespas.support.entry_points import report_raised_errors


@dataclass
class MeasureStatistics:
    """The numbers of items by the way in which their times were obtained.

    Attributes:
        regions: All items of the program.
        free: Items that take no time.
        distinct: Distinct items among the others, the sum of ``measured``, ``cached``, ``failed``.
        measured: Distinct items that were compiled and run.
        cached: Distinct items whose result was in the cache.
        failed: Distinct items without a time.
        retried: Attempts that ended a worker process.
        elapsed_s: Duration of the measurements, with the start of workers.
        uncached_s: ``elapsed_s``, and the time of workers that the reuse of results saved.
        device: The device that ran the items.
    """

    regions: int = 0
    free: int = 0
    distinct: int = 0
    measured: int = 0
    cached: int = 0
    failed: int = 0
    retried: int = 0
    elapsed_s: float = 0.0
    uncached_s: float = 0.0
    device: str = ""

    def to_json(self) -> dict[str, Any]:
        return asdict(self)


class WorkerPool(Protocol):
    """Workers that run payloads: processes on this machine, or a cluster."""

    @property
    def retried(self) -> int: ...

    def collect_environment(self) -> dict[str, Any]: ...

    def run_payloads(
        self, payloads: Sequence[dict[str, Any]]
    ) -> Generator[tuple[int, WorkerOutcome], None, None]: ...


@dataclass
class _MeasurementEntry:
    """Items that share a job; ``count`` is their number in the program."""

    items: list[CostItem]
    job: MeasurementJob
    count: int = 1
    key: str = ""


def _print_note(text: str) -> None:
    print(text, file=sys.stderr)


def measure_items(
    estimator: MeasurableEstimator,
    items: Iterable[CostItem],
    options: MeasureOptions | None = None,
    *,
    note: Callable[[str], None] = _print_note,
    show_progress: Callable[[str], None] | None = None,
    keep_going: bool = False,
) -> MeasureStatistics:
    """Measure each distinct item and store the answers in ``estimator.answers``.

    Each result is cached when it arrives, so an interrupted run can be resumed. Raises MeasureError
    for the first item that cannot be measured, unless ``keep_going`` is set.
    """
    options = options or MeasureOptions()
    start, statistics = time.monotonic(), MeasureStatistics()
    entries = _collect_distinct_entries(estimator, items, statistics, keep_going)
    spec = WorkerSpec(
        worker=estimator.worker,
        probe=estimator.probe,
        packages=estimator.packages,
        turns=estimator.turns,
        settings=estimator.collect_settings(),
        memory_limit_bytes=round(options.memory_limit * 1e9),
        timeout_s=options.timeout,
        retries=options.retries,
    )
    with (
        open_worker_pool(spec, options.jobs, options.dask, note) as workers,
        MeasurementCache(options.cache) as cache,
    ):
        if entries:
            estimator.environment = workers.collect_environment()
            statistics.device = str(estimator.environment.get("device", ""))
        todo = _load_cached_answers(estimator, entries, cache, statistics, keep_going)
        with open_progress_display(note, show_progress) as show:
            progress = ProgressCounter(estimator.name, len(todo), show)
            with closing(workers.run_payloads([entry.job.payload for entry in todo])) as outcomes:
                for number, outcome in outcomes:
                    entry = todo[number]
                    _store_outcome(estimator, entry, outcome, cache)
                    statistics.measured += not isinstance(outcome, WorkerFailure)
                    _accept_outcome(
                        estimator, entry, outcome, statistics, keep_going, is_measured=True
                    )
                    progress.count_finished(entry.job.name)
        statistics.retried = workers.retried
    statistics.elapsed_s = time.monotonic() - start
    statistics.uncached_s += statistics.elapsed_s
    return statistics


def _collect_distinct_entries(
    estimator: MeasurableEstimator,
    items: Iterable[CostItem],
    statistics: MeasureStatistics,
    keep_going: bool,
) -> list[_MeasurementEntry]:
    """Return the distinct items that take time, in program order, with their jobs."""
    entries: dict[str, _MeasurementEntry] = {}
    refused: set[str] = set()
    for item in itertools.chain.from_iterable(map(estimator.list_measured_items, items)):
        statistics.regions += 1
        if has_only_free_ops(item.op):
            statistics.free += 1
            continue
        digest = item.digest
        if digest in entries:
            entries[digest].count += 1
            continue
        if digest in refused:
            continue
        try:
            with report_raised_errors(f"estimator '{estimator.name}'", type(estimator), op=item.op):
                entries[digest] = _MeasurementEntry([item], estimator.build_measurement_job(item))
        except UnknownCost as error:
            if not keep_going:
                raise
            estimator.answers[digest] = error
            refused.add(digest)
    statistics.failed += len(refused)
    statistics.distinct += len(entries) + len(refused)
    return list(entries.values())


def _load_cached_answers(
    estimator: MeasurableEstimator,
    entries: list[_MeasurementEntry],
    cache: MeasurementCache,
    statistics: MeasureStatistics,
    keep_going: bool,
) -> list[_MeasurementEntry]:
    """Merge entries with equal jobs, accept cached outcomes, and return the remaining entries."""
    todo: list[_MeasurementEntry] = []
    seen: dict[str, _MeasurementEntry] = {}
    for entry in entries:
        entry.key = compute_cache_key(
            estimator.name, estimator.version, entry.job.payload, estimator.environment
        )
        first = seen.setdefault(entry.key, entry)
        if first is not entry:
            first.items += entry.items
            first.count += entry.count
    statistics.distinct -= len(entries) - len(seen)
    for entry in seen.values():
        outcome = cache.find_outcome(entry.key)
        if outcome is None:
            todo.append(entry)
        else:
            statistics.cached += not isinstance(outcome, WorkerFailure)
            _accept_outcome(estimator, entry, outcome, statistics, keep_going)
    return todo


def _store_outcome(
    estimator: MeasurableEstimator,
    entry: _MeasurementEntry,
    outcome: WorkerOutcome,
    cache: MeasurementCache,
) -> None:
    """Cache a result, or a failure that the machine cannot have caused."""
    if isinstance(outcome, WorkerFailure) and outcome.kind != "unsupported":
        return
    cache.store_outcome(
        entry.key,
        outcome,
        estimator=estimator.name,
        version=estimator.version,
        device=str(estimator.environment.get("device", "")),
        name=entry.job.name,
    )


def _accept_outcome(
    estimator: MeasurableEstimator,
    entry: _MeasurementEntry,
    outcome: WorkerOutcome,
    statistics: MeasureStatistics,
    keep_going: bool,
    *,
    is_measured: bool = False,
) -> None:
    """Store an answer, or the error of a failure, which is raised unless ``keep_going`` is set.

    An outcome that is not measured comes from the cache.
    """
    answer: Answer | MeasureError
    if isinstance(outcome, WorkerFailure):
        statistics.failed += 1
        answer = MeasureError(outcome, entry.job.name, entry.items[0].op)
        if not keep_going:
            raise answer
    else:
        answer = outcome
        statistics.uncached_s += (entry.count - is_measured) * outcome.get("wall_s", 0.0)
    for item in entry.items:
        estimator.answers[item.digest] = answer


@contextmanager
def open_worker_pool(
    spec: WorkerSpec, jobs: int, dask: str, note: Callable[[str], None]
) -> Iterator[WorkerPool]:
    """Open a pool of ``jobs`` workers here, or of those of the Dask cluster at an address."""
    if dask:
        from hespas.estimators.measure.cluster import DaskWorkerPool

        with DaskWorkerPool(spec, dask) as cluster:
            yield cluster
    else:
        with LocalWorkerPool(spec, jobs, note) as processes:
            yield processes
