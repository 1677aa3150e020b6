"""The tables of docs/how-to/studies.md are what its commands print."""

from __future__ import annotations

from pathlib import Path

import pytest
from support.budgets import PROFILE
from support.paths import ROOT
from support.study_tables import TABLES

from hespas.support.csv_rows import read_csv_rows
from hespas.tools import hespas
from hespas.tools.console_scripts import run_tool_main
from hespas.workflows.studies.grid_studies import STUDIES
from hespas.workflows.studies.study_runner import make_study_table
from hespas.workflows.sweep.sweep_analysis import Objective
from hespas.workflows.sweep.sweep_summary import SweepQuestions, make_answer_tables
from hespas.workflows.sweep.sweep_table import convert_study_row


@pytest.mark.slow
@pytest.mark.skipif(PROFILE != "nightly", reason="together they compile for some minutes")
@pytest.mark.parametrize("name", TABLES)
def test_the_documented_rows_are_printed(name: str, tmp_path: Path) -> None:
    pytest.importorskip("jax")
    arguments, render = TABLES[name]
    table = str(tmp_path / "rows.csv")
    assert run_tool_main(hespas.main, ["study", *arguments, "--csv", table]) == 0
    documented = (ROOT / "docs/how-to/studies.md").read_text().splitlines()
    rows = [row for row, _ in read_csv_rows(table, ("step_time_s",))]
    assert [line for line in render(rows) if line not in documented] == []


@pytest.mark.parametrize("dtypes", [("bf16", "f8E4M3FN"), ("bf16", "bf16")])
def test_utilisation_names_its_peak_beside_another_one(dtypes: tuple[str, str]) -> None:
    """Half of the peak of FP8 is more work than half of that of bf16."""
    figures = {"step_time_s": 1.0, "compute_s": 1.0, "mfu": 0.5, "form": "fused"}
    rows = [
        {"model": model, "node": "H100_80GB", "devices": 8, "mesh": "fsdp=8",
         "system": "HGX_H100_8", "error": None, "program": model, "peak_dtype": dtype, **figures}
        for model, dtype in zip(("8b", "70b"), dtypes, strict=True)
    ]  # fmt: skip
    table = make_study_table(STUDIES["llama"], rows, ["model"])
    shown = [row[table.header.index("MFU")] for row in table.rows]
    several = dtypes[0] != dtypes[1]
    assert shown == (["50.0 % of bf16", "50.0 % of f8E4M3FN"] if several else ["50.0 %"] * 2)
    converted = [convert_study_row(row) for row in rows]
    assert [row and row["derived.peak_dtype"] for row in converted] == [*dtypes]
    fronts = make_answer_tables(
        [{**row, "cell.mlir": "one", "error": None} for row in converted if row],
        SweepQuestions((), (Objective("derived.mfu", is_maximised=True),)),
    )
    assert ("peak of" in fronts[0].header) == several
