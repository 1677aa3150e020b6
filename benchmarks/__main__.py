"""Print a table of benchmarks, relative to parsing the same file with the bindings alone."""

from __future__ import annotations

import argparse
import json
import tempfile
from collections.abc import Sequence
from pathlib import Path

from benchmarks.flows import measure_flow_simulations
from benchmarks.measure import (
    BARE_IMPORT,
    BARE_PARSE,
    CommandComparison,
    build_python_command,
    build_tool_command,
    compare_commands,
    run_process,
)
from benchmarks.modules import (
    export_llama_step,
    unpack_real_program,
    write_layered_module,
    write_random_module,
)
from benchmarks.plan import measure_plan
from benchmarks.simulation import measure_simulations
from benchmarks.sweep import measure_sweeps

MAIN_JOB = ("--split-individual=merge", "--roofline-annotate")


def main() -> None:
    parser = argparse.ArgumentParser("benchmarks", description=__doc__)
    parser.add_argument("--rounds", type=int, default=5, help="measured rounds of each ratio")
    parser.add_argument(
        "--ops", type=int, default=1_000_000, help="number of ops of the largest generated module"
    )
    parser.add_argument("--seed", type=int, default=0, help="seed of the random module")
    options = parser.parse_args()
    print("| benchmark | measured | limit |\n|---|---|---|")
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        measure_main_job(folder, options.rounds)
        measure_random_module(folder, options.ops // 4, options.seed, options.rounds)
        measure_memory_pass(folder, options.rounds)
        measure_startup(folder, options.rounds)
        measure_growth(folder, options.ops)
        measure_llama_fusion(folder, 128)
        measure_trace_writing(folder, options.rounds)
        for cells in (
            *measure_simulations(folder),
            *measure_flow_simulations(folder),
            *measure_sweeps(folder),
            measure_plan(folder),
        ):
            print_row(*cells)


def print_row(label: str, measured: str, limit: str) -> None:
    print(f"| {label} | {measured} | {limit} |", flush=True)


def measure_main_job(folder: Path, rounds: int) -> None:
    """Compare the main job on a real program, with its module printed, to a bare parse."""
    path = unpack_real_program(folder)
    job = build_tool_command(
        "hespas-opt", str(path), *MAIN_JOB, f"--emit-chakra=output={folder / 'out'}"
    )
    pair = compare_commands(job, build_python_command(BARE_PARSE, str(path)), rounds)
    size = path.stat().st_size / 1e6
    print_row(
        f"main job on `{path.name}` ({size:.1f} MB), wall time over a bare parse",
        f"{pair.ratio:.2f} ({pair.command.wall_s:.2f} s over {pair.baseline.wall_s:.2f} s)",
        "3",
    )
    discarded = [*job, "-o", "/dev/null"]
    linear = [argument.replace("individual=merge", "linear") for argument in discarded]
    for label, command in (("without printing", discarded), ("with `--split-linear`", linear)):
        print_cpu_row(f"... {label}", command, path, rounds)
    calibrated = [argument.replace("roofline", "calibrated") for argument in job]
    print_row(
        "... with `--calibrated-annotate`, wall time over that with `--roofline-annotate`",
        f"{compare_commands(calibrated, job, rounds).ratio:.2f}",
        "1.5",
    )
    print_row(
        "... peak memory over that of the bare parse",
        f"{pair.memory_ratio:.2f} ({pair.command.peak_bytes / 1e6:.0f} MB)",
        "2",
    )


def print_cpu_row(label: str, command: list[str], path: Path, rounds: int) -> CommandComparison:
    """Print the CPU time of a command over that of a bare parse of the same file."""
    pair = compare_commands(command, build_python_command(BARE_PARSE, str(path)), rounds)
    print_row(
        f"{label}, CPU time over a bare parse",
        f"{pair.cpu_ratio:.2f} ({pair.command.cpu_s:.2f} s over {pair.baseline.cpu_s:.2f} s)",
        "",
    )
    return pair


def measure_random_module(folder: Path, ops: int, seed: int, rounds: int) -> None:
    """Compare jobs on a program of random ops, all of them live, to a bare parse."""
    path = write_random_module(folder, ops, seed)
    output = f"--emit-chakra=output={folder / 'random'}"
    job = build_tool_command("hespas-opt", str(path), *MAIN_JOB, output, "-o", "/dev/null")
    pair = print_cpu_row(f"main job on {ops:,} random ops (seed {seed})", job, path, rounds)
    added_bytes = pair.command.peak_bytes - pair.baseline.peak_bytes
    print_row(
        "... peak memory above that of the parse", f"{added_bytes / ops:.0f} B for each op", ""
    )
    single = build_tool_command(
        "hespas-opt", str(path), "--split-individual", "--roofline-annotate", output
    )
    print_cpu_row("... each op a region, printed", single, path, rounds)
    path.unlink()


def measure_memory_pass(folder: Path, rounds: int) -> None:
    """Compare the CPU time that ``memory-annotate`` adds to ``prepare`` with a bare parse."""
    path = unpack_real_program(folder)
    discard_output = ("-o", "/dev/null")
    passes = compare_commands(
        build_tool_command("hespas-opt", str(path), "--memory-annotate", *discard_output),
        build_tool_command("hespas-opt", str(path), "--prepare", *discard_output),
        rounds,
    )
    bare = compare_commands(
        build_python_command(BARE_PARSE, str(path)), build_python_command(BARE_IMPORT), rounds
    ).command
    added_s = passes.command.cpu_s - passes.baseline.cpu_s
    print_row(
        "memory-annotate on it, CPU time over a bare parse",
        f"{added_s / bare.cpu_s:.2f} ({added_s:.2f} s over {bare.cpu_s:.2f} s)",
        "0.4",
    )


def measure_startup(folder: Path, rounds: int) -> None:
    """Compare runs without work to importing the bindings and creating a context."""
    empty = folder / "empty.mlir"
    empty.write_text("module {}\n")
    for label, arguments in (("--help", ["--help"]), ("an empty module", [str(empty)])):
        pair = compare_commands(
            build_tool_command("hespas-opt", *arguments),
            build_python_command(BARE_IMPORT),
            2 * rounds,
        )
        print_row(
            f"`hespas-opt`, {label}, over the bare import",
            f"{pair.ratio:.2f} ({pair.command.wall_s:.2f} s)",
            "2.5",
        )


def measure_growth(folder: Path, ops: int) -> None:
    """Compare the CPU time of large modules with that of modules of a quarter of their size."""
    traces = f"--emit-chakra=output={folder / 'large'}"
    for label, count, flags in (("", ops, (*MAIN_JOB, traces)), ("fuse, ", ops // 20, ("--fuse",))):
        (small_s, _), (large_s, parse_s) = (
            _measure_job(write_layered_module(folder, size), flags) for size in (count // 4, count)
        )
        print_row(
            f"{label}{count:,} ops: CPU time over 4 times that of {count // 4:,} ops",
            f"{large_s / (4 * small_s):.2f} ({large_s:.1f} s; bare parse {parse_s:.1f} s)",
            "linear: 1.2",
        )


def measure_llama_fusion(folder: Path, layers: int) -> None:
    """Compare the CPU time of ``--fuse`` of Llama-3 steps whose layers differ by a factor of 4."""
    few = layers // 4
    (small_s, _), (large_s, parse_s) = (
        _measure_job(export_llama_step(folder, count), ("--fuse",)) for count in (few, layers)
    )
    print_row(
        f"fuse, a Llama-3 step of {layers} layers: CPU time over 4 times that of {few} layers",
        f"{large_s / (4 * small_s):.2f} ({large_s:.1f} s; bare parse {parse_s:.1f} s)",
        "linear: 1.2",
    )


def _measure_job(path: Path, flags: Sequence[str]) -> tuple[float, float]:
    """Return the CPU seconds of a job on a file, which it removes, and of its bare parse."""
    job = build_tool_command("hespas-opt", str(path), *flags, "--disable-output")
    seconds = (
        run_process(job).cpu_s,
        run_process(build_python_command(BARE_PARSE, str(path))).cpu_s,
    )
    path.unlink()
    return seconds


def measure_trace_writing(folder: Path, rounds: int) -> None:
    """Measure how fast the traces of 1,024 devices in groups of 8 are written."""
    path = folder / "grouped.mlir"
    groups = [list(range(k, k + 8)) for k in range(0, 1024, 8)]
    text = write_layered_module(folder, 10_000).read_text()
    text = text.replace("num_partitions = 8 ", "num_partitions = 1024 ")
    one_group = "dense<[[0, 1, 2, 3, 4, 5, 6, 7]]> : tensor<1x8xi64>"
    path.write_text(text.replace(one_group, f"dense<{groups}> : tensor<128x8xi64>"))
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
        run_process(build_python_command(code, str(path), str(output), str(timing)))
        size = sum(trace.stat().st_size for trace in output.glob("*.et"))
        rates.append(size / json.loads(timing.read_text()) / 1e6)
    print_row(
        f"traces of 1,024 devices, groups of 8 ({size / 1e6:.0f} MB)",
        f"{sorted(rates)[len(rates) // 2]:.0f} MB/s",
        "at least 300 MB/s",
    )


if __name__ == "__main__":
    main()
