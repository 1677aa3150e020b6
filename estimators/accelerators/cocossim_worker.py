"""Running COCOSSim, in a worker process.

It reads the DRAM's description at ``../dramsim3/configs`` of the folder it runs in, and leaves four
files there; so each run has a folder of its own with a link to that.
"""

from __future__ import annotations

import os
import re
from pathlib import Path
from typing import Any

from hespas.dialects.errors import HespasError
from hespas.estimators.accelerators.program import Program, private_folder, sha256
from hespas.estimators.measure.failure import Unsupported

COCOSSIM = Program(
    "COCOSSim", ("perf_model", "cocossim"), "HESPAS_COCOSSIM", "github.com/mc186/cocossim"
)
HOME = "HESPAS_COCOSSIM_HOME"
MEMORY = Path("dramsim3", "configs", "HBM2_8Gb_x128.ini")


def probe(settings: dict[str, Any]) -> dict[str, Any]:
    """The program and its memory's description, by content; raises HespasError."""
    program = COCOSSIM.use(settings["binary"], settings["time_limit"])
    home = home_of(program, settings["home"])
    os.environ[HOME] = str(home)
    return {"device": f"COCOSSim {sha256(program, home / MEMORY)} with {MEMORY.stem}"}


def home_of(program: Path, given: str) -> Path:
    """The folder that holds ``dramsim3``: given, of the variable, or one above the program's."""
    named = given or os.environ.get(HOME, "")
    folders = [Path(named).expanduser().absolute()] if named else list(program.resolve().parents)
    for folder in folders:
        if (folder / MEMORY).is_file():
            return folder
    where = str(folders[0]) if named else f"no folder above {program}"
    verb = "has no" if named else "has a"
    raise HespasError(
        f"COCOSSim's memory is not found: {where} {verb} {MEMORY}",
        remedy=f"name the folder that holds dramsim3 by home=... or {HOME}",
    )


def worker(payload: dict[str, Any]) -> dict[str, Any]:
    """Simulate the product ``payload`` says; raises Unsupported, HespasError.

    The answer has ``cycles``, ``utilisation`` of the arrays, and ``median_s``.
    """
    with private_folder() as folder:
        (folder / "dramsim3").symlink_to(Path(os.environ[HOME]) / "dramsim3")
        place = folder / "run"
        place.mkdir()
        sizes = f"{payload['m']} {payload['k']} {payload['n']}"
        (place / "layers.txt").write_text(f"Matmul {sizes}\n")
        arguments = {
            "-c": payload["cores"], "-sa_sz": payload["size"], "-vu_sz": payload["lanes"],
            "-ws": 1, "-f": f"{payload['clock_hz'] / 1e9:.6g}", "-i": "layers.txt", "-o": "out.txt",
        }  # fmt: skip
        COCOSSIM.run([str(word) for pair in arguments.items() for word in pair], place)
        out = place / "out.txt"
        text = out.read_text(errors="replace") if out.exists() else ""
    cycles = re.search(r"^Cycles (\d+)$", text, re.MULTILINE)
    if not cycles:
        raise Unsupported(f"COCOSSim wrote no cycles: {text[:80]!r}")
    busy = [float(share) for share in re.findall(r"^SYSTOLIC_ARRAY ([\d.]+)$", text, re.MULTILINE)]
    return {
        "cycles": int(cycles[1]),
        "utilisation": sum(busy) / len(busy) / 100 if busy else None,
        "median_s": int(cycles[1]) / payload["clock_hz"],
    }
