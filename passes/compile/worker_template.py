"""Worker processes that are forked from a template, which has imported what they need.

Importing the bindings takes longer than most compilations. A template imports the module of the
worker once and forks itself for each task. It runs one thread and initialises neither XLA nor a
device, so that a fork is as good as a new process: XLA reads its environment after the fork.

``python -m hespas.passes.compile.worker_template MODULE`` reads a line of JSON for each task from
stdin, and answers with the exit code of its process. When stdin is closed, which the end of the
parent does, it kills that process and ends.
"""

from __future__ import annotations

import atexit
import contextlib
import importlib
import json
import os
import select
import signal
import subprocess
import sys
import threading
import time
import traceback
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import IO, NoReturn

MODULE = "hespas.passes.compile.worker_template"
# macOS does not allow a fork without exec when its frameworks are loaded. There, a template runs
# its first task itself and ends with it.
FORKS = sys.platform == "linux"
# The threads of BLAS would not survive the fork.
_ONE_THREAD = {"OPENBLAS_NUM_THREADS": "1", "MKL_NUM_THREADS": "1", "OMP_NUM_THREADS": "1"}
_STOP_TIMEOUT_S = 10.0


@dataclass(frozen=True)
class WorkerTask:
    """A task of a worker.

    Attributes:
        argument: What the function ``main`` of the worker's module is called with.
        output: The file that receives stdout and stderr.
        environment: The environment of the process.
        folder: Its current folder.
    """

    argument: str
    output: str
    environment: dict[str, str]
    folder: str


class WorkerTemplate:
    """A template, which runs one task at a time."""

    def __init__(self, module: str, output: IO[bytes], environment: dict[str, str]) -> None:
        # -P: a file in the current folder must not be imported instead of a package.
        self._process = subprocess.Popen(
            [sys.executable, "-P", "-m", MODULE, module, "fork" if FORKS else "once"],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=output,
            env=environment | _ONE_THREAD, start_new_session=True,
        )  # fmt: skip
        assert self._process.stdin is not None and self._process.stdout is not None
        self._requests, self._answers = self._process.stdin, self._process.stdout

    def run_task(self, task: WorkerTask, timeout_s: float) -> int:
        """Run a task, and return the exit code of its process, negative for a signal.

        If the template itself dies, this is its exit code.

        Raises:
            TimeoutError: It takes longer.
        """
        with contextlib.suppress(BrokenPipeError):
            self._requests.write(json.dumps(vars(task)).encode() + b"\n")
            self._requests.flush()
        deadline, answer = time.monotonic() + timeout_s, b""
        while not answer.endswith(b"\n"):
            left_s = max(0.0, deadline - time.monotonic())
            if not select.select([self._answers], [], [], left_s)[0]:
                raise TimeoutError
            data = os.read(self._answers.fileno(), 64)
            if not data:
                return self._wait_for_end(deadline)
            answer += data
        return int(answer)

    def _wait_for_end(self, deadline: float) -> int:
        """Return the exit code of the template, which has closed its stdout; may time out."""
        try:
            return self._process.wait(max(0.0, deadline - time.monotonic()))
        except subprocess.TimeoutExpired:
            raise TimeoutError from None

    def is_alive(self) -> bool:
        """Return whether the template can run another task."""
        return self._process.poll() is None

    def stop(self) -> None:
        """End the template and the process that it may have forked."""
        for file in (self._requests, self._answers):
            with contextlib.suppress(OSError):
                file.close()
        try:
            self._process.wait(_STOP_TIMEOUT_S if FORKS else 0.0)
        except subprocess.TimeoutExpired:
            kill_process_group(self._process.pid)
            self._process.wait()


def kill_process_group(group: int) -> None:
    """Kill a process and the processes that it has started."""
    # The group may have ended already; macOS raises PermissionError for a zombie.
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.killpg(group, signal.SIGKILL)


class TemplatePool:
    """The idle templates of this process; each thread that runs a task takes one or starts one."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._owner = os.getpid()
        self._idle: dict[tuple[str, ...], list[WorkerTemplate]] = {}

    def run_task(self, module: str, task: WorkerTask, timeout_s: float) -> int:
        """Run a task as :meth:`WorkerTemplate.run_task` does."""
        # The environment that Python's imports depend on.
        search = tuple(f"{k}={v}" for k, v in task.environment.items() if k.startswith("PYTHON"))
        template = self._take_idle((module, *search))
        if template is None:
            with open(task.output, "wb") as output:
                template = WorkerTemplate(module, output, task.environment)
        is_done = False
        try:
            code = template.run_task(task, timeout_s)
            is_done = template.is_alive()
        finally:
            if is_done:
                with self._lock:
                    self._idle.setdefault((module, *search), []).append(template)
            else:
                template.stop()
        return code

    def _take_idle(self, key: tuple[str, ...]) -> WorkerTemplate | None:
        with self._lock:
            if self._owner != os.getpid():  # a fork; the templates are those of its parent
                self._owner, self._idle = os.getpid(), {}
            while templates := self._idle.get(key):
                template = templates.pop()
                if template.is_alive():
                    return template
                template.stop()
        return None

    def stop_idle(self) -> None:
        """End the templates of this process."""
        if self._owner == os.getpid():
            for templates in self._idle.values():
                while templates:
                    templates.pop().stop()


POOL = TemplatePool()
atexit.register(POOL.stop_idle)


def serve_tasks(module: str, forks: bool) -> None:
    """Run a task for each line of stdin, until there is no more."""
    worker = importlib.import_module(module)
    while line := _read_line(0):
        task = WorkerTask(**json.loads(line))
        if not forks:
            _run_task(worker.main, task)
        life_fd, child_life_fd = os.pipe()  # the end of the child closes it
        pid = os.fork()
        if pid == 0:
            os.setpgid(0, 0)
            _run_task(worker.main, task)
        with contextlib.suppress(OSError):  # the child may have done so, or have ended
            os.setpgid(pid, pid)
        os.close(child_life_fd)
        is_closed = 0 in select.select([life_fd, 0], [], [])[0]  # no task comes before the answer
        kill_process_group(pid)  # the child, or what it has started (XLA starts ptxas)
        _, status = os.waitpid(pid, 0)
        os.close(life_fd)
        if is_closed:
            return
        os.write(1, b"%d\n" % os.waitstatus_to_exitcode(status))


def _read_line(fd: int) -> bytes:
    """Read a line; returns nothing if the file ends before it does."""
    line = b""
    while not line.endswith(b"\n"):
        data = os.read(fd, 1 << 16)  # no task follows before the answer to this one
        if not data:
            return b""
        line += data
    return line


def _run_task(main: Callable[[Path], object], task: WorkerTask) -> NoReturn:
    """Run a task in this process, and end it."""
    try:
        os.environ.clear()
        os.environ.update(task.environment)
        os.chdir(task.folder)
        input_fd = os.open(os.devnull, os.O_RDONLY)
        output_fd = os.open(task.output, os.O_WRONLY | os.O_CREAT | os.O_APPEND)
        for number, fd in ((0, input_fd), (1, output_fd), (2, output_fd)):
            os.dup2(fd, number)
        main(Path(task.argument))
        os._exit(0)
    except BaseException:
        traceback.print_exc()
        sys.stderr.flush()
    finally:
        os._exit(1)


if __name__ == "__main__":
    serve_tasks(sys.argv[1], forks=sys.argv[2] == "fork")
