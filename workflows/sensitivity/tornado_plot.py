"""The tornado plot of the sensitivity of a step."""

from __future__ import annotations

from typing import TYPE_CHECKING

from hespas.support.text_tables import format_seconds
from hespas.workflows.plot_files import COLOURS, check_plot_file, save_figure

if TYPE_CHECKING:
    from hespas.workflows.sensitivity.step_sensitivity import StepSensitivity


def write_tornado_plot(sensitivity: StepSensitivity, path: str) -> None:
    """Draw a bar for each rate, the largest on top, around the step time; raises HespasError."""
    check_plot_file(path)
    from matplotlib.figure import Figure

    rows = list(reversed(sensitivity.rows))
    figure = Figure(figsize=(7, 0.8 + 0.35 * len(rows)), layout="constrained")
    axes = figure.add_subplot()
    step_ms = 1e3 * sensitivity.step_time_s
    for number, row in enumerate(rows):
        for time_s, colour in ((row.slower_s, COLOURS[1]), (row.faster_s, COLOURS[0])):
            axes.barh(number, 1e3 * time_s - step_ms, left=step_ms, color=colour, height=0.7)
    axes.axvline(step_ms, color="black", linewidth=0.8)
    axes.set_yticks(range(len(rows)), [row.name for row in rows])
    axes.set_xlabel("ms")
    what = "Step time" if sensitivity.is_step else "Compute time"
    time = format_seconds(sensitivity.step_time_s)
    axes.set_title(f"{what} {time}: each rate 25 % higher (blue), 20 % lower (brown)", fontsize=9)
    save_figure(figure, path)
