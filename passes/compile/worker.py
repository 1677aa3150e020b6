"""XLA in a process of its own, which ends as soon as the wanted HLO is there.

XLA has no entry for part of its pipeline: a compile is started, XLA dumps the HLO between its
passes, and the process ends when the dump after the wanted one tells that that is complete.
``python -m hespas.passes.compile.worker FOLDER`` reads ``FOLDER/request.json`` and bytecode from
``FOLDER/in``, and writes ``FOLDER/out``: StableHLO bytecode. Errors go to stderr.
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
from hespas.dialects.xla import Compilation, Dump, compile_for_cpu, compile_for_gpu, gpu_devices
from hespas.frontends.protobuf import hlo_module_bytes
from hespas.passes.compile.convert import convert

REQUEST, INPUT, OUTPUT, DUMPS, HLO = "request.json", "in", "out", "dumps", "hlo"
POLL_S = 0.002
_ending = threading.Lock()


def main(folder: Path) -> None:
    """Compile, and end the process: with 0 where the output was written, else 1."""
    request = json.loads((folder / REQUEST).read_text())
    (folder / DUMPS).mkdir()
    threading.Thread(target=_watch, args=(folder, request), daemon=True).start()
    try:
        _compile(folder, request)
    except Exception as error:
        # Past the wanted dump a failure does not matter.
        if _wanted(folder, request) is None:
            _fail(str(error))
    _finish(folder, request)


def _compile(folder: Path, request: dict[str, Any]) -> None:
    what = Compilation(**request["compilation"])
    dump = Dump(str(folder / DUMPS), request["passes"])
    bytecode = (folder / INPUT).read_bytes()
    if request["target"] is None:
        compile_for_cpu(bytecode, what, dump)
        return
    devices = gpu_devices(
        request["library"], request["target"], what.devices, request["devices_per_node"]
    )
    module = ir.Module.parse(bytecode, make_context())
    compile_for_gpu(module, what, dump, devices)


def _watch(folder: Path, request: dict[str, Any]) -> None:
    complete, parent = re.compile(request["complete"]), os.getppid()
    try:
        while not any(complete.search(path.name) for path in (folder / DUMPS).iterdir()):
            if os.getppid() != parent:
                raise FileNotFoundError
            time.sleep(POLL_S)
    except FileNotFoundError:  # who asked was killed, or has cleared up: nobody waits
        os._exit(1)
    _finish(folder, request)


def _wanted(folder: Path, request: dict[str, Any]) -> Path | None:
    """The first dump whose name matches; XLA numbers them in order."""
    wanted = re.compile(request["wanted"])
    found = (path for path in (folder / DUMPS).iterdir() if wanted.search(path.name))
    return min(found, default=None)


def _finish(folder: Path, request: dict[str, Any]) -> None:
    """Convert the wanted dump, write the output and end the process."""
    _ending.acquire()  # never released: whoever comes second waits for the end
    dump = _wanted(folder, request)
    if dump is None:
        _fail(f"it did not dump {request['wanted']}")
    proto = hlo_module_bytes(dump.read_bytes()) or b""
    (folder / HLO).write_bytes(proto)
    try:
        converted = convert(proto, scheduled=request["scheduled"])
    except Exception as error:
        _fail(f"StableHLO cannot express the result: {error}")
    partial = folder / f"{OUTPUT}.partial"
    partial.write_bytes(converted)
    partial.replace(folder / OUTPUT)
    os._exit(0)


def _fail(message: str) -> NoReturn:
    print(f"error: {message}", file=sys.stderr, flush=True)
    os._exit(1)


if __name__ == "__main__":
    main(Path(sys.argv[1]))
