"""Measuring the distinct items of a program: from the cache, or by workers, each result kept."""

from __future__ import annotations

import itertools
import time
from collections.abc import Callable, Generator, Iterable, Iterator, Sequence
from contextlib import closing, contextmanager
from dataclasses import asdict, dataclass
from typing import Any, Protocol

from hespas.dialects.errors import UsageError
from hespas.estimators.base import Item
from hespas.estimators.measure.base import Answer, Job, MeasureError, Measuring
from hespas.estimators.measure.cache import Cache, key_of
from hespas.estimators.measure.failure import Failure
from hespas.estimators.measure.processes import Outcome, Processes, Spec
from hespas.estimators.measure.progress import Progress, shower
from hespas.estimators.measure.region import is_nothing
from hespas.estimators.work import UnknownCost
from hespas.passes.base import Run


@dataclass(frozen=True)
class Options:
    """How measurements are run; nothing here changes what is measured.

    ``jobs`` worker processes on this machine, or the workers of the Dask cluster at ``dask``.
    ``cache`` is a file, "" the default one, "none" for none. ``timeout_s`` is of one region,
    compiled and run; ``memory_limit_gb`` of one worker, 0 for no limit; ``retries`` how often a
    region is tried again that lost its worker.
    """

    jobs: int = 1
    dask: str = ""
    cache: str = ""
    timeout_s: float = 600.0
    memory_limit_gb: float = 0.0
    retries: int = 1

    def __post_init__(self) -> None:
        for name, low in (("jobs", 1), ("memory_limit_gb", 0), ("retries", 0)):
            if getattr(self, name) < low:
                raise UsageError(f"{name.replace('_gb', '').replace('_', '-')} is less than {low}")
        if not 0 < self.timeout_s < float("inf"):
            raise UsageError("timeout is not a number of seconds above 0")
        if self.dask and self.jobs != 1:
            raise UsageError("jobs and dask exclude each other: the cluster has its own workers")


@dataclass
class Statistics:
    """What was measured, and what did not have to be.

    ``regions`` are all in the program, ``free`` those of them that take no time; of the others
    ``distinct`` differ. Of these ``measured`` were compiled and run, ``cached`` came from the
    cache, ``failed`` have no time. ``retried`` counts the tries that cost a worker process.
    ``elapsed_s`` it took; ``uncached_s`` is what workers would take to measure every region, none
    of them reused.
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


class Workers(Protocol):
    """What runs payloads: processes on this machine, or a cluster."""

    @property
    def retried(self) -> int: ...

    def environment(self) -> dict[str, Any]: ...

    def run(
        self, payloads: Sequence[dict[str, Any]]
    ) -> Generator[tuple[int, Outcome], None, None]: ...


@dataclass
class _Entry:
    """Equal items of the program, and the job of the first; ``count`` is how many there are."""

    items: list[Item]
    job: Job
    count: int = 1
    key: str = ""


def measure(
    estimator: Measuring,
    items: Iterable[Item],
    options: Options | None = None,
    run: Run | None = None,
    *,
    keep_going: bool = False,
) -> Statistics:
    """Give ``estimator`` an answer for each distinct item; equal items are measured once.

    Results are put in the cache as they come, so a run that was interrupted goes on where it was.
    Raises MeasureError for the first item that cannot be measured, unless ``keep_going``.
    """
    options, run = options or Options(), run or Run()
    start, found = time.monotonic(), Statistics()
    entries = _entries(estimator, items, found, keep_going)
    with _workers(estimator, options, run.note) as workers, Cache(options.cache) as cache:
        if entries:
            estimator.environment = workers.environment()
            found.device = str(estimator.environment.get("device", ""))
        todo = _recall(estimator, entries, cache, found, keep_going)
        with shower(run.note, run.progress) as show:
            progress = Progress(estimator.name, len(todo), show)
            with closing(workers.run([entry.job.payload for entry in todo])) as outcomes:
                for number, outcome in outcomes:
                    entry = todo[number]
                    _keep(estimator, entry, outcome, cache)
                    found.measured += not isinstance(outcome, Failure)
                    _accept(estimator, entry, outcome, found, keep_going)
                    progress.step(entry.job.name)
        found.retried = workers.retried
    found.elapsed_s = time.monotonic() - start
    return found


def _entries(
    estimator: Measuring, items: Iterable[Item], found: Statistics, keep_going: bool
) -> list[_Entry]:
    """The distinct items that take time, with their jobs, in order."""
    entries: dict[str, _Entry] = {}
    refused: set[str] = set()
    for item in itertools.chain.from_iterable(map(estimator.parts, items)):
        found.regions += 1
        if is_nothing(item.op):
            found.free += 1
            continue
        digest = item.digest
        if digest in entries:
            entries[digest].count += 1
            continue
        if digest in refused:
            continue
        try:
            entries[digest] = _Entry([item], estimator.job(item))
        except UnknownCost as error:
            if not keep_going:
                raise
            estimator.answers[digest] = error
            refused.add(digest)
    found.failed += len(refused)
    found.distinct += len(entries) + len(refused)
    return list(entries.values())


def _recall(
    estimator: Measuring,
    entries: list[_Entry],
    cache: Cache,
    found: Statistics,
    keep_going: bool,
) -> list[_Entry]:
    """Take what the cache has; the entries that it has not. Those of equal jobs become one."""
    todo: list[_Entry] = []
    seen: dict[str, _Entry] = {}
    for entry in entries:
        entry.key = key_of(
            estimator.name, estimator.version, entry.job.payload, estimator.environment
        )
        first = seen.setdefault(entry.key, entry)
        if first is not entry:
            first.items += entry.items
            first.count += entry.count
    found.distinct -= len(entries) - len(seen)
    for entry in seen.values():
        outcome = cache.get(entry.key)
        if outcome is None:
            todo.append(entry)
        else:
            found.cached += not isinstance(outcome, Failure)
            _accept(estimator, entry, outcome, found, keep_going)
    return todo


def _keep(estimator: Measuring, entry: _Entry, outcome: Outcome, cache: Cache) -> None:
    """Cache a result, and a failure that is the region's own and not the machine's."""
    if isinstance(outcome, Failure) and outcome.kind != "unsupported":
        return
    cache.put(
        entry.key,
        outcome,
        estimator=estimator.name,
        version=estimator.version,
        device=str(estimator.environment.get("device", "")),
        name=entry.job.name,
    )


def _accept(
    estimator: Measuring, entry: _Entry, outcome: Outcome, found: Statistics, keep_going: bool
) -> None:
    """Give the estimator an answer, or the error; raises it where the run is to stop."""
    answer: Answer | MeasureError
    if isinstance(outcome, Failure):
        found.failed += 1
        answer = MeasureError(outcome, entry.job.name, entry.items[0].op)
        if not keep_going:
            raise answer
    else:
        answer = outcome
        found.uncached_s += entry.count * outcome.get("wall_s", 0.0)
    for item in entry.items:
        estimator.answers[item.digest] = answer


@contextmanager
def _workers(
    estimator: Measuring, options: Options, note: Callable[[str], None]
) -> Iterator[Workers]:
    spec = Spec(
        worker=estimator.worker,
        probe=estimator.probe,
        packages=estimator.packages,
        turns=estimator.turns,
        settings=estimator.settings(),
        memory_limit_bytes=round(options.memory_limit_gb * 1e9),
        timeout_s=options.timeout_s,
        retries=options.retries,
    )
    if options.dask:
        from hespas.estimators.measure.cluster import Cluster

        with Cluster(spec, options.dask) as cluster:
            yield cluster
    else:
        with Processes(spec, options.jobs, note) as processes:
            yield processes


__all__ = ["Answer", "Options", "Statistics", "measure"]
