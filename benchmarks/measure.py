"""Whole processes, timed in turn, so that a machine that slows down slows both sides of a ratio."""

from __future__ import annotations

import os
import statistics
import subprocess
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass

BARE_IMPORT = "from hespas.dialects.mlir import make_context; make_context()"
BARE_PARSE = (
    "import sys; from hespas.dialects.mlir import ir, make_context; "
    "ir.Module.parse(open(sys.argv[1], 'rb').read(), make_context())"
)


@dataclass(frozen=True)
class Sample:
    """One process: CPU seconds (user and system), wall seconds, peak resident bytes."""

    cpu_s: float
    wall_s: float
    peak_bytes: int


@dataclass(frozen=True)
class Pair:
    """Medians over rounds of a command, of its baseline, and of their ratio round by round."""

    command: Sample
    baseline: Sample
    ratio: float
    memory_ratio: float


def python(code: str, *arguments: str) -> list[str]:
    """A command that runs ``code`` and leaves without tearing down, as the tools do."""
    return [sys.executable, "-c", f"{code}; import os; os._exit(0)", *arguments]


def tool(name: str, *arguments: str) -> list[str]:
    """An installed tool of this environment."""
    return [os.path.join(os.path.dirname(sys.executable), name), *arguments]


def sample(command: Sequence[str]) -> Sample:
    """Run once; raises RuntimeError where the command fails."""
    start = time.perf_counter()
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE)
    assert process.stderr is not None
    said = process.stderr.read()
    _, status, usage = os.wait4(process.pid, 0)
    wall = time.perf_counter() - start
    process.returncode = os.waitstatus_to_exitcode(status)
    if process.returncode:
        raise RuntimeError(f"{' '.join(command)} failed: {said.decode()[-2000:]}")
    scale = 1 if sys.platform == "darwin" else 1024
    return Sample(usage.ru_utime + usage.ru_stime, wall, usage.ru_maxrss * scale)


def compare(command: Sequence[str], baseline: Sequence[str], rounds: int = 5) -> Pair:
    """``command`` and ``baseline`` in turn, after one round that does not count."""
    for warm_up in (baseline, command):
        sample(warm_up)
    pairs = [(sample(command), sample(baseline)) for _ in range(rounds)]
    return Pair(
        _median([a for a, _ in pairs]),
        _median([b for _, b in pairs]),
        statistics.median(a.wall_s / b.wall_s for a, b in pairs),
        statistics.median(a.peak_bytes / b.peak_bytes for a, b in pairs),
    )


def _median(samples: Sequence[Sample]) -> Sample:
    return Sample(
        statistics.median(s.cpu_s for s in samples),
        statistics.median(s.wall_s for s in samples),
        int(statistics.median(s.peak_bytes for s in samples)),
    )
