"""Times a sweep of a thousand cells on two processes, nothing of it in the cache."""

from __future__ import annotations

import json
from pathlib import Path

from benchmarks.measure import sample, tool
from benchmarks.modules import ROOT

PROGRAM = ROOT / "docs" / "examples" / "llama3-100m.mlir.xz"
CASES = (
    # what, memory bandwidths, systems
    ("1,000 nodes x 1 system", 1000, ["A100_SXM_40GB_4GPU"]),
    (
        "200 nodes x 5 systems",
        200,
        ["A100_SXM_40GB_4GPU", "H100_80GB_4GPU", "B200_180GB_4GPU", "MI300X_4", "TPUv5e_2x2"],
    ),
)


def sweeps(folder: Path) -> list[tuple[str, str, str]]:
    """Rows: what, the wall time, the limit."""
    rows = []
    for what, nodes, systems in CASES:
        file = folder / "sweep.json"
        file.write_text(
            json.dumps(
                {
                    "mlir": str(PROGRAM),
                    "estimator": "roofline",
                    "node": "A100_SXM_40GB",
                    "node.memory_bandwidth_bytes_per_s": [1e12 + 1e9 * i for i in range(nodes)],
                    "system": systems,
                }
            )
        )
        command = tool("hespas", "sweep", str(file), "--cache", "none", "--jobs", "2")
        took = sample(command)
        cells = nodes * len(systems)
        name = f"sweep of {cells:,} cells of `{PROGRAM.stem}`, roofline: {what}"
        each_ms = 1e3 * took.cpu_s / cells
        rows.append((name, f"{took.wall_s:.0f} s ({each_ms:.0f} ms of CPU time a cell)", "2 min"))
    return rows
