"""Child processes of the tests."""

from __future__ import annotations

import os
import subprocess
import sys

from support.paths import ROOT


def run_support_module(
    name: str, *arguments: str, timeout_s: float
) -> subprocess.CompletedProcess[str]:
    """Run ``support.NAME`` as a program in a process of its own, and capture its output."""
    path = os.pathsep.join(filter(None, [str(ROOT / "test"), os.environ.get("PYTHONPATH")]))
    return subprocess.run(
        [sys.executable, "-m", f"support.{name}", *arguments],
        env={**os.environ, "PYTHONPATH": path},
        capture_output=True,
        text=True,
        timeout=timeout_s,
        check=False,
    )
