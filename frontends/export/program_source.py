"""Sources of a program: the name of a recipe, ``module:function``, or a Python file."""

from __future__ import annotations

import importlib
import importlib.util
import os
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from hespas.support.entry_points import collect_entry_points
from hespas.support.errors import HespasError, UsageError
from hespas.support.suggestions import suggest_nearest

if TYPE_CHECKING:
    from hespas.frontends.export.export_spec import ExportSpec

BUILD = "build"  # the default function of a file
# The recipes of hespas, by their modules, which are imported in the worker process alone.
RECIPES = {
    name: f"hespas.recipes.{name}:{BUILD}"
    for name in (
        "bert", "decode", "gemm", "gemma", "gpt", "llama", "maxtext", "moe", "pipeline", "prefill",
        "resnet", "stage", "t5",
    )
}  # fmt: skip
DENSE_DECODERS = ("llama", "gpt", "gemma")
"""The recipes of decoders without experts."""
DECODERS = (*DENSE_DECODERS, "moe")
"""The recipes of decoders. The recipe ``stage`` divides their models, and MaxText has them."""
ACCEPTED_RESULTS = "an Exportable or what jax.jit(f).lower(...) gives"


@dataclass(frozen=True)
class ExportRequest:
    """A program to export, with its options.

    ``program`` is a recipe, ``module:function`` or ``FILE.py[:function]``. With ``spec`` the
    function itself is lowered; without, it is called with ``options`` and ``mesh`` and returns the
    program. ``dcn`` is the part of each axis of the mesh that lies between slices. ``target`` is
    the device of the platform that the program sees; "" stands for a recent one.
    """

    program: str
    options: Mapping[str, str] = field(default_factory=dict)
    mesh: Mapping[str, int] | None = None
    spec: ExportSpec | None = None
    platform: str = "cpu"
    dcn: Mapping[str, int] = field(default_factory=dict)
    target: str = ""

    def is_recipe(self) -> bool:
        """Return whether the program is the name of a recipe."""
        return ":" not in self.program and not self.program.endswith(".py")


def collect_recipes() -> dict[str, str]:
    """Map the name of every recipe to its ``module:function``.

    Raises:
        UsageError: If two packages define a recipe of the same name.
    """
    return RECIPES | collect_entry_points("hespas.recipes", "recipe", RECIPES)


def find_program_function(program: str) -> Callable[..., Any]:
    """Import the function that a program names.

    Raises:
        HespasError: If there is no such recipe, module, file or function. Errors of the imported
            module itself are passed on.
    """
    place, _, name = program.partition(":")
    if place.endswith(".py"):
        return _resolve_function(_import_program_file(place), name or BUILD, program)
    if not name:
        known = collect_recipes()
        if program not in known:
            raise UsageError(
                f"unknown recipe '{program}'",
                remedy=f"{suggest_nearest(program, [*known])} (or name your own program as "
                "module:function or as a .py file)",
            )
        place, _, name = known[program].partition(":")
    try:
        module = importlib.import_module(place)
    except ModuleNotFoundError as error:
        if error.name is None or not f"{place}.".startswith(f"{error.name}."):
            raise
        raise HespasError(f"there is no module '{error.name}'", where=program) from None
    return _resolve_function(module, name, program)


def _import_program_file(place: str) -> Any:
    """Import a Python file, with its folder on the import path; raises HespasError."""
    path = Path(place).resolve()
    if not path.is_file():
        raise HespasError("there is no such file", where=place)
    sys.path.append(str(path.parent))
    # Under its own name neighbouring files can import it; but it must not shadow a package.
    importable_spec = importlib.util.find_spec(path.stem) if path.stem.isidentifier() else None
    name = (
        path.stem
        if importable_spec is not None and importable_spec.origin == str(path)
        else "program"
    )
    spec = importlib.util.spec_from_file_location(name, path)
    if spec is None or spec.loader is None:
        raise HespasError("Python cannot load it", where=place)
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    spec.loader.exec_module(module)
    return module


def _resolve_function(module: Any, name: str, program: str) -> Callable[..., Any]:
    value = module
    for part in name.split("."):
        if not hasattr(value, part):
            namespace = getattr(value, "__dict__", {})
            own = [key for key in namespace if callable(getattr(value, key)) and key[0] != "_"]
            raise HespasError(
                f"the module has no function '{name}'",
                where=program,
                remedy=suggest_nearest(part, own) if own else "",
            )
        value = getattr(value, part)
    if not callable(value):
        raise HespasError(f"'{name}' is a {type(value).__name__}, not a function", where=program)
    return value


@dataclass(frozen=True)
class LoweredProgram:
    """A ``Lowered`` of JAX, with the name, mesh and facts of its program."""

    lowered: Any
    name: str
    mesh: Mapping[str, int]
    facts: Mapping[str, int | float | str]


def load_lowered_program(request: ExportRequest) -> LoweredProgram:
    """Load a program and lower it.

    Raises:
        HespasError: If the program cannot be found or does not return what can be lowered. Errors
            that the program raises are passed on.
    """
    from hespas.frontends.export.custom_partitioning import assume_recent_gpu
    from hespas.frontends.export.target_device import enter_target_device, find_target_device

    sys.path.append(os.getcwd())
    device = find_target_device(request.platform, request.target)
    with assume_recent_gpu(), enter_target_device(device):
        return _load_and_lower(request)


def _load_and_lower(request: ExportRequest) -> LoweredProgram:
    from hespas.frontends.export import export_spec, recipe_options
    from hespas.frontends.export.exportable import Exportable
    from hespas.frontends.export.exportable_lowering import lower_exportable

    function = find_program_function(request.program)
    name = request.program.partition(":")[2].rpartition(".")[2] or Path(request.program).stem
    if request.spec is not None:
        if request.is_recipe():
            raise UsageError(
                f"'{name}' is a recipe, which defines its own arguments", remedy="use --set"
            )
        built_program: Any = export_spec.make_exportable(function, request.spec, name)
    else:
        values = recipe_options.bind_option_texts(function, request.options, request.mesh, name)
        built_program = function(**values)
    if isinstance(built_program, Exportable):
        lowered = lower_exportable(built_program, request.platform, request.target)
        return LoweredProgram(lowered, built_program.name, built_program.mesh, built_program.facts)
    if hasattr(built_program, "lower") and hasattr(built_program, "jaxpr"):  # a Traced
        from hespas.frontends.export.target_device import find_target_device, lower_traced

        device = find_target_device(request.platform, request.target)
        built_program = lower_traced(built_program, request.platform, device)
    if not hasattr(built_program, "compiler_ir"):
        raise HespasError(
            f"the function returned a {type(built_program).__name__}, not {ACCEPTED_RESULTS}",
            where=request.program,
            remedy="to export the function itself, describe its arguments with --arg or --spec",
        )
    return LoweredProgram(built_program, name, {}, {})
