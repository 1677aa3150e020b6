"""The worker, from the side of who wants a module compiled."""

from __future__ import annotations

import contextlib
import dataclasses
import io
import json
import os
import re
import signal
import sys
from dataclasses import dataclass
from pathlib import Path

from hespas.dialects.errors import HespasError, diagnosis
from hespas.dialects.mlir import ir
from hespas.dialects.xla import Compilation, gpu_library
from hespas.frontends.diagnostics import ADVICE

WORKER = "hespas.passes.compile.worker"
DEVICES_PER_NODE = 8
# What XLA and absl put before a message: severity, date, time, thread, file and line.
LOGGED = re.compile(r"^([IWEF])\d{4,} [\d:.]+ +\d+ \S+\] (.*)")
STATUS = re.compile(r"^(?:error: )?(?:[A-Z_]{4,}: )?(?:-:\d+:\d+: error: )?")
NO_PLUGIN = "pip install 'hespas[gpu-compiler]'"


@dataclass(frozen=True)
class Request:
    """A compile, and which dump of it is wanted.

    ``target``: the text of a GpuTargetConfigProto, None for the CPU. ``passes``: a regular
    expression on the names of XLA's passes after which it dumps; ``wanted`` and ``complete``: on
    names of dumps: of the one to return, and of one that is written after it. ``scheduled``: keep
    the order of its instructions.
    """

    compilation: Compilation
    passes: str
    wanted: str
    complete: str
    scheduled: bool = False
    target: str | None = None
    devices_per_node: int = DEVICES_PER_NODE
    flags: str = ""
    timeout_s: float = 1800


@dataclass(frozen=True)
class Answer:
    """A module, and what it was converted from: a HloModuleProto."""

    module: ir.Module
    hlo: bytes


class CompileFailure(Exception):
    """XLA did not compile a module; the text says why, in one line."""


def compile_module(module: ir.Module, request: Request) -> Answer:
    """Compile a module in a process of its own.

    Raises CompileFailure, and HespasError where the compiler is not installed.
    """
    import subprocess  # these two add to every start-up, and few modules come here
    import tempfile

    library = None
    if request.target is not None:
        library = gpu_library()
        if library is None:
            raise HespasError("XLA's GPU compiler is not installed", remedy=NO_PLUGIN)
    with tempfile.TemporaryDirectory(prefix="hespas-") as name:
        folder = Path(name)
        _write(folder, module, request, library)
        # -P: what lies in the current folder must not stand in for a package.
        command = [sys.executable, "-P", "-m", WORKER, name]
        environment = {**os.environ, "XLA_FLAGS": request.flags, "TF_CPP_MIN_LOG_LEVEL": "2"}
        with (folder / "stderr").open("wb") as said:
            try:
                process = subprocess.Popen(
                    command, stdin=subprocess.DEVNULL, stdout=said, stderr=said, env=environment,
                    start_new_session=True,
                )  # fmt: skip
            except OSError as error:
                raise CompileFailure(str(error)) from None
            try:
                code = process.wait(request.timeout_s)
            except subprocess.TimeoutExpired:
                raise CompileFailure(f"it was not done in {request.timeout_s:g} s") from None
            finally:
                _end(process.pid)
                process.wait()
        output = folder / "out"
        if not output.exists():
            text = (folder / "stderr").read_text("utf-8", "replace")
            raise CompileFailure(reason(text, code))
        try:
            return Answer(
                ir.Module.parse(output.read_bytes(), module.context), (folder / "hlo").read_bytes()
            )
        except ir.MLIRError as error:
            why = diagnosis(error)
            raise CompileFailure(f"StableHLO cannot express the result: {why}") from None


def _write(folder: Path, module: ir.Module, request: Request, library: str | None) -> None:
    buffer = io.BytesIO()
    module.operation.write_bytecode(buffer)
    (folder / "in").write_bytes(buffer.getvalue())
    told = {**dataclasses.asdict(request), "library": library}
    (folder / "request.json").write_text(json.dumps(told))


def _end(group: int) -> None:
    """End the worker and what it started (XLA starts ptxas)."""
    # Gone already; macOS says "permission" of a zombie.
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.killpg(group, signal.SIGKILL)


def reason(stderr: str, code: int) -> str:
    """Why XLA failed, in one line: what ended it, else its last error, else the exit code."""
    lines = [line for line in stderr.splitlines() if line.strip()]
    for line in reversed(lines):
        if line.startswith("error: "):
            said = [found[2] for one in lines if (found := LOGGED.match(one)) and found[1] == "E"]
            detail = f" ({said[-1]})" if said and "Failed to parse" in line else ""
            return STATUS.sub("", ADVICE.sub("", line), count=1) + detail
    for severity in "FE":
        for line in reversed(lines):
            found = LOGGED.match(line)
            if found and found[1] == severity:
                return found[2]
    if code < 0:
        return f"its process was ended by {signal.Signals(-code).name}"
    return lines[-1].strip() if lines else f"exit code {code}"
