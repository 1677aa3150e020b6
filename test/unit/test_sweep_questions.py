"""What a sweep shows beside its table: limits, front, effects, and pictures."""

from __future__ import annotations

import itertools
from collections import Counter

import pytest

from hespas.support.errors import UsageError
from hespas.workflows.sweep.sweep_analysis import Objective, compute_main_effects
from hespas.workflows.sweep.sweep_expressions import SweepExpression
from hespas.workflows.sweep.sweep_grid import combine_axes
from hespas.workflows.sweep.sweep_plots import choose_plot_kind, draw_sweep
from hespas.workflows.sweep.sweep_runner import SweepOutcome
from hespas.workflows.sweep.sweep_summary import (
    SweepQuestions,
    make_answer_tables,
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
    figure = draw_sweep(ROWS, ROWS[:4], kind, AXES, FRONT)
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
        draw_sweep(ROWS, ROWS, "heat-map", AXES[:1], FRONT)
    with pytest.raises(UsageError, match="a plot of the front needs two figures"):
        draw_sweep(ROWS, ROWS, "front", AXES, FRONT[:1])
    with pytest.raises(UsageError, match="no cell has a number in column 'step'"):
        draw_sweep(ROWS, ROWS, "parallel", AXES, (Objective("step"),))


# The time of a cell is the product of a factor of each key, so that the effects are known. Most of
# the training cells have HBM4: compared without regard to the program, HBM3E looks 30 times faster.
PROGRAM_FACTORS = {"train.mlir": 100.0, "decode.mlir": 1.0}
MEMORY_FACTORS = {"HBM3E": 1.5, "HBM4": 1.0}
SHAPE_FACTORS = {"ring": 3.0, "torus": 2.0, "switch": 1.0}
AREAS = {"HBM3E": 10.0, "HBM4": 14.0}


def make_unequal_rows(left_out=(("train.mlir", "HBM3E"), ("decode.mlir", "HBM4"))):
    """Make the rows of a grid without the cells of two pairs, of which the first shape is kept."""
    return [
        {
            "cell.mlir": program, "cell.let.hbm": memory, "cell.let.shape": shape, "error": None,
            "step_time_s": factor * MEMORY_FACTORS[memory] * SHAPE_FACTORS[shape],
            "derived.area_mm2": AREAS[memory],
        }
        for program, factor in PROGRAM_FACTORS.items()
        for memory in MEMORY_FACTORS for shape in SHAPE_FACTORS
        if shape == "ring" or (program, memory) not in left_out
    ]  # fmt: skip


def test_effects_compare_equal_programs_and_equal_values_of_other_axes():
    effects = compute_main_effects(
        make_unequal_rows(), ["cell.mlir", "cell.let.hbm", "cell.let.shape"], "step_time_s"
    )
    found = {effect.column: effect for effect in effects}
    assert "cell.mlir" not in found  # two programs do not compare
    memory, shape = (dict(found[f"cell.let.{key}"].means) for key in ("hbm", "shape"))
    assert memory["HBM3E"] / memory["HBM4"] == pytest.approx(1.5)
    assert shape["ring"] / shape["switch"] == pytest.approx(3.0)
    assert found["cell.let.hbm"].chance == pytest.approx(1.0)  # nothing is left to chance
    _, effects_table = make_answer_tables(
        make_unequal_rows(), SweepQuestions((), FRONT[:1], "step_time_s")
    )[-2:]
    assert effects_table.title.endswith("relative to the least of each program")
    assert [row[3] for row in effects_table.rows] == ["3.000", "1.500"]


def test_effects_of_a_whole_grid_are_geometric_means():
    rows = [row for row in make_unequal_rows(()) if row["cell.mlir"] == "decode.mlir"]
    (shape, memory) = compute_main_effects(rows, ["cell.let.hbm", "cell.let.shape"], "step_time_s")
    # The mean over both memories of each shape, and over the three shapes of each memory.
    assert dict(shape.means)["ring"] == pytest.approx((3.0 * 4.5) ** 0.5)
    assert dict(memory.means)["HBM4"] == pytest.approx((3.0 * 2.0 * 1.0) ** (1 / 3))


def test_an_axis_that_changes_with_the_program_only_is_not_compared():
    rows = [{**row, "cell.system": row["cell.mlir"]} for row in make_unequal_rows()]
    (table,) = make_answer_tables(rows, SweepQuestions((), (), "step_time_s"))
    assert ["system", "-", "-", "-", "-"] in table.rows


def test_axes_that_change_together_keep_their_effect():
    rows = [{**row, "cell.node": row["cell.let.shape"]} for row in make_unequal_rows(())]
    columns = ["cell.let.hbm", "cell.let.shape", "cell.node"]
    ratios = {e.column: e.ratio for e in compute_main_effects(rows, columns, "step_time_s")}
    assert ratios["cell.node"] == ratios["cell.let.shape"] == pytest.approx(3.0)


def test_each_program_has_a_front():
    tables = make_answer_tables(make_unequal_rows(()), SweepQuestions((), FRONT))
    assert [table.title for table in tables] == [
        "Pareto front of train.mlir: 2 of 6 cells",
        "Pareto front of decode.mlir: 2 of 6 cells",
    ]
    for table in tables:
        assert [row[:2] for row in table.rows] == [["HBM4", "switch"], ["HBM3E", "switch"]]


def test_pictures_of_several_programs_compare_within_them():
    pytest.importorskip("matplotlib")
    rows = make_unequal_rows(())
    axes = ("cell.let.hbm", "cell.let.shape")
    fronts = draw_sweep(rows, rows, "front", axes, FRONT)
    assert [panel.get_title() for panel in fronts.axes] == ["train.mlir", "decode.mlir"]
    heat_map = draw_sweep(rows, rows, "heat-map", axes, FRONT[:1])
    image = heat_map.axes[0].images[0].get_array().tolist()
    # Ring, switch and torus, with HBM3E and HBM4: multiples of the best, equal in both programs.
    assert image == [pytest.approx(row) for row in ([4.5, 3.0], [1.5, 1.0], [3.0, 2.0])]
    lines = draw_sweep(rows, rows, "parallel", ("cell.mlir", *axes), FRONT[:1]).axes[0]
    titles = [text.get_text() for text in lines.get_xticklabels()]
    assert titles == ["hbm", "shape", "step_time_s / best of the program"]


def make_mixed_rows():
    """Make the rows of three programs: one is complete, of one all cells fail, of one none fits."""
    failed = [
        {"cell.mlir": "eight.mlir", "cell.node": node, "error": "8 devices on 4"} for node in "AB"
    ]
    large = [
        {"cell.mlir": "large.mlir", "cell.node": node, "error": None, "step_time_s": 9.0 + k,
         "derived.area_mm2": 1.0, "memory.fits": False}
        for k, node in enumerate("AB")
    ]  # fmt: skip
    small = [
        {"cell.mlir": "small.mlir", "cell.node": node, "error": None, "step_time_s": time_s,
         "derived.area_mm2": area, "memory.fits": fits}
        for node, time_s, area, fits in (("A", 1.0, 2.0, False), ("A", 2.0, 2.0, True),
                                         ("B", 3.0, 1.0, True), ("B", 2.5, None, None))
    ]  # fmt: skip
    return [*failed, *large, *small]


def test_programs_without_a_cell_are_rows_with_the_reason():
    questions = SweepQuestions((), FRONT)
    tables = make_summary_tables(SweepOutcome(make_mixed_rows()), "cells.csv", questions)
    counts, best, front, errors = tables
    assert any(name == "too large" and text.startswith("3 of 6") for name, text in counts.rows)
    assert [list(row) for row in best.rows] == [
        ["small.mlir", "A", "3", "2.000 s", "3.000 s", ""],
        ["eight.mlir", "-", "0", "-", "-", "2 with an error"],
        ["large.mlir", "-", "0", "-", "-", "2 too large"],
    ]
    assert front.title == "Pareto front: 2 of 2 cells; 1 without derived.area_mm2"
    assert errors.rows == [["8 devices on 4", "2"]]
    limits = (SweepExpression.parse("step_time_s < 9.5"),)
    within = make_summary_tables(SweepOutcome(make_mixed_rows()[2:]), None, SweepQuestions(limits))
    assert within[1].rows[-1][-1] == "2 too large"
    limits = (SweepExpression.parse("step_time_s < 0.1"),)
    none = make_summary_tables(SweepOutcome(list(ROWS)), None, SweepQuestions(limits))
    assert list(none[1].rows[0]) == ["a.mlir", "0", "-", "-", "6 outside the limits"]


@pytest.mark.parametrize(("key", "values"), [("estimator", "ra"), ("form", ("fuse", "as-is"))])
def test_two_kinds_of_numbers_do_not_compete(key, values):
    """The roofline is always the fastest, which makes no node the best."""
    first, second = values
    rows = [
        {**row, f"cell.{key}": kind, "step_time_s": row["step_time_s"] * factor}
        for row in ROWS for kind, factor in ((first, 1.0), (second, 3.0))
    ]  # fmt: skip
    questions = SweepQuestions((), FRONT, "step_time_s", frozenset({"node.accelerator.arrays"}))
    _, best, *fronts, effects = make_summary_tables(SweepOutcome(rows), "cells.csv", questions)
    column = list(best.header).index(key)
    assert [row[column] for row in best.rows] == [first, second]
    assert [row[list(best.header).index("time")] for row in best.rows] == [
        "200.000 ms",
        "600.000 ms",
    ]
    assert [table.title for table in fronts] == [
        f"Pareto front of {key} {kind}: 6 of 6 cells" for kind in values
    ]
    assert {row[0]: row[3] for row in effects.rows}[key] == "3.000"
    pytest.importorskip("matplotlib")
    figure = draw_sweep(rows, rows, "front", AXES, FRONT)
    assert [panel.get_title() for panel in figure.axes] == [f"{key} {kind}" for kind in values]


def test_effects_count_what_they_leave_out():
    times_s = (None, 0.0, 1.0, 2.0, 3.0, 4.0)
    rows = [{**row, "exposed_comm_s": time_s} for row, time_s in zip(ROWS, times_s, strict=True)]
    (table,) = make_answer_tables(rows, SweepQuestions((), (), "exposed_comm_s"))
    assert table.title.endswith("; of 6 cells, 1 without it and 1 in which it is 0 are left out")
    (table,) = make_answer_tables(ROWS, SweepQuestions((), (), "step_time_s"))
    assert table.title == "Main effects on step_time_s: geometric means"


def test_a_pair_of_values_that_a_program_lacks_is_blank():
    """The mean of the other programs alone would compare with those of all."""
    pytest.importorskip("matplotlib")
    import numpy as np

    rows = make_unequal_rows()
    axes = ("cell.let.hbm", "cell.let.shape")
    heat_map = draw_sweep(rows, rows, "heat-map", axes, FRONT[:1])
    image = np.ma.filled(np.ma.masked_invalid(heat_map.axes[0].images[0].get_array()), -1.0)
    assert (image > 0).tolist() == [[True, True], [False, False], [False, False]]
    rows = [{**row, "exposed_comm_s": float(row["cell.let.shape"] == "ring")} for row in rows]
    most = Objective.parse("exposed_comm_s:max")
    heat_map = draw_sweep(rows, rows, "heat-map", axes, (most,))
    assert heat_map.axes[0].images[0].get_array()[0].tolist() == [1.0, 1.0]
    with pytest.raises(UsageError, match="the best exposed_comm_s of each program is 0"):
        draw_sweep(rows, rows, "heat-map", axes, (Objective("exposed_comm_s"),))


@pytest.mark.parametrize(
    ("sizes", "count"), [((3, 3, 3, 3, 2, 2, 4), 60), ((2, 3, 50, 4), 48), ((5, 4, 3), 30)]
)
def test_samples_are_balanced_over_values_and_their_pairs(sizes, count):
    """Each value occurs equally often, and so does each pair, but for two cells."""
    for seed in range(5):
        sample = list(combine_axes([range(size) for size in sizes], count, seed))
        assert sample == list(combine_axes([range(size) for size in sizes], count, seed))
        assert len(set(sample)) == len(sample) == count
        for k, size in enumerate(sizes):
            values = Counter(cell[k] for cell in sample)
            assert max(values.values()) - min(values[v] for v in range(size)) <= 1
        short = [k for k, size in enumerate(sizes) if size <= 12]
        for j, k in itertools.combinations(short, 2):
            pairs = Counter((cell[j], cell[k]) for cell in sample)
            expected = count / (sizes[j] * sizes[k])
            for pair in itertools.product(range(sizes[j]), range(sizes[k])):
                assert abs(pairs[pair] - expected) <= 2
