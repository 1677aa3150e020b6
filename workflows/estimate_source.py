"""The programs that ``hespas.estimate`` and ``hespas.read`` take, as MLIR modules."""

from __future__ import annotations

import os
from dataclasses import dataclass
from typing import Any

from hespas import configs, frontends
from hespas.dialects.mlir import clone_module, ir, make_context
from hespas.dialects.program_facts import (
    keep_step_figures,
    read_program_facts,
    record_exported_platforms,
    write_program_facts,
)
from hespas.frontends.export.exportable import Exportable
from hespas.frontends.function_lowering import lower_function, select_lowering_platform
from hespas.support.errors import UsageError
from hespas.support.supervised_process import open_temporary_folder


@dataclass(frozen=True)
class ProgramSource:
    """A program that is estimated.

    Attributes:
        name: Its name, for messages.
        module: A module that may be changed.
        is_lowered: Whether JAX has lowered it in this process, so that XLA has not optimised it.
    """

    name: str
    module: ir.Module
    is_lowered: bool = False


def load_program_source(program: Any, args: tuple[Any, ...], device: str) -> ProgramSource:
    """Read a program, or lower a JAX function for its arguments and the vendor of a device.

    Raises:
        HespasError: The program cannot be read, or arguments are given for what takes none.
    """
    if args and not _is_function(program):
        raise UsageError(
            f"arguments are given, but a {type(program).__name__} takes none",
            remedy="pass the function itself with its arguments",
        )
    platform = select_lowering_platform(configs.load_node(device).vendor)
    lowered = _find_lowered_program(program, args, platform)
    if lowered is not None:
        return _take_lowered_module(program, lowered, platform)
    contents = _read_contents(program)
    if contents is None and isinstance(program, (str, os.PathLike)):
        return ProgramSource(os.fspath(program), read_program(program))
    name = _name_program(program)
    if contents is not None:
        return ProgramSource(name, frontends.parse_module(contents, name, make_context()))
    return ProgramSource(name, clone_module(read_program(program)))


def _read_contents(program: Any) -> bytes | None:
    """Return the contents of a file that were given, or that an open file has; else None."""
    contents = program.read() if hasattr(program, "read") else program
    if isinstance(contents, str):
        # A program on one line has a brace, which the name of a file may have too.
        is_text = "\n" in contents or ("{" in contents and not os.path.exists(contents))
        return contents.encode() if is_text or contents is not program else None
    try:
        return bytes(memoryview(contents))
    except TypeError:
        return None


def _name_program(program: Any) -> str:
    """Return the name of a program for messages: that of its file, else its type."""
    name = getattr(program, "name", None) if hasattr(program, "read") else None
    if isinstance(name, str):
        return name
    return "<text>" if isinstance(program, str) else f"<{type(program).__name__}>"


def read_program(program: Any, *, allow_unregistered: bool = False) -> ir.Module:
    """Read a program as ``hespas.read`` does; raises HespasError."""
    context = make_context(allow_unregistered=allow_unregistered)
    contents = _read_contents(program)
    if contents is not None:
        return frontends.parse_module(contents, _name_program(program), context)
    if isinstance(program, (str, os.PathLike)):
        return frontends.read_module(program, context)
    if hasattr(program, "mlir_module_serialized"):  # a jax.export.Exported
        module = frontends.parse_module(program.mlir_module_serialized, "<Exported>", context)
        record_exported_platforms(module, program.platforms)
        return module
    if _is_compiled(program):
        return frontends.parse_module(program.as_text().encode(), "<Compiled>", context)
    return frontends.from_jax(program)


def lower_exportable_module(program: Exportable, platform: str) -> ir.Module:
    """Lower a program in this process to a module with the facts of its model."""
    from hespas.frontends.export.exportable_lowering import lower_exportable

    return _take_lowered_module(program, lower_exportable(program, platform), platform).module


def _is_compiled(program: Any) -> bool:
    return hasattr(program, "runtime_executable")  # a jax.stages.Compiled


def _is_function(program: Any) -> bool:
    """Return whether a program is called with arguments, which what JAX has compiled takes not."""
    return callable(program) and not _is_compiled(program)


def _find_lowered_program(program: Any, args: tuple[Any, ...], platform: str) -> Any:
    """Return a ``Lowered``, or lower a function, an ``Exportable`` or a ``jax.stages.Traced``.

    Returns None for anything else.
    """
    if hasattr(program, "compiler_ir"):
        return program
    from hespas.frontends.export.exportable_lowering import lower_exportable
    from hespas.frontends.export.target_device import lower_traced

    if isinstance(program, Exportable):
        return lower_exportable(program, platform)
    if hasattr(program, "jaxpr") and hasattr(program, "lower"):  # a Traced
        return lower_traced(program, platform)
    if _is_function(program):
        return lower_function(program, args, platform)
    return None


def _partition_here(module: ir.Module) -> None:
    """Partition a module with kernels whose partitioning rule is a function of this process."""
    from hespas.passes.prepare.census import collect_census
    from hespas.passes.prepare.partition import find_custom_partitioning

    if find_custom_partitioning(collect_census(module)) is not None:
        from hespas.frontends.export.custom_partitioning import partition_custom_kernels

        with open_temporary_folder() as folder:
            partition_custom_kernels(module, folder, lambda text: None, waits=True)


def _take_lowered_module(program: Any, lowered: Any, platform: str) -> ProgramSource:
    """Copy the module of a ``Lowered`` for a platform, and write on it what its model needs."""
    from hespas.frontends.lowered_platform import read_platforms, settle_platform
    from hespas.frontends.model_operations import add_model_flops

    module = frontends.from_jax(lowered)
    settle_platform(module, read_platforms(lowered), platform)
    facts = program.facts if isinstance(program, Exportable) else {}
    facts = add_model_flops(module, {**read_program_facts(module), **facts})
    if facts:
        write_program_facts(module, facts)
    with keep_step_figures(module):
        _partition_here(module)
    default_name = f"<{type(program).__name__}>"
    name = getattr(program, "name" if isinstance(program, Exportable) else "__name__", default_name)
    return ProgramSource(name, module, is_lowered=True)
