"""Figures: those of run.json, sweeps, plans and studies are of one list, printed as it says."""

from __future__ import annotations

import ast
import html
import json
import math
import re
import tempfile
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.budgets import draw_examples
from support.figures import (
    FACT_LABELS,
    NOT_OF_PIPELINES,
    ROW_FACTS,
    is_known_name,
    list_labels,
)
from support.law_cases import NODE, SYSTEM, LawCase, run_tool
from support.paths import ROOT
from support.random_costs import NAME
from support.random_programs import Body, bodies, render_program
from support.stage_programs import write_stage_programs

import hespas
from hespas.estimators import aggregate
from hespas.tools.report import plan_page, run_page, sweep_page
from hespas.workflows import figures, run_results, run_summary
from hespas.workflows.figures import FIGURES, ROW_FIGURES, RULES, UNITS, Figure, get_figure
from hespas.workflows.planning import plan_result
from hespas.workflows.planning.layout_bounds import StepBound
from hespas.workflows.planning.layout_space import LayoutCandidate
from hespas.workflows.planning.plan_result import LayoutFigures, LayoutPlan, LayoutRow, rank_rows
from hespas.workflows.studies import serving
from hespas.workflows.studies.grid_studies import STUDIES
from hespas.workflows.studies.study_definition import StudyColumn
from hespas.workflows.studies.study_runner import StudyCell, make_figure_row
from hespas.workflows.sweep.sweep_table import flatten_figures, read_table
from support import law_cases, traces

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
    assert len({figure.name for figure in FIGURES}) == len(FIGURES)
    for figure in FIGURES:
        assert figure.unit in UNITS and figure.rule in RULES
        assert figure.title and figure.help


def test_each_derived_figure_has_a_test() -> None:
    """The laws below hold for any formula; a unit test compares its value."""
    tests = "\n".join(path.read_text() for path in (ROOT / "test" / "unit").glob("*.py"))
    names = [f.name for f in FIGURES if f.name.startswith("derived.")]
    untested = [name for name in names if not re.search(rf"\b{name.partition('.')[2]}\b", tests)]
    assert not untested, f"compare {untested} with their values in test/unit/test_derived.py"


def check_run_names(case: LawCase) -> None:
    """Check the names in run.json."""
    flat = flatten_figures(case.result.figures)
    assert not [name for name in flat if not is_known_name(name)]
    missing = [f.name for f in FIGURES if get_figure(case.result.figures, f.name, ...) is ...]
    assert not missing, missing


def check_documented_names(case: LawCase) -> None:
    """Check that the reference page describes each key of run.json."""
    pages = ("docs/reference/run-json.md", "docs/reference/figures.md")
    text = "\n".join((ROOT / page).read_text() for page in pages)
    described = set(re.findall(r"`([a-z_0-9]+)`", text))
    named = set(case.result.figures)
    for part in ("memory", "derived"):
        named |= set(case.result.figures[part])
    assert named <= described, named - described


def check_row_names(row: Mapping[str, Any], labels: set[str]) -> None:
    """Check the names in a row of a plan or of a study."""
    known = {name for figure in ROW_FIGURES for name in figure.row_names}
    known |= set(ROW_FACTS) | labels
    assert set(row) <= known, set(row) - known


def test_names_of_runs(case: LawCase) -> None:
    check_run_names(case)
    check_documented_names(case)


def test_names_of_sweeps(case: LawCase, tmp_path: Path) -> None:
    row = sweep_one_cell(tmp_path)
    names = [name for name in row if not name.startswith(("cell.", "provenance."))]
    assert not [name for name in names if not is_known_name(name)]


def test_names_of_plans(case: LawCase) -> None:
    for row in make_plan(case).rows:
        check_row_names(row.to_json(), {"data", "remat"})


def test_names_of_pipelines(tmp_path: Path) -> None:
    """A pipeline has the figures of rows, though it has other facts of a step than a program."""
    system = tmp_path / "system"
    traces.system(system, (2,), topology="Switch")
    study = hespas.pipeline(
        write_stage_programs(tmp_path / "stages"), ranks=2, schedules=["gpipe"], microbatches=[2],
        systems=[str(system)], cache="none",
    )  # fmt: skip
    names = {name for figure in ROW_FIGURES for name in figure.row_names}
    assert names - set(study.rows[0].figures) == NOT_OF_PIPELINES


def test_names_of_studies(case: LawCase) -> None:
    check_row_names(make_study_row(case), {"model"})


# Parts of run.json that hold several names, and what a pipeline has besides figures.
NO_FIGURES = {"memory", "derived", "tags", "sensitivity", "ranks", "bubble_share"}
FIGURE_HOLDERS = ("figures", "fused", "compiled")  # names of what figures are read from


def list_read_names(source: str) -> Iterator[str]:
    """Yield the names by which code reads figures: from holders, or by their paths."""
    for node in ast.walk(ast.parse(source)):
        match node:
            case ast.Constant(str(name)) if re.fullmatch(r"(derived|memory)(\.\w+)+", name):
                yield name
            case ast.Subscript(holder, ast.Constant(str(name))):
                if ast.unparse(holder).endswith(FIGURE_HOLDERS):
                    yield name
            case ast.Call(ast.Attribute(holder, method), [ast.Constant(str(name)), *_]):
                is_read = method == "get" and ast.unparse(holder).endswith(FIGURE_HOLDERS)
                if is_read or method == "get_figure":
                    yield name


def test_figures_that_are_read_by_name_are_declared() -> None:
    """A reader of a figure that was renamed or removed would take it for an unknown one."""
    known = {name for figure in ROW_FIGURES for name in figure.row_names}
    known |= {*ROW_FACTS, *NO_FIGURES}
    read = {
        (path.name, name)
        for folder in ("workflows", "tools")
        for path in (ROOT / folder).rglob("*.py")
        if path.name != "figures.py"  # it declares them
        for name in list_read_names(path.read_text())
    }
    assert len(read) > 60
    assert not [pair for pair in read if pair[1] not in known and not is_known_name(pair[1])]


def test_figures_that_pages_name_are_declared() -> None:
    named = {
        (page.name, name)
        for page in (ROOT / "docs").rglob("*.md")
        for name in re.findall(r"\bderived\.[a-z_0-9]+\b", page.read_text())
    }
    assert named
    assert not [pair for pair in named if not is_known_name(pair[1])]


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


def print_plan_tables(case: LawCase) -> Printed:
    names = {figure.name for figure in figures.list_figures("plan terminal")}
    assert {*plan_result.FRONT_FIGURES} <= names
    table, *_ = plan_result.build_plan_tables(make_plan(case))
    return dict(zip(table.header, table.rows[0], strict=True))


def print_plan_page(case: LawCase) -> Printed:
    page = plan_page.render_plan_page(make_plan(case), "Layouts").decode()
    return read_page_table(page, "layouts-table")


def make_plan(case: LawCase) -> LayoutPlan:
    """Make a plan whose only layout has the figures of a run."""
    row = make_study_row(case)
    layout = LayoutRow(LayoutCandidate({"data": 2}, {"remat": "full"}), "estimated")
    layout.fused = LayoutFigures.from_row("fused", row, "step.mlir")
    layout.bound = StepBound(1e-9, 0.0, 1)
    return LayoutPlan(NODE, None, 2, rank_rows([layout]), 1_000_000)


def print_study(case: LawCase) -> Printed:
    """Format each column that some study of programs has."""
    row = make_study_row(case)
    columns = [c for c in list_study_columns() if c.name in row]
    return {column.header: column.text(row[column.name]) for column in columns}


def list_study_columns() -> list[StudyColumn]:
    """List the columns of all studies."""
    return [column for study in (*STUDIES.values(), serving.STUDY) for column in study.columns]


PRINTERS: Mapping[str, Callable[[LawCase], Printed]] = {
    "summary": print_summary, "page": print_page, "show": print_show, "compare": print_compare,
    "changes": print_changes, "sweep": print_sweep_page, "plan": print_plan_page,
    "plan terminal": print_plan_tables, "study": print_study,
}  # fmt: skip


def check_labels(place: str, case: LawCase) -> None:
    """Check that a place prints the figures that the list has for it, and no others."""
    printed = dict(PRINTERS[place](case))
    for label in FACT_LABELS[place]:
        printed.pop(label, None)
    declared = list_labels(place)
    missing, unknown = set(declared) - set(printed), set(printed) - set(declared)
    assert not missing and not unknown, f"missing {missing}, unknown {unknown}"
    for label, figure in declared.items():
        value = get_figure(case.result.figures, figure.name)
        texts = figure.format(value), figure.format_cell(value)
        assert printed[label].startswith(texts), f"{label}: {printed[label]}, not {texts}"


@pytest.mark.parametrize("place", PRINTERS)
def test_labels(place: str, case: LawCase) -> None:
    assert set(PRINTERS) == set(FACT_LABELS)
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
        peaks = {values["derived.peak_flops_per_s"] for values in flat}
        for figure in FIGURES:
            if figure.rule != "ratio" or len(peaks) == 1:
                check_rule(figure, *(values.get(figure.name) for values in flat))


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
        is_no_sum = both < first + second
        assert is_no_sum and both >= max(first, second), (figure.name, first, second, both)
    elif figure.rule == "same":
        assert first == second == both, figure.name


# Mutants.


def show_elsewhere(name: str, *places: str) -> Callable[[pytest.MonkeyPatch], None]:
    """Return a mutant in which a figure is not shown at some places."""

    def patch(monkeypatch: pytest.MonkeyPatch) -> None:
        shown = figures.list_figures

        def forget(place: Any, table: str = "") -> list[Figure]:
            return [f for f in shown(place, table) if f.name != name or place not in places]

        for module in (run_summary, run_page, plan_result, plan_page, sweep_page):
            monkeypatch.setattr(module, "list_figures", forget)

    return patch


def print_other_figure(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let a table print the value of another figure."""
    get_value = plan_result.get_value

    def get_wrong_share(row: Any, figure: Figure) -> Any:
        return 0.5 if figure.unit == "share" else get_value(row, figure)

    monkeypatch.setattr(plan_result, "get_value", get_wrong_share)


def add_unknown_figure(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let run.json have a figure that is not in the list."""
    original = run_summary.to_summary_json
    for module in (run_summary, run_results):
        monkeypatch.setattr(
            module, "to_summary_json", lambda *_: {**original(*_), "host_s": 1.0}, raising=False
        )


def add_as_maximum(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let the energy of a step be that of the largest op."""
    largest = SimpleNamespace(fsum=lambda values: max(values, default=0))
    monkeypatch.setattr(aggregate, "math", largest)


@pytest.mark.parametrize(
    ("name", "place"),
    [
        ("derived.area_mm2", "sweep"), ("derived.hfu", "page"), ("derived.energy_j", "summary"),
        ("derived.tokens_per_s", "plan terminal"),
    ],
)  # fmt: skip
def test_a_missing_label_is_noticed(
    name: str, place: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    show_elsewhere(name, place)(monkeypatch)
    with pytest.raises(AssertionError):
        check_labels(place, run_rich_program(tmp_path))


def test_another_value_is_noticed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    print_other_figure(monkeypatch)
    with pytest.raises(AssertionError):
        check_labels("plan terminal", run_rich_program(tmp_path))


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
