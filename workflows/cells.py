"""Cells: units of work that workers compute and a store keeps, on this machine or a Dask cluster.

A cell is the estimate of a program, the export of a program, the sketch of a layout. Commands with
many of them run them here, so that all have one store, one pool, one display of progress and one
handling of failures.

Invariants: a cell that raises, crashes, hangs or is impossible has an error, and costs no other
cell; a finished cell is stored at once, so that an interrupted command continues; cells that share
work follow each other in one worker.
"""

from __future__ import annotations

import itertools
import os
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack, closing
from dataclasses import dataclass, field
from typing import Any, Self

from hespas.estimators.base import Estimator
from hespas.estimators.measure.failure import ClusterLostError, WorkerFailure
from hespas.estimators.measure.measurement_cache import (
    NO_FILE,
    MeasurementCache,
    compute_cache_key,
)
from hespas.estimators.measure.measurement_run import WorkerPool, open_worker_pool
from hespas.estimators.measure.processes import WorkerSpec
from hespas.estimators.measure.progress import ProgressCounter, open_progress_display
from hespas.support.errors import HespasError, restore_error
from hespas.workflows.cell_keys import collect_environment
from hespas.workflows.run_config import PoolOptions

# Cells that a worker receives at once: some seconds of work. Few cells are not divided further,
# because each worker reads the program once.
CHUNK_CELLS, MAX_CHUNK_CELLS = 16, 64
MAX_CHUNK_BYTES = 16_000_000  # size of program times cells: large programs are slow
# A worker returns what it has finished after so many seconds, so that an interruption loses little.
CHUNK_S = 15.0
WORKER, PROBE = (
    "hespas.workflows.cell_worker:run_cells",
    "hespas.workflows.cell_worker:probe_environment",
)

Note = Callable[[str], None]
Answer = dict[str, Any]
"""The answer of a worker to a cell, as JSON data."""


@dataclass(frozen=True)
class Cell:
    """A unit of work.

    Attributes:
        name: Its name in the progress.
        payload: What the function of the worker receives, as JSON data.
        key: The key of its answer in the store; "" if the store does not keep it.
        output: The file that it writes; it has been computed if the file exists. "" for none.
        estimator: The estimator that the store lists the answer under.
        version: The version of the estimator.
        sharing: What it shares with other cells, that which costs most first. Cells are sorted by
            it, and a worker receives only cells that have the first of it in common.
        size_bytes: The size of its program, which limits how many cells a worker receives.
        provenance: Content hashes of what the answer depends on.
    """

    name: str
    payload: dict[str, Any]
    key: str = ""
    output: str = ""
    estimator: str = ""
    version: str = ""
    sharing: tuple[str, ...] = ()
    size_bytes: int = 0
    provenance: dict[str, Any] = field(default_factory=dict)


def make_estimate_cell(
    name: str,
    payload: dict[str, Any],
    kind: str,
    estimator: type[Estimator],
    content: dict[str, Any],
    *,
    sharing: tuple[str, ...],
    size_bytes: int = 0,
    provenance: Mapping[str, Any] | None = None,
) -> Cell:
    """Make a cell whose answer is an estimate, which the store keeps unless it was measured.

    Args:
        name: Its name in the progress.
        payload: What the function of the worker receives.
        kind: What the answer is of, which the key contains.
        estimator: The estimator.
        content: Everything else that the answer depends on, as JSON data.
        sharing: What it shares with other cells.
        size_bytes: The size of its program.
        provenance: Content hashes of what the answer depends on.
    """
    key = ""
    if not estimator.measures:
        key = compute_cache_key(kind, estimator.version, content, collect_environment())
    return Cell(
        name, payload, key, estimator=f"{kind}: {estimator.name}", version=estimator.version,
        sharing=sharing, size_bytes=size_bytes, provenance=dict(provenance or {}),
    )  # fmt: skip


class CellPool:
    """Runs cells; a context manager, which starts workers when the first cell needs one.

    Attributes:
        recalled: How many answers of the last cells have been known before.
        computed: How many have been computed.
    """

    def __init__(
        self,
        function: str,
        options: PoolOptions,
        note: Note,
        label: str,
        preloaded: tuple[str, ...] = (),
    ) -> None:
        """Describe a pool.

        Args:
            function: ``module:name`` of a function that computes a cell. It receives the payload
                and a folder for temporary files, and returns the answer or raises.
            options: Where cells run.
            note: Receives notes and progress, one line each.
            label: The start of each line of progress.
            preloaded: Modules that are imported once for all workers, besides that of the function.
        """
        self.function, self.options, self.note, self.label = function, options, note, label
        self.recalled = self.computed = 0
        module = function.partition(":")[0]
        own = (module,) if module.startswith("hespas.") else ()
        # No retries: ``run_cells`` itself runs the cells of a lost worker again, one by one.
        self._spec = WorkerSpec(
            worker=WORKER, probe=PROBE, turns="own", timed=False, timeout_s=options.timeout_s,
            settings={"versions": bool(options.dask)}, retries=0, preloaded=(*own, *preloaded),
        )  # fmt: skip
        self._stack = ExitStack()
        self._workers: WorkerPool | None = None
        self._store: MeasurementCache | None = None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._stack.close()

    def run_cells(
        self, cells: Sequence[Cell], units: str = "cells done"
    ) -> list[Answer | HespasError]:
        """Return the answer or the error of each cell, in order.

        Chunks of cells are run first. Each cell of a chunk that has lost its worker is then run
        alone, so that a crash costs a single cell.

        Args:
            cells: The cells.
            units: What the progress counts, as in ``cells done``.

        Raises:
            HespasError: The store cannot be used, no worker can be started, or the cluster is lost
                before there is an answer. If it is lost later, the other cells have that error.
        """
        answers = self._recall_answers(cells)
        self.recalled = len(answers)
        try:
            self._compute_answers(cells, answers, units)
        except KeyboardInterrupt:
            self.note(self._describe_interruption(cells, answers, units.partition(" ")[0]))
            raise
        except ClusterLostError as error:
            if not answers:
                raise
            answers |= {i: error for i in range(len(cells)) if i not in answers}
        failed = sum(isinstance(answer, HespasError) for answer in answers.values())
        self.computed = len(cells) - self.recalled - failed
        return [answers[i] for i in range(len(cells))]

    def _recall_answers(self, cells: Sequence[Cell]) -> dict[int, Answer | HespasError]:
        answers: dict[int, Answer | HespasError] = {}
        for i, cell in enumerate(cells):
            if cell.output and os.path.exists(cell.output):
                answers[i] = {}
            elif cell.key and isinstance(known := self._open_store().find_outcome(cell.key), dict):
                answers[i] = known
        return answers

    def _open_store(self) -> MeasurementCache:
        if self._store is None:
            self._store = self._stack.enter_context(MeasurementCache(self.options.cache))
        return self._store

    def _compute_answers(
        self, cells: Sequence[Cell], answers: dict[int, Answer | HespasError], units: str
    ) -> None:
        """Add the missing answers."""
        left = [i for i in range(len(cells)) if i not in answers]
        todo = sorted(left, key=lambda i: (cells[i].sharing, i))
        if not todo:
            return
        with open_progress_display(self.note, None) as show:
            progress = ProgressCounter(self.label, len(todo), show, units)
            chunks = _split_into_chunks(todo, cells)
            while chunks:
                chunks = self._run_chunks(chunks, cells, answers, progress)
            lost = [[i] for i in todo if i not in answers]
            if lost:
                self._run_chunks(lost, cells, answers, progress, is_last_try=True)

    def _run_chunks(
        self,
        chunks: Sequence[Sequence[int]],
        cells: Sequence[Cell],
        answers: dict[int, Answer | HespasError],
        progress: ProgressCounter,
        *,
        is_last_try: bool = False,
    ) -> list[list[int]]:
        """Run chunks; those that lose their worker get no answer unless it is the last try.

        Returns:
            The rest of each chunk that a worker did not finish in its time.
        """
        unfinished: list[list[int]] = []
        payloads = [
            {
                "function": self.function,
                "folder": os.getcwd(),
                "limit_s": CHUNK_S,
                "cells": [cells[i].payload for i in chunk],
            }
            for chunk in chunks
        ]
        with closing(self._start_workers().run_payloads(payloads)) as outcomes:
            for number, outcome in outcomes:
                chunk = chunks[number]
                if isinstance(outcome, WorkerFailure):
                    if not is_last_try:
                        continue
                    answers[chunk[0]] = HespasError(outcome.format_message())
                    done = 1
                else:
                    done = len(outcome["cells"])
                    for i, answer in zip(chunk[:done], outcome["cells"], strict=True):
                        answers[i] = self._store_answer(cells[i], answer)
                if done < len(chunk):
                    unfinished.append([*chunk[done:]])
                progress.count_finished(cells[chunk[0]].name, done)
        return unfinished

    def _store_answer(self, cell: Cell, answer: Answer) -> Answer | HespasError:
        """Keep the answer of a worker if there is one, and return it or its error."""
        if "error" in answer:
            return restore_error(answer["error"])
        if not cell.key:
            return answer
        answer = {**answer, "created": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())}
        self._open_store().store_outcome(
            cell.key, answer, estimator=cell.estimator, version=cell.version, name=cell.name
        )
        return answer

    def _start_workers(self) -> WorkerPool:
        """Return the workers, which are started once; raises HespasError if they cannot be."""
        if self._workers is None:
            pool = open_worker_pool(self._spec, self.options.jobs, self.options.dask, self.note)
            workers = self._stack.enter_context(pool)
            if self.options.dask:
                _check_environment(workers.collect_environment())
            self._workers = workers
        return self._workers

    def _describe_interruption(
        self, cells: Sequence[Cell], answers: dict[int, Answer | HespasError], noun: str
    ) -> str:
        """Describe what an interruption leaves, and how to go on."""
        finished = sum(not isinstance(answer, HespasError) for answer in answers.values())
        if self.options.cache == NO_FILE and not any(cell.output for cell in cells):
            return (
                f"{finished} of {len(cells)} {noun} were finished, and --cache none keeps none of "
                "them"
            )
        return f"{finished} of {len(cells)} {noun} are kept: run the same command to continue"


def _check_environment(worker_environment: dict[str, Any]) -> None:
    """Raise HespasError if the workers of a cluster would have other results."""
    for name, value in collect_environment().items():
        if worker_environment.get(name) != value:
            raise HespasError(
                f"the Dask workers have another {name}: {worker_environment.get(name)}, "
                f"here {value}",
                remedy="install the same version of hespas there",
            )


def _split_into_chunks(todo: Sequence[int], cells: Sequence[Cell]) -> list[list[int]]:
    """Split sorted cells into chunks that share the most; larger programs have smaller chunks."""
    chunks: list[list[int]] = []
    for _, members in itertools.groupby(todo, key=lambda i: cells[i].sharing[:1]):
        numbers = list(members)
        is_kept = all(cells[i].key for i in numbers)
        most = _limit_chunk_size(cells[numbers[0]].size_bytes, len(numbers)) if is_kept else 1
        chunks += [numbers[k : k + most] for k in range(0, len(numbers), most)]
    return chunks


def _limit_chunk_size(size_bytes: int, cells: int) -> int:
    most = min(max(cells // CHUNK_CELLS, CHUNK_CELLS), MAX_CHUNK_CELLS)
    return max(1, min(most, MAX_CHUNK_BYTES // (size_bytes + 1)))
