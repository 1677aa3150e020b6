"""Record what SCALE-Sim counts, as tables of ``test/data``; run by an interpreter that has it.

PYTHON test/record_scalesim.py traffic > test/data/scalesim_traffic.csv
PYTHON test/record_scalesim.py cycles > test/data/scalesim_cycles.csv
"""

from __future__ import annotations

import contextlib
import importlib.util
import random
import sys
from datetime import UTC, datetime
from importlib.metadata import version
from pathlib import Path
from typing import Any

SIZES = (8, 10, 12, 16, 20, 24, 28, 32, 40, 48, 56, 64, 80, 100)
MULTIPLICATIONS = (8_000, 60_000)  # SCALE-Sim keeps every cycle of a product in memory
LARGEST_MATRIX = 700  # the least elements of the largest one, so that small buffers do not hold it
SHAPE_COUNT = 100
ARRAY = 8
DATAFLOWS = ("ws", "is", "os")
BUFFERS_KB = {"traffic": (1, 2, 3, 4, 8), "cycles": (1, 3)}
WORDS_PER_CYCLE = (2, 4, 8, 16)
MEASURED = {
    "traffic": ("inputs", "weights", "results"),
    "cycles": ("cycles", "compute_cycles", "stall_cycles"),
}
RUNNER = Path(__file__).parents[1] / "estimators" / "accelerators" / "scalesim_run.py"


def draw_shapes() -> list[tuple[int, int, int]]:
    """Draw distinct (M, K, N), always the same ones."""
    source = random.Random(16)
    shapes: list[tuple[int, int, int]] = []
    while len(shapes) < SHAPE_COUNT:
        m, k, n = shape = tuple(source.choice(SIZES) for _ in range(3))
        small = max(m * k, k * n, m * n) < LARGEST_MATRIX
        if (
            shape not in shapes
            and MULTIPLICATIONS[0] <= m * k * n <= MULTIPLICATIONS[1]
            and not small
        ):
            shapes.append((m, k, n))
    return shapes


def load_runner() -> Any:
    """Import the script by its path: this interpreter has SCALE-Sim, and not hespas."""
    spec = importlib.util.spec_from_file_location("scalesim_run", RUNNER)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def main() -> None:
    (kind,) = sys.argv[1:]
    runner, today = load_runner(), datetime.now(UTC).date()
    limit = "without a limit of its bandwidth" if kind == "traffic" else "with a bandwidth (USER)"
    print(f"# SCALE-Sim {version('scalesim')} {limit}, recorded on {today}: {ARRAY} x {ARRAY},")
    print(
        "# three buffers of this size, elements of one byte. Command: test/record_scalesim.py", kind
    )
    print("dataflow,m,k,n,buffer_kb,words_per_cycle", *MEASURED[kind], sep=",")
    for index, (m, k, n) in enumerate(draw_shapes()):
        dataflow = DATAFLOWS[index % len(DATAFLOWS)]
        words = WORDS_PER_CYCLE[index // len(DATAFLOWS) % len(WORDS_PER_CYCLE)]
        product = {"m": m, "k": k, "n": n, "rows": ARRAY, "columns": ARRAY, "dataflow": dataflow}
        bandwidth = {"words_per_cycle": 0 if kind == "traffic" else words, "banks": 1}
        for buffer_kb in BUFFERS_KB[kind]:
            with contextlib.redirect_stdout(sys.stderr):
                answer = runner.simulate_product({**product, **bandwidth, "sram_kb": buffer_kb})
            row = (dataflow, m, k, n, buffer_kb, bandwidth["words_per_cycle"])
            print(*row, *(answer[key] for key in MEASURED[kind]), sep=",", flush=True)


if __name__ == "__main__":
    main()
