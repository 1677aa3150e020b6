"""Running the cells: from the cache, in worker processes, or on a Dask cluster."""

from __future__ import annotations

import itertools
import os
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, closing, contextmanager, nullcontext
from dataclasses import dataclass, field
from typing import Any

from hespas import configs, frontends
from hespas.dialects.errors import HespasError
from hespas.estimators.measure.cache import Cache
from hespas.estimators.measure.failure import Failure
from hespas.estimators.measure.processes import Processes, Spec
from hespas.estimators.measure.progress import Progress, shower
from hespas.estimators.measure.run import Workers
from hespas.tools.sweep import spec
from hespas.tools.sweep.jobs import Job, Maker, environment
from hespas.tools.sweep.spec import Cell
from hespas.tools.sweep.table import Row, flattened

CHUNK = 16  # cells that a worker is given at once: some seconds of work
CHUNK_BYTES = 16_000_000  # of the programs of a chunk: large ones are slow
TIMEOUT_S = 3600.0
WORKER, PROBE = "hespas.tools.sweep.worker:work", "hespas.tools.sweep.worker:probe"

SPLIT = ("keep_going", "fuse", "split", "block_limit")
ESTIMATE = ("estimator", "setting", "node")

Note = Callable[[str], None]
Answer = dict[str, Any]
"""{"figures": ..., "created": ...} or {"error": ...}."""


@dataclass(frozen=True)
class Options:
    """How cells are run; nothing here changes a result.

    ``jobs`` worker processes on this machine, or the workers of the Dask cluster at ``dask``.
    ``cache`` is a file, "" the default one, "none" for none; ``timeout_s`` is of one cell.
    """

    jobs: int = 1
    dask: str = ""
    cache: str = ""
    timeout_s: float = TIMEOUT_S


@dataclass
class Found:
    """The rows, in the order of the cells, and how they came about."""

    rows: list[Row] = field(default_factory=list)
    cached: int = 0
    computed: int = 0
    failed: int = 0
    elapsed_s: float = 0.0


def run(cells: Sequence[Cell], options: Options, note: Note) -> Found:
    """Every cell's row; an error of one is a row that says so.

    Raises HespasError for what is wrong before any work, as a preset of no such name.
    """
    start, found, maker = time.monotonic(), Found(), Maker()
    with Cache(options.cache) as cache, _scratch(options) as scratch:
        runner = _Runner(options, cache, note, scratch)
        cells, errors = _with_systems(cells, maker, runner)
        jobs = {i: maker.job(cell) for i, cell in enumerate(cells) if i not in errors}
        answers = runner.recalled(jobs)
        found.cached = len(answers)
        try:
            runner.perform(jobs, answers)
        except KeyboardInterrupt:
            note(f"{_count(answers)} of {len(cells)} cells are kept: the same command goes on")
            raise
    answers |= {i: {"error": text} for i, text in errors.items()}
    for i, cell in enumerate(cells):
        found.rows.append(_row(cell, jobs.get(i), answers[i]))
    found.failed = len(cells) - _count(answers)
    found.computed = len(cells) - found.cached - found.failed
    found.elapsed_s = time.monotonic() - start
    return found


def _count(answers: Mapping[int, Answer]) -> int:
    return sum("error" not in answer for answer in answers.values())


def _scratch(options: Options) -> AbstractContextManager[str]:
    """A folder for the workers' files; on a cluster, they have their own."""
    return nullcontext("") if options.dask else tempfile.TemporaryDirectory()


@dataclass
class _Runner:
    """Runs jobs, and keeps each answer as soon as it is there."""

    options: Options
    cache: Cache
    note: Note
    scratch: str

    def recalled(self, jobs: Mapping[int, Job]) -> dict[int, Answer]:
        """What the cache has."""
        found = {i: self.cache.get(job.key) for i, job in jobs.items() if job.key}
        return {i: kept for i, kept in found.items() if isinstance(kept, dict)}

    def perform(
        self, jobs: Mapping[int, Job], answers: dict[int, Answer], units: str = "cells done"
    ) -> None:
        """Put the answers that are missing; raises HespasError where no worker can be had."""
        todo = sorted(jobs.keys() - answers.keys(), key=lambda i: (_order(jobs, i), i))
        if not todo:
            return
        with shower(self.note, None) as show:
            progress = Progress("sweep", len(todo), show, units)
            self._round(_chunks(todo, jobs), jobs, answers, 0, progress)
            lost = [[i] for i in todo if i not in answers]
            if lost:
                self._round(lost, jobs, answers, 1, progress)

    def _round(
        self,
        chunks: Sequence[Sequence[int]],
        jobs: Mapping[int, Job],
        answers: dict[int, Answer],
        retries: int,
        progress: Progress,
    ) -> None:
        """One round; without retries, chunks that took their worker along are left out."""
        payloads = [
            {
                "folder": os.getcwd(),
                "scratch": self.scratch,
                "cells": [jobs[i].payload for i in chunk],
            }
            for chunk in chunks
        ]
        with self._workers(retries) as workers, closing(workers.run(payloads)) as outcomes:
            for number, outcome in outcomes:
                chunk = chunks[number]
                if isinstance(outcome, Failure):
                    if not retries:
                        continue
                    outcome = {"cells": [{"error": f"error: {outcome.text()}"}]}
                for i, answer in zip(chunk, outcome["cells"], strict=True):
                    answers[i] = self._kept(jobs[i], answer)
                progress.step(os.path.basename(jobs[chunk[0]].program), len(chunk))

    def _kept(self, job: Job, answer: Answer) -> Answer:
        if "error" in answer:
            return answer
        created = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())
        answer = {**answer, "created": created}
        if job.key:
            name = os.path.basename(job.program)
            of = f"sweep: {job.estimator}"
            self.cache.put(job.key, answer, estimator=of, version=job.version, name=name)
        return answer

    @contextmanager
    def _workers(self, retries: int) -> Iterator[Workers]:
        described = Spec(
            worker=WORKER,
            probe=PROBE,
            turns="own",
            timed=False,
            timeout_s=self.options.timeout_s,
            retries=retries,
        )
        if not self.options.dask:
            with Processes(described, self.options.jobs, self.note) as processes:
                yield processes
            return
        from hespas.estimators.measure.cluster import Cluster

        with Cluster(described, self.options.dask) as cluster:
            there = cluster.environment()
            for name, value in environment().items():
                if there.get(name) != value:
                    raise HespasError(
                        f"the Dask workers have another {name}: {there.get(name)}, here {value}",
                        remedy="install the same version of hespas there",
                    )
            yield cluster


def _order(jobs: Mapping[int, Job], number: int) -> tuple[str, ...]:
    """Cells that share most work are neighbours: program, split, node, then the rest."""
    config = jobs[number].payload.get("config", {})
    node = jobs[number].payload.get("node")
    first = [repr(config.get(name)) for name in SPLIT]
    second = [repr(config.get(name)) for name in ESTIMATE]
    return (jobs[number].program, *first, *second, node["label"] if node else "")


def _chunks(todo: Sequence[int], jobs: Mapping[int, Job]) -> list[list[int]]:
    """Jobs of the same program, a few at a time, and the fewer the larger it is."""
    chunks: list[list[int]] = []
    for program, members in itertools.groupby(todo, key=lambda i: jobs[i].program):
        numbers = list(members)
        most = 1 if any(not jobs[i].key for i in numbers) else _most(program)
        chunks += [numbers[k : k + most] for k in range(0, len(numbers), most)]
    return chunks


def _most(program: str) -> int:
    return max(1, min(CHUNK, CHUNK_BYTES // (os.path.getsize(program) + 1)))


def _with_systems(
    cells: Sequence[Cell], maker: Maker, runner: _Runner
) -> tuple[list[Cell], dict[int, str]]:
    """Cells with the systems that a pattern means: those with as many devices as the program.

    The errors by position: of programs that cannot be prepared, and where no system fits.
    """
    wild = [cell for cell in cells if spec.is_wild(cell.get("system"))]
    named = {
        pattern: [(name, configs.system(name).devices) for name in spec.systems(pattern)]
        for pattern in {cell["system"] for cell in wild}
    }
    devices = _devices(wild, maker, runner)
    found: list[Cell] = []
    errors: dict[int, str] = {}
    for cell in cells:
        pattern = cell.get("system")
        if not spec.is_wild(pattern):
            found.append(cell)
            continue
        answer = devices[cell["mlir"], str(cell.get("keep_going"))]
        count = answer.get("figures", {}).get("devices")
        fitting = [name for name, size in named[pattern] if size == count]
        found += [{**cell, "system": name} for name in fitting]
        if not fitting:
            none = HespasError(
                f"no system like '{pattern}' has {count} devices", where=cell["mlir"]
            )
            errors[len(found)] = answer.get("error") or str(none)
            found.append(cell)
    return found, errors


def _devices(cells: Sequence[Cell], maker: Maker, runner: _Runner) -> dict[tuple[str, str], Answer]:
    """How many devices the programs of these cells run on."""
    jobs: dict[tuple[str, str], Job] = {}
    for cell in cells:
        job = maker.devices_job(cell)
        jobs[job.program, str(cell.get("keep_going"))] = job
    numbered = dict(enumerate(jobs.values()))
    answers = runner.recalled(numbered)
    runner.perform(numbered, answers, "programs read")
    return {key: answers[i] for i, key in enumerate(jobs)}


def _row(cell: Cell, job: Job | None, answer: Answer) -> Row:
    """A cell's row: what was asked for, the figures or the error, and where they come from."""
    asked = {f"cell.{key}": value for key, value in cell.items()}
    if job is None or "error" in answer:
        return {**asked, "error": answer["error"]}
    figures = answer["figures"]
    program, node = frontends.shown(job.program), job.payload["node"]
    # The same program may have been estimated under another name.
    figures["warnings"] = [
        text.replace(figures["program"], program) for text in figures["warnings"]
    ]
    figures["program"] = program
    if node is not None:
        figures["node"] = node["label"]
    origin = {**environment(), **job.provenance, "created": answer["created"]}
    told = {f"provenance.{key}": value for key, value in origin.items()}
    return {**asked, "error": None, **flattened(figures), **told}
