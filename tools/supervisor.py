"""The parent process of a tool: reports how its child process died, and removes what it left.

MLIR and XLA end their process on some damaged input, or never return. A tool therefore runs in a
child process, which is forked before anything is imported, so that this costs a millisecond. The
parent forwards signals and waits. The child's journal (`hespas.support.supervised_process`) tells
it which temporary files exist and which native code has failed.

``HESPAS_SUPERVISE=0`` runs the tool in one process, for debuggers.
"""

from __future__ import annotations

import contextlib
import os
import re
import signal
import sys
import time
from collections.abc import Callable
from typing import NamedTuple, NoReturn

from hespas.support import supervised_process
from hespas.support.errors import UsageError

VARIABLE = "HESPAS_SUPERVISE"
EXIT_ERROR, EXIT_SIGNAL = 1, 128
GRACE_S = 10.0  # for the child to clean up after a signal
ENDING = ("SIGINT", "SIGTERM", "SIGHUP", "SIGQUIT")
FORWARDED = (*ENDING, "SIGUSR1", "SIGUSR2", "SIGTSTP", "SIGCONT")

# Reasons that native code prints before it ends the process.
REASONS = (
    r"(?m)^F\d{4,} [\d:.]+ +\d+ \S+\] (.*)",
    r"(?m)^LLVM ERROR: (.*)",
    r"(?m)^\s*what\(\): +(.*)",
    r"(?m)(Assertion .*failed)",
)


class ProcessJournal(NamedTuple):
    """What the journal of a child process says about its last moment.

    Attributes:
        activity: The innermost native code that ran, as the start of a message, or "".
        limit_s: The limit of its processor time, or "" without one.
        temporaries: The temporary files and folders that exist.
        new_folders: The created folders that are removed if they are empty, innermost first.
        crash_file: The temporary file that is kept after a crash, and the place that it takes.
        is_finished: Whether the tool has ended by itself.
    """

    activity: str
    limit_s: str
    temporaries: tuple[bytes, ...]
    new_folders: tuple[bytes, ...]
    crash_file: tuple[bytes, ...]
    is_finished: bool


def can_supervise() -> bool:
    """Return whether the tool should run in a child process.

    Raises:
        UsageError: A variable of the environment has a wrong value.
    """
    if os.environ.get(VARIABLE, "1") not in ("0", "1"):
        raise UsageError(f"{VARIABLE} is 0 or 1, not '{os.environ[VARIABLE]}'")
    limit = os.environ.get(supervised_process.READ_LIMIT_VARIABLE, "")
    if limit and not re.fullmatch(r"\d{1,9}(\.\d+)?", limit):
        name = supervised_process.READ_LIMIT_VARIABLE
        raise UsageError(f"{name} is a number of seconds, 0 for no limit, not '{limit}'")
    return hasattr(os, "fork") and os.environ.get(VARIABLE) != "0" and not sys.gettrace()


def run_supervised(run_tool: Callable[[], NoReturn]) -> int:
    """Run a tool in a child process, and return the exit code for this process."""
    journal_fd, native_stderr_fd = _open_memory_file(), _open_memory_file()
    life_fd, child_life_fd = os.pipe()
    forwarded = _list_forwarded_signals()
    watched = {signal.SIGCHLD, *forwarded}
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    old_mask = signal.pthread_sigmask(signal.SIG_BLOCK, watched)
    child = os.fork()
    if child == 0:
        os.close(child_life_fd)
        for number in forwarded:
            if number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
                signal.signal(number, signal.SIG_DFL)  # until there is something to clean up
        supervised_process.start_journal(journal_fd, native_stderr_fd)
        _request_parent_signal(life_fd)
        signal.pthread_sigmask(signal.SIG_SETMASK, old_mask)
        run_tool()
    os.close(life_fd)
    status, ending_signal = _wait_for_child(child, watched)
    journal = _read_journal(journal_fd)
    has_exited = os.WIFEXITED(status)
    was_ended = not has_exited and _was_ended(os.WTERMSIG(status), ending_signal)
    _remove_left_files(journal, is_crash=not (journal.is_finished or was_ended))
    if has_exited and journal.is_finished:
        return os.WEXITSTATUS(status)
    if has_exited:
        return _report_exit(os.WEXITSTATUS(status), journal, _read_file(native_stderr_fd))
    return _report_death(os.WTERMSIG(status), ending_signal, journal, _read_file(native_stderr_fd))


def _open_memory_file() -> int:
    """Open a file without a name that this process shares with its child."""
    if hasattr(os, "memfd_create"):
        return os.memfd_create("hespas")
    import tempfile

    fd, path = tempfile.mkstemp(prefix="hespas-")
    os.unlink(path)
    return fd


def _list_forwarded_signals() -> list[signal.Signals]:
    """List the signals to forward; those that this process was started to ignore stay ignored."""
    numbers = [getattr(signal, name) for name in FORWARDED]
    return [number for number in numbers if signal.getsignal(number) != signal.SIG_IGN]


def _request_parent_signal(life_fd: int) -> None:
    """Request SIGIO for the moment when the parent dies, which closes the other end of a pipe."""
    import fcntl

    with contextlib.suppress(OSError):
        fcntl.fcntl(life_fd, fcntl.F_SETOWN, os.getpid())
        flags = fcntl.fcntl(life_fd, fcntl.F_GETFL)
        fcntl.fcntl(life_fd, fcntl.F_SETFL, flags | os.O_ASYNC | os.O_NONBLOCK)


def _wait_for_child(child: int, watched: set[signal.Signals]) -> tuple[int, int]:
    """Forward signals until the child ends.

    A child that does not end within ``GRACE_S`` after a signal, or until a second one, is killed.

    Returns:
        The wait status of the child, and the first forwarded signal that should end it, or 0.
    """
    ending_signal, ended_at = 0, 0.0
    while True:
        number = _wait_for_signal(watched, GRACE_S if ending_signal else None)
        if number == signal.SIGCHLD:
            pid, status = os.waitpid(child, os.WNOHANG)
            if pid:
                return status, ending_signal
        elif number == signal.SIGTSTP:
            _stop_with_child(child)
        elif number:
            os.kill(child, number)
        now = time.monotonic()
        is_ending = number != 0 and signal.Signals(number).name in ENDING
        if is_ending and not ending_signal:
            ending_signal, ended_at = number, now
        elif (is_ending and now - ended_at > supervised_process.REPEAT_S) or not number:
            os.kill(child, signal.SIGKILL)


def _wait_for_signal(watched: set[signal.Signals], timeout_s: float | None) -> int:
    """Wait for a signal and return it; 0 if none arrives in time."""
    if timeout_s is None or not hasattr(signal, "sigtimedwait"):
        return signal.sigwait(watched)
    info = signal.sigtimedwait(watched, timeout_s)
    return info.si_signo if info else 0


def _stop_with_child(child: int) -> None:
    """Stop the child and this process as ^Z does, and let both go on after SIGCONT."""
    os.kill(child, signal.SIGTSTP)
    signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGTSTP})
    os.kill(os.getpid(), signal.SIGTSTP)
    signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGTSTP})
    os.kill(child, signal.SIGCONT)


def _read_file(fd: int) -> bytes:
    return os.pread(fd, os.fstat(fd).st_size, 0)


def _read_journal(fd: int) -> ProcessJournal:
    activities: list[bytes] = []
    temporaries: dict[bytes, bytes] = {}
    crash_file: tuple[bytes, ...] = ()
    is_finished = False
    for entry in _read_file(fd).split(b"\0"):
        kind, text = entry[:1], entry[1:]
        if kind == supervised_process.BEGIN:
            activities.append(text)
        elif kind == supervised_process.END:
            activities.pop()
        elif kind == supervised_process.REMOVED:
            temporaries.pop(text, None)
        elif kind == supervised_process.FINISHED:
            is_finished = True
        elif kind == supervised_process.CRASH_FILE:
            crash_file = tuple(text.split(b"\x1f"))
        elif kind:
            temporaries[text] = kind
    activity, _, limit_s = (activities[-1] if activities else b"").decode().partition("\x1f")

    def list_kind(wanted: bytes) -> tuple[bytes, ...]:
        return tuple(path for path, kind in temporaries.items() if kind == wanted)

    return ProcessJournal(
        activity,
        limit_s,
        list_kind(supervised_process.TEMPORARY),
        list_kind(supervised_process.NEW_FOLDER),
        crash_file if crash_file and crash_file[0] in temporaries else (),
        is_finished,
    )


def _was_ended(number: int, ending_signal: int) -> bool:
    """Return whether the child died because somebody asked for it."""
    return bool(ending_signal) or signal.Signals(number).name in ENDING


def _remove_left_files(journal: ProcessJournal, is_crash: bool) -> None:
    """Remove the temporary files that the child has left; after a crash one may be kept."""
    if is_crash and journal.crash_file:
        with contextlib.suppress(OSError):
            os.replace(*journal.crash_file)
    for path in journal.temporaries:
        with contextlib.suppress(OSError):
            if os.path.isdir(path) and not os.path.islink(path):
                import shutil

                shutil.rmtree(path, ignore_errors=True)
            else:
                os.unlink(path)
    for path in journal.new_folders:
        with contextlib.suppress(OSError):
            os.rmdir(path)


def _report_death(number: int, ending_signal: int, journal: ProcessJournal, printed: bytes) -> int:
    """Report in one line why the child died, and return the exit code."""
    if _was_ended(number, ending_signal):
        last_signal = signal.Signals(ending_signal or number)
        _print_error_line(supervised_process.INTERRUPTS.get(last_signal, last_signal.name))
        return EXIT_SIGNAL + last_signal
    name = signal.Signals(number).name
    activity = journal.activity or "error: hespas"
    if number == signal.SIGPROF and journal.limit_s:
        variable = supervised_process.READ_LIMIT_VARIABLE
        _print_error_line(
            f"{activity} did not finish within {float(journal.limit_s):.3g} s of processor time; "
            f"the file may be damaged, or {variable}=SECONDS allows more"
        )
        return EXIT_ERROR
    if number == signal.SIGKILL:
        _print_error_line(f"{activity} was killed (SIGKILL); perhaps the machine is out of memory")
        return EXIT_SIGNAL + number
    remedy = (
        "the file may be damaged, or an older or newer form than MLIR and XLA read here"
        if "reader" in activity
        else "please report it"
    )
    _print_error_line(f"{activity} failed ({_explain_signal(name, printed)}); {remedy}")
    return EXIT_ERROR


def _report_exit(code: int, journal: ProcessJournal, printed: bytes) -> int:
    """Report in one line that native code, or code of a package, has ended the child."""
    activity = journal.activity or "error: hespas"
    _print_error_line(
        f"{activity} ended hespas ({_explain_signal(f'exit code {code}', printed)}); "
        "please report it"
    )
    return EXIT_ERROR


def _explain_signal(name: str, printed: bytes) -> str:
    """Return the name of a signal, and the reason that native code printed, if any."""
    text = printed.decode(errors="replace")
    for pattern in REASONS:
        matches = re.findall(pattern, text)
        if matches:
            return f"{name}: {matches[-1].strip()}"
    return name


def _print_error_line(text: str) -> None:
    with contextlib.suppress(OSError, ValueError):
        print(text, file=sys.stderr, flush=True)
