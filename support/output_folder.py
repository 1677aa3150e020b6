"""Output folders that are written completely or not at all.

Files are written to a temporary folder, whose contents then replace those of the destination.
"""

from __future__ import annotations

import os
import re
import shutil
import signal
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from hespas.support.errors import HespasError
from hespas.support.output_file import check_file_name
from hespas.support.supervised_process import (
    INTERRUPTS,
    forget_temporary,
    record_new_folder,
    record_temporary,
)


def check_writable_folder(destination: str) -> None:
    """Check that a folder can be written, before the work for it is done.

    Raises:
        HespasError: It cannot, or the path is a file.
    """
    check_file_name(destination)
    path = Path(os.path.abspath(destination))
    try:
        _check_readable_folder(path)
    except OSError as error:
        raise _to_output_error(path, error) from None
    nearest = next(folder for folder in (path, *path.parents) if folder.exists())
    if not os.access(nearest, os.W_OK):
        raise HespasError("cannot write the output: no permission", where=str(path))


@contextmanager
def open_output_folder(
    destination: Path, *, stale: re.Pattern[str] | None = None, clean: bool = False
) -> Iterator[Path]:
    """Open a temporary folder, whose files move to ``destination`` at the end of the context.

    On an exception, the temporary folder and its files are removed, and ``destination`` stays
    unchanged.

    Args:
        stale: The names of the files that an earlier run writes. Those in ``destination`` are
            removed, so that the files of two runs never mix. Other files stay.
        clean: Remove the other files of ``destination`` too. As a safeguard, this requires that
            ``destination`` is empty or contains a file of an earlier run.

    Raises:
        HespasError: The files cannot be written.
    """
    check_file_name(str(destination))
    destination = Path(os.path.abspath(destination))
    try:
        _check_readable_folder(destination)
        foreign = _find_foreign_files(destination, stale) if clean else []
        created_folders = _find_missing_folders(destination.parent)
    except OSError as error:
        raise _to_output_error(destination, error) from None
    # Inside an existing destination: it may be a mount point, or its parent may not be writable.
    beside = destination if destination.is_dir() else destination.parent
    fresh = beside / f".{destination.name}.{os.getpid()}.tmp"
    record_temporary(fresh)
    for folder in created_folders:
        record_new_folder(folder)
    try:
        destination.parent.mkdir(parents=True, exist_ok=True)
        fresh.mkdir()
        yield fresh
        with _block_interrupts():
            _publish_files(fresh, destination, foreign, stale)
            for path in (fresh, *created_folders):
                forget_temporary(path)
    except BaseException as error:
        shutil.rmtree(fresh, ignore_errors=True)
        for folder in created_folders:
            with suppress(OSError):
                folder.rmdir()
        if isinstance(error, OSError):
            raise _to_output_error(destination, error) from None
        raise


def _to_output_error(destination: Path, error: OSError) -> HespasError:
    return HespasError(
        f"cannot write the output: {error.strerror or error}", where=str(destination)
    )


def _check_readable_folder(destination: Path) -> None:
    """Raise HespasError if ``destination`` or a parent is a file, OSError if it is unreadable."""
    blocking = next(path for path in (destination, *destination.parents) if path.exists())
    if not blocking.is_dir():
        blocker = "this" if blocking == destination else str(blocking)
        raise HespasError(
            f"the output must be a folder, and {blocker} is a file", where=str(destination)
        )
    _list_entries(destination)


def _find_foreign_files(destination: Path, stale: re.Pattern[str] | None) -> list[Path]:
    """Return the files that no earlier run has written; raise HespasError if all of them are."""
    entries = _list_entries(destination)
    foreign = [path for path in entries if not _matches(stale, path)]
    if foreign and len(foreign) == len(entries):
        raise HespasError(
            "clean would remove files that hespas has not written", where=str(destination)
        )
    return foreign


def _matches(pattern: re.Pattern[str] | None, path: Path) -> bool:
    return pattern is not None and pattern.fullmatch(path.name) is not None


def _list_entries(folder: Path) -> list[Path]:
    return sorted(folder.iterdir()) if folder.is_dir() else []


def _find_missing_folders(folder: Path) -> list[Path]:
    """Return ``folder`` and its parents as far as they do not exist, innermost first."""
    missing = []
    while not folder.exists():
        missing.append(folder)
        folder = folder.parent
    return missing


def _publish_files(
    fresh: Path, destination: Path, foreign: list[Path], stale: re.Pattern[str] | None
) -> None:
    if not destination.exists():
        fresh.rename(destination)
        return
    if not os.access(destination, os.W_OK | os.X_OK):
        raise PermissionError(13, "Permission denied", str(destination))
    new = {path.name for path in fresh.iterdir()}
    for path in _list_entries(destination):
        if path in foreign or (_matches(stale, path) and path.name not in new):
            shutil.rmtree(path) if path.is_dir() and not path.is_symlink() else path.unlink(True)
    for name in sorted(new):
        (fresh / name).replace(destination / name)
    fresh.rmdir()


@contextmanager
def _block_interrupts() -> Iterator[None]:
    """Delay signals that end the process, so that they do not interrupt the moving of files."""
    if not hasattr(signal, "pthread_sigmask"):
        yield
        return
    old = signal.pthread_sigmask(signal.SIG_BLOCK, INTERRUPTS)
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, old)
