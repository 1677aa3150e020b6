"""A program in place of ASTRA-sim, and the lines that the real one prints."""

from __future__ import annotations

import sys
from pathlib import Path

from hespas.simulators.astra_program import UNAWARE, AstraProgram

STAMP = "[2026-11-21 11:56:42.090]"


def finished(device: int, cycles: int, exposed: int, gpu: int, comm: int, overlap: int) -> str:
    """The lines of a device that finishes, as ASTRA-sim 518bd51 prints them."""
    both = f"{STAMP} [statistics] [info] sys[{device}], Total compute-communication overlap: "
    return (
        f"{STAMP} [workload] [info] sys[{device}] finished, {cycles} cycles, "
        f"exposed communication {exposed} cycles.\n"
        f"{STAMP} [statistics] [info] sys[{device}]. Post statistics processing start.\n"
        f"{STAMP} [statistics] [info] sys[{device}]. Post statistics processing end.\n"
        f"{STAMP} [statistics] [info] sys[{device}], Wall time: {cycles}\n"
        f"{STAMP} [statistics] [info] sys[{device}], GPU time: {gpu}\n"
        f"{STAMP} [statistics] [info] sys[{device}], Comm time: {comm}\n"
        + (f"{both}{overlap}\n" if overlap else "")
    )


def write_astra_stub(
    folder: Path, prints: str, *, log: str = "", code: str = "0", name: str = UNAWARE
):
    """An executable that saves its arguments and files, prints and ends as told."""
    folder.mkdir(exist_ok=True)
    path = folder / name
    path.write_text(
        f"#!{sys.executable}\n"
        "import json, os, pathlib, signal, sys, time\n"
        "files = {p.name: p.read_text(errors='replace') for p in pathlib.Path().iterdir()"
        " if p.suffix in ('.json', '.yml')}\n"
        "opened = [open(p, 'ab').close() for p in pathlib.Path().glob('*.et')]\n"
        "links = sorted(p.name for p in pathlib.Path().glob('*.et') if p.is_symlink())\n"
        "seen = {'argv': sys.argv[1:], 'files': files, 'opened': len(opened), 'links': links,"
        " 'cwd': os.getcwd()}\n"
        f"open({str(folder / 'seen.json')!r}, 'w').write(json.dumps(seen))\n"
        "pathlib.Path('log').mkdir()\n"
        f"pathlib.Path('log/log.log').write_text({log!r})\n"
        f"sys.stdout.write({prints!r})\n"
        "sys.stdout.flush()\n"
        f"{code if code.startswith(('os.', 'time.')) else f'sys.exit({code})'}\n"
    )
    path.chmod(0o755)
    return AstraProgram(path)
