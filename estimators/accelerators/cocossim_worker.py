"""Running COCOSSim in a worker process.

COCOSSim reads the description of the DRAM from ``../dramsim3/configs`` and writes four files to its
working folder. So each run has a temporary folder with a link to that description.
"""

from __future__ import annotations

import os
import re
from pathlib import Path
from typing import Any

from hespas.plugin import (
    ExternalProgram,
    HespasError,
    UnsupportedError,
    create_private_folder,
    hash_file_contents,
)

COCOSSIM = ExternalProgram(
    "COCOSSim", ("perf_model", "cocossim"), "HESPAS_COCOSSIM", "github.com/mc186/cocossim"
)
HOME_VARIABLE = "HESPAS_COCOSSIM_HOME"
MEMORY_CONFIG = Path("dramsim3", "configs", "HBM2_8Gb_x128.ini")


def probe_simulator(settings: dict[str, Any]) -> dict[str, Any]:
    """Identify the program and the description of its memory by a hash; raises HespasError."""
    program = COCOSSIM.configure_environment(settings["binary"], settings["time_limit"])
    home = _find_cocossim_home(program, settings["home"])
    os.environ[HOME_VARIABLE] = str(home)
    contents = hash_file_contents(program, home / MEMORY_CONFIG)
    return {"device": f"COCOSSim {contents} with {MEMORY_CONFIG.stem}"}


def _find_cocossim_home(program: Path, home_setting: str) -> Path:
    """Return the folder that contains ``dramsim3``.

    It is the setting, that of the environment variable, or a parent folder of the program.
    """
    named = home_setting or os.environ.get(HOME_VARIABLE, "")
    folders = [Path(named).expanduser().absolute()] if named else list(program.resolve().parents)
    for folder in folders:
        if (folder / MEMORY_CONFIG).is_file():
            return folder
    where = str(folders[0]) if named else f"no folder above {program}"
    verb = "has no" if named else "has a"
    raise HespasError(
        f"the memory of COCOSSim is not described: {where} {verb} {MEMORY_CONFIG}",
        remedy=f"name the folder that holds dramsim3 by home=... or {HOME_VARIABLE}",
    )


def simulate_product(payload: dict[str, Any]) -> dict[str, Any]:
    """Simulate a product; raises UnsupportedError, HespasError.

    The answer contains ``cycles``, the ``utilisation`` of the arrays, and ``median_s``.
    """
    with create_private_folder() as folder:
        (folder / "dramsim3").symlink_to(Path(os.environ[HOME_VARIABLE]) / "dramsim3")
        run_folder = folder / "run"
        run_folder.mkdir()
        sizes = f"{payload['m']} {payload['k']} {payload['n']}"
        (run_folder / "layers.txt").write_text(f"Matmul {sizes}\n")
        arguments = {
            "-c": payload["cores"], "-sa_sz": payload["size"], "-vu_sz": payload["lanes"],
            "-ws": 1, "-f": f"{payload['clock_hz'] / 1e9:.6g}", "-i": "layers.txt", "-o": "out.txt",
        }  # fmt: skip
        COCOSSIM.run_in_folder(
            [str(word) for pair in arguments.items() for word in pair], run_folder
        )
        out = run_folder / "out.txt"
        text = out.read_text(errors="replace") if out.exists() else ""
    cycles = re.search(r"^Cycles (\d+)$", text, re.MULTILINE)
    if not cycles:
        raise UnsupportedError(f"COCOSSim wrote no cycles: {text[:80]!r}")
    utilisations = [
        float(share) for share in re.findall(r"^SYSTOLIC_ARRAY ([\d.]+)$", text, re.MULTILINE)
    ]
    return {
        "cycles": int(cycles[1]),
        "utilisation": sum(utilisations) / len(utilisations) / 100 if utilisations else None,
        "median_s": int(cycles[1]) / payload["clock_hz"],
    }
