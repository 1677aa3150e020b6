"""A plot of predicted against measured step times."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from hespas.workflows.plot_files import COLOURS, MARKS, save_figure
from hespas.workflows.validation.prediction_scores import StepPrediction


def draw_predictions(path: str, by_flow: Mapping[str, Sequence[StepPrediction]]) -> None:
    """Write the plot, with logarithmic axes in milliseconds; raises HespasError."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(6.4, 6.0), layout="constrained")
    axes = figure.add_subplot()
    times_ms = [1e3 * p.cell.measured_s for predictions in by_flow.values() for p in predictions]
    low, high = 0.5 * min(times_ms), 2 * max(times_ms)
    axes.fill_between(
        [low, high], [0.9 * low, 0.9 * high], [1.1 * low, 1.1 * high], alpha=0.15, label="±10 %"
    )
    axes.plot([low, high], [low, high], linewidth=1, color="gray")
    for i, (name, predictions) in enumerate(by_flow.items()):
        bands = [
            (p.step_s - (p.low_s or p.step_s), (p.high_s or p.step_s) - p.step_s)
            for p in predictions
        ]
        axes.errorbar(
            [1e3 * p.cell.measured_s for p in predictions],
            [1e3 * p.step_s for p in predictions],
            xerr=[1e3 * p.cell.uncertainty_s for p in predictions],
            yerr=[[1e3 * band[side] for band in bands] for side in (0, 1)],
            fmt=MARKS[i % len(MARKS)],
            color=COLOURS[i % len(COLOURS)],
            markersize=5,
            elinewidth=1,
            capsize=2,
            label=name,
        )
    axes.set(
        xscale="log", yscale="log", xlim=(low, high), ylim=(low, high),
        xlabel="measured step time (ms)", ylabel="predicted step time (ms)",
    )  # fmt: skip
    axes.legend(frameon=False)
    save_figure(figure, path)
