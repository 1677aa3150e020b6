"""What a sweep shows beside its table: limits, front, effects, and pictures."""

from __future__ import annotations

import pytest

from hespas.support.errors import UsageError
from hespas.workflows.sweep.sweep_analysis import Objective
from hespas.workflows.sweep.sweep_expressions import SweepExpression
from hespas.workflows.sweep.sweep_plots import SweepPlot, choose_plot_kind, draw_sweep
from hespas.workflows.sweep.sweep_runner import SweepOutcome
from hespas.workflows.sweep.sweep_summary import (
    SweepQuestions,
    make_summary_tables,
    select_columns,
)

ROWS = [
    {
        "cell.mlir": "a.mlir", "cell.let.arrays": arrays, "cell.node.accelerator.arrays": arrays,
        "cell.system": system, "error": None, "program": "a.mlir", "devices": 4, "node": "chip",
        "step_time_s": (1.0 if system == "ring" else 0.8) / arrays,
        "derived.area_mm2": 20.0 * arrays + (0 if system == "ring" else 5),
    }
    for arrays in (1, 2, 4) for system in ("ring", "torus")
]  # fmt: skip
FRONT = tuple(map(Objective.parse, ("step_time_s", "derived.area_mm2")))
AXES = ("cell.let.arrays", "cell.system")


def test_limits_front_and_effects_are_tables():
    limits = (SweepExpression.parse("derived.area_mm2 <= 50"),)
    derived = frozenset({"node.accelerator.arrays"})
    questions = SweepQuestions(limits, FRONT, "step_time_s", derived)
    tables = make_summary_tables(SweepOutcome(list(ROWS)), "cells.csv", questions)
    counts, best, front, effects = tables
    assert ("within limits", "4 of 6: derived.area_mm2 <= 50") in counts.rows
    assert list(best.rows[0][:4]) == ["a.mlir", "2", "torus", "4"]
    assert front.title == "Pareto front: 4 of 4 cells"
    assert front.rows[0] == ["2", "torus", "0.4", "45"]
    assert [row[0] for row in effects.rows] == ["let.arrays", "system"]
    assert effects.rows[0][3] == "4.000"


def test_network_models_are_told_apart_in_every_table():
    """Times by different network models never stand in a table without a column for the model."""
    models = {"ring": "flows", "torus": "astra"}
    mixed = [{**row, "network_model": models[row["cell.system"]]} for row in ROWS]
    questions = SweepQuestions((), FRONT)
    _, best, front = make_summary_tables(SweepOutcome(mixed), "cells.csv", questions)
    assert "network model" in best.header and "network model" in front.header
    assert select_columns(mixed, ["step_time_s"]).header == ["step_time_s", "network_model"]
    alike = [{**row, "network_model": "flows"} for row in ROWS]
    _, best, front = make_summary_tables(SweepOutcome(alike), "cells.csv", questions)
    assert "network model" not in (*best.header, *front.header)
    assert select_columns(alike, ["step_time_s"]).header == ["step_time_s"]


@pytest.mark.parametrize("kind", ["front", "heat-map", "parallel"])
def test_pictures_show_every_axis(kind):
    pytest.importorskip("matplotlib")
    figure = draw_sweep(ROWS, ROWS[:4], SweepPlot(kind, AXES, FRONT))
    axes = figure.axes[0]
    texts = [axes.get_xlabel(), axes.get_ylabel(), *(t.get_text() for t in axes.get_xticklabels())]
    if kind == "front":
        assert texts[:2] == ["step_time_s", "area_mm2"]
        labels = [text.get_text() for text in axes.get_legend().get_texts()]
        assert labels == ["6 cells", "4 within the limits", "4 on the front"]
    elif kind == "heat-map":
        assert texts[:2] == ["arrays", "system"] and texts[2:] == ["1", "2"]
        assert axes.images[0].get_array().tolist() == [[1.0, 0.5], [0.8, 0.4]]
    else:
        assert texts[2:] == ["arrays", "system", "step_time_s"]
        assert len(axes.lines) == 4 + 3


def test_the_default_picture_shows_what_was_asked_for():
    assert choose_plot_kind(AXES, FRONT) == "front"
    assert choose_plot_kind(AXES, FRONT[:1]) == "heat-map"
    assert choose_plot_kind([*AXES, "cell.node"], FRONT[:1]) == "parallel"


def test_a_picture_needs_its_axes():
    pytest.importorskip("matplotlib")
    with pytest.raises(UsageError, match="a heat map needs two axes"):
        draw_sweep(ROWS, ROWS, SweepPlot("heat-map", AXES[:1], FRONT))
    with pytest.raises(UsageError, match="a plot of the front needs two figures"):
        draw_sweep(ROWS, ROWS, SweepPlot("front", AXES, FRONT[:1]))
    with pytest.raises(UsageError, match="no cell has a number in column 'step'"):
        draw_sweep(ROWS, ROWS, SweepPlot("parallel", AXES, (Objective("step"),)))
