"""A worker process: it reads one request per line on stdin and answers each with one line.

It is forked from a worker template. ``multiprocessing`` is not used, because it would run the
user's script again, would mix the output of all workers, and could not end the processes that a
worker has started.

Its argument describes the worker: {"path": sys.path, "worker": "module:function", "probe": ...,
"packages": [...], "turns": ..., "timed": ..., "settings": {...}, "memory_limit_bytes": ...,
"temporary_folder": a folder that the parent removes, or ""}; the first answer is
{"environment": {...}}. Each line is a payload; the answer is {"answer": {...}} or
{"failed": {"kind", "message"}}. {"waiting": true} and {"waiting": false} precede it for each wait
for a turn. When stdin ends, for example because the parent has ended, the worker ends together with
all processes that it has started.
"""

from __future__ import annotations

import contextlib
import importlib
import json
import math
import os
import queue
import signal
import sys
import tempfile
import threading
import time
from typing import Any, TextIO

from hespas.estimators.measure import turns
from hespas.estimators.measure.failure import UnsupportedError


def main(description: str) -> None:
    """Serve requests until stdin ends.

    Args:
        description: The description of the worker as JSON.
    """
    out = os.fdopen(os.dup(1), "w", buffering=1, encoding="utf-8")
    os.dup2(2, 1)  # output of native code must not be read as an answer
    lines = os.fdopen(os.dup(0), encoding="utf-8")
    os.dup2(os.open(os.devnull, os.O_RDONLY), 0)  # child processes must not read requests
    requests: queue.SimpleQueue[dict[str, Any]] = queue.SimpleQueue()
    threading.Thread(target=_read_requests, args=(lines, requests), daemon=True).start()

    def send_message(**message: Any) -> None:
        print(json.dumps(message), file=out)

    wait_times: list[float] = []  # start and end of each wait for a turn during one request

    def record_wait(waiting: bool) -> None:
        wait_times.append(time.perf_counter())
        send_message(waiting=waiting)

    turns.report_wait = record_wait
    start = json.loads(description)
    try:
        function = _prepare_worker(start)
        send_message(environment=_collect_environment(start))
    except BaseException as error:  # code of a plug-in may raise anything, SystemExit included
        send_message(failed=_describe_failure(error))
        return
    while True:
        payload = requests.get()
        wait_times.clear()
        before = time.perf_counter()
        try:
            with (
                turns.hold_timing_turn() if start["turns"] == "whole" else contextlib.nullcontext()
            ):
                answer = function(payload)
                if start["timed"]:
                    answer = _check_answer(answer, start["worker"])
            waited_s = sum(wait_times[1::2]) - sum(wait_times[::2])
            wall_s = time.perf_counter() - before - waited_s
            message = {"answer": {**answer, "wall_s": wall_s}}
        except BaseException as error:
            message = {"failed": _describe_failure(error)}
        send_message(**message)


def _read_requests(lines: TextIO, requests: queue.SimpleQueue[dict[str, Any]]) -> None:
    for line in lines:
        requests.put(json.loads(line))
    with contextlib.suppress(OSError):
        if os.getpgrp() == os.getpid():
            os.killpg(0, signal.SIGKILL)
    os._exit(0)


def _prepare_worker(start: dict[str, Any]) -> Any:
    sys.path[:] = start["path"]
    if start["temporary_folder"]:
        # This process may be killed; its parent then removes what libraries have left here.
        tempfile.tempdir = os.environ["TMPDIR"] = start["temporary_folder"]
    limit = start["memory_limit_bytes"]
    if limit:
        import resource

        # The address space is not limited: a device runtime reserves far more than it uses.
        resource.setrlimit(resource.RLIMIT_DATA, (limit, limit))
    return _import_function(start["worker"])


def _import_function(place: str) -> Any:
    module, _, name = place.partition(":")
    return getattr(importlib.import_module(module), name)


def _collect_environment(start: dict[str, Any]) -> dict[str, Any]:
    from importlib.metadata import version

    environment = dict(_import_function(start["probe"])(start["settings"]))
    versions = {name: version(name) for name in start["packages"]}
    if versions:
        environment["versions"] = {**versions, **environment.get("versions", {})}
    return json.loads(json.dumps(environment))


def _check_answer(answer: Any, worker: str) -> dict[str, Any]:
    median = answer.get("median_s") if isinstance(answer, dict) else None
    if not isinstance(median, (int, float)) or not (math.isfinite(median) and median >= 0):
        raise TypeError(f"{worker} answered without a time: median_s is {median!r}")
    return {"host_load": os.getloadavg()[0], **json.loads(json.dumps(answer, allow_nan=False))}


def _describe_failure(error: BaseException) -> dict[str, Any]:
    from hespas.support.errors import HespasError, extract_first_line

    if isinstance(error, UnsupportedError):
        return {"kind": "unsupported", "message": str(error)}
    if isinstance(error, MemoryError):
        return {"kind": "memory", "message": "it ran out of memory"}
    if isinstance(error, HespasError):
        remedy = f"; {error.remedy}" if error.remedy else ""
        return {"kind": "error", "message": f"{error.message}{remedy}"}
    return {"kind": "error", "message": f"{type(error).__name__}: {extract_first_line(str(error))}"}
