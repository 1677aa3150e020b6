"""Measuring regions on a Dask cluster.

Each Dask worker keeps one of our worker processes. A crash, a timeout or a lack of memory
therefore ends only that process. If a Dask worker is lost, its region is retried on another one.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import threading
from collections.abc import Generator, Sequence
from concurrent import futures
from dataclasses import asdict
from typing import Any

from hespas.estimators.measure.failure import ClusterLostError, WorkerFailure
from hespas.estimators.measure.processes import LocalWorkerPool, WorkerOutcome, WorkerSpec
from hespas.support.errors import HespasError, extract_first_line

INSTALL_COMMAND = "pip install 'hespas[dask]'"
CONNECT_TIMEOUT_S = 15
LOST_AFTER_S = 60.0  # the cluster counts as lost after this time without any worker
POLL_S = 5.0


# What Dask raises for futures and calls after the connection to the scheduler has broken.
LOST_ERRORS = (OSError, RuntimeError, asyncio.CancelledError, futures.CancelledError)


class DaskWorkerPool:
    """The workers of the cluster at ``address``.

    It is a context manager. The constructor raises HespasError if the cluster is not available.
    """

    def __init__(self, spec: WorkerSpec, address: str) -> None:
        try:
            import distributed
        except ImportError:
            message = "running on a Dask cluster needs the package 'distributed'"
            raise HespasError(message, remedy=INSTALL_COMMAND) from None
        self.spec, self.address, self.retried = spec, address, 0
        self._distributed = distributed
        # It logs tracebacks of its own tasks when the connection breaks, which is reported here.
        logging.getLogger("distributed.client").setLevel(logging.CRITICAL)
        try:
            self._client = distributed.Client(address, timeout=CONNECT_TIMEOUT_S)
        except (OSError, TimeoutError, ValueError, ImportError) as error:
            why = extract_first_line(str(error))
            raise HespasError(f"there is no Dask scheduler at {address}: {why}") from None

    def __enter__(self) -> DaskWorkerPool:
        return self

    def __exit__(self, *_: object) -> None:
        with contextlib.suppress(Exception):
            self._client.run(_end_worker_processes)
        self._client.close(timeout=5)

    def collect_environment(self) -> dict[str, Any]:
        """Return what results depend on; raises HespasError if it differs between workers."""
        if not self._client.scheduler_info(n_workers=-1)["workers"]:
            raise HespasError(f"the Dask cluster at {self.address} has no worker")
        answers: Any = self._client.run(_describe_environment, asdict(self.spec), on_error="return")
        distinct: dict[str, tuple[str, dict[str, Any]]] = {}
        for worker, answer in sorted(answers.items()):
            if isinstance(answer, BaseException):  # most likely hespas is not installed there
                why = f"{type(answer).__name__}: {extract_first_line(str(answer))}"
                raise HespasError(
                    f"the Dask worker {worker} cannot measure: {why}",
                    remedy="install the same version of hespas and its extras there",
                )
            if "error" in answer:
                raise HespasError(f"the Dask worker {worker} cannot measure: {answer['error']}")
            environment = answer["environment"]
            distinct.setdefault(str(environment), (worker, environment))
        if len(distinct) > 1:
            (a, first), (b, second), *_ = distinct.values()
            key = next(k for k in {**first, **second} if first.get(k) != second.get(k))
            raise HespasError(
                f"the Dask workers differ in {key}: {first.get(key)} on {a}, "
                f"{second.get(key)} on {b}",
                remedy="use a cluster of equal workers, so that times can be compared",
            )
        return next(iter(distinct.values()))[1]

    def run_payloads(
        self, payloads: Sequence[dict[str, Any]]
    ) -> Generator[tuple[int, WorkerOutcome], None, None]:
        """Yield (number, outcome) of each payload when it is done.

        Raises ClusterLostError if the scheduler or all workers are lost.
        """
        spec = asdict(self.spec)
        numbers = {
            self._client.submit(
                _measure_payload, spec, payload, pure=False, priority=-number
            ): number
            for number, payload in enumerate(payloads)
        }
        pending = set(numbers)
        idle_s = 0.0
        try:
            while pending:
                done = self._wait_for_futures(pending)
                idle_s = 0.0 if done or self._has_workers() else idle_s + POLL_S
                if idle_s >= LOST_AFTER_S:
                    raise ClusterLostError(
                        f"the Dask cluster at {self.address} has lost all workers"
                    )
                for future in done:
                    pending.discard(future)
                    yield numbers[future], self._collect_outcome(future)
        finally:
            if pending:
                with contextlib.suppress(Exception):  # the scheduler may be gone
                    self._client.cancel(list(pending), force=True)

    def _wait_for_futures(self, pending: set[Any]) -> set[Any]:
        try:
            wait: Any = self._distributed.wait
            return wait(pending, timeout=POLL_S, return_when="FIRST_COMPLETED").done
        except TimeoutError:
            return set()
        except LOST_ERRORS:
            raise self._build_lost_error() from None

    def _has_workers(self) -> bool:
        if self._client.status != "running":
            raise self._build_lost_error()
        try:
            return bool(self._client.scheduler_info(n_workers=-1)["workers"])
        except LOST_ERRORS:
            raise self._build_lost_error() from None

    def _build_lost_error(self) -> ClusterLostError:
        return ClusterLostError(f"the Dask scheduler at {self.address} is gone")

    def _collect_outcome(self, future: Any) -> WorkerOutcome:
        if future.status in ("cancelled", "lost"):
            raise self._build_lost_error()
        if future.status == "finished":
            try:
                answer = future.result()
            except LOST_ERRORS:
                raise self._build_lost_error() from None
            if "error" in answer:
                raise HespasError(f"a Dask worker cannot measure: {answer['error']}")
            self.retried += answer["retried"]
            return (
                WorkerFailure.from_json(answer["failed"])
                if "failed" in answer
                else answer["answer"]
            )
        error = future.exception() if future.status == "error" else None
        if isinstance(error, self._distributed.KilledWorker):
            message = "each Dask worker that ran it was lost"
            return WorkerFailure("crash", message)
        why = f"{type(error).__name__}: {extract_first_line(str(error))}"
        raise HespasError(f"the Dask cluster failed: {why}")


_lock = threading.Lock()  # one region at a time in a Dask worker, however many threads it has
_local_pools: dict[str, LocalWorkerPool] = {}


def _describe_environment(spec: dict[str, Any]) -> dict[str, Any]:
    """Return what results depend on as {"environment" or "error": ...}; runs on a Dask worker."""
    with _lock:
        try:
            return {"environment": _get_local_pool(spec).collect_environment()}
        except HespasError as error:
            return {"error": error.message}


def _measure_payload(spec: dict[str, Any], payload: dict[str, Any]) -> dict[str, Any]:
    """Measure one region; runs on a Dask worker.

    Returns {"answer" or "failed": ..., "retried": count}, or {"error": message}.
    """
    with _lock:
        processes = _get_local_pool(spec)
        before = processes.retried
        try:
            ((_, outcome),) = processes.run_payloads([payload])
        except HespasError as error:
            return {"error": error.message}
        retried = processes.retried - before
    if isinstance(outcome, WorkerFailure):
        return {"failed": outcome.to_json(), "retried": retried}
    return {"answer": outcome, "retried": retried}


def _end_worker_processes() -> None:
    """End the worker processes; runs on a Dask worker."""
    with _lock:
        while _local_pools:
            _local_pools.popitem()[1].__exit__()


def _get_local_pool(spec: dict[str, Any]) -> LocalWorkerPool:
    key = str(spec)
    if key not in _local_pools:
        _local_pools[key] = LocalWorkerPool(WorkerSpec(**spec))
    return _local_pools[key]
