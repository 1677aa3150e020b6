"""Functions of cells that fail in the ways in which a worker can."""

from __future__ import annotations

import os
import signal
import sys
import time
from pathlib import Path
from typing import Any

from hespas.support.errors import HespasError, UsageError
from hespas.workflows.pipelines import pipeline_cells
from hespas.workflows.studies import program_worker
from hespas.workflows.sweep import sweep_worker


def act(payload: dict[str, Any], scratch: str) -> dict[str, Any]:
    """Do what the payload names, and return its number."""
    action = payload["action"]
    if action == "abort":
        os.abort()
    if action == "segfault":
        os.kill(os.getpid(), signal.SIGSEGV)
    if action == "hang" or (action == "wait" and Path("waiting").exists()):
        time.sleep(60)
    if action == "raise":
        raise RuntimeError("a mistake of ours")
    if action == "exit":
        sys.exit(3)
    if action == "memory":
        raise MemoryError
    if action == "refuse":
        raise HespasError("it does not fit", where="step.mlir:3", remedy="use more devices")
    if action == "refuse usage":
        raise UsageError("no such option")
    if action == "print":
        os.write(1, b'{"answer": {"cells": []}}\n')
        print("not an answer")
    Path(scratch, "temporary").touch()
    if output := payload.get("output"):
        Path(output).write_text("written")
    return {"number": payload["number"]}


def crash_on_gpipe(payload: dict[str, Any], scratch: str) -> dict[str, Any]:
    if payload["schedule"][0] == "gpipe":
        os.abort()
    return pipeline_cells.compute_pipeline(payload, scratch)


def crash_on_eight_devices(payload: dict[str, Any], scratch: str) -> dict[str, Any]:
    if payload["export"]["mesh"] == {"x": 8}:
        os.abort()
    return program_worker.write_program_file(payload, scratch)


def crash_on_h100(payload: dict[str, Any], scratch: str) -> dict[str, Any]:
    if payload["config"]["node"] == "H100_80GB":
        os.abort()
    return sweep_worker.compute_cell(payload, scratch)
