"""Worker processes on this machine: persistent, each in a group of its own, replaced when lost."""

from __future__ import annotations

import contextlib
import json
import os
import selectors
import signal
import subprocess
import sys
import tempfile
import time
from collections import deque
from collections.abc import Callable, Generator, Sequence
from dataclasses import asdict, dataclass, field
from typing import IO, Any

from hespas.estimators.measure.failure import RETRIED_KINDS, WorkerFailure, describe_exit_code
from hespas.support.errors import HespasError

START_TIMEOUT_S = 120.0  # importing a compiler takes seconds
WAIT_NOTED_S = 10.0
LAST_LINES, LAST_BYTES = 3, 4096

WorkerOutcome = dict[str, Any] | WorkerFailure


@dataclass(frozen=True)
class WorkerSpec:
    """What a worker process is started with, and how long and how often it may try.

    ``timed`` says that its answers are times, which are checked.
    """

    worker: str
    probe: str
    packages: tuple[str, ...] = ()
    turns: str = "whole"
    timed: bool = True
    settings: dict[str, Any] = field(default_factory=dict)
    memory_limit_bytes: int = 0
    timeout_s: float = 600.0
    retries: int = 1


class _WorkerProcess:
    """One worker process; ``task`` is what it is busy with, or will be when it has started."""

    def __init__(self, spec: WorkerSpec) -> None:
        self.spec = spec
        self.task: int | None = None
        self.environment: dict[str, Any] | None = None  # known when it has started
        self._errors: IO[bytes] = tempfile.TemporaryFile("a+b")  # noqa: SIM115
        self._buffer = b""
        self._deadline: float | None = None
        self._paused_remaining_s = 0.0
        self._popen = subprocess.Popen(
            [sys.executable, "-P", "-m", "hespas.estimators.measure.measure_worker"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self._errors,
            start_new_session=True,  # a ^C is the parent's to handle
            env={**os.environ, "PYTHONUNBUFFERED": "1"},
        )
        assert self._popen.stdin is not None and self._popen.stdout is not None
        self._in, self.out = self._popen.stdin, self._popen.stdout
        self._send_message({**asdict(spec), "path": sys.path})
        self._deadline = time.monotonic() + START_TIMEOUT_S

    def assign_task(self, task: int, payload: dict[str, Any]) -> None:
        """Give it a task, which it begins once it has started."""
        self.task = task
        if self.environment is not None:
            os.ftruncate(self._errors.fileno(), 0)
            self._deadline = time.monotonic() + self.spec.timeout_s
        self._send_message(payload)

    def _send_message(self, message: dict[str, Any]) -> None:
        with contextlib.suppress(BrokenPipeError):  # its death is seen on the other pipe
            self._in.write(json.dumps(message).encode() + b"\n")
            self._in.flush()

    @property
    def remaining_s(self) -> float | None:
        """Seconds until the time is up; None while it waits for its turn, or for work."""
        return None if self._deadline is None else self._deadline - time.monotonic()

    def read_answer(self) -> dict[str, Any] | None:
        """What it says, None for what is no answer yet; raises EOFError where it has died."""
        data = os.read(self.out.fileno(), 1 << 16)
        if not data:
            raise EOFError
        self._buffer += data
        while b"\n" in self._buffer:
            line, _, self._buffer = self._buffer.partition(b"\n")
            message = json.loads(line)
            if "waiting" in message:
                self._update_deadline(message["waiting"])
            elif "environment" in message:
                self.environment = message["environment"]
                busy = self.task is not None
                self._deadline = time.monotonic() + self.spec.timeout_s if busy else None
            else:
                self._deadline = None
                return message
        return None

    def _update_deadline(self, waiting: bool) -> None:
        if waiting and self._deadline is not None:
            self._paused_remaining_s, self._deadline = self._deadline - time.monotonic(), None
        elif not waiting:
            self._deadline = time.monotonic() + self._paused_remaining_s

    def kill_process_group(self) -> int:
        """Kill the process and all it started; its exit code."""
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(self._popen.pid, signal.SIGKILL)
        code = self._popen.wait()
        for file in (self._in, self.out):
            with contextlib.suppress(OSError):
                file.close()
        return code

    def collect_exit_code(self) -> int:
        """The exit code of a process that has closed its output."""
        try:
            code = self._popen.wait(5.0)
        except subprocess.TimeoutExpired:
            return self.kill_process_group()
        self.kill_process_group()
        return code

    def read_last_lines(self) -> tuple[str, ...]:
        """The last lines that it printed during its task."""
        size = os.fstat(self._errors.fileno()).st_size
        data = os.pread(self._errors.fileno(), LAST_BYTES, max(0, size - LAST_BYTES))
        lines = [line.strip() for line in data.decode(errors="replace").splitlines()]
        return tuple([line for line in lines if line][-LAST_LINES:])


class LocalWorkerPool:
    """Up to ``jobs`` worker processes; a context manager that leaves none behind.

    ``note`` is told, once, where all of them wait for the turn of another run.
    """

    def __init__(
        self, spec: WorkerSpec, jobs: int = 1, note: Callable[[str], None] = lambda text: None
    ) -> None:
        self.spec, self.jobs, self.retried = spec, jobs, 0
        self._note, self._noted = note, False
        self._idle: list[_WorkerProcess] = []
        self._busy: list[_WorkerProcess] = []

    def __enter__(self) -> LocalWorkerPool:
        return self

    def __exit__(self, *_: object) -> None:
        while self._busy or self._idle:
            (self._busy or self._idle).pop().kill_process_group()

    def collect_environment(self) -> dict[str, Any]:
        """What results depend on here; starts a worker, and raises HespasError if that fails."""
        if not self._idle:
            process = _WorkerProcess(self.spec)
            self._busy.append(process)
            while process.environment is None:
                self._wait_for_outcomes()
            self._busy.remove(process)
            self._idle.append(process)
        environment = self._idle[0].environment
        assert environment is not None
        return environment

    def run_payloads(
        self, payloads: Sequence[dict[str, Any]]
    ) -> Generator[tuple[int, WorkerOutcome], None, None]:
        """(number, outcome) of each payload as it is done.

        What may be the worker's fault is tried again, in a new one. Raises HespasError where no
        worker can be started.
        """
        todo = deque(range(len(payloads)))
        tries = [0] * len(payloads)
        while todo or self._busy:
            while todo and len(self._busy) < self.jobs:
                process = self._idle.pop() if self._idle else _WorkerProcess(self.spec)
                self._busy.append(process)
                tries[todo[0]] += 1
                process.assign_task(todo[0], payloads[todo.popleft()])
            for process, outcome in self._wait_for_outcomes():
                task = process.task
                assert task is not None
                self._busy.remove(process)
                if isinstance(outcome, WorkerFailure) and outcome.kind in RETRIED_KINDS:
                    process.kill_process_group()
                    if tries[task] <= self.spec.retries:
                        self.retried += 1
                        todo.appendleft(task)
                        continue
                else:
                    process.task = None
                    self._idle.append(process)
                yield task, outcome

    def _wait_for_outcomes(self) -> list[tuple[_WorkerProcess, WorkerOutcome]]:
        """The busy workers that are done, with what came of it; waits for something to happen."""
        limits = [left for process in self._busy if (left := process.remaining_s) is not None]
        with selectors.DefaultSelector() as selector:
            for process in self._busy:
                selector.register(process.out, selectors.EVENT_READ, process)
            ready = selector.select(max(0.0, min(limits)) if limits else WAIT_NOTED_S)
        if not ready and not limits and not self._noted:
            self._noted = True
            self._note("waiting for another run to end what it measures on this machine")
        done: list[tuple[_WorkerProcess, WorkerOutcome]] = []
        for key, _ in ready:
            outcome = self._read_outcome(key.data)
            if outcome is not None:
                done.append((key.data, outcome))
        finished = [process for process, _ in done]
        for process in self._busy:
            left = process.remaining_s
            if left is not None and left <= 0 and process not in finished:
                started = process.environment is not None
                limit_s = self.spec.timeout_s if started else START_TIMEOUT_S
                failure = WorkerFailure(
                    "timeout", f"it took more than {limit_s:g} s", process.read_last_lines()
                )
                done.append((process, failure))
        for process, outcome in done:
            if process.environment is None:
                raise self._build_start_error(outcome)
        return done

    def _read_outcome(self, process: _WorkerProcess) -> WorkerOutcome | None:
        try:
            message = process.read_answer()
        except EOFError:
            return WorkerFailure(
                "crash", _describe_ending(process.collect_exit_code()), process.read_last_lines()
            )
        if message is None:
            return None
        if "failed" in message:
            failure = message["failed"]
            return WorkerFailure(failure["kind"], failure["message"], process.read_last_lines())
        return message["answer"]

    def _build_start_error(self, outcome: WorkerOutcome) -> HespasError:
        assert isinstance(outcome, WorkerFailure)
        if outcome.kind == "error":
            return HespasError(outcome.message)
        module = self.spec.worker.partition(":")[0]
        return HespasError(f"the worker of {module} did not start: {outcome.format_message()}")


def _describe_ending(code: int) -> str:
    """How a worker ended, in words."""
    if -code == signal.SIGKILL:
        return "the worker was killed (SIGKILL): perhaps the machine is out of memory"
    return f"the worker {describe_exit_code(code)}"
