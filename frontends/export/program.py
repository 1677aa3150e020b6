"""Where a program comes from: a recipe's name, ``module:function``, or a Python file."""

from __future__ import annotations

import importlib
import importlib.util
import os
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from hespas.dialects.errors import HespasError, UsageError
from hespas.passes.base import nearest

if TYPE_CHECKING:
    from hespas.frontends.export.spec import Spec

BUILD = "build"  # the function of a file that names none
ENTRY_POINTS = "hespas.recipes"
GIVES = "an Exportable or what jax.jit(f).lower(...) gives"


@dataclass(frozen=True)
class Request:
    """What to export.

    ``program``: a recipe, ``module:function`` or ``FILE.py[:function]``; with ``spec`` the function
    itself is lowered, else it is called with ``options`` and ``mesh`` and gives the program.
    """

    program: str
    options: Mapping[str, str] = field(default_factory=dict)
    mesh: Mapping[str, int] | None = None
    spec: Spec | None = None
    platform: str = "cpu"

    def is_recipe(self) -> bool:
        """Whether the program is a recipe's name."""
        return ":" not in self.program and not self.program.endswith(".py")


def recipes() -> dict[str, str]:
    """``module:function`` of every recipe by its name; raises HespasError where two share one."""
    from importlib.metadata import entry_points

    from hespas.frontends.recipes import RECIPES

    found = dict(RECIPES)
    for point in entry_points(group=ENTRY_POINTS):
        if point.name in found:
            raise HespasError(
                f"two packages define the recipe '{point.name}': {found[point.name]} and "
                f"{point.value}",
                remedy="uninstall one of them",
            )
        found[point.name] = point.value
    return found


def find(program: str) -> Callable[..., Any]:
    """The function that a program names; raises HespasError, and what its module raises."""
    place, _, name = program.partition(":")
    if place.endswith(".py"):
        return _attribute(_file(place), name or BUILD, program)
    if not name:
        known = recipes()
        if program not in known:
            raise UsageError(
                f"no recipe is called '{program}'",
                remedy=f"{nearest(program, [*known])} a program of yours is module:function or a "
                ".py file",
            )
        place, _, name = known[program].partition(":")
    try:
        module = importlib.import_module(place)
    except ModuleNotFoundError as error:
        if error.name is None or not f"{place}.".startswith(f"{error.name}."):
            raise
        raise HespasError(f"there is no module '{error.name}'", where=program) from None
    return _attribute(module, name, program)


def _file(place: str) -> Any:
    """The module in a file, whose folder it may import from; raises HespasError."""
    path = Path(place).resolve()
    if not path.is_file():
        raise HespasError("there is no such file", where=place)
    sys.path.append(str(path.parent))
    # Under its own name its neighbours can import it; but it must not stand in for a package.
    found = importlib.util.find_spec(path.stem) if path.stem.isidentifier() else None
    name = path.stem if found is not None and found.origin == str(path) else "program"
    spec = importlib.util.spec_from_file_location(name, path)
    if spec is None or spec.loader is None:
        raise HespasError("Python cannot load it", where=place)
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    spec.loader.exec_module(module)
    return module


def _attribute(module: Any, name: str, program: str) -> Callable[..., Any]:
    value = module
    for part in name.split("."):
        if not hasattr(value, part):
            held = getattr(value, "__dict__", {})
            own = [key for key in held if callable(getattr(value, key)) and key[0] != "_"]
            raise HespasError(
                f"it has no function '{name}'",
                where=program,
                remedy=nearest(part, own) if own else "",
            )
        value = getattr(value, part)
    if not callable(value):
        raise HespasError(f"'{name}' is no function but a {type(value).__name__}", where=program)
    return value


@dataclass(frozen=True)
class Loaded:
    """What a program gave: a ``Lowered`` by now, and what is known beside its ops."""

    lowered: Any
    name: str
    mesh: Mapping[str, int]
    facts: Mapping[str, int | float | str]


def load(request: Request) -> Loaded:
    """The program, lowered; raises HespasError, and what the program itself raises."""
    from hespas.frontends.export import options, spec
    from hespas.frontends.export.exportable import Exportable
    from hespas.frontends.export.lower import lower

    sys.path.append(os.getcwd())
    function = find(request.program)
    name = request.program.partition(":")[2].rpartition(".")[2] or Path(request.program).stem
    if request.spec is not None:
        if request.is_recipe():
            raise UsageError(f"'{name}' is a recipe: it knows its arguments", remedy="use --set")
        made: Any = spec.exportable(function, request.spec, name)
    else:
        values = options.bind(function, request.options, request.mesh, name)
        made = function(**values)
    if isinstance(made, Exportable):
        lowered = lower(made, request.platform)
        return Loaded(lowered, made.name, made.mesh, made.facts)
    if hasattr(made, "lower") and hasattr(made, "jaxpr"):  # a Traced
        made = made.lower(lowering_platforms=(request.platform,))
    if not hasattr(made, "compiler_ir"):
        raise HespasError(
            f"what it gave is of the type {type(made).__name__}, not {GIVES}",
            where=request.program,
            remedy="to export the function itself, say its arguments with --arg or --spec",
        )
    return Loaded(made, name, {}, {})
