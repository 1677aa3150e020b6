"""The xDSL plug-in: the dialect, the passes and an output target for ``xdsl-opt``.

xDSL finds ``UNIVERSE`` through the entry point ``xdsl.universe``. Every registered pass is offered
under its own name, or as ``hespas-NAME`` if xDSL already has a pass of that name. Loading this
module imports no MLIR bindings; a pass imports them when it is first used.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from dataclasses import dataclass, fields, make_dataclass
from typing import IO, Any, ClassVar, get_type_hints

from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp
from xdsl.ir import Dialect
from xdsl.passes import ModulePass
from xdsl.universe import XDSL_UNIVERSE, Universe
from xdsl.utils.exceptions import PassFailedException
from xdsl.utils.target import Target

from hespas.passes import registry
from hespas.support.errors import HespasError


@dataclass(frozen=True)
class BridgedPass(ModulePass):
    """Base class of the wrapped passes: convert the module to MLIR, run a pass, convert it back."""

    wraps: ClassVar[str]

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        from hespas.dialects.xdsl_bridge import replace_contents, to_native_module, to_xdsl_module
        from hespas.passes import pipeline
        from hespas.passes.base import PassRun, build_pass, print_note

        run = PassRun(note=print_note)
        try:
            step = build_pass(registry.load_pass_class(self.wraps), self._collect_set_options())
            native = to_native_module(op, warn=run.warn)
            pipeline.run_pipeline(native, [step], run)
            replace_contents(op, to_xdsl_module(native, ctx))
        except HespasError as error:
            raise PassFailedException(str(error)) from error

    def _collect_set_options(self) -> dict[str, str | bool]:
        """Collect the options that were set; ``pass{flag}`` arrives as None."""
        set_options: dict[str, str | bool] = {}
        for option in fields(self):
            value = getattr(self, option.name)
            if value != option.default:
                text = True if value is None else value if isinstance(value, bool) else str(value)
                set_options[option.name.replace("_", "-")] = text
        return set_options


@dataclass(frozen=True)
class HespasReadPass(ModulePass):
    """Replace the module by one that is read from a file, in any format that hespas reads.

    xDSL parses only the generic text of StableHLO, slowly, and turns infinities in constants into
    numbers. This pass uses MLIR's parser instead. The module that it replaces is usually empty.
    """

    name = "hespas-read"

    input: str

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        from hespas import frontends
        from hespas.dialects.mlir import make_context
        from hespas.dialects.xdsl_bridge import replace_contents, to_xdsl_module

        try:
            native = frontends.read_module(self.input, make_context(allow_unregistered=True))
        except HespasError as error:
            raise PassFailedException(str(error)) from error
        replace_contents(op, to_xdsl_module(native, ctx))


@dataclass(frozen=True)
class HespasTypedPass(ModulePass):
    """Convert hespas attributes from dictionaries to their typed form ``#hespas.cost<...>``."""

    name = "hespas-typed"

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        from hespas.dialects.xdsl_dialect import HESPAS, replace_dictionaries

        ctx.load_registered_dialect(HESPAS.name)
        replace_dictionaries(op)


@dataclass(frozen=True)
class HespasDictionariesPass(ModulePass):
    """Convert hespas attributes to dictionaries, the form that every MLIR tool accepts."""

    name = "hespas-dictionaries"

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        from hespas.dialects.xdsl_dialect import replace_typed_attributes

        replace_typed_attributes(op)


@dataclass(frozen=True)
class StableHLOTarget(Target):
    """Print the module as MLIR does: in pretty StableHLO, as ``hespas-opt`` reads and writes it."""

    name = "hespas"

    def emit(self, ctx: Context, module: ModuleOp, output: IO[str]) -> None:
        from hespas.dialects.xdsl_bridge import to_native_module

        def print_warning(text: str) -> None:
            print(f"warning: {text}", file=sys.stderr)

        print(to_native_module(module, warn=print_warning), file=output, end="")


def wrap_hespas_pass(name: str, offered: str) -> type[ModulePass]:
    """Make the xDSL pass ``offered`` that runs the pass ``name``; its fields are the options."""
    cls = registry.load_pass_class(name)
    hints = get_type_hints(cls)
    options = [
        (f.name, _widen_type_hint(hints[f.name]), f.default) for _, f in cls.list_spelled_options()
    ]
    namespace = {"name": offered, "wraps": name, "__doc__": cls.__doc__}
    return make_dataclass(
        cls.__name__, options, bases=(BridgedPass,), frozen=True, namespace=namespace
    )


def _widen_type_hint(hint: Any) -> Any:
    """Widen a type for xDSL, whose pipelines parse a value before they know its option."""
    kinds = {hint, *getattr(hint, "__args__", ())}
    if bool in kinds:
        return bool | None  # ``pass{flag}``
    if str in kinds:
        return str | int | float | bool | None
    return hint | int | None if float in kinds else hint | None


def _load_hespas_dialect() -> Dialect:
    from hespas.dialects.xdsl_dialect import HESPAS

    return HESPAS


def list_pass_factories() -> dict[str, Callable[[], type[ModulePass]]]:
    offered: dict[str, Callable[[], type[ModulePass]]] = {
        cls.name: lambda cls=cls: cls
        for cls in (HespasReadPass, HespasTypedPass, HespasDictionariesPass)
    }
    for name in registry.list_pass_names():
        title = f"hespas-{name}" if name in XDSL_UNIVERSE.all_passes else name
        offered[title] = lambda name=name, title=title: wrap_hespas_pass(name, title)
    return offered


UNIVERSE = Universe(
    all_dialects={"hespas": _load_hespas_dialect},
    all_passes=list_pass_factories(),
    all_targets={StableHLOTarget.name: lambda: StableHLOTarget},
)
