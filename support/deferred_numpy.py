"""A numpy that is loaded when something of it is first used.

The MLIR bindings import numpy for builders of attributes, which most jobs do not use. It takes a
third of the time in which the tools start, in one thread; OpenBLAS starts another for each core,
which waits actively.
"""

from __future__ import annotations

import os
import sys
import threading
from importlib import util
from types import ModuleType
from typing import Any

NUMPY = "numpy"
THREADS_VARIABLE = "OPENBLAS_NUM_THREADS"


class DeferredModule(ModuleType):
    """A module whose code runs when an attribute is read that it does not have yet.

    It has no ``__path__`` before, so that the import of a submodule loads it too.
    """

    def __getattr__(self, name: str) -> Any:
        with _lock:
            if type(self) is DeferredModule and not _is_loading:
                _load(self)
        return ModuleType.__getattribute__(self, name)


_lock = threading.RLock()
_is_loading: list[str] = []


def _load(module: DeferredModule) -> None:
    """Run the code of the module with one thread of OpenBLAS, which workers do not inherit."""
    spec = module.__spec__
    assert spec is not None and spec.loader is not None
    module.__path__ = list(spec.submodule_search_locations or [])
    is_set = THREADS_VARIABLE in os.environ
    os.environ.setdefault(THREADS_VARIABLE, "1")
    _is_loading.append(spec.name)
    try:
        spec.loader.exec_module(module)
        module.__class__ = ModuleType  # pyrefly: ignore[bad-argument-type]
    finally:
        _is_loading.clear()
        if not is_set:
            del os.environ[THREADS_VARIABLE]


def defer_numpy() -> None:
    """Let ``import numpy`` load nothing before numpy is used. For processes of hespas' tools."""
    spec = None if NUMPY in sys.modules else util.find_spec(NUMPY)
    if spec is None or spec.loader is None:
        return
    module = DeferredModule(NUMPY)
    module.__spec__, module.__loader__, module.__file__ = spec, spec.loader, spec.origin
    sys.modules[NUMPY] = module
