"""The pool of cells: a failure costs its cell, answers are kept at once, and scripts need no guard.

``test_sweep_run`` has the interruption of a command, and ``test_sweep_dask`` a cluster.
"""

from __future__ import annotations

import json
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest
from support.processes import environment_with_support, start_process
from support.published_inputs import PROGRAM
from support.tool_commands import parse_pipe, run_command

from hespas.estimators.measure.measurement_cache import MeasurementCache
from hespas.support.errors import HespasError, UsageError
from hespas.workflows.cells import Cell, CellPool, PoolOptions
from hespas.workflows.studies import study_programs
from hespas.workflows.validation import step_predictions
from hespas.workflows.validation.prediction_scores import COLUMNS

FUNCTION = "support.cell_functions:act"


def make_cells(actions: list[str], *, is_kept: bool = True) -> list[Cell]:
    return [
        Cell(action, {"action": action, "number": i}, f"key {i}" if is_kept else "")
        for i, action in enumerate(actions)
    ]


def run_cells(cells: list[Cell], **options: Any) -> tuple[list[Any], CellPool]:
    with CellPool(FUNCTION, PoolOptions(**options), print, "test") as pool:
        return pool.run_cells(cells), pool


FAILURES = {
    "abort": "error: the worker crashed (SIGABRT)",
    "segfault": "error: the worker crashed (SIGSEGV)",
    "hang": "error: it took more than 3 s",
    "raise": "a mistake of ours",
    "exit": "error: the program exited with code 3",
    "memory": "error: it ran out of memory",
    "refuse": "step.mlir:3: error: it does not fit; use more devices",
    "refuse usage": "error: no such option",
}


@pytest.mark.parametrize("is_kept", [True, False])  # in one chunk, and each alone
def test_a_failure_costs_its_cell_only(tmp_path: Path, is_kept: bool) -> None:
    actions = ["answer", *(word for failure in FAILURES for word in (failure, "print"))]
    cells = make_cells(actions, is_kept=is_kept)
    answers, pool = run_cells(cells, jobs=2, timeout_s=3.0, cache=str(tmp_path / "c.sqlite"))
    for i, (action, answer) in enumerate(zip(actions, answers, strict=True)):
        if action in FAILURES:
            assert FAILURES[action] in str(answer)
            assert isinstance(answer, UsageError) == (action == "refuse usage")
        else:
            assert answer["number"] == i
    assert (pool.recalled, pool.computed) == (0, 1 + len(FAILURES))
    if is_kept:
        good = [cell for cell in cells if cell.name not in FAILURES]
        again, pool = run_cells(good, cache=str(tmp_path / "c.sqlite"))
        assert again == [answer for answer in answers if isinstance(answer, dict)]
        assert (pool.recalled, pool.computed) == (len(good), 0)


def test_a_file_that_exists_is_an_answer(tmp_path: Path) -> None:
    (tmp_path / "old").write_text("of an earlier command")
    cells = [
        Cell(name, {"action": "answer", "number": 1, "output": path}, output=path)
        for name in ("old", "new")
        for path in [str(tmp_path / name)]
    ]
    answers, pool = run_cells(cells, cache="/proc/no/cache")  # which is not opened
    assert (pool.recalled, pool.computed) == (1, 1) and answers[0] == {}
    assert (tmp_path / "old").read_text() == "of an earlier command"
    assert (tmp_path / "new").read_text() == "written"


def test_a_store_that_cannot_be_used_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(HespasError, match="the cache cannot be used"):
        run_cells(make_cells(["abort"]), cache="/proc/no/cache")
    cells = make_cells(["answer"] * 64)
    with CellPool(FUNCTION, PoolOptions(cache=str(tmp_path / "c")), print, "test") as pool:
        pool._open_store()._db.execute("PRAGMA max_page_count = 3")  # a full disk
        with pytest.raises(HespasError, match="disk is full; use another file, or cache=none"):
            pool.run_cells(cells)
    _, pool = run_cells(cells, cache=str(tmp_path / "c"))  # what fitted has been kept
    assert pool.recalled > 0 and pool.recalled + pool.computed == len(cells)


SCRIPT = """
import sys
from hespas.workflows.cells import Cell, CellPool, PoolOptions
print("once", flush=True)
cells = [Cell(w, {"action": w, "number": i}, f"key {i}") for i, w in enumerate(sys.argv[1:])]
options = PoolOptions(jobs=2, cache="c.sqlite")
with CellPool("support.cell_functions:act", options, print, "test") as pool:
    print([answer["number"] for answer in pool.run_cells(cells)], pool.recalled + pool.computed)
"""


def start_script(folder: Path, actions: list[str]) -> Any:
    (folder / "script.py").write_text(SCRIPT)
    command = [sys.executable, "script.py", *actions]
    return start_process(
        command, cwd=folder, env=environment_with_support(), stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    )  # fmt: skip


@pytest.mark.slow
def test_scripts_need_no_guard_and_share_a_store(tmp_path: Path) -> None:
    with (
        start_script(tmp_path, ["answer"] * 40) as first,
        start_script(tmp_path, ["answer"] * 40) as second,
    ):
        for process in (first, second):
            out, err = process.communicate(timeout=120)
            assert out == f"once\n{[*range(40)]} 40\n" and process.returncode == 0, err
    with MeasurementCache(str(tmp_path / "c.sqlite")) as cache:
        assert sum(results for *_, results, _ in cache.count_grouped_outcomes()) == 40


@pytest.mark.slow
def test_an_interrupted_script_has_kept_what_was_finished(tmp_path: Path) -> None:
    (tmp_path / "waiting").touch()
    actions = ["answer"] * 16 + ["wait"] * 16
    with start_script(tmp_path, actions) as process:
        deadline = time.monotonic() + 60
        while time.monotonic() < deadline and count_kept(tmp_path / "c.sqlite") < 16:
            time.sleep(0.05)
        process.send_signal(signal.SIGINT)
        out, _ = process.communicate(timeout=60)
    assert "16 of 32 cells are kept: run the same command to continue" in out
    (tmp_path / "waiting").unlink()
    with start_script(tmp_path, actions) as process:
        assert f"{[*range(32)]} 32" in process.communicate(timeout=120)[0]


def count_kept(file: Path) -> int:
    if not file.exists():
        return 0
    with MeasurementCache(str(file)) as cache:
        return sum(results for *_, results, _ in cache.count_grouped_outcomes())


def run_line(line: str) -> Any:
    commands = parse_pipe(line)
    assert commands is not None
    return run_command(commands[0])


@pytest.mark.slow
def test_a_program_that_crashes_the_exporter_is_a_row(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    function = "support.cell_functions:crash_on_eight_devices"
    monkeypatch.setattr(study_programs, "FUNCTION", function)
    done = run_line(
        "hespas study gemm --kinds all-gather --sizes 256 --devices 4,8 --node H100_80GB "
        "--form fused --work-dir w --cache none --json"
    )
    rows = json.loads(done.out)["rows"]
    assert done.code == 1
    assert [bool(row["error"]) for row in rows] == [False, True]
    assert "the worker crashed (SIGABRT)" in rows[1]["error"]


@pytest.mark.slow
def test_a_measured_step_that_crashes_is_an_error_with_its_place(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(step_predictions, "FUNCTION", "support.cell_functions:crash_on_h100")
    monkeypatch.chdir(tmp_path)
    Path("step.mlir").write_text(PROGRAM)
    rows = [f"step,4,{node},{node}_4GPU,0.5,0,made up" for node in ("A100_SXM_40GB", "H100_80GB")]
    Path("cells.csv").write_text("\n".join([",".join(COLUMNS), *rows]) + "\n")
    line = (
        "hespas validate cells.csv --programs . --start unoptimised --no-baselines --cache c --json"
    )
    done = run_line(line)
    place = "step on H100_80GB, calibrated, unoptimised"
    assert (done.code, done.out) == (1, "") and count_kept(tmp_path / "c") == 1
    assert f"{place}: error: the worker crashed (SIGABRT)" in done.err
    monkeypatch.undo()
    monkeypatch.chdir(tmp_path)
    cells = json.loads(run_line(line).out)["flows"]["calibrated, unoptimised"]["cells"]
    assert [cell["node"] for cell in cells] == ["A100_SXM_40GB", "H100_80GB"]
