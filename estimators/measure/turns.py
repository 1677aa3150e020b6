"""Turns at the machine: what is timed runs alone, compiles run side by side.

All workers of a user on a host share one file lock: those of one run, of several runs at once, and
of a Dask cluster. A dead worker's lock is freed by the system. For use in worker functions:

    with turns.compiling():
        program = compile(...)
    with turns.running():
        times = [...]
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path


def _ignore_wait(waiting: bool) -> None:
    pass


report_wait: Callable[[bool], None] = _ignore_wait  # told where the wait for a turn begins and ends


@contextlib.contextmanager
def hold_compile_turn() -> Iterator[None]:
    """A turn beside others that compile, while nothing is timed."""
    with _hold_lock(fcntl.LOCK_SH):
        yield


@contextlib.contextmanager
def hold_timing_turn(device: str = "") -> Iterator[None]:
    """A turn alone on the host; with ``device``, among those that name the same device only.

    A device of its own (a GPU by its number) is not disturbed by compiles nor by other devices.
    """
    with _hold_lock(fcntl.LOCK_EX, device):
        yield


def _locate_lock_file(device: str = "") -> Path:
    """The file that is locked; one for each user and device."""
    mark = "".join(c if c.isalnum() else "-" for c in device)
    folder = Path(os.environ.get("XDG_RUNTIME_DIR", ""))
    if not folder.is_absolute() or not os.access(folder, os.W_OK):
        folder = Path(tempfile.gettempdir())
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
