"""An output folder that is there whole or as it was: written elsewhere, then moved in."""

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

TRACE_FILE_NAMES = re.compile(r"dev\.\d+\.et|comm_group\.json|module_stats\.json")


def check_writable_folder(destination: str) -> None:
    """Raise HespasError where no such folder can be written, before the work for it is done."""
    check_file_name(destination)
    path = Path(os.path.abspath(destination))
    try:
        _find_foreign_files(path, False, TRACE_FILE_NAMES)
    except OSError as error:
        raise _to_output_error(path, error) from None
    nearest = next(folder for folder in (path, *path.parents) if folder.exists())
    if not os.access(nearest, os.W_OK):
        raise HespasError("cannot write the output: no permission", where=str(path))


@contextmanager
def open_output_folder(
    destination: Path, *, clean: bool = False, ours: re.Pattern[str] = TRACE_FILE_NAMES
) -> Iterator[Path]:
    """A new folder to write into; in the end its files move to ``place``, on an error it goes.

    What a former run left in ``place`` (the names that match ``ours``) is replaced
    altogether, so that traces of two runs never mix. Other files there stay, unless ``clean``,
    which empties the folder, and to be safe only one that a former run has written. Raises
    HespasError where it cannot write.
    """
    check_file_name(str(destination))
    destination = Path(os.path.abspath(destination))
    try:
        foreign = _find_foreign_files(destination, clean, ours)
        created_folders = _find_missing_folders(destination.parent)
    except OSError as error:
        raise _to_output_error(destination, error) from None
    # Inside the place where there is one: it may be a mount point, or its parent not ours to write.
    beside = destination if destination.is_dir() else destination.parent
    fresh = beside / f".{destination.name}.{os.getpid()}.tmp"
    try:
        destination.parent.mkdir(parents=True, exist_ok=True)
        fresh.mkdir()
        yield fresh
        with _block_interrupts():
            _publish_files(fresh, destination, foreign if clean else [], ours)
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


def _find_foreign_files(destination: Path, clean: bool, ours: re.Pattern[str]) -> list[Path]:
    """What lies in the folder and is not ours; raises HespasError where it must not be touched."""
    blocking = next(path for path in (destination, *destination.parents) if path.exists())
    if not blocking.is_dir():
        blocker = "this" if blocking == destination else str(blocking)
        raise HespasError(
            f"the output is to be a folder, and {blocker} is a file", where=str(destination)
        )
    entries = _list_entries(destination)
    foreign = [path for path in entries if not ours.fullmatch(path.name)]
    if clean and foreign and len(foreign) == len(entries):
        raise HespasError(
            "clean would remove what no run of hespas has written", where=str(destination)
        )
    return foreign


def _list_entries(folder: Path) -> list[Path]:
    return sorted(folder.iterdir()) if folder.is_dir() else []


def _find_missing_folders(folder: Path) -> list[Path]:
    """The folders that have to be made for ``folder`` to exist, innermost first."""
    missing = []
    while not folder.exists():
        missing.append(folder)
        folder = folder.parent
    return missing


def _publish_files(
    fresh: Path, destination: Path, remove: list[Path], ours: re.Pattern[str]
) -> None:
    if not destination.exists():
        fresh.rename(destination)
        return
    if not os.access(destination, os.W_OK | os.X_OK):
        raise PermissionError(13, "Permission denied", str(destination))
    new = {path.name for path in fresh.iterdir()}
    for path in (*_list_entries(destination), *remove):
        if path in remove or (ours.fullmatch(path.name) and path.name not in new):
            shutil.rmtree(path) if path.is_dir() and not path.is_symlink() else path.unlink(True)
    for name in sorted(new):
        (fresh / name).replace(destination / name)
    fresh.rmdir()


@contextmanager
def _block_interrupts() -> Iterator[None]:
    """Hold back ^C and SIGTERM, so that moving files in is not broken off half-way."""
    if not hasattr(signal, "pthread_sigmask"):
        yield
        return
    old = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT, signal.SIGTERM})
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, old)
