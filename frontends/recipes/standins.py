"""Stand-ins for packages that a program imports and a lowering never calls."""

from __future__ import annotations

import importlib.abc
import importlib.machinery
import sys
import types
from collections.abc import Collection, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from hespas.support.errors import HespasError


class StandInFinder(importlib.abc.MetaPathFinder, importlib.abc.Loader):
    """Gives a stand-in for each of ``packages``, and what lies in them, that is not installed.

    While ``importing``, a stand-in does nothing, whatever is asked of it: decorators and tables at
    module level run. Afterwards a call raises HespasError, so that nothing is computed with one.
    """

    def __init__(self, packages: Collection[str]) -> None:
        self.packages = frozenset(packages)
        self.importing = True

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: types.ModuleType | None = None
    ) -> importlib.machinery.ModuleSpec | None:
        parts = fullname.split(".")
        names = {".".join(parts[: count + 1]) for count in range(len(parts))}
        if names.isdisjoint(self.packages):
            return None
        return importlib.machinery.ModuleSpec(fullname, self, is_package=True)

    def create_module(self, spec: importlib.machinery.ModuleSpec) -> types.ModuleType:
        return StandInModule(spec.name, self)

    def exec_module(self, module: types.ModuleType) -> None:
        """A stand-in has no code."""


class StandInModule(types.ModuleType):
    """A module whose attributes are stand-ins: classes where the name has a capital, else this."""

    __version__ = "9999"

    def __init__(self, name: str, finder: StandInFinder) -> None:
        super().__init__(name)
        self.__path__ = []
        self._finder = finder

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__") and name.endswith("__"):
            raise AttributeError(name)
        full = f"{self.__name__}.{name}"
        value: Any = StandInModule(full, self._finder)
        if name[:1].isupper():
            value = type(name, (), {"__init__": _make_initialiser(full, self._finder)})
        setattr(self, name, value)
        return value

    def __call__(self, *args: Any, **keywords: Any) -> Any:
        _refuse_late_use(self.__name__, self._finder)
        is_decorator = len(args) == 1 and not keywords and callable(args[0])
        return args[0] if is_decorator else StandInModule(f"{self.__name__}()", self._finder)


def _make_initialiser(name: str, finder: StandInFinder) -> Any:
    def initialise_stand_in(self: object, *args: Any, **keywords: Any) -> None:
        _refuse_late_use(name, finder)

    return initialise_stand_in


def _refuse_late_use(name: str, finder: StandInFinder) -> None:
    if not finder.importing:
        package = name.partition(".")[0]
        raise HespasError(f"the program calls {name}", remedy=f"install the package of '{package}'")


@contextmanager
def install_stand_ins(packages: Collection[str]) -> Iterator[None]:
    """Import within; of ``packages`` (roots or ``a.b``), what is not installed gets a stand-in.

    Stand-ins stay in ``sys.modules`` for what the program imports later: for a process that ends.
    """
    finder = StandInFinder(packages)
    sys.meta_path.append(finder)
    try:
        yield
    finally:
        finder.importing = False
