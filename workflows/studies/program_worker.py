"""Programs in a worker process: exported, and optimised by XLA. JAX starts once for many."""

from __future__ import annotations

import os
import tempfile
from pathlib import Path
from typing import Any


def probe_device(settings: dict[str, Any]) -> dict[str, Any]:
    """Nothing that the answers depend on: it is in the programs' names."""
    return {"device": ""}


def write_program_file(payload: dict[str, Any]) -> dict[str, Any]:
    """Write ``output``: {}, or {"error": message, where, remedy, whether usage}.

    ``export`` is a request of ``frontends/export/export_worker.py``; without one ``input`` is optimised
    for ``target`` with ``options`` of xla-optimize. ``scratch`` is for files of ours.
    """
    from hespas.frontends.export.export_worker import describe_error
    from hespas.support.output_file import write_atomically
    from hespas.workflows.module_output import to_mlir_bytecode

    tempfile.tempdir = payload["scratch"]
    try:
        if "export" in payload:
            module = _export_module(payload["export"], Path(payload["scratch"]))
        else:
            module = _optimise_module(payload)
        write_atomically(payload["output"], to_mlir_bytecode(module))
    except MemoryError:
        raise
    except Exception as error:  # whatever a recipe does
        return {"error": describe_error(error)}
    return {}


def _export_module(request: dict[str, Any], scratch: Path) -> Any:
    # What process.lower sets for a process of its own. Without source lines equal programs are
    # equal files, wherever hespas is installed.
    os.environ["JAX_PLATFORMS"] = "cpu"
    os.environ["JAX_TRACEBACK_IN_LOCATIONS_LIMIT"] = "0"
    os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
    from hespas.dialects.attr_codec import write_program_facts
    from hespas.dialects.mlir import ir, make_context
    from hespas.frontends.export.export_worker import export_program

    path = scratch / f"{os.getpid()}.module"
    known = export_program(request, path)["facts"]
    module = ir.Module.parse(path.read_bytes(), make_context())
    if known:
        write_program_facts(module, known)
    return module


def _optimise_module(payload: dict[str, Any]) -> Any:
    from hespas import frontends
    from hespas.dialects.attr_codec import read_program_facts, write_program_facts
    from hespas.dialects.mlir import make_context
    from hespas.frontends.export import stages
    from hespas.passes.base import PassRun

    module = frontends.read_module(payload["input"], make_context())
    known = read_program_facts(module)
    run = PassRun(input_name=payload["input"])
    stages.advance_to_stage(module, "optimised", payload["target"], run, payload["options"])
    write_program_facts(module, known)
    return module
