"""Exporting and optimising programs in a worker process, which starts JAX once for many."""

from __future__ import annotations

import os
import time
from pathlib import Path
from typing import Any


def write_program_file(payload: dict[str, Any], scratch: str) -> dict[str, Any]:
    """Write the file of a program.

    Args:
        payload: ``output`` is the file to write. ``export`` is a request for
            ``frontends.export.export_worker``. Without it the file ``input`` is optimised for
            ``target`` with ``options`` of xla-optimize.
        scratch: A folder for temporary files.

    Returns:
        {"elapsed_s": ...}; raises what the program raises.
    """
    from hespas.dialects.mlir import to_mlir_bytecode
    from hespas.support.output_file import write_atomically

    start = time.monotonic()
    if "export" in payload:
        module = export_module(payload["export"], Path(scratch))
    else:
        module = _optimise_module(payload)
    write_atomically(payload["output"], to_mlir_bytecode(module))
    return {"elapsed_s": time.monotonic() - start}


def prepare_jax() -> None:
    """Prepare JAX for exports without source lines."""
    from hespas.frontends.export.export_worker import configure_jax

    os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")  # XLA reads it when JAX first uses it
    configure_jax(source=False)


def export_module(request: dict[str, Any], scratch: Path) -> Any:
    """Export a program, a request for ``frontends.export.export_worker``, to a module."""
    prepare_jax()
    from hespas.dialects.mlir import ir, make_context
    from hespas.dialects.program_facts import write_program_facts
    from hespas.frontends.export.export_worker import export_program

    path = scratch / f"{os.getpid()}.module"
    known = export_program(request, path)["facts"]
    module = ir.Module.parse(path.read_bytes(), make_context())
    if known:
        write_program_facts(module, known)
    return module


def _optimise_module(payload: dict[str, Any]) -> Any:
    from hespas import frontends
    from hespas.dialects.mlir import make_context
    from hespas.dialects.program_facts import read_program_facts, write_program_facts
    from hespas.frontends.export import stages
    from hespas.passes.base import PassRun, print_note

    module = frontends.read_module(payload["input"], make_context())
    known = read_program_facts(module)
    run = PassRun(input_name=payload["input"], note=print_note)
    stages.advance_to_stage(module, "optimised", payload["target"], run, payload["options"])
    write_program_facts(module, {**known, **read_program_facts(module)})
    return module
