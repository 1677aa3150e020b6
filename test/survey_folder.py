"""Run hespas on every file of a folder, and print how many runs ended in which way.

    python test/survey_folder.py FOLDER
    python test/survey_folder.py FOLDER -- hespas run --mlir FILE --node H100_80GB

FILE stands for each file. Without a command, the programs are split, estimated with the roofline
and emitted as traces. The exit code is 1 if a run ends with a traceback, with a signal, not in
time, or without one clear line.
"""

from __future__ import annotations

import argparse
import collections
import os
import re
import sys
import time
from collections.abc import Iterator, Sequence
from pathlib import Path

from support.forked_tools import (
    CLASSES,
    CONTAINED,
    FAILURES,
    REFUSED,
    ToolOutcome,
    ToolRun,
    run_forked_tools,
)

FILE = "FILE"
COMMAND = (
    "hespas-opt", FILE, "--split-linear", "--roofline-annotate=node=A100_SXM_40GB",
    "--emit-chakra=output=out", "-o", "/dev/null",
)  # fmt: skip
SHOWN_FAILURES, SHOWN_MESSAGES = 50, 15


def main(argv: Sequence[str]) -> int:
    """Run the survey; returns its exit code."""
    argv, command = _split_arguments(argv)
    parser = argparse.ArgumentParser(
        "survey_folder.py", description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    add = parser.add_argument
    add("folder", type=Path, help="folder, searched with all folders in it")
    add("--glob", default="*", help="names of the files (default *)")
    add("--jobs", type=int, default=os.cpu_count() or 1, help="runs at the same time")
    add("--limit-s", type=float, default=60.0, help="seconds for a run (default 60)")
    add("--list", type=Path, metavar="OUT", help="write class, time, file and message of each run")
    options = parser.parse_args(argv)
    if not options.folder.is_dir():
        parser.error(f"{options.folder} is not a folder")
    files = sorted(path for path in options.folder.rglob(options.glob) if path.is_file())
    start = time.monotonic()
    outcomes: list[ToolOutcome] = []
    for outcome in run_forked_tools(
        _make_runs(files, command), jobs=options.jobs, limit_s=options.limit_s
    ):
        outcomes.append(outcome)
        if sys.stderr.isatty():
            print(f"\r{len(outcomes)} of {len(files)}", end="", file=sys.stderr, flush=True)
    print(*format_survey(outcomes), sep="\n")
    print(f"{len(outcomes)} files in {time.monotonic() - start:.1f} s")
    if options.list:
        rows = [f"{o.outcome}\t{o.wall_s:.2f}\t{o.run.name}\t{o.message}" for o in outcomes]
        options.list.write_text("".join(f"{row}\n" for row in sorted(rows)))
    return int(any(outcome.outcome in FAILURES for outcome in outcomes))


def _split_arguments(argv: Sequence[str]) -> tuple[Sequence[str], Sequence[str]]:
    """Split at ``--``, after which a command may follow."""
    if "--" not in argv:
        return argv, COMMAND
    position = list(argv).index("--")
    return argv[:position], argv[position + 1 :]


def _make_runs(files: Sequence[Path], command: Sequence[str]) -> Iterator[ToolRun]:
    for file in files:
        path = str(file.absolute())
        yield ToolRun(str(file), [path if word == FILE else word for word in command])


def format_survey(outcomes: Sequence[ToolOutcome]) -> list[str]:
    """Format the number of runs of each class, the failures, and the most frequent refusals."""
    counts = collections.Counter(outcome.outcome for outcome in outcomes)
    lines = [f"{counts[name]:7}  {name:<10} {text}" for name, text in CLASSES.items()]
    failures = sorted(
        (o for o in outcomes if o.outcome in FAILURES), key=lambda o: (o.outcome, o.message)
    )
    lines += [
        f"{o.outcome}: {o.run.name}: exit code {o.code}: {o.message[:200]}"
        for o in failures[:SHOWN_FAILURES]
    ]
    if len(failures) > SHOWN_FAILURES:
        lines.append(f"... and {len(failures) - SHOWN_FAILURES} more")
    reasons = collections.Counter(
        _generalise_message(o) for o in outcomes if o.outcome in (REFUSED, CONTAINED)
    )
    lines += [f"{count:7}  {text}" for text, count in reasons.most_common(SHOWN_MESSAGES)]
    return lines


def _generalise_message(outcome: ToolOutcome) -> str:
    """Return the message without the file, and without quoted names and numbers."""
    message = re.sub(r"^.*?error: ", "", outcome.message)
    return re.sub(r"'[^']*'|\d+", "_", message)[:120]


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
