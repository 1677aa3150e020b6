"""Worker processes that are forked from a template, which has imported what they need.

Importing the bindings or JAX takes longer than most tasks. A template imports the modules of the
worker once and forks itself for each task. It runs one thread and initialises neither XLA nor a
device, so that a fork is as good as a new process: XLA reads its environment after the fork.

``python -m hespas.support.worker_template fork MODULE...`` receives tasks over the socket that is
its stdin: a line of JSON with three descriptors, the stdin, stdout and stderr of the task. It
answers with the exit code of the task's process. ``kill`` ends that process. When the other end is
closed, which the end of the parent does, it kills that process and ends.
"""

from __future__ import annotations

import atexit
import contextlib
import dataclasses
import gc
import importlib
import json
import os
import select
import signal
import socket
import subprocess
import sys
import threading
import time
import traceback
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import NoReturn

MODULE = "hespas.support.worker_template"
# macOS does not allow a fork without exec when its frameworks are loaded. There, a template runs
# its first task itself and ends with it.
FORKS = sys.platform == "linux"
# The threads of BLAS would not survive the fork.
_ONE_THREAD = {"OPENBLAS_NUM_THREADS": "1", "MKL_NUM_THREADS": "1", "OMP_NUM_THREADS": "1"}
# What Python and JAX read from the environment while they are imported.
_READ_BY_IMPORTS = ("PYTHON", "JAX_")
_MAX_IDLE = 4  # each holds some 100 MB
_STOP_TIMEOUT_S = 10.0
_KILL = b"kill\n"


@dataclass(frozen=True)
class WorkerTask:
    """A task of a worker.

    Attributes:
        argument: What the function ``main`` of the worker's module is called with.
        environment: The environment of the process.
        folder: Its current folder.
    """

    argument: str
    environment: dict[str, str]
    folder: str


@dataclass(frozen=True)
class TaskStreams:
    """The descriptors of a task's streams, which the sender may close when the task has begun."""

    stdin_fd: int
    stdout_fd: int
    stderr_fd: int


@contextlib.contextmanager
def open_output_streams(path: str) -> Iterator[TaskStreams]:
    """Open the streams of a task that reads nothing and writes all its output to a file."""
    input_fd = os.open(os.devnull, os.O_RDONLY)
    output_fd = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o666)
    try:
        yield TaskStreams(input_fd, output_fd, output_fd)
    finally:
        os.close(input_fd)
        os.close(output_fd)


class WorkerTemplate:
    """A template, which runs one task at a time."""

    def __init__(self, modules: Sequence[str], environment: dict[str, str], errors_fd: int) -> None:
        """Start a template. Errors of its imports are written to ``errors_fd``."""
        self._socket, template_socket = socket.socketpair()
        with template_socket:
            # -P: a file in the current folder must not be imported instead of a package.
            self._process = subprocess.Popen(
                [sys.executable, "-P", "-m", MODULE, "fork" if FORKS else "once", *modules],
                stdin=template_socket.fileno(), stdout=errors_fd, stderr=errors_fd,
                env=environment | _ONE_THREAD, start_new_session=True,
            )  # fmt: skip

    def start_task(self, task: WorkerTask, streams: TaskStreams) -> None:
        """Start a task; ``wait_for_task`` reports if the template has died."""
        data = json.dumps(vars(task)).encode() + b"\n"
        with contextlib.suppress(ConnectionError):
            sent = socket.send_fds(self._socket, [data], dataclasses.astuple(streams))
            self._socket.sendall(data[sent:])

    def wait_for_task(self, timeout_s: float | None) -> int:
        """Return the exit code of the task's process, negative for a signal.

        If the template itself dies, this is its exit code.

        Raises:
            TimeoutError: It takes longer.
        """
        deadline, answer = None if timeout_s is None else time.monotonic() + timeout_s, b""
        while not answer.endswith(b"\n"):
            if not select.select([self._socket], [], [], _count_remaining_s(deadline))[0]:
                raise TimeoutError
            data = _receive_bytes(self._socket)
            if not data:
                return self._wait_for_end(deadline)
            answer += data
        return int(answer)

    def _wait_for_end(self, deadline: float | None) -> int:
        """Return the exit code of the template, which has closed its socket; may time out."""
        try:
            return self._process.wait(_count_remaining_s(deadline))
        except subprocess.TimeoutExpired:
            raise TimeoutError from None

    def kill_task(self) -> int:
        """Kill the task with the processes that it has started, and return its exit code.

        Raises:
            TimeoutError: The processes do not end.
        """
        if FORKS:
            with contextlib.suppress(ConnectionError):
                self._socket.sendall(_KILL)
        else:
            kill_process_group(self._process.pid)
        return self.wait_for_task(_STOP_TIMEOUT_S)

    def is_alive(self) -> bool:
        """Return whether the template can run another task."""
        return self._process.poll() is None

    def stop(self) -> None:
        """End the template and the process that it may have forked."""
        self._socket.close()
        try:
            self._process.wait(_STOP_TIMEOUT_S if FORKS else 0.0)
        except subprocess.TimeoutExpired:
            kill_process_group(self._process.pid)
            self._process.wait()


def _count_remaining_s(deadline: float | None) -> float | None:
    return None if deadline is None else max(0.0, deadline - time.monotonic())


def _receive_bytes(connection: socket.socket) -> bytes:
    """Receive what there is, nothing if the other end has been closed."""
    try:
        return connection.recv(64)
    except ConnectionError:
        return b""


def kill_process_group(group: int) -> None:
    """Kill a process and the processes that it has started."""
    # The group may have ended already; macOS raises PermissionError for a zombie.
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.killpg(group, signal.SIGKILL)


class TemplateTask:
    """A running task. It is over when ``wait`` or ``kill`` has returned its exit code."""

    def __init__(self, template: WorkerTemplate, release: Callable[[], None]) -> None:
        self._template, self._release = template, release
        self._code: int | None = None  # None until it is over, when others may have the template

    def wait(self, timeout_s: float | None = None) -> int:
        """Return the exit code of the task's process, negative for a signal.

        Raises:
            TimeoutError: It takes longer. The task goes on.
        """
        if self._code is None:
            self._code = self._template.wait_for_task(timeout_s)
            self._release()
        return self._code

    def kill(self) -> int:
        """Kill the task with the processes that it has started, and return its exit code."""
        if self._code is None:
            try:
                self._code = self._template.kill_task()
            except TimeoutError:
                self._template.stop()
                return -signal.SIGKILL
            self._release()
        return self._code


class TemplatePool:
    """The idle templates of this process; each task takes one or starts one."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._owner = os.getpid()
        self._idle: list[tuple[tuple[str, ...], WorkerTemplate]] = []  # the last used last

    def start_task(
        self, module: str, task: WorkerTask, streams: TaskStreams, preloaded: Sequence[str] = ()
    ) -> TemplateTask:
        """Start a task.

        Args:
            module: The module of the worker, with a function ``main``.
            task: The task.
            streams: Its streams.
            preloaded: Modules that its template imports besides.
        """
        settings = (
            f"{k}={v}" for k, v in task.environment.items() if k.startswith(_READ_BY_IMPORTS)
        )
        key = (module, *preloaded, *sorted(settings))
        template = self._take_idle(key) or WorkerTemplate(
            (module, *preloaded), task.environment, streams.stderr_fd
        )
        template.start_task(task, streams)
        return TemplateTask(template, lambda: self._keep_idle(key, template))

    def run_task(
        self, module: str, task: WorkerTask, streams: TaskStreams, timeout_s: float
    ) -> int:
        """Run a task, and return the exit code of its process, negative for a signal.

        Raises:
            TimeoutError: It takes longer. The task is killed.
        """
        running = self.start_task(module, task, streams)
        try:
            return running.wait(timeout_s)
        except BaseException:
            running.kill()
            raise

    def _take_idle(self, key: tuple[str, ...]) -> WorkerTemplate | None:
        with self._lock:
            if self._owner != os.getpid():  # a fork; the templates are those of its parent
                self._owner, self._idle = os.getpid(), []
            for place in reversed(range(len(self._idle))):
                if self._idle[place][0] == key:
                    template = self._idle.pop(place)[1]
                    if template.is_alive():
                        return template
                    template.stop()
        return None

    def _keep_idle(self, key: tuple[str, ...], template: WorkerTemplate) -> None:
        if not template.is_alive():
            template.stop()
            return
        with self._lock:
            self._idle.append((key, template))
            oldest = self._idle.pop(0)[1] if len(self._idle) > _MAX_IDLE else None
        if oldest is not None:
            oldest.stop()

    def stop_idle(self) -> None:
        """End the templates of this process."""
        if self._owner == os.getpid():
            while self._idle:
                self._idle.pop()[1].stop()


POOL = TemplatePool()
atexit.register(POOL.stop_idle)


def serve_tasks(modules: Sequence[str], forks: bool) -> None:
    """Run a task for each request, until there is no more; the first module is the worker's."""
    gc.disable()  # there is nothing to free yet
    worker, *_ = [importlib.import_module(module) for module in modules]
    gc.freeze()  # a collection in a fork would visit, and so copy, what has been imported
    gc.enable()
    connection = socket.socket(fileno=os.dup(0))
    _redirect_streams([os.open(os.devnull, os.O_RDWR)] * 3)  # whoever reads them sees their end
    while request := _receive_task(connection):
        task, streams = request
        if not forks:
            _run_task(worker.main, task, streams)
        life_fd, child_life_fd = os.pipe()  # the end of the child closes it
        pid = os.fork()
        if pid == 0:
            os.setpgid(0, 0)
            connection.close()
            _run_task(worker.main, task, streams)
        with contextlib.suppress(OSError):  # the child may have done so, or have ended
            os.setpgid(pid, pid)
        for fd in (child_life_fd, *streams):
            os.close(fd)
        ready = select.select([life_fd, connection], [], [])[0]
        is_closed = connection in ready and not _receive_bytes(
            connection
        )  # else it is to be killed
        kill_process_group(pid)  # the child, or what it has started (XLA starts ptxas)
        _, status = os.waitpid(pid, 0)
        os.close(life_fd)
        if is_closed:
            return
        connection.sendall(b"%d\n" % os.waitstatus_to_exitcode(status))


def _receive_task(connection: socket.socket) -> tuple[WorkerTask, list[int]] | None:
    """Receive a task with its streams; returns None if the other end has been closed."""
    line, streams = b"", []
    while not line.endswith(b"\n"):
        try:
            data, fds, _, _ = socket.recv_fds(connection, 1 << 16, 3)
        except ConnectionError:
            return None
        if not data:
            return None
        streams += fds
        line = (line + data).removeprefix(_KILL)  # of a task that had ended
    return WorkerTask(**json.loads(line)), streams


def _redirect_streams(fds: Sequence[int]) -> None:
    """Make stdin, stdout and stderr of this process these descriptors, and close them."""
    for number, fd in enumerate(fds):
        os.dup2(fd, number)
    for fd in set(fds):
        os.close(fd)


def _run_task(main: Callable[[str], object], task: WorkerTask, streams: Sequence[int]) -> NoReturn:
    """Run a task in this process, and end it."""
    try:
        _redirect_streams(streams)
        os.environ.clear()
        os.environ.update(task.environment)
        os.chdir(task.folder)
        main(task.argument)
        sys.stdout.flush()
        os._exit(0)
    except BaseException:
        traceback.print_exc()
        sys.stderr.flush()
    finally:
        os._exit(1)


if __name__ == "__main__":
    serve_tasks(sys.argv[2:], forks=sys.argv[1] == "fork")
