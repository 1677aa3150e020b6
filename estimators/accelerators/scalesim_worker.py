"""Running SCALE-Sim in a worker process, by an interpreter that has it."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

from hespas.plugin import HespasError, UnsupportedError, describe_exit_code, format_last_lines

PYTHON_VARIABLE = "HESPAS_SCALESIM_PYTHON"
LIMIT_VARIABLE = "HESPAS_SCALESIM_LIMIT_S"
PACKAGES = ("scalesim", "numpy")
SCRIPT = Path(__file__).with_name("scalesim_run.py")
VERSIONS = "import importlib.metadata as m, json, sys; " \
    "print(json.dumps({n: m.version(n) for n in sys.argv[1:]}))"  # fmt: skip
REMEDY = (
    "pip install 'hespas[scalesim]', or name an interpreter that has scalesim and numpy < 2.4 by "
    f"python=... or {PYTHON_VARIABLE}"
)
START_S = 60.0


def probe_simulator(settings: dict[str, Any]) -> dict[str, Any]:
    """Return the versions of SCALE-Sim and of its numpy; raises HespasError."""
    python = settings["python"] or os.environ.get(PYTHON_VARIABLE) or sys.executable
    os.environ[PYTHON_VARIABLE], os.environ[LIMIT_VARIABLE] = python, str(settings["time_limit"])
    try:
        completed = _run_python(["-I", "-c", VERSIONS, *PACKAGES], "", START_S)
    except OSError as error:
        raise HespasError(f"{python} cannot be run: {error.strerror}", remedy=REMEDY) from None
    except subprocess.TimeoutExpired:
        message = f"{python} did not list its packages within {START_S:g} s"
        raise HespasError(message, remedy=REMEDY) from None
    if completed.returncode:
        raise HespasError(f"SCALE-Sim is not installed in {python}", remedy=REMEDY)
    versions = json.loads(completed.stdout)
    if tuple(map(int, versions["numpy"].split(".")[:2])) >= (2, 4):
        raise HespasError(f"SCALE-Sim fails with numpy {versions['numpy']}", remedy=REMEDY)
    return {"device": "SCALE-Sim", "versions": versions}


def simulate_product(payload: dict[str, Any]) -> dict[str, Any]:
    """Simulate a product; raises UnsupportedError, HespasError.

    The answer is that of ``scalesim_run`` with ``median_s``.
    """
    limit_s = float(os.environ[LIMIT_VARIABLE])
    product = {key: value for key, value in payload.items() if key != "clock_hz"}
    try:
        completed = _run_python(["-I", str(SCRIPT)], json.dumps(product), limit_s)
    except subprocess.TimeoutExpired:
        message = f"SCALE-Sim took more than {limit_s:g} s"
        raise HespasError(message, remedy="allow more with time-limit") from None
    if completed.returncode:
        last_lines = format_last_lines(completed.stderr)
        text = f"SCALE-Sim {describe_exit_code(completed.returncode)}{last_lines}"
        raise HespasError(text) if completed.returncode < 0 else UnsupportedError(text)
    answer = json.loads(completed.stdout)
    return {**answer, "median_s": answer["cycles"] / payload["clock_hz"]}


def _run_python(
    arguments: list[str], input_text: str, limit_s: float
) -> subprocess.CompletedProcess[str]:
    command = [os.environ[PYTHON_VARIABLE], *arguments]
    return subprocess.run(
        command, input=input_text, capture_output=True, text=True, errors="replace", timeout=limit_s
    )
