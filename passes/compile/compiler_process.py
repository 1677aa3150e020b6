"""Starting the compiler worker, and reading its result or the reason of its failure."""

from __future__ import annotations

import dataclasses
import json
import os
import re
import signal
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from hespas.configs.tpu_targets import TpuTopology
from hespas.dialects.mlir import (
    BOUNDARY,
    PassManager,
    find_ops,
    get_attribute,
    ir,
    read_boundary_items,
    register_passes,
    to_mlir_bytecode,
    write_boundary_items,
)
from hespas.dialects.mlir_diagnostics import ADVICE
from hespas.dialects.xla import (
    TPU_ENVIRONMENT,
    TPU_FLAGS_VARIABLE,
    CompilationSettings,
    get_compiler_library,
)
from hespas.passes.compile.compile_cache import (
    LEAST_S,
    CompiledHlo,
    compute_compile_key,
    find_cached_compile,
    find_size_failure,
    store_compile,
    store_size_failure,
)
from hespas.support.errors import extract_first_diagnostic
from hespas.support.supervised_process import open_temporary_folder

WORKER = "hespas.passes.compile.compiler_worker"
DEVICES_PER_HOST = 8
_TILINGS = "result_tilings"
_EXPORT_NAMED = "builtin.module(sdy-export-named-computations)"
# The prefix of a log line of XLA and absl: severity, date, time, thread, file and line.
LOG_LINE = re.compile(r"^([IWEF])\d{4,} [\d:.]+ +\d+ \S+\] (.*)")
STATUS_PREFIX = re.compile(r"^(?:error: )?(?:[A-Z_]{4,}: )?(?:-:\d+:\d+: error: )?")
TOO_LARGE = (
    re.compile(
        r"Ran out of memory in memory space (?P<space>\w+)\. Used (?P<used>\S+) of (?P<limit>\S+)"
    ),
    re.compile(
        r"Ran out of memory on (?P<space>\w+), .* \((?P<used>\S+)\) exceeds .* \((?P<limit>\S+)\)"
    ),
)
# XLA's compilers receive programs in a version of StableHLO that their plug-in can read.
UNSERIALIZABLE = re.compile(r"Failed to serialize StableHLO to plugin version (?P<version>[\d.]+)")
_ILLEGAL_OP = re.compile(r"(?P<place>loc\(.*?\): )?failed to legalize operation '(?P<op>[\w.]+)'")
_VERSIONED_OP = re.compile(r"^vhlo\.(\w+)_v\d+$")
_SIZE_MESSAGE = "it needs {used} of {limit} in memory {space}"
_TIME_MESSAGE = "it did not finish in {seconds:g} s"


@dataclass(frozen=True)
class CompileRequest:
    """A compilation, and the HLO dump to return.

    Attributes:
        compilation: The compilation settings.
        passes: A regular expression for the names of XLA's passes after which XLA writes a dump.
        wanted: A regular expression for the name of the dump to return, an HloProto.
        scheduled: Whether to keep the order of the instructions.
        keep_async: Whether asynchronous collectives of XLA:TPU stay asynchronous.
        target: The text of a GpuTargetConfigProto; None for the CPU and TPUs.
        tpu: The slices of a TPU; None for other devices. ``passes`` and the dumps are not used.
        devices_per_host: The maximum number of devices of a host.
        flags: The value of XLA_FLAGS, or of LIBTPU_INIT_ARGS.
        timeout_s: Seconds after which the compilation is stopped.
    """

    compilation: CompilationSettings
    passes: str
    wanted: str
    scheduled: bool = False
    keep_async: bool = True
    target: str | None = None
    tpu: TpuTopology | None = None
    devices_per_host: int = DEVICES_PER_HOST
    flags: str = ""
    timeout_s: float = 1800


@dataclass(frozen=True)
class CompiledModule:
    """A compiled module.

    Attributes:
        hlo: The serialised HloModuleProto that it was converted from.
        memory_plan: The bytes of each part of XLA's memory plan; empty if it is not known.
    """

    module: ir.Module
    hlo: bytes
    memory_plan: dict[str, int] = field(default_factory=dict)


class CompileFailure(Exception):
    """Raised if XLA does not compile a module. The message is one line."""


def compile_module(module: ir.Module, request: CompileRequest) -> CompiledModule:
    """Compile a module in a separate process.

    Raises:
        CompileFailure: XLA failed or timed out, or StableHLO cannot express the result.
        HespasError: The compiler is not installed.
    """
    library = _find_library(request)
    bytecode = _encode_module(module)
    key = compute_compile_key(bytecode, _list_settings(request), library)
    cached = find_cached_compile(key)
    if cached is None and (failure := find_size_failure(key)):
        raise CompileFailure(failure)
    with open_temporary_folder() as name:
        folder = Path(name)
        _write_request(folder, bytecode, request, library, cached)
        start = time.monotonic()
        code = _run_worker(folder, request)
        if cached is None and _is_converted_later(folder, request, code):
            code = _run_worker(folder, request)
        elapsed_s = time.monotonic() - start
        compiled = _read_hlo(folder)
        if cached is None and compiled is not None and elapsed_s > LEAST_S:
            store_compile(key, compiled)  # even if it cannot be converted
        output = folder / "out"
        if compiled is None or not output.exists():
            text = (folder / "stderr").read_text("utf-8", "replace")
            failure = explain_failure(text, code)
            if any(pattern.search(text) for pattern in TOO_LARGE):
                store_size_failure(key, failure)
            raise CompileFailure(failure)
        try:
            converted = ir.Module.parse(output.read_bytes(), module.context)
        except ir.MLIRError as error:
            why = extract_first_diagnostic(error)
            raise CompileFailure(f"StableHLO cannot express the result: {why}") from None
    return CompiledModule(converted, compiled.hlo, compiled.memory_plan)


def _is_converted_later(folder: Path, request: CompileRequest, code: int) -> bool:
    """Return whether another worker has to convert what one has compiled.

    That for GPUs ends itself. XLA may end any other one after the wanted dump, by a check that
    fails, such as that of the shardings of a program with replicas.
    """
    from hespas.passes.compile.compiler_worker import has_compiled_before

    was_ended = request.target is not None or code < 0
    is_converted = (folder / "out").exists()
    return was_ended and not is_converted and has_compiled_before(folder, request.wanted)


def _find_library(request: CompileRequest) -> str | None:
    """Return the compiler's library, None for the CPU; raises HespasError if it is missing."""
    if request.tpu is not None:
        return get_compiler_library("tpu")
    return None if request.target is None else get_compiler_library("gpu")


def _encode_module(module: ir.Module) -> bytes:
    """Encode a module in the form that XLA's compilers of programs read.

    Named computations become calls, because XLA finds no mesh for their shardings, and empty lists
    of tilings, which XLA of jax 0.12 writes, are removed: StableHLO 1.16 has none. So are
    discardable attributes of dialects that are not registered, which XLA cannot read.
    """
    bytecode = to_mlir_bytecode(module)
    if module.context.allow_unregistered_dialects:
        stripped = ir.Module.parse(bytecode, module.context)
        stripped.operation.walk(_drop_opaque_attributes)
        module, bytecode = stripped, to_mlir_bytecode(stripped)
    has_names, has_calls = (word in bytecode for word in (b"named_computation", b"custom_call"))
    if not has_names and not (has_calls and _list_calls_with_empty_tilings(module)):
        return bytecode
    copied = ir.Module.parse(bytecode, module.context)
    for op in _list_calls_with_empty_tilings(copied):
        del op.attributes[_TILINGS]
    if has_names:
        register_passes()
        PassManager.parse(_EXPORT_NAMED, module.context).run(copied.operation)
    return to_mlir_bytecode(copied)


def _drop_opaque_attributes(op: ir.Operation) -> ir.WalkResult:
    """Drop the attributes of an op, and of arguments and results, that only their dialect reads."""
    attributes = op.attributes
    for name in list(attributes):
        value = attributes[name]
        if "." in name and isinstance(value, ir.OpaqueAttr):
            del attributes[name]
        elif name in BOUNDARY and op.name == "func.func":
            rows = read_boundary_items(op, name)
            for row in rows:
                for key in [key for key, attr in row.items() if isinstance(attr, ir.OpaqueAttr)]:
                    del row[key]
            write_boundary_items(op, name, rows)
    return ir.WalkResult.ADVANCE


def _list_calls_with_empty_tilings(module: ir.Module) -> list[ir.Operation]:
    return [
        call
        for call in find_ops(module.operation, ("stablehlo.custom_call",))
        if _TILINGS in call.attributes
        and not any(len(one) for one in get_attribute(call, _TILINGS))
    ]


def _list_settings(request: CompileRequest) -> dict[str, object]:
    """Return the settings that the compiled HLO depends on."""
    others = {"scheduled", "keep_async", "timeout_s"}  # of the conversion, and of this run
    if request.tpu is not None:
        others.add("devices_per_host")
    settings: dict[str, Any] = {
        name: value for name, value in dataclasses.asdict(request).items() if name not in others
    }
    if not request.compilation.batched_calls:
        del settings["compilation"]["batched_calls"]  # what older versions kept is as valid
    return settings


def _run_worker(folder: Path, request: CompileRequest) -> int:
    """Run the worker, and return its exit code; raises CompileFailure."""
    # It imports subprocess, which adds to every start-up, and few modules come here.
    from hespas.support import worker_template

    environment = {**os.environ, "XLA_FLAGS": request.flags, "TF_CPP_MIN_LOG_LEVEL": "2"}
    if request.tpu is not None:
        environment |= {**TPU_ENVIRONMENT, "XLA_FLAGS": "", TPU_FLAGS_VARIABLE: request.flags}
    try:
        task = worker_template.WorkerTask(str(folder), environment, os.getcwd())
        with worker_template.open_output_streams(str(folder / "stderr")) as streams:
            return worker_template.POOL.run_task(WORKER, task, streams, request.timeout_s)
    except TimeoutError:
        raise CompileFailure(_TIME_MESSAGE.format(seconds=request.timeout_s)) from None
    except OSError as error:
        raise CompileFailure(str(error)) from None


def _write_request(
    folder: Path,
    bytecode: bytes,
    request: CompileRequest,
    library: str | None,
    cached: CompiledHlo | None,
) -> None:
    """Write what the worker reads; with a cached result, it only converts."""
    (folder / "in").write_bytes(bytecode)
    fields = {**dataclasses.asdict(request), "library": library}
    (folder / "request.json").write_text(json.dumps(fields))
    if cached is not None:
        (folder / "plan.json").write_text(json.dumps(cached.memory_plan))
        (folder / "hlo").write_bytes(cached.hlo)


def _read_hlo(folder: Path) -> CompiledHlo | None:
    """Return what XLA has compiled, or None if it failed."""
    if not (folder / "hlo").exists():
        return None
    plan = folder / "plan.json"
    return CompiledHlo(
        (folder / "hlo").read_bytes(), json.loads(plan.read_text()) if plan.exists() else {}
    )


def explain_failure(stderr: str, code: int) -> str:
    """Explain in one line why XLA failed: its error, the last logged error, or the exit code."""
    for pattern in TOO_LARGE:
        if too_large := pattern.search(stderr):
            sizes = too_large.groupdict()
            return _SIZE_MESSAGE.format(**{**sizes, "space": sizes["space"].lower()})
    if unserializable := UNSERIALIZABLE.search(stderr):
        return _explain_serialization(stderr, unserializable["version"])
    lines = [line for line in stderr.splitlines() if line.strip()]
    for index, line in reversed(list(enumerate(lines))):
        if line.startswith("error: "):
            logged_errors = [
                match[2] for line in lines if (match := LOG_LINE.match(line)) and match[1] == "E"
            ]
            detail = (
                f" ({logged_errors[-1]})" if logged_errors and "Failed to parse" in line else ""
            )
            why = STATUS_PREFIX.sub("", re.sub(ADVICE, "", line), count=1).strip()
            # Some messages of XLA begin on the line after their status.
            return (why or " ".join(lines[index + 1 : index + 2]).strip(" .") or line) + detail
    for severity in "FE":
        for line in reversed(lines):
            match = LOG_LINE.match(line)
            if match and match[1] == severity:
                return match[2]
    if code < 0:
        return f"its process was ended by {signal.Signals(-code).name}"
    return lines[-1].strip() if lines else f"exit code {code}"


def _explain_serialization(stderr: str, version: str) -> str:
    """Explain why a program cannot be written in a version of StableHLO."""
    form = f"StableHLO {version}, in which the compiler receives programs,"
    illegal = _ILLEGAL_OP.search(stderr)
    if illegal is None:
        return f"{form} cannot express this one"
    op = _VERSIONED_OP.sub(r"stablehlo.\1", illegal["op"])
    place = re.search(r'"([^"]*)"', illegal["place"] or "")
    return f"{form} cannot express the op {op}" + (f" ({place[1]})" if place else "")


def describe_exceeded_limit(message: str) -> str:
    """Describe the limit that a program exceeds, given why XLA did not compile it; "" if none."""
    if too_slow := re.search(_TIME_MESSAGE.replace("{seconds:g}", r"(\S+)"), message):
        return f"XLA did not compile this program in {too_slow[1]} s"
    return describe_exceeded_size(message)


def describe_exceeded_size(message: str) -> str:
    """Describe the memory that a program exceeds, given why XLA did not compile it; "" if none."""
    size = r"(?P<{}>[\d.]+)(?P<{}_unit>[KMGT])"
    sizes = {"used": size.format("used", "used"), "limit": size.format("limit", "limit")}
    if too_large := re.search(_SIZE_MESSAGE.format(**sizes, space="hbm"), message):
        used, limit = (f"{too_large[name]} {too_large[name + '_unit']}iB" for name in sizes)
        return f"XLA finds this program too large: {used} of {limit}"
    return ""
