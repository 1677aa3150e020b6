"""Worker processes on this machine.

They are persistent. Each has its own process group, and is replaced when it dies.
"""

from __future__ import annotations

import contextlib
import json
import os
import selectors
import signal
import sys
import tempfile
import time
from collections import deque
from collections.abc import Callable, Generator, Sequence
from dataclasses import asdict, dataclass, field
from typing import IO, Any

from hespas.estimators.measure.failure import RETRIED_KINDS, WorkerFailure, describe_exit_code
from hespas.support import worker_template
from hespas.support.errors import HespasError
from hespas.support.supervised_process import open_temporary_folder

START_TIMEOUT_S = 120.0  # importing a compiler takes seconds
WAIT_NOTED_S = 10.0  # a longer wait for the turn of another run is reported
LAST_LINES, LAST_BYTES = 3, 4096  # limits of the output that a failure quotes

WORKER = "hespas.estimators.measure.measure_worker"

WorkerOutcome = dict[str, Any] | WorkerFailure


@dataclass(frozen=True)
class WorkerSpec:
    """The description of a worker process, with its timeout and number of retries.

    If ``timed`` is set, each answer must contain a time. The modules ``preloaded`` are imported
    once, before workers are forked.
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
    preloaded: tuple[str, ...] = ()


def list_preloaded_modules(spec: WorkerSpec) -> tuple[str, ...]:
    """List the modules that the template of a worker imports: the worker's own is one of hespas."""
    module = spec.worker.partition(":")[0]
    return (*((module,) if module.startswith("hespas.") else ()), *spec.preloaded)


class _WorkerProcess:
    """One worker process; ``task`` is the number of the payload that it runs or will run."""

    def __init__(self, spec: WorkerSpec, temporary_folder: str = "") -> None:
        self.spec = spec
        self.task: int | None = None
        self.environment: dict[str, Any] | None = None  # None until it has started
        self._errors: IO[bytes] = tempfile.TemporaryFile("a+b")  # noqa: SIM115
        self._buffer = b""
        self._deadline: float | None = None
        self._paused_remaining_s = 0.0
        start = {**asdict(spec), "path": sys.path, "temporary_folder": temporary_folder}
        stdin_fd, our_stdin_fd = os.pipe()
        our_stdout_fd, stdout_fd = os.pipe()
        try:
            self._process = worker_template.POOL.start_task(
                WORKER,
                worker_template.WorkerTask(
                    json.dumps(start), {**os.environ, "PYTHONUNBUFFERED": "1"}, os.getcwd()
                ),
                worker_template.TaskStreams(stdin_fd, stdout_fd, self._errors.fileno()),
                list_preloaded_modules(spec),
            )
        finally:
            os.close(stdin_fd)
            os.close(stdout_fd)
        self._in, self.out = open(our_stdin_fd, "wb"), open(our_stdout_fd, "rb")  # noqa: SIM115
        self._deadline = time.monotonic() + START_TIMEOUT_S

    def assign_task(self, task: int, payload: dict[str, Any]) -> None:
        """Send a payload, which the process runs when it has started."""
        self.task = task
        if self.environment is not None:
            os.ftruncate(self._errors.fileno(), 0)
            self._deadline = time.monotonic() + self.spec.timeout_s
        self._send_message(payload)

    def _send_message(self, message: dict[str, Any]) -> None:
        with contextlib.suppress(BrokenPipeError):  # the other pipe reports its death
            self._in.write(json.dumps(message).encode() + b"\n")
            self._in.flush()

    @property
    def remaining_s(self) -> float | None:
        """Seconds until the timeout; None while the process waits for its turn or for work."""
        return None if self._deadline is None else self._deadline - time.monotonic()

    def read_answer(self) -> dict[str, Any] | None:
        """Read one message; returns None unless it is an answer.

        Raises EOFError if the process has died.
        """
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
        """Kill the process and all processes that it started; returns its exit code."""
        code = self._process.kill()
        self._close_files()
        return code

    def _close_files(self) -> None:
        for file in (self._in, self.out):
            with contextlib.suppress(OSError):
                file.close()

    def collect_exit_code(self) -> int:
        """Return the exit code of a process that has closed its output."""
        try:
            code = self._process.wait(5.0)
        except TimeoutError:
            return self.kill_process_group()
        self._close_files()
        return code

    def read_last_lines(self) -> tuple[str, ...]:
        """Return the last lines that the process printed during its task."""
        size = os.fstat(self._errors.fileno()).st_size
        data = os.pread(self._errors.fileno(), LAST_BYTES, max(0, size - LAST_BYTES))
        lines = [line.strip() for line in data.decode(errors="replace").splitlines()]
        return tuple([line for line in lines if line][-LAST_LINES:])


class LocalWorkerPool:
    """A pool of up to ``jobs`` worker processes, which end when its context is left.

    ``note`` is called once if all of them wait for the turn of another run.
    """

    def __init__(
        self, spec: WorkerSpec, jobs: int = 1, note: Callable[[str], None] = lambda text: None
    ) -> None:
        self.spec, self.jobs, self.retried = spec, jobs, 0
        self._note, self._noted = note, False
        self._idle: list[_WorkerProcess] = []
        self._busy: list[_WorkerProcess] = []
        self._stack = contextlib.ExitStack()
        self._temporary_folder = ""
        self._has_started_one = False

    def __enter__(self) -> LocalWorkerPool:
        self._temporary_folder = self._stack.enter_context(open_temporary_folder())
        return self

    def __exit__(self, *_: object) -> None:
        with self._stack:
            while self._busy or self._idle:
                (self._busy or self._idle).pop().kill_process_group()

    def _start_worker(self) -> _WorkerProcess:
        return _WorkerProcess(self.spec, self._temporary_folder)

    def collect_environment(self) -> dict[str, Any]:
        """Return what results depend on; raises HespasError if no worker can be started."""
        if not self._idle:
            process = self._start_worker()
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
        """Yield (number, outcome) of each payload when it is done.

        A failure that the worker may have caused is retried in a new one, and so is a worker that
        does not start after another one has. Raises HespasError if no worker can be started.
        """
        todo = deque(range(len(payloads)))
        tries = [0] * len(payloads)
        while todo or self._busy:
            while todo and len(self._busy) < self.jobs:
                process = self._idle.pop() if self._idle else self._start_worker()
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
        """Wait for a message or a timeout; returns the processes that are done with outcomes."""
        limits = [
            remaining_s
            for process in self._busy
            if (remaining_s := process.remaining_s) is not None
        ]
        with selectors.DefaultSelector() as selector:
            for process in self._busy:
                selector.register(process.out, selectors.EVENT_READ, process)
            ready = selector.select(max(0.0, min(limits)) if limits else WAIT_NOTED_S)
        if not ready and not limits and not self._noted:
            self._noted = True
            self._note("waiting until another run has finished a measurement on this machine")
        done: list[tuple[_WorkerProcess, WorkerOutcome]] = []
        for key, _ in ready:
            outcome = self._read_outcome(key.data)
            if outcome is not None:
                done.append((key.data, outcome))
        finished = [process for process, _ in done]
        for process in self._busy:
            remaining_s = process.remaining_s
            if remaining_s is not None and remaining_s <= 0 and process not in finished:
                started = process.environment is not None
                limit_s = self.spec.timeout_s if started else START_TIMEOUT_S
                failure = WorkerFailure(
                    "timeout", f"it took more than {limit_s:g} s", process.read_last_lines()
                )
                done.append((process, failure))
        for process, outcome in done:
            self._has_started_one |= process.environment is not None
            is_task_retried = self._has_started_one and process.task is not None
            if process.environment is None and not is_task_retried:
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
    """Describe how a worker ended."""
    if -code == signal.SIGKILL:
        return "the worker was killed (SIGKILL): the machine may be out of memory"
    return f"the worker {describe_exit_code(code)}"
