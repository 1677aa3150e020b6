"""The export worker, which runs JAX: ``main(REQUEST)`` in a process of a worker template.

It writes ``module`` (bytecode) and ``answer.json``, a report or an error, to the folder of the
request. What the program prints goes to stderr.
"""

from __future__ import annotations

import json
import os
import re
import resource
import sys
import sysconfig
import time
import traceback
from pathlib import Path
from typing import Any

from hespas.support import worker_template
from hespas.support.errors import HespasError, UsageError

# What takes longest to import; worker templates do it once.
PRELOADED = ("jax", "hespas.frontends.jax", "hespas.frontends.export.program_source")
MODULE, ANSWER = "module", "answer.json"
# What JAX says of a kernel that exists only on another platform than that of the lowering.
MISSING_LOWERING = re.compile(r"not found for platform|Only interpret mode is supported on CPU")


# The part of the path of a recipe that tells where hespas is installed, not where to look.
INSTALLATION = r"^.*/(?=hespas/recipes/)"


def main(argument: str) -> None:
    """Process a request, write the answer, and end the process."""
    sys.stdout = sys.stderr
    request = json.loads(argument)
    folder = Path(request["folder"])
    try:
        if request["list"]:
            report: Any = _describe_recipes()
        else:
            configure_jax(request["devices"], source=request["source"])
            report = export_program(request, folder / MODULE)
        answer = json.dumps({"report": report})
    except KeyboardInterrupt:
        raise
    except BaseException as error:  # the user's program may raise anything, SystemExit included
        if request["traceback"] and not isinstance(error, HespasError):
            traceback.print_exc()
        answer = json.dumps({"error": describe_error(error)})
    (folder / ANSWER).write_text(answer)
    sys.stderr.flush()
    os._exit(0)  # XLA may go on compiling what was wanted only after its partitioner


def configure_jax(device_count: int | None = None, *, source: bool) -> None:
    """Configure JAX for exports, before its first use.

    Args:
        device_count: The number of fake devices; None keeps that of the environment.
        source: Whether locations keep source lines in addition to names. Without them, equal
            programs are equal files wherever hespas is installed.
    """
    import jax

    jax.config.update("jax_platforms", "cpu")
    if device_count is not None:
        jax.config.update("jax_num_cpu_devices", device_count)
    jax.config.update("jax_hlo_source_file_canonicalization_regex", INSTALLATION)
    if not source:
        jax.config.update("jax_traceback_in_locations_limit", 0)


def _describe_recipes() -> list[dict[str, Any]]:
    """Describe every recipe with its options, or state why it cannot be loaded."""
    from hespas.frontends.export import program_source, recipe_options

    rows = []
    for name in sorted(program_source.collect_recipes()):
        row: dict[str, Any] = {"name": name, "summary": "", "options": [], "problem": ""}
        try:
            build = program_source.find_program_function(name)
            row["summary"] = (build.__doc__ or "").strip().partition("\n")[0]
            row["options"] = [
                {
                    "name": o.name,
                    "form": o.describe_form(),
                    "default": o.format_default(),
                    "help": o.help,
                }
                for o in recipe_options.collect_options(build)
            ]
        except (Exception, SystemExit) as error:  # raised by another package, or by a missing one
            row["problem"] = describe_error(error)["message"]
        rows.append(row)
    return rows


def export_program(request: dict[str, Any], output: Path) -> dict[str, Any]:
    """Lower the program, write it to ``output`` as bytecode, and return the report."""
    from hespas.dialects.op_kinds import NUM_PARTITIONS, NUM_REPLICAS
    from hespas.frontends.export.custom_partitioning import partition_custom_kernels
    from hespas.frontends.export.device_placement import place_module_devices
    from hespas.frontends.export.export_spec import ExportSpec
    from hespas.frontends.export.program_source import ExportRequest, load_lowered_program
    from hespas.frontends.jax import from_jax
    from hespas.frontends.lowered_platform import read_platforms, settle_platform
    from hespas.frontends.model_operations import add_model_flops
    from hespas.passes.prepare.device_grid import read_stated_count

    _exclude_own_frames()
    start = time.monotonic()
    spec = request["spec"]
    loaded = load_lowered_program(
        ExportRequest(
            request["program"],
            request["options"],
            request["mesh"],
            ExportSpec.model_validate(spec) if spec is not None else None,
            request["platform"],
            target=request.get("target", ""),
        )
    )
    module = from_jax(loaded.lowered)
    settle_platform(module, read_platforms(loaded.lowered), request["platform"])
    place_module_devices(module, loaded.mesh, request.get("dcn", {}))
    facts = add_model_flops(module, loaded.facts)
    partition_custom_kernels(
        module, output.parent, lambda text: print(text, file=sys.stderr), waits=False
    )
    with output.open("wb") as file:
        module.operation.write_bytecode(file)
    return {
        "name": loaded.name,
        "mesh": dict(loaded.mesh),
        "devices": (read_stated_count(module, NUM_PARTITIONS) or 1)
        * (read_stated_count(module, NUM_REPLICAS) or 1),
        "facts": facts,
        "lower_s": time.monotonic() - start,
        "peak_bytes": _measure_peak_bytes(),
    }


def _exclude_own_frames() -> None:
    """Remove the frames of hespas from locations, so that they begin with the program."""
    import runpy

    from jax.extend.source_info_util import register_exclusion

    own_paths = (os.path.dirname(__file__) + os.sep, worker_template.__file__, runpy.__file__)
    for path in (*own_paths, "<frozen runpy>"):
        register_exclusion(path)


def _measure_peak_bytes() -> int:
    """Return the peak memory of this process.

    On Linux, ``ru_maxrss`` of a program includes the process that started it; ``VmHWM`` does not.
    """
    status = Path("/proc/self/status")
    if status.exists():
        fields = dict(line.split(":", 1) for line in status.read_text().splitlines())
        return 1024 * int(fields["VmHWM"].removesuffix("kB"))
    unit = 1 if sys.platform == "darwin" else 1024
    return unit * resource.getrusage(resource.RUSAGE_SELF).ru_maxrss


def describe_error(error: BaseException) -> dict[str, Any]:
    """Convert an error to JSON data, for ``errors.restore_error``."""
    is_usage = isinstance(error, UsageError)
    description = {"message": "", "op": "", "where": "", "remedy": "", "usage": is_usage}
    if isinstance(error, HespasError):
        return {
            **description,
            "message": error.message,
            "op": error.op_name,
            "where": error.where,
            "remedy": error.remedy or _suggest_platform(error.message),
        }
    if isinstance(error, SyntaxError):
        where = f"{error.filename}:{error.lineno}:{error.offset or 1}"
        return {**description, "message": f"not valid Python: {error.msg}", "where": where}
    if isinstance(error, SystemExit):
        return {
            **description,
            "message": f"the program exited with code {error.code}",
        }
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    message = f"{type(error).__name__}: {lines[0]}" if lines else type(error).__name__
    remedy = _suggest_platform(message)
    return {**description, "message": message, "where": _locate_error(error), "remedy": remedy}


def _suggest_platform(message: str) -> str:
    """Return the remedy if JAX says that a kernel exists on another platform only."""
    if not MISSING_LOWERING.search(message):
        return ""
    return "lower for the platform of the kernel: --platform cuda or --platform tpu"


def _locate_error(error: BaseException) -> str:
    """Return ``file:line`` of the innermost frame that belongs to the program itself."""
    skipped = (
        sysconfig.get_path("stdlib"),
        sysconfig.get_path("purelib"),
        os.path.dirname(__file__),
    )
    frames = traceback.extract_tb(error.__traceback__)
    own = [f for f in frames if not f.filename.startswith((*skipped, "<"))]
    return f"{own[-1].filename}:{own[-1].lineno}" if own else ""
