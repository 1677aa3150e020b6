"""Figures: those of run.json, sweeps, plans and studies are of one list, and printed as it says."""

from __future__ import annotations

import html
import json
import math
import re
import tempfile
from collections.abc import Callable, Iterator, Mapping
from dataclasses import fields
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.budgets import draw_examples
from support.figures import FACT_LABELS, FIGURES, ROW_FACTS, ROW_FIGURES, UNITS, Figure, list_labels
from support.law_cases import NODE, SYSTEM, LawCase, run_tool
from support.paths import ROOT
from support.random_costs import NAME
from support.random_programs import Body, bodies, render_program

from hespas.estimators import aggregate
from hespas.tools.commands import compare
from hespas.tools.report import plan_page, run_overview, sweep_page
from hespas.workflows import run_differences, run_summary
from hespas.workflows.planning import plan_tables
from hespas.workflows.planning.layout_space import LayoutCandidate
from hespas.workflows.planning.plan_result import LayoutFigures, LayoutPlan, LayoutRow, rank_rows
from hespas.workflows.planning.step_bounds import StepBound
from hespas.workflows.studies import study_definition
from hespas.workflows.studies.study_definition import StudyColumn
from hespas.workflows.studies.study_runner import StudyCell, make_figure_row
from hespas.workflows.sweep.sweep_table import flatten_figures, read_table
from support import figures, law_cases

pytestmark = pytest.mark.slow

STEP = {"model_flops": 1e9, "tokens_per_step": 7.0, "samples_per_step": 3.0, "price_per_hour": 2.0}
PROGRAM = render_program(
    [("op", "tanh"), ("all_reduce",), ("async", "sine"), ("op", "dot_general"), ("gap",)], []
)
TAG = re.compile(r"<[^>]+>")


@pytest.fixture
def case(tmp_path: Path) -> LawCase:
    """A run all of whose figures are known."""
    return run_rich_program(tmp_path)


def run_rich_program(folder: Path, seed: int = 1) -> LawCase:
    return law_cases.run_program(folder, PROGRAM, setting={"seed": seed}, memory=True, **STEP)


# Names.


def test_each_figure_has_one_name_a_unit_and_a_rule() -> None:
    known = [*FIGURES, *ROW_FIGURES]
    assert len({figure.name for figure in known}) == len(known)
    for figure in known:
        assert figure.unit in UNITS and figure.rule in figures.RULES
        assert set(figure.labels) <= set(figures.PLACES)


def check_run_names(case: LawCase) -> None:
    """Check the names in run.json."""
    flat = flatten_figures(case.result.figures)
    assert not [name for name in flat if not figures.is_known_name(name)]
    missing = [figure.name for figure in FIGURES if figure.name not in flat]
    assert not missing, missing


def check_documented_names(case: LawCase) -> None:
    """Check that the reference page describes each key of run.json."""
    page = (ROOT / "docs/reference/run-json.md").read_text()
    described = set(re.findall(r"`([a-z_0-9]+)`", page))
    named = {part for name in case.result.figures for part in [name]}
    for part in ("memory", "derived"):
        named |= set(case.result.figures[part])
    assert named <= described, named - described


def check_row_names(row: Mapping[str, Any], labels: set[str]) -> None:
    """Check the names in a row of a plan or of a study."""
    known = {figure.row_name for figure in (*FIGURES, *ROW_FIGURES)} | set(ROW_FACTS) | labels
    assert set(row) <= known, set(row) - known


def test_names_of_runs(case: LawCase) -> None:
    check_run_names(case)
    check_documented_names(case)


def test_names_of_sweeps(case: LawCase, tmp_path: Path) -> None:
    row = sweep_one_cell(tmp_path)
    names = [name for name in row if not name.startswith(("cell.", "provenance."))]
    assert not [name for name in names if not figures.is_known_name(name)]


def test_names_of_plans() -> None:
    for row in make_plan(2.0).rows:
        check_row_names(row.to_json(), {"data", "remat"})


def test_names_of_studies(case: LawCase) -> None:
    check_row_names(make_study_row(case), {"model"})


def sweep_one_cell(folder: Path) -> dict[str, Any]:
    """Sweep over the one cell that is the run, and return its row."""
    table = folder / "cells.json"
    keys = {
        "mlir": str(folder / "step.mlir"), "node": NODE, "system": SYSTEM, "estimator": NAME,
        "split": "linear", "form": "as-is", "keep_going": True, "setting.seed": 1, **STEP,
    }  # fmt: skip
    file = folder / "cells.yml"
    file.write_text("".join(f"{key}: {json.dumps(value)}\n" for key, value in keys.items()))
    run_tool("hespas", "sweep", str(file), "--output", str(table), "--cache", "none", "--jobs", "1")
    (row,) = read_table(str(table))
    return row


def make_plan(scale: float) -> LayoutPlan:
    """Make a plan of two layouts with every figure."""
    rows = []
    for factor in (1.0, scale):
        values = {
            f.name: factor * (number + 1)
            for number, f in enumerate(fields(LayoutFigures))
            if number
        }
        row = LayoutRow(LayoutCandidate({"data": 2}, {"remat": "full"}), "estimated")
        row.fused = LayoutFigures("fused", **{**values, "program": "step.mlir"})
        row.bound = StepBound(0.5, 0.5, 1)
        rows.append(row)
    return LayoutPlan(NODE, None, 2, rank_rows(rows), 1_000_000)


def make_study_row(case: LawCase) -> dict[str, Any]:
    """Make the row of a study whose cell has the figures of a run."""
    cell = StudyCell({"model": "8b"}, 2, NODE, None, SYSTEM)
    cell.answer = flatten_figures(case.result.figures)
    return make_figure_row(cell, "fused")


# Labels. Each place prints the figures of its labels, with their units, and nothing else.

Printed = Mapping[str, str]


def parse_tables(text: str) -> Iterator[tuple[str, list[list[str]]]]:
    """Yield the title and the cells of each table of text; of nested labels with their blanks."""
    for block in text.strip().split("\n\n"):
        title, *lines = block.splitlines()
        yield title, [re.split(r"(?<=\S)  +", line[2:].rstrip()) for line in lines]


def read_facts(text: str) -> Printed:
    """Read the tables of labels and values, each label after the title of its table."""
    return {
        f"{title}: {row[0]}": row[1]
        for title, rows in parse_tables(text)
        for row in rows
        if len(row) == 2 and rows[0][0] == rows[0][0].strip()
    }


def read_header_and_first_row(text: str, title: str = "") -> Printed:
    """Read the first row of the table whose title begins so."""
    (rows,) = (rows for name, rows in parse_tables(text) if name.startswith(title))
    return {label.strip(): cell.strip() for label, cell in zip(*rows[:2], strict=True)}


def read_page_table(page: str, name: str) -> Printed:
    """Read the first row of a table of a page."""
    table = page.partition(f'id="{name}"')[2].partition("</table>")[0]
    headers = re.findall(r"<th[^>]*>(.*?)</th>", table.partition("</thead>")[0], re.DOTALL)
    row = table.partition("<tbody")[2].partition("</tr>")[0]
    cells = re.findall(r"<t[dh][^>]*>(.*?)</t[dh]>", row, re.DOTALL)
    texts = (
        [html.unescape(TAG.sub("", cell)).strip() for cell in part] for part in (headers, cells)
    )
    return dict(zip(*texts, strict=True))


def print_summary(case: LawCase) -> Printed:
    one_device = ("Memory, one device", "Compute, one device", "Step, all devices", "Result")
    return {
        label: text
        for label, text in read_facts(case.printed).items()
        if label.startswith((*one_device, "Program"))
    }


def print_page(case: LawCase) -> Printed:
    page = Path(case.folder, "page.html")
    run_tool("hespas", "show", case.folder, "--page", str(page))
    card = r'<span class="name">([^<]*)</span><span class="value">([^<]*)</span>'
    return {html.unescape(name): text for name, text in re.findall(card, page.read_text())}


def print_show(case: LawCase) -> Printed:
    facts = read_facts(run_tool("hespas", "show", case.folder))
    return {label: text for label, text in facts.items() if label.startswith("Compute")}


def print_compare(case: LawCase) -> Printed:
    return read_header_and_first_row(run_tool("hespas", "compare", case.folder, case.folder))


def print_changes(case: LawCase) -> Printed:
    """Compare with a run that differs in every figure."""
    other = run_rich_program(Path(case.folder).parent, 2).folder
    edited = json.loads(Path(other, "run.json").read_text())
    scale_figures(edited, 2)
    Path(other, "run.json").write_text(json.dumps(edited))
    text = run_tool("hespas", "compare", case.folder, other, "--changes")
    (rows,) = (rows for title, rows in parse_tables(text) if title.startswith("Totals"))
    return {row[0].strip(): row[1].strip() for row in rows[1:]}


def scale_figures(values: dict[str, Any], factor: int) -> None:
    """Scale every amount, except the time that simulation.json has too."""
    for name, value in values.items():
        if isinstance(value, dict):
            scale_figures(value, factor)
        elif isinstance(value, int | float) and not isinstance(value, bool):
            values[name] = value if name == "step_time_s" else factor * value


def print_sweep_page(case: LawCase) -> Printed:
    folder = Path(case.folder).parent
    sweep_one_cell(folder)
    page = folder / "cells.html"
    run_tool("hespas", "show", str(folder / "cells.json"), "--page", str(page))
    return read_page_table(page.read_text(), "cell")


def print_plan(case: LawCase) -> Printed:
    table, *_ = plan_tables.build_plan_tables(make_case_plan(case))
    return dict(zip(table.header, table.rows[0], strict=True))


def print_plan_page(case: LawCase) -> Printed:
    page = plan_page.render_plan_page(make_case_plan(case), "Layouts").decode()
    return read_page_table(page, "layouts-table")


def make_case_plan(case: LawCase) -> LayoutPlan:
    """Make a plan whose only layout has the figures of a run."""
    row = make_study_row(case)
    values = {f.name: row[f.name] for f in fields(LayoutFigures)}
    layout = LayoutRow(LayoutCandidate({"data": 2}, {"remat": "full"}), "estimated")
    layout.fused, layout.bound = LayoutFigures(**values), StepBound(1e-9, 0.0, 1)
    return LayoutPlan(NODE, None, 2, rank_rows([layout]), 1_000_000)


def print_study(case: LawCase) -> Printed:
    """Format each column that a study of programs may have."""
    row = {**make_study_row(case), "efficiency": 0.9}
    return {column.header: column.text(row[column.name]) for column in list_study_columns()}


def list_study_columns() -> list[StudyColumn]:
    """List the columns that studies share, one for each figure."""
    columns = [value for value in vars(study_definition).values() if isinstance(value, StudyColumn)]
    return list({column.name: column for column in reversed(columns)}.values())


PRINTERS: Mapping[str, Callable[[LawCase], Printed]] = {
    "summary": print_summary, "page": print_page, "show": print_show, "compare": print_compare,
    "changes": print_changes, "sweep page": print_sweep_page, "plan": print_plan,
    "plan page": print_plan_page, "study": print_study,
}  # fmt: skip


def check_labels(place: str, case: LawCase) -> None:
    """Check that a place prints the figures that the list has for it, and no others."""
    printed = dict(PRINTERS[place](case))
    for label in FACT_LABELS[place]:
        printed.pop(label, None)
    declared = list_labels(place)
    missing, unknown = set(declared) - set(printed), set(printed) - set(declared)
    assert not missing and not unknown, f"missing {missing}, unknown {unknown}"
    row = {**make_study_row(case), "bound_s": 1e-9, "efficiency": 0.9}
    values = {**row, **flatten_figures(case.result.figures)}
    for label, (figure, unit) in declared.items():
        text, expected = printed[label], UNITS[unit](values[figure.name])
        assert is_same_text(text, expected), f"{label}: {text}, not {expected}"


def is_same_text(text: str, expected: str) -> bool:
    """Return whether a text begins with a figure; of an amount of money rounded to its digits."""
    if expected.endswith(" USD"):
        shown, exact = float(text.split()[0]), float(expected.split()[0])
        return math.isclose(shown, exact, rel_tol=5e-3, abs_tol=5e-4)
    return text.startswith(expected)


@pytest.mark.parametrize("place", PRINTERS)
def test_labels(place: str, case: LawCase) -> None:
    assert set(PRINTERS) == set(figures.PLACES) == set(FACT_LABELS)
    check_labels(place, case)


# Rules of addition: the figures of two programs, and of both one after the other.


@draw_examples(12)
@given(bodies(), bodies(), st.integers(0, 99))
def test_rules_of_addition(first: Body, second: Body, seed: int) -> None:
    check_addition(first, second, seed)


def check_addition(first: Body, second: Body, seed: int) -> None:
    """Check the rules of all figures on two programs, and both one after the other."""
    with tempfile.TemporaryDirectory() as folder:
        flat = []
        for number, body in enumerate((first, second, [*first, *second])):
            path = Path(folder, str(number))
            path.mkdir()
            text = render_program(body, [])
            step = {name: value * (1 + number // 2) for name, value in STEP.items()}
            step["price_per_hour"] = STEP["price_per_hour"]
            case = law_cases.run_program(path, text, setting={"seed": seed}, memory=True, **step)
            flat.append(flatten_figures(case.result.figures))
        peaks = {figures["derived.peak_flops_per_s"] for figures in flat}
        for figure in FIGURES:
            if figure.rule != "ratio" or len(peaks) == 1:
                check_rule(figure, *(figures.get(figure.name) for figures in flat))


def check_rule(figure: Figure, first: Any, second: Any, both: Any) -> None:
    """Check a rule. A sum of times is exact to the nanoseconds of a trace."""
    if None in (first, second, both):
        return
    if figure.rule == "sum":
        assert math.isclose(first + second, both, rel_tol=1e-3, abs_tol=3e-9), (
            figure.name,
            first,
            second,
            both,
        )
    elif figure.rule == "ratio":
        slack = 1e-2 * max(first, second)
        assert min(first, second) - slack <= both <= max(first, second) + slack, (
            figure.name,
            first,
            second,
            both,
        )
    elif figure.rule == "largest":
        assert both >= max(first, second), (figure.name, first, second, both)
    elif figure.rule == "of all":
        assert first == second == both, figure.name


# Mutants.


def drop_key(module: Any, name: str, key: str) -> Callable[[pytest.MonkeyPatch], None]:
    """Return a mutant in which the table of a module lacks a figure."""

    def patch(monkeypatch: pytest.MonkeyPatch) -> None:
        table = getattr(module, name)
        kept = [entry for entry in table if entry != key]
        assert len(kept) < len(table)
        rest = {entry: table[entry] for entry in kept} if isinstance(table, dict) else tuple(kept)
        monkeypatch.setattr(module, name, rest)

    return patch


def add_unknown_figure(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let run.json have a figure that is not in the list."""
    original = run_summary.to_summary_json
    monkeypatch.setattr(
        run_summary, "to_summary_json", lambda summary: {**original(summary), "host_s": 1.0}
    )


def print_other_unit(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let a table print a share as a number."""
    monkeypatch.setitem(plan_tables.FIGURE_COLUMNS, "mfu", ("MFU", str))


def add_as_maximum(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let the energy of a step be that of the largest op."""
    monkeypatch.setattr(
        aggregate, "math", SimpleNamespace(fsum=lambda values: max(values, default=0))
    )


MUTANTS: dict[str, tuple[Callable[[pytest.MonkeyPatch], None], str]] = {
    "the sweep page lacks the area": (
        drop_key(sweep_page, "AMOUNTS", "derived.area_mm2"), "sweep page"),
    "the page lacks HFU": (drop_key(run_overview, "DERIVED_SHARES", "hfu"), "page"),
    "compare lacks energy": (drop_key(compare, "AMOUNTS", "derived.energy_j"), "compare"),
    "changes lack memory": (drop_key(run_differences, "COUNTS", "memory.peak_bytes"), "changes"),
    "plans lack rates": (drop_key(plan_tables, "FIGURE_COLUMNS", "tokens_per_s"), "plan"),
    "plans print another unit": (print_other_unit, "plan"),
}  # fmt: skip


@pytest.mark.parametrize("name", MUTANTS)
def test_a_missing_label_is_noticed(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    mutant, place = MUTANTS[name]
    mutant(monkeypatch)
    with pytest.raises(AssertionError):
        check_labels(place, run_rich_program(tmp_path))


def test_an_unknown_figure_is_noticed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    add_unknown_figure(monkeypatch)
    case = run_rich_program(tmp_path)
    for check in (check_run_names, check_documented_names):
        with pytest.raises(AssertionError):
            check(case)


def test_another_rule_of_addition_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    add_as_maximum(monkeypatch)
    with pytest.raises(AssertionError):
        check_addition([("op", "tanh")], [("op", "add"), ("all_reduce",)], 1)
