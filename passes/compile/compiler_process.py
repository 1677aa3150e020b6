"""Starting the compiler worker, and reading its result or the reason of its failure."""

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

from hespas.dialects.mlir import ir
from hespas.dialects.mlir_diagnostics import ADVICE
from hespas.dialects.xla import CompilationSettings, find_gpu_library
from hespas.support.errors import HespasError, extract_first_diagnostic
from hespas.support.supervised_process import open_temporary_folder

WORKER = "hespas.passes.compile.compiler_worker"
DEVICES_PER_NODE = 8
# The prefix of a log line of XLA and absl: severity, date, time, thread, file and line.
LOG_LINE = re.compile(r"^([IWEF])\d{4,} [\d:.]+ +\d+ \S+\] (.*)")
STATUS_PREFIX = re.compile(r"^(?:error: )?(?:[A-Z_]{4,}: )?(?:-:\d+:\d+: error: )?")
NO_PLUGIN = "pip install 'hespas[gpu-compiler]'"


@dataclass(frozen=True)
class CompileRequest:
    """A compilation, and the HLO dump to return.

    Attributes:
        compilation: The compilation settings.
        passes: A regular expression for the names of XLA's passes after which XLA writes a dump.
        wanted: A regular expression for the name of the dump to return.
        complete: A regular expression for the name of a dump that XLA writes after the wanted one.
        scheduled: Whether to keep the order of the instructions.
        target: The text of a GpuTargetConfigProto; None for the CPU.
        devices_per_node: The maximum number of devices of a host.
        flags: The value of XLA_FLAGS.
        timeout_s: Seconds after which the compilation is stopped.
    """

    compilation: CompilationSettings
    passes: str
    wanted: str
    complete: str
    scheduled: bool = False
    target: str | None = None
    devices_per_node: int = DEVICES_PER_NODE
    flags: str = ""
    timeout_s: float = 1800


@dataclass(frozen=True)
class CompiledModule:
    """A module, and the serialised HloModuleProto that it was converted from."""

    module: ir.Module
    hlo: bytes


class CompileFailure(Exception):
    """Raised if XLA does not compile a module. The message is one line."""


def compile_module(module: ir.Module, request: CompileRequest) -> CompiledModule:
    """Compile a module in a separate process.

    Raises:
        CompileFailure: XLA failed or timed out, or StableHLO cannot express the result.
        HespasError: The compiler is not installed.
    """
    import subprocess  # it adds to every start-up, and few modules come here

    library = None
    if request.target is not None:
        library = find_gpu_library()
        if library is None:
            raise HespasError("XLA's GPU compiler is not installed", remedy=NO_PLUGIN)
    with open_temporary_folder() as name:
        folder = Path(name)
        _write_request(folder, module, request, library)
        # -P: a file in the current folder must not be imported instead of a package.
        command = [sys.executable, "-P", "-m", WORKER, name]
        environment = {**os.environ, "XLA_FLAGS": request.flags, "TF_CPP_MIN_LOG_LEVEL": "2"}
        with (folder / "stderr").open("wb") as stderr:
            try:
                process = subprocess.Popen(
                    command, stdin=subprocess.DEVNULL, stdout=stderr, stderr=stderr,
                    env=environment, start_new_session=True,
                )  # fmt: skip
            except OSError as error:
                raise CompileFailure(str(error)) from None
            try:
                code = process.wait(request.timeout_s)
            except subprocess.TimeoutExpired:
                raise CompileFailure(f"it did not finish in {request.timeout_s:g} s") from None
            finally:
                _kill_process_group(process.pid)
                process.wait()
        output = folder / "out"
        if not output.exists():
            text = (folder / "stderr").read_text("utf-8", "replace")
            raise CompileFailure(explain_failure(text, code))
        try:
            return CompiledModule(
                ir.Module.parse(output.read_bytes(), module.context), (folder / "hlo").read_bytes()
            )
        except ir.MLIRError as error:
            why = extract_first_diagnostic(error)
            raise CompileFailure(f"StableHLO cannot express the result: {why}") from None


def _write_request(
    folder: Path, module: ir.Module, request: CompileRequest, library: str | None
) -> None:
    buffer = io.BytesIO()
    module.operation.write_bytecode(buffer)
    (folder / "in").write_bytes(buffer.getvalue())
    fields = {**dataclasses.asdict(request), "library": library}
    (folder / "request.json").write_text(json.dumps(fields))


def _kill_process_group(group: int) -> None:
    """Kill the worker and its child processes (XLA starts ptxas)."""
    # The group may have ended already; macOS raises PermissionError for a zombie.
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.killpg(group, signal.SIGKILL)


def explain_failure(stderr: str, code: int) -> str:
    """Explain in one line why XLA failed: its error, the last logged error, or the exit code."""
    lines = [line for line in stderr.splitlines() if line.strip()]
    for line in reversed(lines):
        if line.startswith("error: "):
            logged_errors = [
                match[2] for line in lines if (match := LOG_LINE.match(line)) and match[1] == "E"
            ]
            detail = (
                f" ({logged_errors[-1]})" if logged_errors and "Failed to parse" in line else ""
            )
            return STATUS_PREFIX.sub("", ADVICE.sub("", line), count=1) + detail
    for severity in "FE":
        for line in reversed(lines):
            match = LOG_LINE.match(line)
            if match and match[1] == severity:
                return match[2]
    if code < 0:
        return f"its process was ended by {signal.Signals(-code).name}"
    return lines[-1].strip() if lines else f"exit code {code}"
