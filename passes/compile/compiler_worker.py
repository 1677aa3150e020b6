"""The compiler worker: a process that runs XLA until the wanted HLO is dumped.

XLA cannot run a part of its pipeline. The worker therefore starts a compilation, lets XLA dump HLO
between its passes, and ends the process as soon as the wanted dump is complete: XLA writes the size
of the module before the module.
XLA:TPU dumps nothing; it returns the HLO of a whole compilation.

``main(FOLDER)``, in a process of a worker template, reads ``FOLDER/request.json`` and bytecode from
``FOLDER/in``, or HLO that was compiled before from ``FOLDER/hlo``. It writes ``FOLDER/out``:
StableHLO bytecode. Errors go to stderr. XLA:GPU generates code for the kernels after the wanted
dump, in threads and processes that cannot be stopped one by one: the worker then writes
``FOLDER/hlo`` only and kills its process group, and another one converts. So does another one where
XLA itself has ended the process after the wanted dump.
"""

from __future__ import annotations

import json
import os
import re
import signal
import sys
import threading
import time
from pathlib import Path
from typing import Any, NoReturn

from hespas.dialects.mlir import ir, make_context
from hespas.dialects.protobuf import extract_hlo_module, has_complete_module
from hespas.dialects.xla import (
    CompilationSettings,
    HloDump,
    compile_for_cpu,
    compile_for_gpu,
    compile_for_tpu,
    make_gpu_compile_devices,
    make_tpu_compile_devices,
)
from hespas.passes.compile.hlo_to_stablehlo import convert_hlo_to_stablehlo, convert_tpu_hlo

REQUEST, INPUT, OUTPUT, DUMPS = "request.json", "in", "out", "dumps"
HLO, PLAN = "hlo", "plan.json"
POLL_S = 0.002
PARENT_POLL_S = 0.5
_exit_lock = threading.Lock()


def main(folder_name: str) -> None:
    """Compile, and end the process with exit code 0 if the output was written, otherwise 1."""
    folder = Path(folder_name)
    request = json.loads((folder / REQUEST).read_text())
    if has_compiled_before(folder, request["wanted"]):
        _convert_and_exit(folder, request)
    if request["tpu"] is not None:
        try:
            _compile_for_tpu(folder, request)
        except Exception as error:
            _exit_with_error(str(error))
        _convert_and_exit(folder, request)
    (folder / DUMPS).mkdir()
    threading.Thread(target=_watch_dumps, args=(folder, request), daemon=True).start()
    try:
        _compile_request(folder, request)
    except Exception as error:
        # A failure after the wanted dump does not matter.
        if find_complete_dump(folder / DUMPS, request["wanted"]) is None:
            _exit_with_error(str(error))
    _end_compilation(folder, request)


def has_compiled_before(folder: Path, wanted: str) -> bool:
    """Return whether a worker has left its HLO, or the wanted dump, in its folder."""
    if (folder / HLO).exists():
        return True
    dumps = folder / DUMPS
    return dumps.exists() and find_complete_dump(dumps, wanted) is not None


def _compile_request(folder: Path, request: dict[str, Any]) -> None:
    compilation = CompilationSettings(**request["compilation"])
    dump = HloDump(str(folder / DUMPS), request["passes"])
    bytecode = (folder / INPUT).read_bytes()
    if request["target"] is None:
        compile_for_cpu(bytecode, compilation, dump)
        return
    devices = make_gpu_compile_devices(
        request["library"], request["target"], compilation, request["devices_per_host"]
    )
    module = ir.Module.parse(bytecode, make_context())
    compile_for_gpu(module, compilation, dump, devices)


def _compile_for_tpu(folder: Path, request: dict[str, Any]) -> None:
    """Compile for a TPU, whose compiler returns the HLO and dumps none."""
    threading.Thread(target=_watch_parent, daemon=True).start()
    tpu = request["tpu"]
    compilation = CompilationSettings(**request["compilation"])
    devices = make_tpu_compile_devices(
        request["library"], tpu["name"], tpu["slices"], tpu["host_chips"], tpu["chip_config"]
    )
    module = ir.Module.parse((folder / INPUT).read_bytes(), make_context())
    proto, plan = compile_for_tpu(module, compilation, devices[: compilation.device_count])
    (folder / PLAN).write_text(json.dumps(plan))
    (folder / HLO).write_bytes(proto)


def _watch_parent() -> None:
    """End the process when its parent has ended."""
    parent = os.getppid()
    while os.getppid() == parent:
        time.sleep(PARENT_POLL_S)
    os._exit(1)


def _watch_dumps(folder: Path, request: dict[str, Any]) -> None:
    parent = os.getppid()
    try:
        while find_complete_dump(folder / DUMPS, request["wanted"]) is None:
            if os.getppid() != parent:
                raise FileNotFoundError
            time.sleep(POLL_S)
    except FileNotFoundError:  # The parent process has ended or has removed the folder.
        os._exit(1)
    _end_compilation(folder, request)


def find_complete_dump(folder: Path, pattern: str) -> Path | None:
    """Find the first dump of the program whose name matches; None until XLA has written all of it.

    XLA numbers modules and dumps in order. It compiles bodies of ``jax.shard_map`` as modules of
    their own, too, after the program and even if it refuses the program.
    """
    paths = sorted(folder.iterdir())
    module = paths[0].name.split(".")[0] if paths else ""
    dumps = (path for path in paths if path.name.split(".")[0] == module)
    first = next((path for path in dumps if re.search(pattern, path.name)), None)
    return first if first is not None and has_complete_module(first) else None


def _end_compilation(folder: Path, request: dict[str, Any]) -> NoReturn:
    """Convert what the CPU's compiler dumped; keep what the GPU's did, and end what it started."""
    if request["target"] is None:
        _convert_and_exit(folder, request)
    _exit_lock.acquire()  # Never released, as in _convert_and_exit.
    _read_hlo(folder, request)
    os.killpg(0, signal.SIGKILL)
    os._exit(0)


def _convert_and_exit(folder: Path, request: dict[str, Any]) -> NoReturn:
    """Convert the wanted dump, write the output and end the process."""
    _exit_lock.acquire()  # Never released: the second thread waits until the process ends.
    proto = _read_hlo(folder, request)
    try:
        converted = (
            convert_hlo_to_stablehlo(proto, scheduled=request["scheduled"])
            if request["tpu"] is None
            else convert_tpu_hlo(proto, keep_async=request["keep_async"])
        )
    except Exception as error:
        _exit_with_error(f"StableHLO cannot express the result: {error}")
    partial = folder / f"{OUTPUT}.partial"
    partial.write_bytes(converted)
    partial.replace(folder / OUTPUT)
    os._exit(0)


def _read_hlo(folder: Path, request: dict[str, Any]) -> bytes:
    """Return the HLO that was compiled: the wanted dump, or what is there already."""
    if (folder / HLO).exists():
        return (folder / HLO).read_bytes()
    dump = find_complete_dump(folder / DUMPS, request["wanted"])
    if dump is None:
        _exit_with_error(f"it did not dump {request['wanted']}")
    proto = extract_hlo_module(dump.read_bytes()) or b""
    (folder / HLO).write_bytes(proto)
    return proto


def _exit_with_error(message: str) -> NoReturn:
    print(f"error: {message}", file=sys.stderr, flush=True)
    os._exit(1)
