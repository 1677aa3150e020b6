"""Time hespas against a bare native parse of the same file in the same run; a table on stdout."""

from __future__ import annotations

import argparse
import json
import tempfile
from pathlib import Path

from benchmarks.measure import BARE_IMPORT, BARE_PARSE, compare, python, sample, tool
from benchmarks.modules import layers, real
from benchmarks.simulation import simulations
from benchmarks.sweep import sweeps

MAIN_JOB = ("--split-individual=merge", "--roofline-annotate")


def main() -> None:
    parser = argparse.ArgumentParser("benchmarks", description=__doc__)
    parser.add_argument("--rounds", type=int, default=5, help="counted rounds per ratio")
    parser.add_argument("--ops", type=int, default=1_000_000, help="ops of the largest made module")
    options = parser.parse_args()
    print("| what | measured | limit |\n|---|---|---|")
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        main_job(folder, options.rounds)
        memory(folder, options.rounds)
        start_up(folder, options.rounds)
        growth(folder, options.ops)
        traces(folder, options.rounds)
        for cells in (*simulations(folder), *sweeps(folder)):
            row(*cells)


def row(what: str, measured: str, limit: str) -> None:
    print(f"| {what} | {measured} | {limit} |", flush=True)


def main_job(folder: Path, rounds: int) -> None:
    """The main job on a real program, its module printed too, against a bare parse."""
    path = real(folder)
    job = tool("hespas-opt", str(path), *MAIN_JOB, f"--emit-chakra=output={folder / 'out'}")
    pair = compare(job, python(BARE_PARSE, str(path)), rounds)
    size = path.stat().st_size / 1e6
    row(
        f"main job on `{path.name}` ({size:.1f} MB), wall time over a bare parse",
        f"{pair.ratio:.2f} ({pair.command.wall_s:.2f} s over {pair.baseline.wall_s:.2f} s)",
        "3",
    )
    calibrated = [argument.replace("roofline", "calibrated") for argument in job]
    row(
        "... with `--calibrated-annotate`, wall time over that with `--roofline-annotate`",
        f"{compare(calibrated, job, rounds).ratio:.2f}",
        "1.5",
    )
    row(
        "... peak memory over that of the bare parse",
        f"{pair.memory_ratio:.2f} ({pair.command.peak_bytes / 1e6:.0f} MB)",
        "2",
    )


def memory(folder: Path, rounds: int) -> None:
    """What memory-annotate adds to reading and preparing a real program, over a bare parse."""
    path = real(folder)
    nowhere = ("-o", "/dev/null")
    added = compare(
        tool("hespas-opt", str(path), "--memory-annotate", *nowhere),
        tool("hespas-opt", str(path), "--prepare", *nowhere),
        rounds,
    )
    bare = compare(python(BARE_PARSE, str(path)), python(BARE_IMPORT), rounds).command
    more_s = added.command.cpu_s - added.baseline.cpu_s
    row(
        "memory-annotate on it, CPU time over a bare parse",
        f"{more_s / bare.cpu_s:.2f} ({more_s:.2f} s over {bare.cpu_s:.2f} s)",
        "0.3",
    )


def start_up(folder: Path, rounds: int) -> None:
    """Doing nothing, against importing the bindings and making a context."""
    empty = folder / "empty.mlir"
    empty.write_text("module {}\n")
    for what, arguments in (("--help", ["--help"]), ("an empty module", [str(empty)])):
        pair = compare(tool("hespas-opt", *arguments), python(BARE_IMPORT), 2 * rounds)
        row(
            f"`hespas-opt`, {what}, over the bare import",
            f"{pair.ratio:.2f} ({pair.command.wall_s:.2f} s)",
            "2.5",
        )


def growth(folder: Path, ops: int) -> None:
    """CPU time per op at a quarter of the ops, and at all of them."""
    seconds = {}
    for count in (ops // 4, ops):
        path = layers(folder, count)
        output = folder / "large"
        job = tool(
            "hespas-opt", str(path), *MAIN_JOB, f"--emit-chakra=output={output}", "--disable-output"
        )
        seconds[count] = (sample(job).cpu_s, sample(python(BARE_PARSE, str(path))).cpu_s)
        path.unlink()
    (small, _), (large, parse) = seconds[ops // 4], seconds[ops]
    row(
        f"{ops:,} ops: CPU time over 4 times that of {ops // 4:,} ops",
        f"{large / (4 * small):.2f} ({large:.1f} s; bare parse {parse:.1f} s)",
        "linear: 1.2",
    )


def traces(folder: Path, rounds: int) -> None:
    """Writing the traces of 1,024 devices with groups of 8."""
    made = folder / "grouped.mlir"
    groups = [list(range(k, k + 8)) for k in range(0, 1024, 8)]
    text = layers(folder, 10_000).read_text()
    text = text.replace("num_partitions = 8 ", "num_partitions = 1024 ")
    one_group = "dense<[[0, 1, 2, 3, 4, 5, 6, 7]]> : tensor<1x8xi64>"
    made.write_text(text.replace(one_group, f"dense<{groups}> : tensor<128x8xi64>"))
    output = folder / "traces"
    timing = folder / "timing.json"
    code = (
        "import json, sys, time; from hespas import frontends, passes; "
        "from hespas.dialects.mlir import make_context; "
        "m = frontends.read_module(sys.argv[1], make_context()); "
        "passes.run_pipeline(m, 'split-individual{merge},roofline-annotate{node=H100_80GB}'); "
        "t = []; passes.run_pipeline(m, f'emit-chakra{{output={sys.argv[2]}}}', timings=t); "
        "json.dump(t[-1][1], open(sys.argv[3], 'w'))"
    )
    rates, size = [], 0
    for _ in range(max(1, rounds // 2)):
        sample(python(code, str(made), str(output), str(timing)))
        size = sum(path.stat().st_size for path in output.glob("*.et"))
        rates.append(size / json.loads(timing.read_text()) / 1e6)
    row(
        f"traces of 1,024 devices, groups of 8 ({size / 1e6:.0f} MB)",
        f"{sorted(rates)[len(rates) // 2]:.0f} MB/s",
        "at least 300 MB/s",
    )


if __name__ == "__main__":
    main()
