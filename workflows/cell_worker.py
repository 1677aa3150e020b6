"""Computing the cells of ``cells`` in a worker process."""

from __future__ import annotations

import contextlib
import gc
import os
import tempfile
import time
from collections.abc import Callable, Hashable
from pkgutil import resolve_name
from typing import Any, Generic, TypeVar

from hespas.frontends.export.export_worker import describe_error
from hespas.workflows.cell_keys import collect_environment

Value = TypeVar("Value")


def probe_environment(settings: dict[str, Any]) -> dict[str, Any]:
    """Return what results depend on in this process, if the setting ``versions`` asks for it."""
    return {"device": "", **(collect_environment() if settings.get("versions") else {})}


def run_cells(payload: dict[str, Any]) -> dict[str, Any]:
    """Compute the cells of a payload.

    Args:
        payload: ``cells``, the ``function`` that computes each of them, the ``folder`` that their
            paths are relative to, and the seconds ``limit_s`` after which no other cell is begun.

    Returns:
        {"cells": [an answer or {"error": ...}]}, in the order of the cells: at least the first.
    """
    end = time.monotonic() + payload["limit_s"]
    function = resolve_name(payload["function"])
    with contextlib.suppress(FileNotFoundError):  # missing files are reported one by one
        os.chdir(payload["folder"])
    answers: list[dict[str, Any]] = []
    if len(payload["cells"]) > 1:
        gc.disable()  # one collection for several cells is enough
    try:
        with tempfile.TemporaryDirectory() as scratch:
            for cell in payload["cells"]:
                answers.append(_compute_answer(function, cell, scratch))
                if time.monotonic() > end:
                    break
    finally:
        gc.enable()
    if len(answers) > 1:
        gc.collect()
    return {"cells": answers}


def _compute_answer(
    function: Callable[[dict[str, Any], str], dict[str, Any]], cell: dict[str, Any], scratch: str
) -> dict[str, Any]:
    try:
        return function(cell, scratch)
    except MemoryError:
        raise  # the failure of the worker, which is run again
    except (Exception, SystemExit) as error:  # a user's program may raise anything
        return {"error": describe_error(error)}


class SingleEntryCache(Generic[Value]):
    """The latest value of a stage of the work, which the next cell of a chunk may share."""

    def __init__(self) -> None:
        self._key: Hashable = None
        self._value: Value | None = None

    def find(self, key: Hashable) -> Value | None:
        """Return the value of a key, or None."""
        return self._value if key == self._key else None

    def store(self, key: Hashable, value: Value | None) -> None:
        """Replace the value."""
        self._key, self._value = key, value

    def get_or_make(self, key: Hashable, make: Callable[[], Value]) -> Value:
        """Return the value of a key, which is made if it is not known."""
        if key != self._key or self._value is None:
            self.store(None, None)  # frees the old module before the new one is made
            self.store(key, make())
            assert self._value is not None
        return self._value
