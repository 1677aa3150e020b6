"""Timing whole processes.

A command and its baseline run alternately, so that both slow down when the machine does.
"""

from __future__ import annotations

import ctypes
import os
import resource
import statistics
import subprocess
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass

_PR_SET_CHILD_SUBREAPER = 36  # of prctl(2)
BARE_IMPORT = "from hespas.dialects.mlir import make_context; make_context()"
BARE_PARSE = (
    "import sys; from hespas.dialects.mlir import ir, make_context; "
    "ir.Module.parse(open(sys.argv[1], 'rb').read(), make_context())"
)


@dataclass(frozen=True)
class ProcessUsage:
    """What a process used: CPU seconds (user and system), wall seconds, peak resident bytes.

    The CPU seconds include those of its workers; the peak is that of one process.
    """

    cpu_s: float
    wall_s: float
    peak_bytes: int


@dataclass(frozen=True)
class CommandComparison:
    """Medians over the rounds: of a command, of its baseline, and of the ratios of each round.

    Attributes:
        command: The usage of the command.
        baseline: The usage of the baseline.
        ratio: Wall time over that of the baseline.
        cpu_ratio: CPU time over that of the baseline, which other work disturbs less.
        memory_ratio: Peak memory over that of the baseline.
    """

    command: ProcessUsage
    baseline: ProcessUsage
    ratio: float
    cpu_ratio: float
    memory_ratio: float


def build_python_command(code: str, *arguments: str) -> list[str]:
    """Return a command that runs ``code`` and exits without teardown, as the tools do."""
    return [sys.executable, "-c", f"{code}; import os; os._exit(0)", *arguments]


def build_tool_command(name: str, *arguments: str) -> list[str]:
    """Return a command that runs an installed tool of this environment."""
    return [os.path.join(os.path.dirname(sys.executable), name), *arguments]


def run_process(command: Sequence[str]) -> ProcessUsage:
    """Run a command once; raises RuntimeError if it fails."""
    _adopt_orphans()
    # An installed package is compiled; so is this checkout after the round that is not counted.
    environment = {k: v for k, v in os.environ.items() if k != "PYTHONDONTWRITEBYTECODE"}
    start = time.perf_counter()
    process = subprocess.Popen(
        command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, env=environment
    )
    assert process.stderr is not None
    error_output = process.stderr.read()
    _, status, usage = os.wait4(process.pid, 0)
    wall = time.perf_counter() - start
    workers_s = _wait_for_orphans()
    process.returncode = os.waitstatus_to_exitcode(status)
    if process.returncode:
        raise RuntimeError(f"{' '.join(command)} failed: {error_output.decode()[-2000:]}")
    scale = 1 if sys.platform == "darwin" else 1024
    return ProcessUsage(_sum_cpu_s(usage) + workers_s, wall, usage.ru_maxrss * scale)


def _adopt_orphans() -> None:
    """Become the parent of processes whose parent ends, such as those that fork workers."""
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(_PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)


def _wait_for_orphans() -> float:
    """Wait for the processes that a command has left, and return their CPU seconds."""
    cpu_s = 0.0
    while True:
        try:
            _, _, usage = os.wait4(-1, 0)
        except ChildProcessError:
            return cpu_s
        cpu_s += _sum_cpu_s(usage)


def _sum_cpu_s(usage: resource.struct_rusage) -> float:
    return usage.ru_utime + usage.ru_stime


def compare_commands(
    command: Sequence[str], baseline: Sequence[str], rounds: int = 5
) -> CommandComparison:
    """Run ``command`` and ``baseline`` alternately, after one round that is not counted."""
    for warm_up in (baseline, command):
        run_process(warm_up)
    pairs = [(run_process(command), run_process(baseline)) for _ in range(rounds)]
    return CommandComparison(
        _compute_median([a for a, _ in pairs]),
        _compute_median([b for _, b in pairs]),
        statistics.median(a.wall_s / b.wall_s for a, b in pairs),
        statistics.median(a.cpu_s / b.cpu_s for a, b in pairs),
        statistics.median(a.peak_bytes / b.peak_bytes for a, b in pairs),
    )


def _compute_median(usages: Sequence[ProcessUsage]) -> ProcessUsage:
    return ProcessUsage(
        statistics.median(s.cpu_s for s in usages),
        statistics.median(s.wall_s for s in usages),
        int(statistics.median(s.peak_bytes for s in usages)),
    )
