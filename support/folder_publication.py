"""Moving finished files to their folder: all of them or none.

Invariant of a publication: every new file is in ``.hespas-publish/new`` or in the folder, and
every replaced file in ``.hespas-publish/old`` or in the folder. While ``.hespas-publish`` has this
name, the old result counts, and ``_roll_back`` restores it after a failure or a kill. The lock of
the folder says that the process that publishes is alive.
"""

from __future__ import annotations

import json
import os
import shutil
import signal
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path

from hespas.support.errors import HespasError
from hespas.support.folder_manifest import (
    MANIFEST,
    FolderManifest,
    OutputSet,
    check_free_names,
    read_file_stamps,
)
from hespas.support.supervised_process import INTERRUPTS
from hespas.support.temporary_paths import (
    HOST,
    is_same_folder,
    lock_descriptor,
    make_temporary_path,
)

PUBLICATION, JOURNAL, NEW, OLD = ".hespas-publish", "journal.json", "new", "old"


def publish_new_folder(staging: Path, destination: Path, output_set: OutputSet) -> bool:
    """Publish ``staging/new`` as a folder that does not exist; returns False if it does.

    Raises:
        OSError: A file cannot be written.
    """
    stamps = read_file_stamps(staging / NEW)
    manifest = FolderManifest({output_set.name: stamps})
    (staging / NEW / MANIFEST).write_bytes(manifest.to_bytes())
    try:
        os.rename(staging / NEW, destination)
    except OSError:
        if not destination.is_dir():
            raise
        return False
    return True


def publish_into_folder(
    staging: Path, destination: Path, output_set: OutputSet, *, clean: bool
) -> None:
    """Publish ``staging/new`` in an existing folder, in place of the files of the same set.

    Args:
        staging: A temporary folder on the file system of ``destination``.
        destination: The folder.
        output_set: What the files are.
        clean: Whether the files of the other sets of hespas are removed too.

    Raises:
        HespasError: A file of the user is in the way.
        OSError: A file cannot be written or moved. The folder is as before.
    """
    with _block_interrupts(), _lock_folder(destination):
        _roll_back(destination)
        stamps = read_file_stamps(staging / NEW)
        manifest = FolderManifest.read(destination)
        own = manifest.find_own_files(destination)
        check_free_names(destination, own, output_set, stamps)
        replaced = manifest.select_replaced_files(own, output_set, stamps, clean=clean)
        updated = manifest.replace_files(replaced, output_set.name, stamps)
        if (destination / MANIFEST).exists():
            replaced.add(MANIFEST)
        (staging / NEW / MANIFEST).write_bytes(updated.to_bytes())
        (staging / OLD).mkdir()
        new = [*sorted(stamps), MANIFEST]
        (staging / JOURNAL).write_text(json.dumps({"host": HOST, "new": new}), encoding="utf-8")
        publication = destination / PUBLICATION
        os.rename(staging, publication)
        try:
            for name in sorted(replaced):
                os.rename(f"{destination}/{name}", f"{publication}/{OLD}/{name}")
            for name in new:
                _move_without_replacing(f"{publication}/{NEW}/{name}", f"{destination}/{name}")
            _discard_publication(destination)
        except BaseException:
            _roll_back(destination)
            raise


def finish_publication(folder: str | os.PathLike[str]) -> None:
    """Wait until nobody publishes in a folder; roll back a publication that was killed.

    Raises:
        HespasError: There is one that cannot be rolled back.
    """
    path = Path(os.path.realpath(folder))
    if not os.path.lexists(path / PUBLICATION):
        return
    try:
        with _block_interrupts(), _lock_folder(path):
            _roll_back(path)
    except OSError as error:
        raise _to_unfinished_error(path, error.strerror or str(error)) from None


@contextmanager
def hold_folder_unchanged(folder: str | os.PathLike[str]) -> Iterator[None]:
    """Delay publications in a folder while its files are read, which must take a short time only.

    Raises:
        HespasError: An unfinished publication cannot be rolled back.
    """
    finish_publication(folder)
    path = Path(os.path.realpath(folder))
    with ExitStack() as stack:
        if os.access(path, os.R_OK) and path.is_dir():
            stack.enter_context(_lock_folder(path, shared=True))
        yield


def _roll_back(folder: Path) -> None:
    """Restore the files from before a publication that did not end. Raises OSError, HespasError."""
    publication = folder / PUBLICATION
    if not os.path.lexists(publication):
        return
    names = _read_journal(folder)
    for name in names:
        if not os.path.lexists(publication / NEW / name) and os.path.lexists(folder / name):
            os.rename(folder / name, publication / NEW / name)
    for name in sorted(os.listdir(publication / OLD)):
        _move_without_replacing(f"{publication}/{OLD}/{name}", f"{folder}/{name}")
    _discard_publication(folder)


def _read_journal(folder: Path) -> list[str]:
    """Read the names of the new files of a publication; raises HespasError."""
    publication = folder / PUBLICATION
    try:
        if publication.is_symlink() or publication.stat().st_uid != os.geteuid():
            raise ValueError("another user's")
        journal = json.loads((publication / JOURNAL).read_bytes())
        if journal["host"] != HOST:
            raise ValueError("another host's")
        names = [str(name) for name in journal["new"]]
        if any(os.path.basename(name) != name or name in ("", ".", "..") for name in names):
            raise ValueError("damaged")
    except (OSError, ValueError, KeyError, TypeError, RecursionError) as error:
        reason = str(error) if isinstance(error, ValueError) else "damaged"
        raise _to_unfinished_error(folder, reason) from None
    return names


def _to_unfinished_error(folder: Path, reason: str) -> HespasError:
    return HespasError(
        f"a publication of results was interrupted and cannot be rolled back: {reason}",
        where=str(folder / PUBLICATION),
        remedy="name another folder",
    )


def _discard_publication(folder: Path) -> None:
    """Remove the folder of a publication, in a way that cannot be taken for an unfinished one."""
    discarded = make_temporary_path(folder)
    os.rename(folder / PUBLICATION, discarded)
    shutil.rmtree(discarded, ignore_errors=True)


def _move_without_replacing(source: str, target: str) -> None:
    if os.path.lexists(target):
        raise FileExistsError(17, "a file of this name has appeared", target)
    os.rename(source, target)


@contextmanager
def _lock_folder(folder: Path, *, shared: bool = False) -> Iterator[None]:
    """Hold the lock of a folder; raises OSError."""
    while True:
        descriptor = os.open(folder, os.O_RDONLY | getattr(os, "O_CLOEXEC", 0))
        try:
            lock_descriptor(descriptor, shared=shared)
            if is_same_folder(descriptor, folder):
                yield
                return
        finally:
            with suppress(OSError):
                os.close(descriptor)


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
