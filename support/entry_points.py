"""What installed packages add to hespas: objects that their entry points name."""

from __future__ import annotations

import importlib
from collections.abc import Mapping
from typing import Any, TypeVar

from hespas.support.errors import OUT_OF_FILES, UsageError, extract_first_line

_Base = TypeVar("_Base")


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
        if builtin.get(point.name) == point.value:
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
        raise UsageError(message, remedy="correct or uninstall its package") from error


def load_subclass(import_path: str, base: type[_Base], kind: str) -> type[_Base]:
    """Import the class at ``module:Class``.

    Raises:
        UsageError: It cannot be imported, or does not derive from ``base``. ``kind`` says in the
            message what it is.
    """
    cls = load_import_path(import_path, kind)
    if not (isinstance(cls, type) and issubclass(cls, base)):
        raise UsageError(
            f"the {kind} {import_path} does not derive from {base.__name__}",
            remedy="correct or uninstall its package",
        )
    return cls
