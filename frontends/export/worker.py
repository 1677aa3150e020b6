"""JAX in a process of its own: ``python -m hespas.frontends.export.worker FOLDER``.

Reads ``FOLDER/request.json``, and writes ``FOLDER/module`` (bytecode) and ``FOLDER/report.json``,
or ``FOLDER/error.json``. What the program prints goes to stderr.
"""

from __future__ import annotations

import json
import os
import resource
import sys
import sysconfig
import time
import traceback
from pathlib import Path
from typing import Any

from hespas.dialects.errors import HespasError, UsageError

PARTITIONS, REPLICAS = "mhlo.num_partitions", "mhlo.num_replicas"
REQUEST, MODULE, REPORT, ERROR = "request.json", "module", "report.json", "error.json"


def main(folder: Path) -> None:
    """Do what the request says and write the answer."""
    sys.stdout = sys.stderr
    request = json.loads((folder / REQUEST).read_text())
    try:
        report = json.dumps(listing() if request["list"] else export(request, folder / MODULE))
    except KeyboardInterrupt:
        raise
    except BaseException as error:  # whatever the program of the user does, SystemExit too
        if request["traceback"] and not isinstance(error, HespasError):
            traceback.print_exc()
        (folder / ERROR).write_text(json.dumps(described(error)))
    else:
        (folder / REPORT).write_text(report)


def listing() -> list[dict[str, Any]]:
    """The recipes with their options, or why one cannot be had."""
    from hespas.frontends.export import options, program

    rows = []
    for name in sorted(program.recipes()):
        row: dict[str, Any] = {"name": name, "summary": "", "options": [], "problem": ""}
        try:
            build = program.find(name)
            row["summary"] = (build.__doc__ or "").strip().partition("\n")[0]
            row["options"] = [
                {"name": o.name, "form": o.form(), "default": o.default_text(), "help": o.help}
                for o in options.options(build)
            ]
        except Exception as error:  # of another package, or for want of one
            row["problem"] = described(error)["message"]
        rows.append(row)
    return rows


def export(request: dict[str, Any], output: Path) -> dict[str, Any]:
    """Lower the program into ``output`` as bytecode; returns the report."""
    from hespas.frontends.export.program import Request, load
    from hespas.frontends.export.spec import Spec
    from hespas.frontends.jax import from_jax
    from hespas.passes.prepare.devices import stated

    _leave_out_own_frames()
    start = time.monotonic()
    spec = request["spec"]
    loaded = load(
        Request(
            request["program"],
            request["options"],
            request["mesh"],
            Spec.model_validate(spec) if spec is not None else None,
            request["platform"],
        )
    )
    module = from_jax(loaded.lowered)
    with output.open("wb") as file:
        module.operation.write_bytecode(file)
    return {
        "name": loaded.name,
        "mesh": dict(loaded.mesh),
        "devices": (stated(module, PARTITIONS) or 1) * (stated(module, REPLICAS) or 1),
        "facts": dict(loaded.facts),
        "lower_s": time.monotonic() - start,
        "peak_bytes": peak_bytes(),
    }


def _leave_out_own_frames() -> None:
    """Let locations in the module begin with the program, not with what calls it here."""
    import runpy

    from jax.extend.source_info_util import register_exclusion

    for path in (os.path.dirname(__file__) + os.sep, runpy.__file__, "<frozen runpy>"):
        register_exclusion(path)


def peak_bytes() -> int:
    """The most memory that this process has held."""
    unit = 1 if sys.platform == "darwin" else 1024
    return unit * resource.getrusage(resource.RUSAGE_SELF).ru_maxrss


def described(error: BaseException) -> dict[str, Any]:
    """An error as data: message, where, remedy, whether the command line was wrong."""
    said = {"message": "", "where": "", "remedy": "", "usage": isinstance(error, UsageError)}
    if isinstance(error, HespasError):
        return {**said, "message": error.message, "where": error.where, "remedy": error.remedy}
    if isinstance(error, SyntaxError):
        where = f"{error.filename}:{error.lineno}:{error.offset or 1}"
        return {**said, "message": f"not valid Python: {error.msg}", "where": where}
    if isinstance(error, SystemExit):
        return {**said, "message": f"the program ended itself with the exit code {error.code}"}
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    message = f"{type(error).__name__}: {lines[0]}" if lines else type(error).__name__
    return {**said, "message": message, "where": place(error)}


def place(error: BaseException) -> str:
    """``file:line`` of the innermost frame that is the program's own: no package's, not ours."""
    skipped = (
        sysconfig.get_path("stdlib"),
        sysconfig.get_path("purelib"),
        os.path.dirname(__file__),
    )
    frames = traceback.extract_tb(error.__traceback__)
    own = [f for f in frames if not f.filename.startswith((*skipped, "<"))]
    return f"{own[-1].filename}:{own[-1].lineno}" if own else ""


if __name__ == "__main__":
    main(Path(sys.argv[1]))
