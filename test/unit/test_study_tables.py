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
