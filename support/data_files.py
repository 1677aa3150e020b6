"""Reading of files that may come from somebody else: bounded, and only where they say they are.

The names in such a file are data too. A file that it names must lie in its own folder, because
whoever passes the folder has not seen the names; docs/reference/trust.md has the rules.
"""

from __future__ import annotations

import json
import os
import stat
from collections.abc import Iterable
from pathlib import Path
from typing import IO, Any

from hespas.support.errors import HespasError
from hespas.support.packed_data import (
    CHUNK_BYTES,
    build_size_error,
    read_limit_bytes,
    unpack_bytes,
)

TRUSTED_VARIABLE = "HESPAS_TRUSTED_FOLDERS"  # folders that data may name files in


def read_file_bytes(path: str | os.PathLike[str], name: str = "", *, unpacks: bool = True) -> bytes:
    """Read a file, and unpack it if it is an xz or gzip file.

    Args:
        path: The file.
        name: Its name in messages; "" for its path.
        unpacks: Whether it may be packed.

    Raises:
        HespasError: It cannot be read, or is larger than the limit, or is no file.
    """
    where = name or str(path) or '""'
    limit_bytes = read_limit_bytes()
    try:
        with open(path, "rb", opener=_open_data_file) as file:
            size = os.fstat(file.fileno()).st_size  # 0 for a pipe
            if size > limit_bytes:
                raise build_size_error(where)
            data = file.read() if size else _read_to_limit(file, limit_bytes)
    except OSError as error:
        reason = error.strerror or str(error)
        raise HespasError(f"cannot read it: {reason}", where=where) from None
    except ValueError:  # a null byte or a lone surrogate
        raise HespasError(f"{where!r} is not a file name") from None
    if len(data) > limit_bytes:
        raise build_size_error(where)
    return unpack_bytes(data, where) if unpacks else data


def _read_to_limit(file: IO[bytes], limit_bytes: int) -> bytes:
    """Read a file to its end, or a chunk beyond the limit."""
    chunks, size = [], 0
    while size <= limit_bytes and (chunk := file.read(CHUNK_BYTES)):
        chunks.append(chunk)
        size += len(chunk)
    return b"".join(chunks)


def read_file_text(path: str | os.PathLike[str]) -> str:
    """Read a UTF-8 text file, with or without a byte order mark, as ``read_file_bytes`` does.

    Raises:
        HespasError: It cannot be read, is larger than the limit, or is not UTF-8.
    """
    try:
        return read_file_bytes(path).decode("utf-8-sig")
    except UnicodeDecodeError:
        raise HespasError("is not UTF-8 text", where=str(path)) from None


def _open_data_file(path: str, flags: int) -> int:
    """Open a file, but no device, and no named pipe, for which it would wait for ever."""
    status = os.stat(path)
    is_shell_pipe = stat.S_ISFIFO(status.st_mode) and path.startswith(("/dev/", "/proc/"))
    if not (stat.S_ISREG(status.st_mode) or stat.S_ISDIR(status.st_mode) or is_shell_pipe):
        raise OSError(0, "it is a device or a pipe, not a file")
    return os.open(path, flags)


def check_named_path(
    named: str, path: Path, folder: str | os.PathLike[str], where: str, remedy: str = ""
) -> None:
    """Check that a path that data name is in the folder of the data.

    The working directory will do too for a name that begins there, as names in results and in
    ASTRA-sim's files do, and that does not lead upwards. Links are followed before the path is
    judged.

    Args:
        named: The path as it is in the data.
        path: What it stands for; it need not exist.
        folder: The folder of the data.
        where: The file, or the key in it, that names the path.
        remedy: What the user can do instead of copying the file; "" for nothing.

    Raises:
        HespasError: The path is in none of these, nor in the folders of TRUSTED_VARIABLE.
    """
    leads_elsewhere = os.path.isabs(named) or ".." in Path(named).parts
    folders = [folder, *([] if leads_elsewhere else ["."]), *_list_trusted_folders()]
    if not is_inside_folders(path, folders):
        raise HespasError(
            f"it names {named}, which is outside of its folder",
            where=where,
            remedy=f"{remedy or 'copy the file into the folder'}; if you trust it, allow "
            f"{TRUSTED_VARIABLE}={path.parent}",
        )


def check_link(path: Path) -> None:
    """Raise HespasError if a path in a folder is a link to what is outside of the folder."""
    if path.is_symlink():
        target = os.path.realpath(path)
        check_named_path(target, Path(target), path.parent, str(path))


def is_inside_folders(
    path: str | os.PathLike[str], folders: Iterable[str | os.PathLike[str]]
) -> bool:
    """Return whether a path lies in one of the folders, after its links are followed."""
    real = Path(os.path.realpath(path))
    return any(real.is_relative_to(os.path.realpath(folder)) for folder in folders)


def _list_trusted_folders() -> list[str]:
    return [name for name in os.environ.get(TRUSTED_VARIABLE, "").split(os.pathsep) if name]


def parse_json_or_text(text: str) -> Any:
    """Parse JSON; text that is not JSON is returned unchanged."""
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        return text
