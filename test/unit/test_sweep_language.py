"""Lists of numbers, derived values, conditions and samples in the file of a sweep."""

from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hespas.support.errors import HespasError
from hespas.workflows.sweep import sweep_grid
from hespas.workflows.sweep.sweep_analysis import (
    Objective,
    compute_main_effects,
    find_pareto_front,
    select_within_limits,
)
from hespas.workflows.sweep.sweep_expressions import SweepExpression
from hespas.workflows.sweep.sweep_grid import combine_axes

numbers = st.integers(-20, 20)


@given(numbers, numbers, numbers)
def test_expressions_are_pythons(a, b, c):
    values = {"a": a, "node.b": b, "let.c": c}
    for text in ("a + node.b * let.c", "(a - node.b) ** 2", "a < node.b <= let.c or a == 3"):
        expected = eval(text.replace("node.b", "b").replace("let.c", "c"), {"a": a, "b": b, "c": c})
        assert SweepExpression.parse(text).evaluate(values.__getitem__) == expected


def test_derived_values_follow_each_other_and_conditions_leave_cells_out():
    keys = {
        "let.arrays": [2, 4, 8],
        "setting.arrays": "= arrays",
        "let.area": "= 20 * arrays + other",
        "let.other": "= 10 if arrays < 4 else 30",
        "system": "ring:4,links={2 * arrays},link_gb_s={50 / arrays}",
        "where": ["area <= 110", "arrays > 1"],
    }
    cells = sweep_grid.expand_cells(keys)
    assert [(cell["setting.arrays"], cell["let.area"]) for cell in cells] == [(2, 50), (4, 110)]
    assert [cell["system"] for cell in cells] == [
        "ring:4,links=4,link_gb_s=25", "ring:4,links=8,link_gb_s=12.5",
    ]  # fmt: skip


def test_an_operand_that_decides_guards_the_next():
    keys = {"let.a": [0, 1, 4], "where": ["a == 0 or 8 / a > 2", "not (a > 0 and 8 / a > 7)"]}
    assert [cell["let.a"] for cell in sweep_grid.expand_cells(keys)] == [0]
    keys["where"] = "a > 0 and 8 / a > 2"
    assert [cell["let.a"] for cell in sweep_grid.expand_cells(keys)] == [1]


def test_lists_of_numbers():
    cells = sweep_grid.expand_cells({"node.tdp_w": ["linspace(100,200,3)", "logspace(1,1000,4)"]})
    assert [cell["node.tdp_w"] for cell in cells] == [100, 150, 200, 1, 10, 1000]


@given(st.lists(st.integers(2, 9), min_size=2, max_size=4), st.integers(0, 5))
def test_a_latin_hypercube_takes_each_part_of_each_axis_once(sizes, seed):
    count = max(sizes)
    axes = [list(range(size)) for size in sizes]
    cells = list(combine_axes(axes, count, seed))
    assert cells == list(combine_axes(axes, count, seed))
    if math.prod(sizes) > count:
        for axis, column in zip(axes, zip(*cells, strict=True), strict=True):
            expected = sorted(axis[part * len(axis) // count] for part in range(count))
            assert sorted(column) == expected


def test_a_sample_of_a_small_grid_is_the_grid():
    keys = {"block_limit": [0, 1], "split": ["a", "b"], "sample": 10}
    assert len(sweep_grid.expand_cells(keys)) == 4
    large = {"block_limit": "range(0,2000)", "node.tdp_w": "range(1,2000)", "sample": 50, "seed": 3}
    assert len(sweep_grid.expand_cells(large)) == 50


@pytest.mark.parametrize(
    ("keys", "message"),
    [
        ({"let.a": "= b"}, "no key is named 'b'"),
        ({"let.a": "= b", "let.b": "= a"}, "'let.a' depends on itself: let.a -> let.b -> let.a"),
        ({"let.a": "= 1 / 0"}, "'1 / 0' has no value: division by zero"),
        ({"let.a": "= __import__('os')"}, "contains '__import__"),
        ({"let.a": "= (1).real"}, r"contains '1 .real'"),
        ({"let.a": "= 1 +"}, "'1 \\+' is not an expression"),
        ({"let.a": "= 9 ** 9 ** 9"}, "has no value"),
        ({"let.a": "= (0 - 8) ** 0.5"}, "has no value: math domain error"),
        ({"let.a": [1, 2], "where": "a > 2"}, "no cell meets 'where': a > 2"),
        ({"let.a": 1, "where": 3}, "'where' is not an expression"),
        ({"let.a": 1, "sample": 0}, "'sample' is 0, not a whole number of at least 1"),
        ({"let.a": "logspace(0,5,3)"}, "'logspace\\(0,5,3\\)' is not a list of numbers"),
        ({"let.a": "linspace(0,5)"}, "'linspace\\(0,5\\)' is not a list of numbers"),
    ],
)
def test_wrong_expressions_are_one_error(keys, message):
    with pytest.raises(HespasError, match=message):
        sweep_grid.expand_cells(keys)


@given(st.lists(st.tuples(numbers, numbers), min_size=1, max_size=20))
def test_the_front_is_what_nothing_dominates(points):
    rows = [{"x": x, "y": y} for x, y in points]
    front = find_pareto_front(rows, [Objective.parse("x"), Objective.parse("y:max")])
    expected = {
        (x, y)
        for x, y in points
        if not any(a <= x and b >= y and (a, b) != (x, y) for a, b in points)
    }
    assert {(row["x"], row["y"]) for row in front} == expected


def test_main_effects_tell_what_matters():
    rows = [
        {"cell.a": a, "cell.b": b, "time": 10.0 ** a * (1.1 if b else 1.0)}
        for a in (1, 2) for b in (False, True)
    ]  # fmt: skip
    first, second = compute_main_effects(rows, ["cell.b", "cell.a"], "time")
    assert (first.column, second.column) == ("cell.a", "cell.b")
    assert first.ratio == pytest.approx(10) and second.ratio == pytest.approx(1.1)
    assert first.explained + second.explained == pytest.approx(1)


def test_limits_hold_for_figures():
    rows = [{"cell.a": i, "derived.area_mm2": area} for i, area in enumerate((1.0, 3.0, None))]
    limits = [SweepExpression.parse("derived.area_mm2 <= 2")]
    assert [row["cell.a"] for row in select_within_limits(rows, limits)] == [0]
    with pytest.raises(HespasError, match=r"no cell has a value in column 'derived\.area'"):
        select_within_limits(rows, [SweepExpression.parse("derived.area <= 2")])
