"""Child processes of the tests."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
from collections.abc import Iterator, Sequence
from typing import Any

from support.paths import ROOT


def environment_with_support() -> dict[str, str]:
    """Return this process's environment, in which Python also finds ``support``."""
    path = os.pathsep.join(filter(None, [str(ROOT / "test"), os.environ.get("PYTHONPATH")]))
    return {**os.environ, "PYTHONPATH": path}


def run_support_module(
    name: str, *arguments: str, timeout_s: float
) -> subprocess.CompletedProcess[str]:
    """Run ``support.NAME`` as a program in a process of its own, and capture its output."""
    return subprocess.run(
        # -P: hespas has a folder of this name, which the current folder may be the parent of.
        [sys.executable, "-P", "-m", f"support.{name}", *arguments],
        env=environment_with_support(),
        capture_output=True,
        text=True,
        timeout=timeout_s,
        check=False,
    )


@contextlib.contextmanager
def start_process(command: Sequence[str], **options: Any) -> Iterator[subprocess.Popen[str]]:
    """Start a process that ^C interrupts, and kill it in the end if it still runs.

    A shell starts background jobs with SIGINT ignored, and nohup jobs with SIGHUP ignored, which
    processes inherit and Python leaves as it is; the defaults are therefore set here.
    """

    def reset_signals() -> None:
        for number in (signal.SIGINT, signal.SIGHUP):
            signal.signal(number, signal.SIG_DFL)

    process = subprocess.Popen(
        command,
        preexec_fn=reset_signals,
        text=True,
        **options,
    )
    try:
        yield process
    finally:
        process.kill()
        process.communicate()
