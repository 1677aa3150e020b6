"""What packages and files of users add: the objects that entry points name, and their errors."""

from __future__ import annotations

import importlib
import inspect
import re
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any, TypeVar

from hespas.support.errors import (
    OUT_OF_FILES,
    HespasError,
    OperationLike,
    UsageError,
    extract_first_line,
    find_walk_error,
    is_encoding_error,
    is_interrupted_walk,
)

_Base = TypeVar("_Base")
OWN_PACKAGE = __name__.partition(".")[0]
CORRECTION = "correct or uninstall its package"


def collect_entry_points(group: str, kind: str, builtin: Mapping[str, str]) -> dict[str, str]:
    """Map the name of each entry point of a group to its import path, ``module:object``.

    Args:
        group: The group, such as ``hespas.passes``.
        kind: What its objects are, for messages: ``pass``.
        builtin: The import paths of those of hespas itself, by name; the result has none of them.

    Raises:
        UsageError: Two packages define one name, or a package defines one of hespas.
    """
    from importlib.metadata import entry_points

    import_paths: dict[str, str] = {}
    for point in entry_points(group=group):
        if builtin.get(point.name) == point.value:  # of an older hespas
            continue
        if point.name in builtin:
            raise UsageError(
                f"a package defines the {kind} '{point.name}' ({point.value}), "
                "which hespas defines",
                remedy="uninstall the package",
            )
        # A package that is installed twice on the path is listed twice.
        known = import_paths.setdefault(point.name, point.value)
        if known != point.value:
            raise UsageError(
                f"two packages define the {kind} '{point.name}': {known} and {point.value}",
                remedy="uninstall one of them",
            )
    return import_paths


def load_import_path(import_path: str, kind: str) -> Any:
    """Import the object at ``module:object``.

    Raises:
        UsageError: It cannot be imported. ``kind`` says in the message what it is.
    """
    module, _, name = import_path.partition(":")
    try:
        return getattr(importlib.import_module(module), name)
    except KeyboardInterrupt:
        raise
    except BaseException as error:  # SystemExit too, which would end hespas without a word
        if isinstance(error, OSError) and error.errno in OUT_OF_FILES:
            raise  # not a fault of the package
        reason = f"{type(error).__name__}: {extract_first_line(str(error))}"
        message = f"the {kind} {import_path} cannot be imported: {reason}"
        raise UsageError(message, remedy=CORRECTION) from error


def load_subclass(import_path: str, base: type[_Base], kind: str) -> type[_Base]:
    """Import the class at ``module:Class``.

    Raises:
        UsageError: It cannot be imported, does not derive from ``base``, or lacks a method that
            ``base`` declares. ``kind`` says in the message what it is.
    """
    cls = load_import_path(import_path, kind)
    if not (isinstance(cls, type) and issubclass(cls, base)):
        raise UsageError(
            f"the {kind} {import_path} does not derive from {base.__name__}",
            remedy=CORRECTION,
        )
    if inspect.isabstract(cls):
        missing = ", ".join(sorted(getattr(cls, "__abstractmethods__", ())))
        raise UsageError(f"the {kind} {import_path} does not define {missing}", remedy=CORRECTION)
    return cls


def is_own_code(code: Callable[..., Any]) -> bool:
    """Return whether a class or function belongs to hespas itself."""
    return getattr(code, "__module__", "").partition(".")[0] == OWN_PACKAGE


@contextmanager
def report_raised_errors(
    subject: str,
    code: Callable[..., Any],
    *,
    op: OperationLike | None = None,
    where: str = "",
    remedy: str = CORRECTION,
    passes_on: tuple[type[Exception], ...] = (),
) -> Iterator[None]:
    """Turn any exception of code that does not belong to hespas into a HespasError in one line.

    The error names the line of the code, and its cause is the exception. A HespasError without an
    op gets ``op``. What belongs to hespas is not changed, so that its faults have a traceback.

    Args:
        subject: What runs: ``pass 'acme-mark'``.
        code: Its class or function.
        op: The op that it handles.
        where: The place if there is no op.
        remedy: What the user can do.
        passes_on: Exceptions that the caller handles.
    """
    if is_own_code(code):
        yield
        return
    try:
        yield
    except HespasError as error:
        if op is not None and not (error.op_name or error.where):
            error.name_op(op)
        raise
    except (Exception, SystemExit) as error:
        if isinstance(error, passes_on) or _is_reported_elsewhere(error):
            raise
        place = _find_raising_line(error, code)
        reason = f"{subject} ({place}) raised {_describe_exception(error)}"
        raise HespasError(reason, op=op, where=where, remedy=remedy) from error


def _is_reported_elsewhere(error: BaseException) -> bool:
    """Return whether the exception is no fault of the code, or holds an error of ``walk``."""
    if isinstance(error, OSError):
        return isinstance(error, BrokenPipeError) or error.errno in OUT_OF_FILES
    if isinstance(error, RuntimeError):
        is_of_walk = is_interrupted_walk(error) or find_walk_error(str(error)) is not None
        return is_of_walk or is_encoding_error(error)
    return isinstance(error, MemoryError)


def _find_raising_line(error: BaseException, code: Callable[..., Any]) -> str:
    """Return the last line of the file of ``code`` that ran; if none ran, where it is defined."""
    import inspect
    import traceback

    lines = [(frame.filename, frame.lineno) for frame in traceback.extract_tb(error.__traceback__)]
    # The bindings turn an exception inside Operation.walk into the text of its traceback.
    lines += re.findall(r'^  File "(.*)", line (\d+)', str(error), re.MULTILINE)
    try:
        file = inspect.getfile(code)
    except (TypeError, OSError):  # it was defined in a session or by exec
        file = getattr(getattr(code, "__code__", None), "co_filename", "")
    line = next((line for line in reversed(lines) if line[0] == file), None)
    if line is None:  # it was called in a wrong way, or lacks what is called
        try:
            line = file, inspect.getsourcelines(code)[1]
        except (TypeError, OSError):
            line = lines[-1]
    return f"{line[0]}:{line[1]}"


def _describe_exception(error: BaseException) -> str:
    text = str(error).strip()
    if text.startswith("Exception raised in callback"):
        return text.splitlines()[-1]
    diagnostics = getattr(error, "error_diagnostics", ())
    reason = extract_first_line(diagnostics[0].message if diagnostics else text) if text else ""
    return f"{type(error).__name__}: {reason}".rstrip(": ")
