"""The parent's side of an export: starts the worker process and reads its answer."""

from __future__ import annotations

import importlib.util
import json
import math
import os
import re
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from hespas.estimators.measure.failure import describe_exit_code
from hespas.frontends.export.export_worker import ANSWER, MODULE, PRELOADED
from hespas.support import worker_template
from hespas.support.errors import HespasError, restore_error
from hespas.support.supervised_process import open_temporary_folder

if TYPE_CHECKING:
    from hespas.frontends.export.program_source import ExportRequest

# XLA logs missing GPUs before its own log settings take effect.
NOISE = re.compile(r"[IWE]\d{4} \d\d:\d\d|WARNING: All log messages before absl|cuda_plugin_ext")
WORKER = "hespas.frontends.export.export_worker"
DEVICES = "JAX_NUM_CPU_DEVICES"


@dataclass(frozen=True)
class ExportedModule:
    """A lowered module as bytecode, with what the worker reported about it.

    ``peak_bytes`` is the peak memory of the worker process, ``lower_s`` the time of the lowering.
    """

    bytecode: bytes
    name: str
    mesh: dict[str, int]
    devices: int
    facts: dict[str, int | float | str]
    lower_s: float
    peak_bytes: int


def lower_in_process(
    request: ExportRequest,
    *,
    devices: int = 0,
    source: bool = True,
    traceback: bool = False,
    say: Callable[[str], None] = lambda line: print(line, file=sys.stderr),
) -> ExportedModule:
    """Lower a program in a separate process.

    Args:
        request: The program and its options.
        devices: The number of fake devices that a program finds which makes its own ``Lowered``;
            0 uses the environment's number, or the size of the request's mesh.
        source: Whether locations keep source lines in addition to names.
        traceback: Whether the program's own error is printed with its traceback.
        say: Receives each line that the program prints.

    Raises:
        HespasError: If the program cannot be lowered.
    """
    message: dict[str, Any] = {
        "list": False,
        "program": request.program,
        "options": dict(request.options),
        "mesh": None if request.mesh is None else dict(request.mesh),
        "spec": None if request.spec is None else request.spec.model_dump(),
        "platform": request.platform,
        "target": request.target,
        "dcn": dict(request.dcn),
        "traceback": traceback,
        "devices": devices or _count_default_devices(request),
        "source": source,
    }
    with open_temporary_folder() as name:
        report = _run_export_worker(Path(name), message, say)
        bytecode = (Path(name) / MODULE).read_bytes()
    return ExportedModule(bytecode, **report)


def _count_default_devices(request: ExportRequest) -> int | None:
    """Return the devices of the request's mesh, or None where the environment has a number."""
    if DEVICES in os.environ:
        return None
    return 1 if request.is_recipe() else math.prod((request.mesh or {}).values())


def list_recipes() -> list[dict[str, Any]]:
    """List the recipes: name, summary, options (name, form, default, help), and problem if any."""
    with open_temporary_folder() as name:
        return _run_export_worker(Path(name), {"list": True, "traceback": False}, lambda line: None)


def _run_export_worker(folder: Path, message: dict[str, Any], say: Callable[[str], None]) -> Any:
    if importlib.util.find_spec("jax") is None:
        raise HespasError("exporting needs JAX", remedy="pip install 'hespas[jax]'")
    code, last = _run_worker_task(json.dumps({**message, "folder": str(folder)}), say)
    if not (folder / ANSWER).exists():
        raise HespasError(
            f"the process that runs JAX {describe_exit_code(code)} early, and "
            + (f"printed last: {last}" if last else "printed nothing")
        )
    answer = json.loads((folder / ANSWER).read_text())
    if "error" in answer:
        raise restore_error(answer["error"])
    return answer["report"]


def _run_worker_task(request: str, say: Callable[[str], None]) -> tuple[int, str]:
    """Run the worker, and return its exit code and the last line that it has printed."""
    environment = {
        **os.environ,
        "JAX_PLATFORMS": "cpu",
        "TF_CPP_MIN_LOG_LEVEL": os.environ.get("TF_CPP_MIN_LOG_LEVEL", "3"),
    }
    task = worker_template.WorkerTask(request, environment, os.getcwd())
    our_fd, output_fd = os.pipe()
    with open(our_fd, encoding="utf-8", errors="replace") as output, open(os.devnull) as nothing:
        try:
            streams = worker_template.TaskStreams(nothing.fileno(), output_fd, output_fd)
            process = worker_template.POOL.start_task(WORKER, task, streams, PRELOADED)
        finally:
            os.close(output_fd)
        last = ""
        try:
            for line in output:
                if not NOISE.match(line):
                    last = line.strip() or last
                    say(line.rstrip("\n"))
            return process.wait(), last
        except BaseException:
            process.kill()
            raise
