"""The compiler worker: a process that runs XLA until the wanted HLO is dumped.

XLA cannot run a part of its pipeline. The worker therefore starts a compilation, lets XLA dump HLO
between its passes, and ends the process when a later dump shows that the wanted one is complete.
``python -m hespas.passes.compile.compiler_worker FOLDER`` reads ``FOLDER/request.json`` and
bytecode from ``FOLDER/in``, and writes ``FOLDER/out``: StableHLO bytecode. Errors go to stderr.
"""

from __future__ import annotations

import json
import os
import re
import sys
import threading
import time
from pathlib import Path
from typing import Any, NoReturn

from hespas.dialects.mlir import ir, make_context
from hespas.dialects.protobuf import extract_hlo_module
from hespas.dialects.xla import (
    CompilationSettings,
    HloDump,
    compile_for_cpu,
    compile_for_gpu,
    make_gpu_compile_devices,
)
from hespas.passes.compile.hlo_to_stablehlo import convert_hlo_to_stablehlo

REQUEST, INPUT, OUTPUT, DUMPS, HLO = "request.json", "in", "out", "dumps", "hlo"
POLL_S = 0.002
_exit_lock = threading.Lock()


def main(folder: Path) -> None:
    """Compile, and end the process with exit code 0 if the output was written, otherwise 1."""
    request = json.loads((folder / REQUEST).read_text())
    (folder / DUMPS).mkdir()
    threading.Thread(target=_watch_dumps, args=(folder, request), daemon=True).start()
    try:
        _compile_request(folder, request)
    except Exception as error:
        # A failure after the wanted dump does not matter.
        if find_dump(folder / DUMPS, request["wanted"]) is None:
            _exit_with_error(str(error))
    _convert_and_exit(folder, request)


def _compile_request(folder: Path, request: dict[str, Any]) -> None:
    compilation = CompilationSettings(**request["compilation"])
    dump = HloDump(str(folder / DUMPS), request["passes"])
    bytecode = (folder / INPUT).read_bytes()
    if request["target"] is None:
        compile_for_cpu(bytecode, compilation, dump)
        return
    devices = make_gpu_compile_devices(
        request["library"], request["target"], compilation.device_count, request["devices_per_node"]
    )
    module = ir.Module.parse(bytecode, make_context())
    compile_for_gpu(module, compilation, dump, devices)


def _watch_dumps(folder: Path, request: dict[str, Any]) -> None:
    parent = os.getppid()
    try:
        while find_dump(folder / DUMPS, request["complete"]) is None:
            if os.getppid() != parent:
                raise FileNotFoundError
            time.sleep(POLL_S)
    except FileNotFoundError:  # The parent process has ended or has removed the folder.
        os._exit(1)
    _convert_and_exit(folder, request)


def find_dump(folder: Path, pattern: str) -> Path | None:
    """Find the first dump in a folder whose name matches; XLA numbers dumps in order."""
    return min((path for path in folder.iterdir() if re.search(pattern, path.name)), default=None)


def _convert_and_exit(folder: Path, request: dict[str, Any]) -> None:
    """Convert the wanted dump, write the output and end the process."""
    _exit_lock.acquire()  # Never released: the second thread waits until the process ends.
    dump = find_dump(folder / DUMPS, request["wanted"])
    if dump is None:
        _exit_with_error(f"it did not dump {request['wanted']}")
    proto = extract_hlo_module(dump.read_bytes()) or b""
    (folder / HLO).write_bytes(proto)
    try:
        converted = convert_hlo_to_stablehlo(proto, scheduled=request["scheduled"])
    except Exception as error:
        _exit_with_error(f"StableHLO cannot express the result: {error}")
    partial = folder / f"{OUTPUT}.partial"
    partial.write_bytes(converted)
    partial.replace(folder / OUTPUT)
    os._exit(0)


def _exit_with_error(message: str) -> NoReturn:
    print(f"error: {message}", file=sys.stderr, flush=True)
    os._exit(1)


if __name__ == "__main__":
    main(Path(sys.argv[1]))
