"""The page of published training runs, and its summaries elsewhere."""

from __future__ import annotations

import csv
import re

import pytest
from support.paths import ROOT

from docs.generators import training_runs
from hespas.support.errors import HespasError
from hespas.workflows.validation.case_systems import find_node
from hespas.workflows.validation.prediction_scores import (
    STARTS,
    find_cell_program,
    find_programs,
    read_measured_cells,
)
from hespas.workflows.validation.training_cases import read_training_cases


def test_the_readme_and_the_page_of_accuracy_show_the_summary():
    summary = training_runs.render_summary()
    assert summary.count("\n") > 4
    for name in ("README.md", "docs/accuracy.md", "docs/reference/training-runs.md"):
        assert summary in (ROOT / name).read_text(), name


def test_every_row_is_predicted_or_has_a_reason():
    rows = training_runs.read_runs()
    assert {bool(row["predicted_s"]) != bool(row["reason_kinds"]) for row in rows} == {True}
    for row in rows:
        if row["predicted_s"]:
            parts = [float(row[name] or 0) for name in ("product_s", "attention_s", "stream_s")]
            is_pipeline = re.search(r"pp=(?!1\b)", row["parallelism"])
            assert 0 < sum(parts) <= float(row["compute_s"]) * 1.001 or is_pipeline, row["id"]
            assert float(row["low_s"]) < float(row["predicted_s"]) < float(row["high_s"])


def test_the_table_that_reruns_the_rows_has_them_all():
    """``hespas validate`` reads what the pages name, and makes the same node of each row."""
    table = "docs/data/training-cases.csv"
    for name in ("README.md", "docs/accuracy.md", "docs/reference/training-runs.md"):
        assert f"hespas validate {table}" in (ROOT / name).read_text(), name
    cases = {case.id: case for case in read_training_cases(str(ROOT / table))}
    rows = {row["id"]: row for row in training_runs.read_runs()}
    assert list(cases) == list(rows)
    copied = ("source", "model", "hardware", "precision", "framework", "tier", "remat")
    for name, row in rows.items():
        case = cases[name]
        assert case.measured_s == float(row["measured_s"])
        assert [case.get_text(column) for column in copied] == [row[column] for column in copied]
        if row["node"]:
            assert find_node(case.get_text("hardware"), case.get_text("source")) == row["node"]


def test_each_measured_step_has_a_program_and_stands_on_the_page():
    """At night the page's command compares them; a program without a row is compared by nothing."""
    cells = read_measured_cells(str(ROOT / "docs/examples/validation/measured.csv"))
    programs = find_programs([str(ROOT / "docs/examples")])
    found = [{find_cell_program(cell, start, programs) for start in STARTS} for cell in cells]
    assert [cell for cell, paths in zip(cells, found, strict=True) if paths == {None}] == []
    stored = {path for path in programs.values() if path.parent.name == "validation"}
    unused = stored - set().union(*found)
    assert unused == set(), "add a row to docs/examples/validation/measured.csv"
    table = (ROOT / "docs" / "accuracy.md").read_text()
    for cell in cells:
        row = rf"^  {cell.workload} +{cell.devices} +{cell.node} "
        assert re.search(row, table, re.MULTILINE), f"docs/accuracy.md lacks {cell}"


def test_ranges_of_devices_are_sorted_by_number():
    names = ["513 and more", "1 to 8", "bf16", "65 to 512", "9 to 64"]
    ordered = ["1 to 8", "9 to 64", "65 to 512", "513 and more", "bf16"]
    assert sorted(names, key=training_runs.make_sort_key) == ordered


def test_layouts_are_ordered_by_the_time_of_a_device_for_a_token():
    def make_row(devices: int, batch: int, measured_s: float, predicted_s: float) -> dict[str, str]:
        figures = {"measured_s": measured_s, "predicted_s": predicted_s, "low_s": 0.0,
                   "high_s": 9.0, "devices": devices, "global_batch": batch, "seq_len": 2048,
                   "compute_s": 1.0}  # fmt: skip
        texts = dict.fromkeys(("model", "node", "source", "exposed_comm_s"), "")
        return texts | {name: str(value) for name, value in figures.items()}

    # Device seconds for each sequence: 8 and 8, then 10 and 12, then 10.2 and 9.
    rows = [make_row(8, 8, 8.0, 8.0), make_row(16, 16, 10.0, 12.0), make_row(8, 8, 10.2, 9.0)]
    assert training_runs.count_ordered_layouts(rows[:2]) == (1, 1)
    assert training_runs.count_ordered_layouts(rows[1:]) == (0, 0)  # measured times 2 % apart
    slower = make_row(8, 16, 22.0, 18.0)  # 11 s measured and 9 s predicted for each sequence
    assert training_runs.count_ordered_layouts([rows[1], slower]) == (0, 1)


def test_extended_rows_are_counted_and_named(monkeypatch):
    rows = [row | {"extended_from_layers": ""} for row in training_runs.read_runs()]
    extended = [row for row in rows if row["predicted_s"]][:3]
    for row in extended:
        row["extended_from_layers"] = "2 4"
    extended[0]["exceeded_limit"] = "XLA finds this program too large: 3 GiB of 2 GiB"
    monkeypatch.setattr(training_runs, "read_runs", lambda: rows)
    page = training_runs.render_page()
    assert "3 rows are predicted from [programs with fewer layers]" in page
    assert f"the whole: {extended[0]['id']}: XLA finds this program too large: 3 GiB" in page


def test_a_result_of_another_command_is_refused(tmp_path):
    path = tmp_path / "other.csv"
    path.write_text("id,model\n1,tiny\n")
    with pytest.raises(HespasError, match=r"no column .*attention_s, .*; write it with"):
        training_runs.read_runs(path)


def test_a_result_is_kept_and_drawn(tmp_path, monkeypatch):
    monkeypatch.setattr(training_runs, "PLOT", tmp_path / "plot.svg")
    result = tmp_path / "result.csv"
    rows = [dict(row) for row in training_runs.read_runs()[:9]]
    with result.open("w", newline="") as file:
        writer = csv.DictWriter(file, [*rows[0], "extra"])
        writer.writeheader()
        writer.writerows({**row, "extra": "left out"} for row in rows)
    monkeypatch.setattr(training_runs, "RUNS", tmp_path / "kept.csv")
    training_runs.main([str(result)])
    assert training_runs.read_runs(tmp_path / "kept.csv") == rows
    assert (tmp_path / "plot.svg").read_text().startswith("<?xml")
    with result.open("w", newline="") as file:  # one row alone leaves the others
        writer = csv.DictWriter(file, [*rows[0]])
        writer.writeheader()
        writer.writerow({**rows[3], "low_s": "0.001"})
    training_runs.main([str(result)])
    rows[3]["low_s"] = "0.001"
    assert training_runs.read_runs(tmp_path / "kept.csv") == rows
