"""The workers of ``measuring``: they import no bindings, and so start fast."""

from __future__ import annotations

import ctypes
import os
import tempfile
import time
from pathlib import Path
from typing import Any

from hespas.estimators.measure import turns
from hespas.estimators.measure.failure import UnsupportedError
from hespas.support import worker_template


def probe(settings: dict[str, Any]) -> dict[str, Any]:
    if settings["act"] == "no device":
        raise RuntimeError("there is no such device")
    return {"device": settings["device"]}


def unequal_probe(settings: dict[str, Any]) -> dict[str, Any]:
    return {"device": f"device of {os.getppid()}"}


def probe_except_second(settings: dict[str, Any]) -> dict[str, Any]:
    """End the process if it is the second one that starts."""
    starts = Path(settings["device"])
    count = len(starts.read_text()) if starts.exists() else 0
    starts.write_text("x" * (count + 1))
    if count == 1:
        os._exit(1)
    return {}


def die_once(payload: dict[str, Any]) -> dict[str, Any]:
    act("once exit" if payload["mark"] else "", payload["mark"])
    return {"mark": payload["mark"]}


def work(payload: dict[str, Any]) -> dict[str, Any]:
    text = payload["module"]
    if payload["log"]:
        with Path(payload["log"]).open("a") as file:
            file.write(f"{os.getpid()} {len(text)}\n")
    if payload["where"] in text:
        act(payload["act"], payload["mark"])
    return {"median_s": len(text) * 1e-6, "mad_s": len(text) * 1e-8, "repetitions": 3}


def leave_folder(payload: dict[str, Any]) -> dict[str, Any]:
    """Leave a temporary folder, as a compiler does that is killed."""
    return {"folder": tempfile.mkdtemp(), "inherited": os.environ["TMPDIR"]}


def find_pool_process() -> int:
    """Return the process that has sent the task, the parent of the template of this process."""
    if not worker_template.FORKS:
        return os.getppid()
    fields = Path(f"/proc/{os.getppid()}/stat").read_text().rpartition(")")[2].split()
    return int(fields[1])


def act(action: str, mark: str) -> None:
    if action.startswith("once "):
        if Path(mark).exists():
            return
        Path(mark).touch()
        action = action.removeprefix("once ")
    if action == "raise":
        raise ValueError("the compiler says no\nand more")
    if action == "unsupported":
        raise UnsupportedError("the device has no such type")
    if action == "exit":
        os.write(2, b"first words\nlast words\n")
        os._exit(7)
    if action == "silent exit":
        os._exit(7)
    if action == "leave":
        raise SystemExit(7)
    if action == "segfault":
        ctypes.string_at(0)
    if action == "hang":
        time.sleep(600)
    if action == "child":  # and a process that it starts
        import subprocess

        child = subprocess.Popen(["sleep", "600"])
        Path(mark).write_text(str(child.pid))
        time.sleep(600)
    if action == "kill grandparent":  # the Dask worker
        os.kill(find_pool_process(), 9)
        time.sleep(600)
    if action == "memory":
        bytearray(1 << 40)
    if action == "print":
        os.write(1, b"not an answer\n")
    if action == "slow":
        time.sleep(0.4)


def wait_for_compiles(log: Path, count: int) -> None:
    """Wait until so many compiles have begun, however slow the machine is, but not for ever."""
    end_s = time.monotonic() + 60
    while log.read_text().count("compile ") < count and time.monotonic() < end_s:
        time.sleep(0.01)


def take_turns(payload: dict[str, Any]) -> dict[str, Any]:
    """Write down when it compiles, alongside another compile, and when it runs."""
    log = Path(payload["log"])

    def write(line: str) -> None:
        with log.open("a") as file:
            file.write(f"{line} {time.monotonic()}\n")

    with turns.hold_compile_turn():
        write("compile")
        wait_for_compiles(log, 2)
        write("compiled")
    with turns.hold_timing_turn():
        write("run")
        time.sleep(0.1)
        write("ran")
    return {"median_s": 1e-3}
