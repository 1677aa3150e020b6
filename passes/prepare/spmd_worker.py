"""XLA's SPMD partitioner in a process of its own, which ends as soon as the partitioner has.

XLA offers no partitioner alone: a compile is started, and cut off when the pass after it has run.
``python -m hespas.passes.prepare.spmd_worker FOLDER OPTIONS`` reads bytecode from ``FOLDER/in`` and
writes the partitioned HLO to ``FOLDER/out``, or a message to stderr.
"""

from __future__ import annotations

import json
import os
import sys
import threading
import time
from pathlib import Path

from hespas.dialects.mlir import compile_for_dump

PARTITIONER = "spmd-partitioning"
NEXT = "control-dep-rewriter"  # runs right after: its dump says that the partitioner's is complete
INPUT, OUTPUT, DUMPS = "in", "out", "dumps"


def main(folder: Path, options: str) -> None:
    dumps = folder / DUMPS
    dumps.mkdir()
    threading.Thread(target=_watch, args=(folder,), daemon=True).start()
    try:
        compile_for_dump(
            (folder / INPUT).read_bytes(),
            str(dumps),
            f"{PARTITIONER}|{NEXT}",
            **json.loads(options),
        )
    except Exception as error:
        # Past the partitioner a failure does not matter: the dump is what was wanted.
        if not _finish(folder):
            print(str(error).split("\n", 1)[0], file=sys.stderr, flush=True)
            os._exit(1)
    _finish(folder)
    os._exit(0)


def _watch(folder: Path) -> None:
    while not any(f"after_{NEXT}" in path.name for path in (folder / DUMPS).iterdir()):
        time.sleep(0.002)
    _finish(folder)
    os._exit(0)


def _finish(folder: Path) -> bool:
    """Move the partitioner's dump to the output; whether there was one."""
    for path in (folder / DUMPS).iterdir():
        if f"after_{PARTITIONER}" in path.name:
            path.replace(folder / OUTPUT)
            return True
    return (folder / OUTPUT).exists()


if __name__ == "__main__":
    main(Path(sys.argv[1]), sys.argv[2])
