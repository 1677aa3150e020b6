"""What a supervised process tells the process that supervises it, and how signals interrupt it.

The tools run in a child process (`hespas.tools.supervisor`), because MLIR and XLA end their process
on some damaged input. The child keeps a journal in memory that both processes share: the temporary
files that exist, and the native code that runs. If the child dies, its parent reads the journal,
removes the files and reports the reason. Without a supervisor nothing here has an effect.
"""

from __future__ import annotations

import contextlib
import os
import signal
import sys
import time
from collections.abc import Iterator
from types import FrameType

READ_LIMIT_VARIABLE = "HESPAS_READ_LIMIT_S"
READ_LIMIT_S = 10.0
READ_BYTES_PER_S = 1e6  # a tenth of what MLIR's parser reads on a slow machine
REPEAT_S = 1.0  # a terminal sends a signal to both processes, and the parent forwards its own

INTERRUPTS = {
    signal.SIGINT: "interrupted",
    signal.SIGTERM: "terminated",
    signal.SIGHUP: "hung up",
    signal.SIGIO: "the supervising process has been killed",
}

# The kinds of journal entries. Each entry is a kind, a text, and a null byte.
TEMPORARY, NEW_FOLDER, REMOVED, BEGIN, END = b"+", b"f", b"-", b"!", b"."
CRASH_FILE, FINISHED = b"c", b"="

_journal_fd = -1
_native_stderr_fd = -1
_interrupt_signal = 0
_interrupted_at = float("-inf")


def start_journal(journal_fd: int, native_stderr_fd: int) -> None:
    """Keep a journal from now on.

    Args:
        journal_fd: A file that the parent reads when this process has ended.
        native_stderr_fd: A file that receives what native code prints on stderr.
    """
    global _journal_fd, _native_stderr_fd
    _journal_fd, _native_stderr_fd = journal_fd, native_stderr_fd
    # Python's stderr gets a descriptor of its own, so that number 2 is left to native code.
    sys.stderr.flush()
    sys.stderr = open(  # noqa: SIM115
        os.dup(2), "w", buffering=1, encoding=sys.stderr.encoding, errors=sys.stderr.errors
    )


def _write_entry(kind: bytes, text: bytes = b"") -> None:
    if _journal_fd >= 0:
        os.write(_journal_fd, kind + text.replace(b"\0", b"") + b"\0")


def record_temporary(path: str | os.PathLike[str]) -> None:
    """Note a file or folder that is to be removed if this process dies; call it before creating."""
    _write_entry(TEMPORARY, os.path.abspath(os.fsencode(path)))


def record_new_folder(path: str | os.PathLike[str]) -> None:
    """Note a folder that is to be removed if this process dies and the folder is empty then."""
    _write_entry(NEW_FOLDER, os.path.abspath(os.fsencode(path)))


def record_crash_file(temporary: str | os.PathLike[str], path: str) -> None:
    """Note a temporary file that takes the place of ``path`` if native code ends this process."""
    paths = [os.path.abspath(os.fsencode(one)) for one in (temporary, path)]
    _write_entry(CRASH_FILE, b"\x1f".join(paths))


def record_finished() -> None:
    """Note that the tool has ended by itself, and not by an exit of the code that it runs."""
    _write_entry(FINISHED)


def forget_temporary(path: str | os.PathLike[str]) -> None:
    """Note that a recorded file or folder has been removed, renamed or finished."""
    _write_entry(REMOVED, os.path.abspath(os.fsencode(path)))


@contextlib.contextmanager
def open_temporary_folder() -> Iterator[str]:
    """Create a temporary folder, which is removed at the end, also if this process is killed."""
    import shutil  # these imports slow down every start, and few commands come here
    import tempfile

    path = os.path.join(tempfile.gettempdir(), f"hespas-{os.getpid()}-{os.urandom(4).hex()}")
    record_temporary(path)
    try:
        os.mkdir(path, 0o700)
        yield path
    finally:
        shutil.rmtree(path, ignore_errors=True)
        if not os.path.exists(path):  # otherwise the supervisor tries again
            forget_temporary(path)


@contextlib.contextmanager
def run_native_reader(name: str, size_bytes: int) -> Iterator[None]:
    """Run a native parser in this context, within a limit of processor time.

    Args:
        name: The file that it reads, for messages.
        size_bytes: The size of what it reads, which the limit depends on.
    """
    limit_s = _get_read_limit_s(size_bytes) if _journal_fd >= 0 else 0.0
    activity = f"{name}: error: the native reader"
    with run_native_code(activity, limit_s):
        yield


def _get_read_limit_s(size_bytes: int) -> float:
    try:
        return max(0.0, float(os.environ[READ_LIMIT_VARIABLE]))
    except (KeyError, ValueError):  # the supervisor has refused what is not a number
        return READ_LIMIT_S + size_bytes / READ_BYTES_PER_S


@contextlib.contextmanager
def run_native_code(activity: str, limit_s: float = 0.0) -> Iterator[None]:
    """Run native code in this context, during which a signal ends the process at once.

    Native code returns to Python late or never, so that Python could not handle the signal. The
    context must not create temporary files that are not recorded.

    Args:
        activity: The start of the message if it fails, such as ``FILE: error: the native reader``.
        limit_s: The seconds of processor time that it may use; 0 for no limit.
    """
    if _journal_fd < 0:
        yield
        return
    with describe_activity(f"{activity}\x1f{limit_s:g}" if limit_s else activity):
        handlers = {number: signal.signal(number, signal.SIG_DFL) for number in _get_handled()}
        if limit_s:
            signal.setitimer(signal.ITIMER_PROF, limit_s)
        try:
            yield
        finally:
            if limit_s:
                signal.setitimer(signal.ITIMER_PROF, 0.0)
            for number, handler in handlers.items():
                signal.signal(number, handler)


@contextlib.contextmanager
def describe_activity(activity: str) -> Iterator[None]:
    """Note what this process does in this context, and collect what native code prints on stderr.

    What it has printed is shown at the end of the context; if the process dies, only the reason is.
    """
    if _journal_fd < 0:
        yield
        return
    saved = os.dup(2)
    start = os.lseek(_native_stderr_fd, 0, os.SEEK_END)
    os.dup2(_native_stderr_fd, 2)
    _write_entry(BEGIN, activity.encode(errors="replace"))
    try:
        yield
    finally:
        _write_entry(END)
        os.dup2(saved, 2)
        os.close(saved)
        _show_native_stderr(start)


def _show_native_stderr(start: int) -> None:
    size = os.lseek(_native_stderr_fd, 0, os.SEEK_END) - start
    if size:
        with contextlib.suppress(OSError):
            os.write(2, os.pread(_native_stderr_fd, size, start))


def _get_handled() -> list[int]:
    """Return the signals that Python code handles now; none in a thread, which cannot set them."""
    import threading

    if threading.current_thread() is not threading.main_thread():
        return []
    return [number for number in INTERRUPTS if callable(signal.getsignal(number))]


def handle_interrupts() -> None:
    """Let SIGINT, SIGTERM, SIGHUP and the death of the supervisor raise KeyboardInterrupt.

    Signals that this process has been started to ignore stay ignored.
    """
    for number in INTERRUPTS:
        if signal.getsignal(number) != signal.SIG_IGN:
            signal.signal(number, _raise_interrupt)


def handle_interrupts_in_child() -> None:
    """Call ``handle_interrupts`` in a supervised process; a tool does when it has been imported.

    Until then a signal ends the process at once, because ^C breaks imports of native modules.
    """
    if _journal_fd >= 0:
        handle_interrupts()


def _raise_interrupt(number: int, frame: FrameType | None) -> None:
    global _interrupt_signal, _interrupted_at
    now = time.monotonic()
    if now - _interrupted_at >= REPEAT_S:
        _interrupt_signal, _interrupted_at = number, now
        raise KeyboardInterrupt


def get_interrupt_signal() -> signal.Signals:
    """Return the signal that raised KeyboardInterrupt; SIGINT by default."""
    return signal.Signals(_interrupt_signal or signal.SIGINT)
