"""Timing a plan of five hundred layouts on two processes, without a cache or earlier programs."""

from __future__ import annotations

import csv
from pathlib import Path

from benchmarks.measure import build_tool_command, run_process

OPTIONS = (
    "model=100m", "layers=2", "sequence=512", "remat=minimal,full,none", "accumulate=1,2,4",
    "sequence_parallel=true,false", "logits_dtype=bf16,f32", "attention=cudnn,dot_product",
)  # fmt: skip
MACHINE = ("--node", "H100_80GB", "--devices", "64", "--global-batch", "256")
LIMIT = "0.6"  # seconds of a layout: five minutes for all, on one of two cores


def measure_plan(folder: Path) -> tuple[str, str, str]:
    """Return a row of label, CPU time of a layout, and limit."""
    table = folder / "layouts.csv"
    places = ("--work-dir", str(folder / "plan"), "--csv", str(table))
    command = build_tool_command(
        "hespas", "plan", "llama", "--set", *OPTIONS, *MACHINE, *places,
        "--compile", "0", "--cache", "none", "--jobs", "2",
    )  # fmt: skip
    usage = run_process(command)
    with table.open(newline="") as file:
        rows = list(csv.DictReader(file))
    estimated = sum(bool(row["fused_step_time_s"]) for row in rows)
    return (
        f"plan of {len(rows)} layouts of `llama`, not compiled, {estimated} estimated: "
        "CPU time of a layout",
        f"{usage.cpu_s / len(rows):.2f} s ({usage.cpu_s:.0f} s; {usage.wall_s:.0f} s)",
        LIMIT,
    )
