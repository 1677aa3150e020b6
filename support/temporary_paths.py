"""Temporary files and folders beside an output, under names that nobody can predict or prepare."""

from __future__ import annotations

import os
import shutil
import stat
import zlib
from contextlib import suppress
from pathlib import Path

from hespas.support.supervised_process import forget_temporary, record_temporary

try:
    import fcntl
except ImportError:  # not on Windows
    fcntl = None  # type: ignore[assignment]

# What platform.node() and secrets.token_hex() return; importing these modules takes 5 ms.
_HOST_NAME = os.uname().nodename if hasattr(os, "uname") else os.environ.get("COMPUTERNAME", "")
HOST = f"{zlib.crc32(_HOST_NAME.encode()):08x}"
PREFIX, SUFFIX = f".hespas-{HOST}-", ".tmp"


def make_temporary_path(folder: str | os.PathLike[str]) -> Path:
    """Make an unused path in a folder; creating it must fail if it exists nevertheless."""
    return Path(folder, f"{PREFIX}{os.urandom(8).hex()}{SUFFIX}")


def open_temporary_file(folder: str | os.PathLike[str]) -> tuple[Path, int]:
    """Create a new file in a folder; returns its path and its descriptor. Raises OSError.

    The file is recorded as temporary until ``forget_temporary``.
    """
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL
    flags |= getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_BINARY", 0) | getattr(os, "O_CLOEXEC", 0)
    path = make_temporary_path(folder)
    record_temporary(path)
    try:
        return path, os.open(path, flags, 0o666)
    except OSError:
        forget_temporary(path)
        raise


class TemporaryFolder:
    """A new folder that only its process uses, and that is locked until it is closed.

    The lock says that its process lives. ``remove_abandoned_folders`` removes folders without it.

    Attributes:
        path: The folder, which only its owner may read.
    """

    def __init__(self, parent: Path) -> None:
        while True:
            self.path = make_temporary_path(parent)
            record_temporary(self.path)
            os.mkdir(self.path, 0o700)
            try:
                self._descriptor = _open_folder(self.path)
            except FileNotFoundError:  # taken for an abandoned one before it was opened
                forget_temporary(self.path)
                continue
            lock_descriptor(self._descriptor)
            if is_same_folder(self._descriptor, self.path):
                return
            self.close()  # taken for an abandoned one before it was locked

    def close(self) -> None:
        """Release the lock."""
        if self._descriptor >= 0:
            os.close(self._descriptor)
            self._descriptor = -1
            forget_temporary(self.path)

    def remove(self) -> None:
        """Remove the folder with its files, if it is still there, and release the lock."""
        shutil.rmtree(self.path, ignore_errors=True)
        self.close()


def remove_abandoned_folders(parent: Path) -> None:
    """Remove the temporary folders in ``parent`` of this user's processes that were killed."""
    if fcntl is None:
        return
    for entry in os.scandir(parent):
        if not (entry.name.startswith(PREFIX) and entry.name.endswith(SUFFIX)):
            continue
        with suppress(OSError):
            descriptor = _open_folder(Path(entry.path))
            try:
                if os.fstat(descriptor).st_uid == os.geteuid():
                    fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
                    shutil.rmtree(entry.path, ignore_errors=True)
            finally:
                os.close(descriptor)


def _open_folder(path: Path) -> int:
    flags = os.O_RDONLY | getattr(os, "O_DIRECTORY", 0) | getattr(os, "O_NOFOLLOW", 0)
    return os.open(path, flags | getattr(os, "O_CLOEXEC", 0))


def lock_descriptor(descriptor: int, *, shared: bool = False) -> None:
    """Wait for the lock of an open folder; file systems without locks grant it at once."""
    if fcntl is not None:
        with suppress(OSError):
            fcntl.flock(descriptor, fcntl.LOCK_SH if shared else fcntl.LOCK_EX)


def is_same_folder(descriptor: int, path: Path) -> bool:
    """Return whether an open folder is still the one at a path."""
    try:
        status = os.stat(path, follow_symlinks=False)
    except OSError:
        return False
    return stat.S_ISDIR(status.st_mode) and os.path.samestat(status, os.fstat(descriptor))
