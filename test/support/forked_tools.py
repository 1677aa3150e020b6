"""Tools of hespas that run in forks of this process, and the class of each outcome.

A fork starts with everything imported, so that a run takes a tenth of the time of a new process. It
is otherwise the tool itself: it has a supervisor, and it may crash, print and hang.
"""

from __future__ import annotations

import contextlib
import gc
import importlib
import os
import re
import selectors
import shutil
import signal
import sys
import tempfile
import time
import traceback
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field

TOOLS = {"hespas": "hespas.tools.hespas", "hespas-opt": "hespas.tools.hespas_opt"}
WARMING_PROGRAM = """HloModule m

ENTRY main {
  x = f32[4] parameter(0)
  ROOT y = f32[4] add(x, x)
}
"""
WARMING_PASSES = ("--split-linear", "--roofline-annotate=node=A100_SXM_40GB", "-o", "/dev/null")

RESULT, REFUSED, CONTAINED = "result", "refused", "contained"
UNCLEAR, TRACEBACK, SIGNAL, HANG = "unclear", "traceback", "signal", "hang"
CLASSES = {
    RESULT: "exit code 0",
    REFUSED: "one line that says what is wrong",
    CONTAINED: "one line that says that native code failed",
    UNCLEAR: "another exit code, or not one line",
    TRACEBACK: "a Python traceback",
    SIGNAL: "ended by a signal",
    HANG: "more than the time limit",
}
FAILURES = (UNCLEAR, TRACEBACK, SIGNAL, HANG)
REMARK = re.compile(r"^(warning: |note: |\S+-annotate: |  )|^$")
ERROR = re.compile(r"(^|: )error: ")
NATIVE = re.compile(r"error: .*(failed \(SIG|did not finish within)")


@dataclass(frozen=True)
class ToolRun:
    """A command to run: the name of the tool and its arguments, in an empty folder."""

    name: str
    command: Sequence[str]


@dataclass(frozen=True)
class ToolOutcome:
    """How a command ended: its class, exit code (negative for a signal), stderr and time."""

    run: ToolRun
    outcome: str
    code: int
    stderr: str
    wall_s: float

    @property
    def message(self) -> str:
        """The last line on stderr."""
        lines = self.stderr.strip().splitlines()
        return lines[-1] if lines else ""


@dataclass
class _ToolProcess:
    """A fork that runs a command; the end of ``life_fd`` is the end of all its processes."""

    run: ToolRun
    pid: int
    life_fd: int
    stderr_fd: int
    folder: str
    started_at: float = field(default_factory=time.monotonic)


def classify_outcome(code: int, stderr: str) -> str:
    """Return the class of a command that ended within its time limit."""
    if "Traceback (most recent call last)" in stderr:
        return TRACEBACK
    if code < 0 or code > 128:
        return SIGNAL
    if code == 0:
        return RESULT
    lines = [line for line in stderr.splitlines() if not REMARK.match(line)]
    if len(lines) != 1 or not ERROR.search(lines[0]):
        return UNCLEAR
    return CONTAINED if NATIVE.search(lines[0]) else REFUSED


def run_forked_tools(
    runs: Iterable[ToolRun], *, jobs: int = 2, limit_s: float = 60.0
) -> Iterator[ToolOutcome]:
    """Run commands in forks, up to ``jobs`` at a time, and yield each outcome when it is known.

    No other thread of this process may run meanwhile.
    """
    _import_all()
    waiting = iter(runs)
    with (
        tempfile.TemporaryDirectory(prefix="hespas-forks-") as scratch,
        selectors.DefaultSelector() as selector,
    ):
        running: list[_ToolProcess] = []
        try:
            while True:
                while len(running) < jobs and (run := next(waiting, None)) is not None:
                    process = _start_tool(run, scratch)
                    selector.register(process.life_fd, selectors.EVENT_READ, process)
                    running.append(process)
                if not running:
                    return
                oldest = min(process.started_at for process in running)
                ended = [
                    key.data for key, _ in selector.select(oldest + limit_s - time.monotonic())
                ]
                late = [p for p in running if time.monotonic() - p.started_at > limit_s]
                for process in ended or late:
                    selector.unregister(process.life_fd)
                    running.remove(process)
                    yield _collect_outcome(process, hangs=process not in ended)
        finally:
            for process in running:
                _collect_outcome(process, hangs=True)


def _import_all() -> None:
    """Import and initialise what most commands need, by running one."""
    for module in TOOLS.values():
        importlib.import_module(module)
    from hespas.tools import console_scripts, hespas_opt

    with tempfile.NamedTemporaryFile("w", suffix=".hlo") as file:
        file.write(WARMING_PROGRAM)
        file.flush()
        assert console_scripts.run_tool_main(hespas_opt.main, [file.name, *WARMING_PASSES]) == 0
    gc.collect()  # ends the threads of MLIR's context, which a fork would lack


def _start_tool(run: ToolRun, scratch: str) -> _ToolProcess:
    folder = tempfile.mkdtemp(dir=scratch)
    stderr_fd = os.memfd_create("stderr") if hasattr(os, "memfd_create") else _open_scratch(scratch)
    life_fd, child_life_fd = os.pipe()
    sys.stdout.flush()
    sys.stderr.flush()
    pid = os.fork()
    if pid == 0:
        try:
            _run_tool(run, folder, stderr_fd)
        except BaseException:
            traceback.print_exc()
        finally:
            sys.stderr.flush()
            os._exit(1)
    os.close(child_life_fd)
    return _ToolProcess(run, pid, life_fd, stderr_fd, folder)


def _open_scratch(scratch: str) -> int:
    fd, path = tempfile.mkstemp(dir=scratch)
    os.unlink(path)
    return fd


def _run_tool(run: ToolRun, folder: str, stderr_fd: int) -> None:
    """Run a command in this process, which it ends."""
    os.setsid()
    os.chdir(folder)
    null_fd = os.open(os.devnull, os.O_RDWR)
    for number, fd in ((0, null_fd), (1, null_fd), (2, stderr_fd)):
        os.dup2(fd, number)
    # A test may have replaced the streams, and its debugger is of no use here.
    sys.stdin, sys.stdout, sys.stderr = (
        open(number, mode, closefd=False)  # noqa: SIM115
        for number, mode in ((0, "r"), (1, "w"), (2, "w"))
    )
    sys.settrace(None)
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, signal.SIG_DFL)
    sys.argv = list(run.command)
    os.environ["TMPDIR"] = tempfile.tempdir = folder
    importlib.import_module(TOOLS[run.command[0]]).script()


def _collect_outcome(process: _ToolProcess, *, hangs: bool) -> ToolOutcome:
    """Wait for the end of a process, after killing it if it hangs."""
    if hangs:
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(process.pid, signal.SIGKILL)
    code = os.waitstatus_to_exitcode(os.waitpid(process.pid, 0)[1])
    wall_s = time.monotonic() - process.started_at
    size = os.fstat(process.stderr_fd).st_size
    stderr = os.pread(process.stderr_fd, size, 0).decode(errors="replace")
    os.close(process.stderr_fd)
    os.close(process.life_fd)
    shutil.rmtree(process.folder, ignore_errors=True)
    outcome = HANG if hangs else classify_outcome(code, stderr)
    return ToolOutcome(process.run, outcome, code, stderr, wall_s)
