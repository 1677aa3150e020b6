"""Programs in place of simulators: they check what they are given, and print what those print."""

from __future__ import annotations

import sys
from pathlib import Path

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
    print(text.hex(), config["core_freq"], config["precision"], file=log)
stamp = "[2026-01-05 10:11:12.131] [info]"
print(stamp, "Running in default mode")
if {act!r} == "crash":
    os.kill(os.getpid(), signal.SIGFPE)
if {act!r} == "dummy":
    print(stamp, 'Node Proto optype "MatMul" returned dummy operator!')
if {act!r} == "exit":
    print("terminate called after throwing an instance of 'std::runtime_error'", file=sys.stderr)
    print("  what():  Config key dram_freq not found", file=sys.stderr)
    sys.exit(3)
print(stamp, "Layer product finish at 9291")
print(stamp, "Total compute time 9283")
print(stamp, "Simulation Finished at 9293 cycle 9 us")
"""


def program(path: Path, text: str) -> str:
    """Write a program that this interpreter runs; its file."""
    path.write_text(f"#!{sys.executable} -I\n{text}")
    path.chmod(0o755)
    return str(path)
