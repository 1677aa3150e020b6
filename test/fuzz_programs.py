"""Run hespas on damaged programs: each must give a result or one clear line.

    python test/fuzz_programs.py --cases 10000 --keep failures

Case N is always the same program. The exit code is 1 if a run ends with a traceback, with a signal,
not in time, or without one clear line; --keep writes the programs of those runs.
"""

from __future__ import annotations

import argparse
import os
import sys
import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path

from support.forked_tools import FAILURES, ToolOutcome, ToolRun, run_forked_tools
from support.program_mutations import make_case
from survey_folder import COMMAND, FILE, format_survey


def main(argv: Sequence[str]) -> int:
    """Run the cases; returns the exit code."""
    parser = argparse.ArgumentParser(
        "fuzz_programs.py", description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    add = parser.add_argument
    add("--cases", type=int, default=250, help="number of cases (default 250)")
    add("--first", type=int, default=0, help="number of the first case (default 0)")
    add("--jobs", type=int, default=os.cpu_count() or 1, help="runs at the same time")
    add("--limit-s", type=float, default=120.0, help="seconds for a run (default 120)")
    add("--keep", type=Path, metavar="DIR", help="write the programs of failures to a folder")
    options = parser.parse_args(argv)
    outcomes: list[ToolOutcome] = []
    with tempfile.TemporaryDirectory(prefix="hespas-fuzz-") as folder:
        numbers = range(options.first, options.first + options.cases)
        for outcome in run_forked_tools(
            _make_runs(numbers, Path(folder)), jobs=options.jobs, limit_s=options.limit_s
        ):
            outcomes.append(outcome)
            file = Path(folder, outcome.run.name)
            if options.keep and outcome.outcome in FAILURES:
                options.keep.mkdir(parents=True, exist_ok=True)
                (options.keep / file.name).write_bytes(file.read_bytes())
                (options.keep / f"{file.name}.stderr").write_text(outcome.stderr)
            file.unlink()
    print(*format_survey(outcomes), sep="\n")
    return int(any(outcome.outcome in FAILURES for outcome in outcomes))


def _make_runs(numbers: Sequence[int], folder: Path) -> Iterator[ToolRun]:
    for number in numbers:
        file = folder / f"case-{number}"
        file.write_bytes(make_case(number))
        yield ToolRun(file.name, [str(file) if word == FILE else word for word in COMMAND])


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
