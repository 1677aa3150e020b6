"""Notes and progress on the terminal."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from hespas.support.terminal_text import escape_cell, get_terminal


def print_to_stderr(text: str) -> None:
    """Print a note, for commands without a log."""
    print(text, file=sys.stderr, flush=True)


@contextmanager
def show_progress(*, quiet: bool = False) -> Iterator[Callable[[str], None] | None]:
    """Yield a function that shows the name of the current step, or None outside a terminal."""
    if quiet or not sys.stderr.isatty():
        yield None
        return
    from rich.console import Console
    from rich.markup import escape

    with Console(file=get_terminal(sys.stderr)).status("reading") as status:
        yield lambda text: status.update(escape(escape_cell(text)))
