"""Finds the Python that has SimGrid, and runs a job in it."""

from __future__ import annotations

import functools
import json
import os
import shutil
import subprocess
from pathlib import Path
from typing import Any

from hespas.support.errors import HespasError

ENVIRONMENT = "HESPAS_SIMGRID_PYTHON"
TESTED_VERSION = "3.32"
PACKAGE = "python3-simgrid"
_DEFAULT_PYTHON = "/usr/bin/python3"  # that of Debian, to which its package belongs
_WORKER = Path(__file__).with_name("simgrid_worker.py")
_PROBE_S = 20


def name_python() -> str:
    """Return the Python that is asked for SimGrid."""
    return os.environ.get(ENVIRONMENT) or _DEFAULT_PYTHON


@functools.cache
def find_version(python: str) -> str:
    """Return the version of the SimGrid of a Python; "" if it has none."""
    executable = shutil.which(python)
    if executable is None:
        return ""
    command = [executable, "-c", "import simgrid; print(simgrid.simgrid_version)"]
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=_PROBE_S)
    except (OSError, subprocess.TimeoutExpired):
        return ""
    return done.stdout.strip() if done.returncode == 0 else ""


def check_simgrid() -> str:
    """Return the version of SimGrid; raises HespasError if it is not installed."""
    python = name_python()
    version = find_version(python)
    if not version:
        raise HespasError(
            f"{python} has no SimGrid",
            remedy=f"install the Debian package {PACKAGE}, or name another Python with SimGrid by "
            f"{ENVIRONMENT}; or use --simulator embedded",
        )
    return version


def run_job(job: dict[str, Any], timeout_s: float | None) -> dict[str, Any]:
    """Run a job; raises HespasError if SimGrid fails or takes too long."""
    check_simgrid()
    command = [shutil.which(name_python()) or name_python(), str(_WORKER)]
    try:
        done = subprocess.run(
            command, input=json.dumps(job), capture_output=True, text=True, timeout=timeout_s
        )
    except subprocess.TimeoutExpired:
        raise HespasError(f"SimGrid took more than {timeout_s:g} s") from None
    if done.returncode:
        lines = done.stderr.strip().splitlines() or ["no message"]
        raise HespasError(f"SimGrid failed with exit code {done.returncode}: {lines[-1]}")
    return json.loads(done.stdout)
