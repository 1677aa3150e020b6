"""Turns of workers: timed code runs alone, and compilations run in parallel.

All workers of a user on a host share one file lock, whether they belong to one run, to several
runs, or to a Dask cluster. The operating system frees the lock of a dead worker. A worker function
uses them as follows:

    with turns.hold_compile_turn():
        program = compile(...)
    with turns.hold_timing_turn():
        times = [...]
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path

# Read now, because each worker gets a folder of its own for temporary files later.
LOCK_FOLDER = Path(tempfile.gettempdir())


def _ignore_wait(waiting: bool) -> None:
    pass


report_wait: Callable[[bool], None] = _ignore_wait  # called at the start and end of each wait


@contextlib.contextmanager
def hold_compile_turn() -> Iterator[None]:
    """Hold a turn that compilations share, and that excludes timed code."""
    with _hold_lock(fcntl.LOCK_SH):
        yield


@contextlib.contextmanager
def hold_timing_turn(device: str = "") -> Iterator[None]:
    """Hold a turn that excludes all others on the host.

    With ``device`` (such as a GPU with its number) it excludes only turns of the same device, since
    compilations and other devices do not slow it down.
    """
    with _hold_lock(fcntl.LOCK_EX, device):
        yield


def _locate_lock_file(device: str) -> Path:
    """Return the lock file of this user and device."""
    mark = "".join(c if c.isalnum() else "-" for c in device)
    folder = Path(os.environ.get("XDG_RUNTIME_DIR", ""))
    if not folder.is_absolute() or not os.access(folder, os.W_OK):
        folder = LOCK_FOLDER
    return folder / f"hespas-turns-{os.getuid()}{mark and f'-{mark}'}.lock"


@contextlib.contextmanager
def _hold_lock(kind: int, device: str = "") -> Iterator[None]:
    flags = os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW
    file = os.open(_locate_lock_file(device), flags, 0o600)
    try:
        try:
            fcntl.flock(file, kind | fcntl.LOCK_NB)
        except BlockingIOError:
            report_wait(True)
            fcntl.flock(file, kind)
            report_wait(False)
        yield
    finally:
        os.close(file)
