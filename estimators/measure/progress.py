"""Progress of measurements: one changing line on a terminal, otherwise occasional lines."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from hespas.support.terminal_text import escape_cell, get_terminal

LOG_EVERY_S = 30.0

Show = Callable[[str], None]


class ProgressCounter:
    """Counts finished units and estimates the remaining time from their rate.

    Args:
        label: The start of each line.
        total: The number of units.
        show: Called with the text of each line.
        units: What is counted, as in ``regions measured``.
    """

    def __init__(self, label: str, total: int, show: Show, units: str = "regions measured") -> None:
        self.label, self.total, self.units, self.done = label, total, units, 0
        self._show, self._start = show, time.monotonic()
        show(self.format_progress())

    def count_finished(self, name: str, count: int = 1) -> None:
        """Count one or more finished units and show the name of the last one."""
        self.done += count
        self._show(self.format_progress(name))

    def format_progress(self, name: str = "") -> str:
        """Return a line such as ``xla: 12 of 80 regions measured (@f), about 3 min left``."""
        text = f"{self.label}: {self.done} of {self.total} {self.units}"
        if name:
            text += f" ({name})"
        if 0 < self.done < self.total:
            each_s = (time.monotonic() - self._start) / self.done
            text += f", about {format_duration(each_s * (self.total - self.done))} left"
        return text


@contextmanager
def open_progress_display(note: Show, show: Show | None) -> Iterator[Show]:
    """Choose how progress is shown: by ``show`` if given, on the terminal, or by ``note``."""
    if show is not None:
        yield show
    elif sys.stderr.isatty():
        from rich.console import Console
        from rich.markup import escape

        with Console(file=get_terminal(sys.stderr)).status("measuring") as status:
            yield lambda text: status.update(escape(escape_cell(text)))
    else:
        yield _throttle_notes(note)


def _throttle_notes(note: Show) -> Show:
    last = time.monotonic()

    def show_throttled(text: str) -> None:
        nonlocal last
        now = time.monotonic()
        if now - last >= LOG_EVERY_S:
            last = now
            note(text)

    return show_throttled


def format_duration(time_s: float) -> str:
    """Format a duration as ``40 s``, ``3 min`` or ``2 h 5 min``."""
    if time_s < 90:
        return f"{max(1, round(time_s))} s"
    minutes = round(time_s / 60)
    return f"{minutes} min" if minutes < 60 else f"{minutes // 60} h {minutes % 60} min"
