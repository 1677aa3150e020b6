"""Stand-ins for packages that a program imports but whose functions a lowering never calls."""

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
    """Provides stand-ins for those of ``packages``, submodules included, that are not installed.

    While ``importing``, a stand-in accepts every use, so that decorators and tables at module level
    run. Afterwards a call raises HespasError, so that nothing is computed with a stand-in.
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
        """Do nothing: a stand-in has no code."""


class StandInModule(types.ModuleType):
    """A module whose attributes are stand-ins: classes if capitalised, else callables."""

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
        raise HespasError(f"the program calls {name}", remedy=f"install the package '{package}'")


@contextmanager
def install_stand_ins(packages: Collection[str]) -> Iterator[None]:
    """Provide stand-ins for those of ``packages`` (``a`` or ``a.b``) that are not installed.

    The stand-ins stay in ``sys.modules`` for later imports of the program, so use this only in a
    process that ends with the program.
    """
    finder = StandInFinder(packages)
    sys.meta_path.append(finder)
    try:
        yield
    finally:
        finder.importing = False
