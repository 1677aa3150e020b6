"""Output files that are written completely or not at all."""

from __future__ import annotations

import contextlib
import os

from hespas.support.errors import HespasError
from hespas.support.supervised_process import forget_temporary
from hespas.support.temporary_paths import open_temporary_file

# Links to what is open already: another command may write there too, and it may have no name.
OPEN_FILES = ("/dev/std", "/dev/fd/", "/proc/")


def check_file_name(path: str) -> None:
    """Check that a path is valid.

    Raises:
        HespasError: The path is empty, or the operating system cannot represent it.
    """
    try:
        usable = bool(path) and b"\0" not in os.fsencode(path)
    except UnicodeEncodeError:
        usable = False
    if not usable:
        raise HespasError(f"{path!a} is not a file name")


def check_writable_file(path: str) -> None:
    """Check that a file can be written, before the work for it is done.

    Raises:
        HespasError: It cannot.
    """
    check_file_name(path)
    target = _resolve_path(path)
    folder = os.path.dirname(target)
    problem = ""
    if os.path.isdir(target):
        problem = "it is a folder"
    elif not os.path.exists(folder):
        problem = "its folder does not exist"
    elif not os.path.isdir(folder):
        problem = f"{folder} is a file, not a folder"
    elif not os.access(target if os.path.exists(target) else folder, os.W_OK):
        problem = "no permission"
    if problem:
        raise HespasError(f"cannot write it: {problem}", where=path)


def _resolve_path(path: str) -> str:
    """Follow the links in a path, but not those to open files."""
    return path if is_open_file(path) else os.path.realpath(path)


def is_open_file(path: str) -> bool:
    """Return whether a path leads to what a shell or the system has opened already."""
    return path.startswith(OPEN_FILES) and os.path.exists(path)


def write_atomically(path: str, data: bytes) -> None:
    """Write a file completely or not at all; write directly to devices and pipes.

    Raises:
        HespasError: The file cannot be written.
    """
    check_writable_file(path)
    target = _resolve_path(path)
    temporary = None
    try:
        if os.path.exists(target) and (is_open_file(path) or not os.path.isfile(target)):
            with open(target, "ab") as file:
                file.write(data)
            return
        temporary, descriptor = open_temporary_file(os.path.dirname(target))
        with open(descriptor, "wb") as file:
            file.write(data)
        os.replace(temporary, target)
        forget_temporary(temporary)
    except BaseException as error:
        if temporary is not None:
            with contextlib.suppress(OSError):
                os.unlink(temporary)
            forget_temporary(temporary)
        if isinstance(error, OSError) and not isinstance(error, BrokenPipeError):
            reason = error.strerror or str(error)
            raise HespasError(f"cannot write it: {reason}", where=path) from None
        raise
