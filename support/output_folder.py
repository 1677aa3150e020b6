"""Output folders that are published completely or not at all.

Files are written to a temporary folder. At the end they are moved to the destination, where they
replace those of an earlier time (``folder_publication``) and nothing else (``folder_manifest``).
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from hespas.support.errors import HespasError
from hespas.support.folder_manifest import FolderManifest, OutputSet, check_free_names
from hespas.support.folder_publication import (
    NEW,
    hold_folder_unchanged,
    publish_into_folder,
    publish_new_folder,
)
from hespas.support.output_file import check_file_name
from hespas.support.supervised_process import forget_temporary, record_new_folder
from hespas.support.temporary_paths import TemporaryFolder, remove_abandoned_folders

_open_folders: set[Path] = set()  # those that ``open_output_folder`` has yielded


def check_writable_folder(
    destination: str, output_set: OutputSet, names: Iterable[str] = ()
) -> None:
    """Check that a set of files can be written to a folder, before the work for it is done.

    Args:
        destination: The folder.
        output_set: What is written.
        names: The names of further files.

    Raises:
        HespasError: It cannot, or the path is a file, or a file of the user is in the way.
    """
    check_file_name(destination)
    path = Path(os.path.realpath(destination))
    try:
        _check_readable_folder(path)
    except OSError as error:
        raise _to_output_error(Path(destination), error) from None
    nearest = next(folder for folder in (path, *path.parents) if folder.exists())
    if not os.access(nearest, os.W_OK | os.X_OK):
        raise HespasError("cannot write the output: no permission", where=str(path))
    with hold_folder_unchanged(path):  # another run may be moving its files
        if path.is_dir():
            own = FolderManifest.read(path).find_own_files(path)
            check_free_names(Path(destination), own, output_set, names)


def has_own_files(folder: Path) -> bool:
    """Return whether hespas has written files to a folder."""
    try:
        return not FolderManifest.read(folder).is_empty
    except (HespasError, OSError):
        return False


def is_open_folder(folder: Path) -> bool:
    """Return whether ``open_output_folder`` has yielded a folder that is not published yet."""
    return folder in _open_folders


@contextmanager
def open_output_folder(
    destination: Path, output_set: OutputSet, *, clean: bool = False
) -> Iterator[Path]:
    """Open a temporary folder, whose files are published in ``destination`` at the end.

    The files replace all files of the same set, so that those of two runs never mix. The user's
    files stay as they are. On an exception, the temporary folder is removed, and ``destination``
    stays unchanged. If ``destination`` itself is such a temporary folder, it is yielded, and
    whoever opened it publishes its files.

    Args:
        destination: The folder; it is created if it does not exist.
        output_set: What is written.
        clean: Whether the files of the other sets that hespas has written there are removed.

    Raises:
        HespasError: The files cannot be written, or a file of the user is in the way.
    """
    if destination in _open_folders:
        yield destination
        return
    check_writable_folder(str(destination), output_set)
    target = Path(os.path.realpath(destination))
    created_folders = _find_missing_folders(target.parent)
    staging = None
    for folder in created_folders:
        record_new_folder(folder)
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
        # Inside an existing folder: it may be a mount point, or its parent may not be writable.
        beside = target if target.is_dir() else target.parent
        remove_abandoned_folders(beside)
        staging = TemporaryFolder(beside)
        fresh = staging.path / NEW
        fresh.mkdir()
        _open_folders.add(fresh)
        try:
            yield fresh
        finally:
            _open_folders.discard(fresh)
        if target.exists() or not publish_new_folder(staging.path, target, output_set):
            publish_into_folder(staging.path, target, output_set, clean=clean)
    except BaseException as error:
        _remove_staging(staging, created_folders)
        if isinstance(error, OSError):
            raise _to_output_error(destination, error) from None
        raise
    _remove_staging(staging, [])
    for folder in created_folders:
        forget_temporary(folder)


@contextmanager
def open_output_file(path: str, output_set: OutputSet) -> Iterator[str]:
    """Yield the path to write a file to, which becomes ``path``.

    In a folder of hespas's results, the file is recorded as one of hespas's.

    Raises:
        HespasError: The folder cannot be written, or the file is one of the user's there.
    """
    folder = Path(os.path.dirname(os.path.realpath(path)))
    if folder in _open_folders or not has_own_files(folder):
        yield path
        return
    with open_output_folder(folder, output_set) as fresh:
        yield str(fresh / os.path.basename(path))


def _remove_staging(staging: TemporaryFolder | None, created_folders: list[Path]) -> None:
    if staging is not None:
        staging.remove()
    for folder in created_folders:
        with suppress(OSError):
            folder.rmdir()


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
    if blocking == destination:
        os.listdir(destination)


def _find_missing_folders(folder: Path) -> list[Path]:
    """Return ``folder`` and its parents as far as they do not exist, innermost first."""
    missing = []
    while not folder.exists():
        missing.append(folder)
        folder = folder.parent
    return missing
