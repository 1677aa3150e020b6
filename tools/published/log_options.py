"""The flags ``--log-level`` and ``--log-path`` of the published tools."""

from __future__ import annotations

import argparse
import contextlib
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

LEVELS = ("debug", "info", "progress", "results", "warning", "error", "critical")
QUIET = ("results", "warning", "error", "critical")  # log levels without progress


def add_log_options(parser: argparse.ArgumentParser) -> None:
    """Add ``--log-level`` and ``--log-path`` to a parser."""
    parser.add_argument("--log-path", help="file to append the log to; default: stderr")
    parser.add_argument(
        "--log-level", default="info", type=str.lower, choices=LEVELS,
        help="debug, info: log notes and warnings; progress, results, warning: warnings; error, "
        "critical: nothing",
    )  # fmt: skip


@contextlib.contextmanager
def open_log(options: argparse.Namespace) -> Iterator[Callable[[str], None]]:
    """Yield a function that logs one line, subject to the flags.

    Results are printed on stdout at any level.
    """
    rank = LEVELS.index(options.log_level)
    with contextlib.ExitStack() as stack:
        file = sys.stderr
        if options.log_path:
            file = stack.enter_context(Path(options.log_path).open("a", encoding="utf-8"))

        def write_log_line(text: str) -> None:
            needed = "warning" if text.startswith("warning:") else "info"
            if rank <= LEVELS.index(needed):
                print(text, file=file, flush=True)

        yield write_log_line
