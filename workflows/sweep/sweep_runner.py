"""Running the cells of a sweep: from the cache, in worker processes, or on a Dask cluster.

Invariants: a cell that fails is a row with an error, never an exception; a finished cell is stored
in the cache at once, so that an interrupted sweep continues; cells are sorted so that those that
share work follow each other in one worker.
"""

from __future__ import annotations

import itertools
import os
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, closing, contextmanager, nullcontext
from dataclasses import dataclass, field
from typing import Any

from hespas import configs, frontends
from hespas.estimators.measure.failure import ClusterLostError, WorkerFailure
from hespas.estimators.measure.measurement_cache import NO_FILE, MeasurementCache
from hespas.estimators.measure.measurement_run import WorkerPool
from hespas.estimators.measure.processes import LocalWorkerPool, WorkerSpec
from hespas.estimators.measure.progress import ProgressCounter, open_progress_display
from hespas.support.errors import HespasError
from hespas.support.supervised_process import open_temporary_folder
from hespas.workflows.studies.program_forms import match_family_systems
from hespas.workflows.sweep import sweep_grid
from hespas.workflows.sweep.sweep_grid import SweepCell
from hespas.workflows.sweep.sweep_jobs import SweepJob, SweepJobFactory, collect_environment
from hespas.workflows.sweep.sweep_table import SweepRow, flatten_figures

# Cells that a worker receives at once: some seconds of work. Few cells are not divided further,
# because each worker reads the program once.
CHUNK_CELLS, MAX_CHUNK_CELLS = 16, 64
MAX_CHUNK_BYTES = 16_000_000  # size of program times cells: large programs are slow
# A worker returns what it has finished after so many seconds, so that an interruption loses little.
CHUNK_S = 15.0
TIMEOUT_S = 3600.0
WORKER, PROBE = (
    "hespas.workflows.sweep.sweep_worker:compute_cells",
    "hespas.workflows.sweep.sweep_worker:probe_environment",
)

SPLIT_KEYS = ("dims", "keep_going", "form", "fuse", "split", "block_limit")
ESTIMATE_KEYS = ("estimator", "setting", "kernel_cost", "node")

Note = Callable[[str], None]
Answer = dict[str, Any]
"""The answer of a worker: {"figures": ..., "created": ...} or {"error": ...}."""


@dataclass(frozen=True)
class SweepOptions:
    """How cells are run; no option changes a result.

    Attributes:
        jobs: The number of worker processes on this machine.
        dask: The address of a Dask cluster that runs the cells instead.
        cache: The file that keeps finished cells; "" for the default one, "none" for none.
        timeout_s: The seconds that one cell may take.
    """

    jobs: int = 1
    dask: str = ""
    cache: str = ""
    timeout_s: float = TIMEOUT_S


@dataclass
class SweepOutcome:
    """The result of a sweep.

    Attributes:
        rows: One row for each cell, in their order.
        cached: The number of cells from the cache.
        computed: The number of cells that were computed now.
        failed: The number of cells with an error.
        elapsed_s: The time of the sweep in seconds.
        lost: Why the sweep stopped before its end, which the cells that it has not run have as
            their error; "" if it did not.
    """

    rows: list[SweepRow] = field(default_factory=list)
    cached: int = 0
    computed: int = 0
    failed: int = 0
    elapsed_s: float = 0.0
    lost: str = ""


def run_sweep(cells: Sequence[SweepCell], options: SweepOptions, note: Note) -> SweepOutcome:
    """Run the cells and return a row for each; a failed cell has a row with ``error``.

    Raises:
        HespasError: A value is wrong, such as an unknown preset. No cell has been run then.
    """
    start, outcome, maker = time.monotonic(), SweepOutcome(), SweepJobFactory()
    with MeasurementCache(options.cache) as cache, _open_scratch_folder(options) as scratch:
        runner = _SweepJobRunner(options, cache, note, scratch)
        cells, errors = _expand_systems(cells, maker, runner)
        jobs = {i: maker.make_job(cell) for i, cell in enumerate(cells) if i not in errors}
        answers = runner.recall_answers(jobs)
        outcome.cached = len(answers)
        try:
            runner.run_jobs(jobs, answers)
        except KeyboardInterrupt:
            note(_describe_interruption(_count_results(answers), len(cells), options.cache))
            raise
        except ClusterLostError as error:
            if not answers:
                raise
            outcome.lost = str(error)
            errors |= dict.fromkeys(jobs.keys() - answers.keys(), outcome.lost)
    answers |= {i: {"error": text} for i, text in errors.items()}
    for i, cell in enumerate(cells):
        outcome.rows.append(_make_row(cell, jobs.get(i), answers[i]))
    outcome.failed = len(cells) - _count_results(answers)
    outcome.computed = len(cells) - outcome.cached - outcome.failed
    outcome.elapsed_s = time.monotonic() - start
    return outcome


def _describe_interruption(finished: int, cells: int, cache: str) -> str:
    """Say what an interruption leaves, and how to go on."""
    if cache == NO_FILE:
        return f"{finished} of {cells} cells were finished, and --cache none keeps none of them"
    return f"{finished} of {cells} cells are kept: run the same command to continue"


def _count_results(answers: Mapping[int, Answer]) -> int:
    return sum("error" not in answer for answer in answers.values())


def _open_scratch_folder(options: SweepOptions) -> AbstractContextManager[str]:
    """Open a folder for the files of local workers; those of a cluster use their own."""
    return nullcontext("") if options.dask else open_temporary_folder()


@dataclass
class _SweepJobRunner:
    """Runs jobs, and stores each answer as soon as it arrives."""

    options: SweepOptions
    cache: MeasurementCache
    note: Note
    scratch: str

    def recall_answers(self, jobs: Mapping[int, SweepJob]) -> dict[int, Answer]:
        """Return the answers that the cache has."""
        cached_answers = {i: self.cache.find_outcome(job.key) for i, job in jobs.items() if job.key}
        return {i: answer for i, answer in cached_answers.items() if isinstance(answer, dict)}

    def run_jobs(
        self, jobs: Mapping[int, SweepJob], answers: dict[int, Answer], units: str = "cells done"
    ) -> None:
        """Compute the missing answers.

        The chunks are run without retries first. The cells of a chunk that lost its worker are then
        run one by one, so that one crash costs a single cell.

        Raises:
            HespasError: No worker can be started.
        """
        todo = sorted(jobs.keys() - answers.keys(), key=lambda i: (_make_sort_key(jobs, i), i))
        if not todo:
            return
        with open_progress_display(self.note, None) as show:
            progress = ProgressCounter("sweep", len(todo), show, units)
            chunks = _split_into_chunks(todo, jobs)
            while chunks:
                chunks = self._run_round(chunks, jobs, answers, 0, progress)
            lost = [[i] for i in todo if i not in answers]
            if lost:
                self._run_round(lost, jobs, answers, 1, progress)

    def _run_round(
        self,
        chunks: Sequence[Sequence[int]],
        jobs: Mapping[int, SweepJob],
        answers: dict[int, Answer],
        retries: int,
        progress: ProgressCounter,
    ) -> list[list[int]]:
        """Run chunks; without retries, chunks that lost their worker get no answer.

        Returns:
            The rest of each chunk that a worker did not finish in its time.
        """
        unfinished: list[list[int]] = []
        payloads = [
            {
                "folder": os.getcwd(),
                "scratch": self.scratch,
                "limit_s": CHUNK_S,
                "cells": [jobs[i].payload for i in chunk],
            }
            for chunk in chunks
        ]
        with (
            self._start_workers(retries) as workers,
            closing(workers.run_payloads(payloads)) as outcomes,
        ):
            for number, outcome in outcomes:
                chunk = chunks[number]
                if isinstance(outcome, WorkerFailure):
                    if not retries:
                        continue
                    outcome = {"cells": [{"error": f"error: {outcome.format_message()}"}]}
                done = outcome["cells"]
                for i, answer in zip(chunk[: len(done)], done, strict=True):
                    answers[i] = self._store_answer(jobs[i], answer)
                if len(done) < len(chunk):
                    unfinished.append([*chunk[len(done) :]])
                progress.count_finished(os.path.basename(jobs[chunk[0]].program), len(done))
        return unfinished

    def _store_answer(self, job: SweepJob, answer: Answer) -> Answer:
        if "error" in answer:
            return answer
        created = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())
        answer = {**answer, "created": created}
        if job.key:
            name = os.path.basename(job.program)
            estimator_name = f"sweep: {job.estimator}"
            self.cache.store_outcome(
                job.key, answer, estimator=estimator_name, version=job.version, name=name
            )
        return answer

    @contextmanager
    def _start_workers(self, retries: int) -> Iterator[WorkerPool]:
        worker_spec = WorkerSpec(
            worker=WORKER,
            probe=PROBE,
            turns="own",
            timed=False,
            timeout_s=self.options.timeout_s,
            retries=retries,
        )
        if not self.options.dask:
            with LocalWorkerPool(worker_spec, self.options.jobs, self.note) as processes:
                yield processes
            return
        from hespas.estimators.measure.cluster import DaskWorkerPool

        with DaskWorkerPool(worker_spec, self.options.dask) as cluster:
            worker_environment = cluster.collect_environment()
            for name, value in collect_environment().items():
                if worker_environment.get(name) != value:
                    raise HespasError(
                        f"the Dask workers have another {name}: {worker_environment.get(name)}, "
                        f"here {value}",
                        remedy="install the same version of hespas there",
                    )
            yield cluster


def _make_sort_key(jobs: Mapping[int, SweepJob], number: int) -> tuple[str, ...]:
    """Return a key that sorts cells by shared work: program, split, then estimate and node."""
    config = jobs[number].payload.get("config", {})
    node = jobs[number].payload.get("node")
    first = [repr(config.get(name)) for name in SPLIT_KEYS]
    second = [repr(config.get(name)) for name in ESTIMATE_KEYS]
    return (jobs[number].program, *first, *second, node["label"] if node else "")


def _split_into_chunks(todo: Sequence[int], jobs: Mapping[int, SweepJob]) -> list[list[int]]:
    """Split jobs into chunks of one program each; larger programs have smaller chunks."""
    chunks: list[list[int]] = []
    for program, members in itertools.groupby(todo, key=lambda i: jobs[i].program):
        numbers = list(members)
        most = _limit_chunk_size(program, len(numbers)) if all(jobs[i].key for i in numbers) else 1
        chunks += [numbers[k : k + most] for k in range(0, len(numbers), most)]
    return chunks


def _limit_chunk_size(program: str, cells: int) -> int:
    most = min(max(cells // CHUNK_CELLS, CHUNK_CELLS), MAX_CHUNK_CELLS)
    return max(1, min(most, MAX_CHUNK_BYTES // (os.path.getsize(program) + 1)))


def _expand_systems(
    cells: Sequence[SweepCell], maker: SweepJobFactory, runner: _SweepJobRunner
) -> tuple[list[SweepCell], dict[int, str]]:
    """Replace each pattern of systems by the systems with as many devices as the program.

    Returns:
        The cells, and errors by position, for programs that cannot be read and patterns without a
        system of the right size.
    """
    pattern_cells = [cell for cell in cells if sweep_grid.is_pattern(cell.get("system"))]
    named = {
        pattern: [
            (name, configs.load_system(name).device_count)
            for name in sweep_grid.find_systems(pattern)
        ]
        for pattern in {cell["system"] for cell in pattern_cells}
    }
    devices = _count_devices(pattern_cells, maker, runner)
    expanded_cells: list[SweepCell] = []
    errors: dict[int, str] = {}
    for cell in cells:
        pattern = cell.get("system")
        if not sweep_grid.is_pattern(pattern):
            expanded_cells.append(cell)
            continue
        answer = devices[cell["mlir"], str(cell.get("keep_going"))]
        count = answer.get("figures", {}).get("devices")
        fitting = [name for name, size in named[pattern] if size == count]
        if not fitting and count:
            fitting = match_family_systems(count, [str(pattern)])
        expanded_cells += [{**cell, "system": name} for name in fitting]
        if not fitting:
            mismatch = HespasError(
                f"no system that matches '{pattern}' has {count} devices", where=cell["mlir"]
            )
            errors[len(expanded_cells)] = answer.get("error") or str(mismatch)
            expanded_cells.append(cell)
    return expanded_cells, errors


def _count_devices(
    cells: Sequence[SweepCell], maker: SweepJobFactory, runner: _SweepJobRunner
) -> dict[tuple[str, str], Answer]:
    """Count the devices of the programs of these cells."""
    jobs: dict[tuple[str, str], SweepJob] = {}
    for cell in cells:
        job = maker.make_device_count_job(cell)
        jobs[job.program, str(cell.get("keep_going"))] = job
    numbered = dict(enumerate(jobs.values()))
    answers = runner.recall_answers(numbered)
    runner.run_jobs(numbered, answers, "programs read")
    return {key: answers[i] for i, key in enumerate(jobs)}


def _make_row(cell: SweepCell, job: SweepJob | None, answer: Answer) -> SweepRow:
    """Make the row of a cell: its keys, the figures or the error, and their provenance."""
    cell_columns = {f"cell.{key}": value for key, value in cell.items()}
    if job is None or "error" in answer:
        return {**cell_columns, "error": answer["error"]}
    figures = answer["figures"]
    program, node = frontends.to_display_name(job.program), job.payload["node"]
    # The cache may hold the same program under another name.
    figures["warnings"] = [
        text.replace(figures["program"], program) for text in figures["warnings"]
    ]
    figures["program"] = program
    if node is not None:
        figures["node"] = node["label"]
    origin = {**collect_environment(), **job.provenance, "created": answer["created"]}
    provenance = {f"provenance.{key}": value for key, value in origin.items()}
    return {**cell_columns, "error": None, **flatten_figures(figures), **provenance}
