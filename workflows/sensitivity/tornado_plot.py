"""The tornado plot of the sensitivity of a step."""

from __future__ import annotations

from collections.abc import Sequence

from hespas.support.text_tables import format_seconds
from hespas.workflows.plot_files import COLOURS, check_plot_file, save_figure


def write_tornado_plot(
    time_name: str, step_s: float, rows: Sequence[tuple[str, float, float]], path: str
) -> None:
    """Draw a bar for each rate around the step time, the first on top; raises HespasError.

    Args:
        time_name: What the time is of.
        step_s: The time in seconds.
        rows: For each rate its name, and the times with the lower and with the higher rate.
        path: The file.
    """
    check_plot_file(path)
    from matplotlib.figure import Figure

    figure = Figure(figsize=(7, 0.8 + 0.35 * len(rows)), layout="constrained")
    axes = figure.add_subplot()
    step_ms = 1e3 * step_s
    for number, (_, *times_s) in enumerate(reversed(rows)):
        for time_s, colour in zip(times_s, (COLOURS[1], COLOURS[0]), strict=True):
            axes.barh(number, 1e3 * time_s - step_ms, left=step_ms, color=colour, height=0.7)
    axes.axvline(step_ms, color="black", linewidth=0.8)
    axes.set_yticks(range(len(rows)), [name for name, *_ in reversed(rows)])
    axes.set_xlabel("ms")
    title = f"{time_name} {format_seconds(step_s)}: rates 25 % higher (blue), 20 % lower (brown)"
    axes.set_title(title, fontsize=9)
    save_figure(figure, path)
