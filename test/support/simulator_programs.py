"""Programs in place of simulators: they check what they are given, and print what those print."""

from __future__ import annotations

import csv
import sys
from pathlib import Path

from hespas.dialects.attrs import Cost
from hespas.dialects.mlir import collect_functions, ir, make_context
from support.paths import DATA

CONTEXT = make_context()

COCOSSIM = """
import os, signal, sys, time
from pathlib import Path
options = dict(zip(sys.argv[1::2], sys.argv[2::2]))
assert Path("../dramsim3/configs/HBM2_8Gb_x128.ini").read_text() == "channels = 8", os.listdir("..")
assert os.listdir() == ["layers.txt"], os.listdir()
name, *sizes = Path(options["-i"]).read_text().split()
m, k, n = map(int, sizes)
with open({log!r}, "a") as log:
    given = [options[key] for key in ("-c", "-sa_sz", "-vu_sz", "-ws", "-f")]
    print(name, m, k, n, *given, file=log)
print("REQUEST SIZE BYTES 64")
print("processing Matmul", m, k, n)
if m == 13:
    print("Job Type: 0", file=sys.stderr)
    os.kill(os.getpid(), signal.SIGSEGV)
if m == 17:
    time.sleep(60)
if m == 19:
    sys.exit(0)
recorded = {{(1024, 1024, 1024): 165492, (4096, 320, 320): 98899, (128, 128, 128): 883}}
cycles = recorded.get((m, k, n), 1000 * m)
print(f"\\rPHASE: 0, Cycles: {{cycles}}, Time: 176.055320\\u00b5s Jobs finished: 1/1", end="")
print(", DRAM CMDs: 5409")
print("Drain Ratio: 1.000000")
Path("dramsim3.json").write_text("{{}}")
Path(options["-o"]).write_text(
    f"Cycles {{cycles}}\\nSYSTOLIC_ARRAY 99.999396\\nVECTOR_UNIT 0.000000\\n"
)
"""

ONNXIM = """
import json, os, signal, sys, time
from pathlib import Path
options = dict(zip(sys.argv[1::2], sys.argv[2::2]))
home = Path(os.environ["ONNXIM_HOME"])
config = json.loads(Path(options["--config"]).read_text())
(model,) = json.loads(Path(options["--models_list"]).read_text())["models"]
text = (home / "models" / model["name"] / (model["name"] + ".onnx")).read_bytes()
assert (home / "configs" / config["dram_config_path"]).is_file()
with open({log!r}, "a") as log:
    core = config.get("core_config", {{}}).get("core_0", {{}})
    size = ["%dx%d" % (core["core_height"], core["core_width"])] if "core_width" in core else []
    cores = [config["num_cores"], *size] if size else []
    print(text.hex(), config["core_freq"], config["precision"], *cores, file=log)
stamp = "[2026-11-21 18:54:28.618]"
if {act!r} == "abort":
    print("terminate called after throwing an instance of 'std::runtime_error'", file=sys.stderr)
    print("  what():  Config key dram_freq not found", file=sys.stderr, flush=True)
    os.kill(os.getpid(), signal.SIGABRT)
if {act!r} == "library":
    print("Simulator: error while loading shared libraries: libfmt.so.9", file=sys.stderr)
    sys.exit(127)
for line in {printed!r}.splitlines():
    print(line, flush=True)
    if {act!r} == "dummy" and line.endswith("Model Name"):
        print(stamp, '[warning] Node Proto optype "MatMul" returned dummy operator!')
    if {act!r} == "crash" and line.endswith("Start Simulation====="):
        os.kill(os.getpid(), signal.SIGFPE)
"""


def onnxim(log: Path, act: str) -> str:
    """A program that prints what ONNXim did of 512 x 512 x 512, or fails as ``act`` says."""
    text = (DATA / "onnxim.txt").read_text(encoding="utf-8")
    printed = "\n".join(line for line in text.splitlines() if not line.startswith("#"))
    return ONNXIM.format(log=str(log), act=act, printed=printed)


def onnxim_cycles(cores: int) -> list[tuple[tuple[int, int, int], int | None]]:
    """(M, K, N) and the cycles ONNXim took for it, None where it crashed."""
    return [
        (
            (int(row["m"]), int(row["k"]), int(row["n"])),
            None if row["cycles"] == "CRASH" else int(row["cycles"]),
        )
        for row in read_recorded_rows("onnxim.csv")
        if row["cores"] == str(cores)
    ]


def read_recorded_rows(name: str) -> list[dict[str, str]]:
    """Return the rows of a table of ``test/data`` that a simulator gave; comments are left out."""
    with (DATA / name).open(encoding="utf-8") as lines:
        return list(csv.DictReader(line for line in lines if not line.startswith("#")))


def program(path: Path, text: str) -> str:
    """Write a program that this interpreter runs; its file."""
    path.write_text(f"#!{sys.executable} -I\n{text}")
    path.chmod(0o755)
    return str(path)


def matmul_module(*shapes: tuple[int, int, int], key: str = "bf16") -> ir.Module:
    """A program with a product M x K by K x N of each shape, and a tanh."""
    lines, arguments = [], []
    for x, (m, k, n) in enumerate(shapes):
        types = [f"tensor<{a}x{b}x{key}>" for a, b in ((m, k), (k, n), (m, n))]
        arguments += [f"%x{x}: {types[0]}", f"%w{x}: {types[1]}"]
        lines.append(
            f"%{x} = stablehlo.dot_general %x{x}, %w{x}, contracting_dims = [1] x [0], precision ="
            f" [HIGHEST, HIGHEST] : ({types[0]}, {types[1]}) -> {types[2]}"
        )
    text = "\n".join(lines)
    return ir.Module.parse(f"func.func @main({', '.join(arguments)}) {{ {text}\nreturn }}", CONTEXT)


def read_costs(program: ir.Module) -> list[Cost]:
    block = collect_functions(program)["main"].regions[0].blocks[0]
    costs = [Cost.read_from_op(view.operation) for view in block.operations]
    return [cost for cost in costs if cost is not None]
