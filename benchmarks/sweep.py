"""Timing sweeps of ten thousand cells on two processes, without a cache.

The CPU time of a cell, with its share of the start and the output, is relative to a bare parse.
The limit is that of 360 s for all cells, or three minutes on two cores, where a parse takes 0.33 s.
"""

from __future__ import annotations

import json
import lzma
from pathlib import Path

from benchmarks import ROOT
from benchmarks.measure import (
    BARE_PARSE,
    build_python_command,
    build_tool_command,
    run_process,
)

LIMIT = "0.11"
PROGRAM = ROOT / "docs" / "examples" / "llama3-100m.mlir.xz"
CASES = (
    # label, number of memory bandwidths, systems
    ("10,000 nodes x 1 system", 10_000, ["A100_SXM_40GB_4GPU"]),
    (
        "2,000 nodes x 5 systems",
        2_000,
        ["A100_SXM_40GB_4GPU", "H100_80GB_4GPU", "B200_180GB_4GPU", "MI300X_4", "TPUv5e_2x2"],
    ),
)


def measure_sweeps(folder: Path) -> list[tuple[str, str, str]]:
    """Return rows of label, wall time, and limit."""
    rows, module = [], folder / PROGRAM.stem
    module.write_bytes(lzma.decompress(PROGRAM.read_bytes()))
    parse = build_python_command(BARE_PARSE, str(module))
    for label, nodes, systems in CASES:
        file = folder / "sweep.json"
        file.write_text(
            json.dumps(
                {
                    "mlir": str(PROGRAM),
                    "estimator": "roofline",
                    "node": "A100_SXM_40GB",
                    "node.memory_bandwidth_bytes_per_s": [1e12 + 1e8 * i for i in range(nodes)],
                    "system": systems,
                }
            )
        )
        command = build_tool_command("hespas", "sweep", str(file), "--cache", "none", "--jobs", "2")
        usage, parse_s = run_process(command), run_process(parse).cpu_s
        cells = nodes * len(systems)
        name = f"sweep of {cells:,} cells of `{PROGRAM.stem}`, roofline: {label}"
        cell_s = usage.cpu_s / cells
        measured = (
            f"{cell_s / parse_s:.2f} ({1e3 * cell_s:.0f} ms of CPU time; {usage.wall_s:.0f} s)"
        )
        rows.append((f"{name}, CPU time of a cell over a bare parse", measured, LIMIT))
    return rows
