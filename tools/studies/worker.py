"""Programs in a worker process: exported, and optimised by XLA. JAX starts once for many."""

from __future__ import annotations

import os
import tempfile
from pathlib import Path
from typing import Any


def probe(settings: dict[str, Any]) -> dict[str, Any]:
    """Nothing that the answers depend on: it is in the programs' names."""
    return {"device": ""}


def work(payload: dict[str, Any]) -> dict[str, Any]:
    """Write ``output``: {}, or {"error": message, where, remedy, whether usage}.

    ``export`` is a request of ``frontends/export/worker.py``; without one ``input`` is optimised
    for ``target`` with ``options`` of xla-optimize. ``scratch`` is for files of ours.
    """
    from hespas.frontends.export.worker import described
    from hespas.passes.emit.file import write_whole
    from hespas.tools.modules import bytecode

    tempfile.tempdir = payload["scratch"]
    try:
        if "export" in payload:
            module = _exported(payload["export"], Path(payload["scratch"]))
        else:
            module = _optimised(payload)
        write_whole(payload["output"], bytecode(module))
    except MemoryError:
        raise
    except Exception as error:  # whatever a recipe does
        return {"error": described(error)}
    return {}


def _exported(request: dict[str, Any], scratch: Path) -> Any:
    # What process.lower sets for a process of its own. Without source lines equal programs are
    # equal files, wherever hespas is installed.
    os.environ["JAX_PLATFORMS"] = "cpu"
    os.environ["JAX_TRACEBACK_IN_LOCATIONS_LIMIT"] = "0"
    os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
    from hespas.dialects.facts import set_facts
    from hespas.dialects.mlir import ir, make_context
    from hespas.frontends.export.worker import export

    path = scratch / f"{os.getpid()}.module"
    known = export(request, path)["facts"]
    module = ir.Module.parse(path.read_bytes(), make_context())
    if known:
        set_facts(module, known)
    return module


def _optimised(payload: dict[str, Any]) -> Any:
    from hespas import frontends
    from hespas.dialects.facts import facts, set_facts
    from hespas.dialects.mlir import make_context
    from hespas.frontends.export import stages
    from hespas.passes.base import Run

    module = frontends.read(payload["input"], make_context())
    known = facts(module)
    run = Run(input_name=payload["input"])
    stages.advance(module, "optimised", payload["target"], run, payload["options"])
    set_facts(module, known)
    return module
