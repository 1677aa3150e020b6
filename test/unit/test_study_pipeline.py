"""``hespas study pipeline``: its rows, figures and cache, over programs of stages in a folder."""

from __future__ import annotations

import csv
import json
from pathlib import Path

import pytest
from support.stage_programs import N, write_stage_programs
from support.tool_commands import parse_pipe, run_command

import hespas
from hespas import configs
from hespas.support.errors import HespasError, UsageError
from hespas.support.text_tables import format_scaled
from hespas.workflows.pipelines import pipeline_cells
from hespas.workflows.pipelines.pipeline_study import (
    PipelineRequest,
    PipelineRow,
    plan_pipelines,
)
from hespas.workflows.pipelines.schedules import build_schedule
from hespas.workflows.pipelines.stage_workloads import plan_stage_workloads
from hespas.workflows.studies.study_definition import StudyWorkload
from support import traces as t


@pytest.fixture
def stages(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder of programs for all stages, beside a system of two devices."""
    monkeypatch.chdir(tmp_path)
    t.system(tmp_path / "system", (2,), topology="Switch")
    return write_stage_programs(tmp_path / "stages")


def run_study(flags: str):
    commands = parse_pipe(f"hespas study pipeline {flags}")
    assert commands is not None
    return run_command(commands[0])


def test_a_folder_of_stages(stages: Path) -> None:
    flags = (
        "stages --ranks 2 --system system --schedules gpipe,1f1b,interleaved,zb-h1 "
        "--microbatches 3,6 --straggler 1.5 --cache results.sqlite"
    )
    done = run_study(f"{flags} --csv rows.csv --plot rows.svg --page rows.html --json")
    assert done.code == 1 and "4 of 8 rows" not in done.err
    result = json.loads(done.out)
    rows = {(row["schedule"], row["microbatches"]): row for row in result["rows"]}
    for (schedule, microbatches), row in rows.items():
        if schedule == "zb-h1":
            assert row["error"].startswith("stage 0 has no input gradient program")
        elif (schedule, microbatches) == ("interleaved", 3):
            assert "cannot run 3 microbatches" in row["error"]
        else:
            stages_per_rank = row["stages_per_rank"]
            assert row["error"] is None and row["fits"]
            # Of two ranks in turn, one waits at the start and the other at the end.
            bubble = 1 / (stages_per_rank * microbatches + 1)
            assert row["ideal_bubble_share"] == pytest.approx(bubble, rel=1e-6)
            assert row["bubble_share"] > bubble and row["exposed_transfer_s"] > 0
            assert row["step_time_s"] < row["straggler_step_time_s"] < 1.5 * row["step_time_s"]
            assert row["tokens_per_s"] * row["step_time_s"] == pytest.approx(microbatches * N)
            flops = microbatches * stages_per_rank * 2 * 3 * 2 * N**3
            assert row["model_flops"] == flops and 0 < row["mfu"] <= row["hfu"] < 1
    assert rows["gpipe", 6]["peak_bytes"] > rows["1f1b", 6]["peak_bytes"]
    # The same work for each microbatch, and of equal times the one with less memory.
    best = result["rows"][result["winner"]]
    assert (best["schedule"], best["microbatches"]) == ("1f1b", 6)
    assert len(result["ranks"][0]["tasks_ns"]) == 12
    with open("rows.csv") as file:
        assert [row["schedule"] for row in csv.DictReader(file)] == [s for s, _ in rows]
    page = Path("rows.html").read_text()
    assert page.count("backward of microbatch 5, stage 1") == 2 and "rank 1" in page
    assert Path("rows.svg").exists()
    again = run_study(flags)
    assert "5 pipelines" not in again.err and ", 0 computed now" in again.err
    assert "1f1b *" in again.out and "cannot run 3 microbatches" in again.out


def test_the_python_interface(stages: Path) -> None:
    study = hespas.pipeline(
        "stages", ranks=2, schedules=["1f1b"], microbatches=[2], systems=["system"], cache="none"
    )
    assert study.winner is study.rows[0] and study.failed_count == 0
    assert "1f1b *" in str(study) and "Ranks of 1f1b, 2 microbatches" in str(study)
    with pytest.raises(HespasError, match="no pipeline can be estimated: zb-h1"):
        hespas.pipeline("stages", ranks=2, schedules=["zb-h1"], systems=["system"], cache="none")
    with pytest.raises(UsageError, match="no option 'rank'"):
        hespas.pipeline("stages", rank=2)


def test_a_pipeline_that_does_not_fit_is_a_row_with_its_reason(stages: Path) -> None:
    node = configs.read_node_json("H100_80GB")
    Path("small.json").write_text(json.dumps({**node, "name": "small", "memory_bytes": 40_000_000}))
    study = hespas.pipeline(
        "stages", ranks=2, schedules=["gpipe", "1f1b"], microbatches=[4], node="small.json",
        systems=["system"], cache="none",
    )  # fmt: skip
    gpipe, one_by_one = study.rows
    assert gpipe.figures["fits"] is False and "needs 4" in gpipe.reason
    assert gpipe.figures["memory_margin"] < 0 < one_by_one.figures["memory_margin"]
    assert study.winner is one_by_one and study.failed_count == 0
    ranks = [rank["memory_bytes"] for rank in gpipe.figures["ranks"]]
    assert max(ranks) > 40_000_000
    (table,) = (one for one in study.build_tables() if one.title.startswith("Memory of each rank"))
    (line,) = table.rows
    assert list(table.header) == ["schedule", "microbatches", "rank 0", "rank 1"]
    assert list(line[:2]) == ["gpipe", "4"]
    for text, size in zip(line[2:], ranks, strict=True):
        assert text == format_scaled(size, "B") + (" *" if size > 40_000_000 else "")


def test_the_memory_of_each_rank_is_shown_where_no_pipeline_fits(stages: Path) -> None:
    node = configs.read_node_json("H100_80GB")
    Path("tiny.json").write_text(json.dumps({**node, "name": "tiny", "memory_bytes": 1_000_000}))
    study = hespas.pipeline(
        "stages", ranks=2, schedules=["gpipe", "1f1b"], microbatches=[4], node="tiny.json",
        systems=["system"], cache="none",
    )  # fmt: skip
    assert study.winner is None
    (table,) = (one for one in study.build_tables() if one.title.startswith("Memory of each rank"))
    assert [row[0] for row in table.rows] == ["gpipe", "1f1b"]
    assert all(text.endswith(" *") for row in table.rows for text in row[2:])


def test_wrong_requests(stages: Path) -> None:
    for changes, message in (
        ({"ranks": 1}, "a pipeline of 1 rank"),
        ({"systems": ()}, "need one system"),
        ({"mesh": {"data": 2}}, "have their options, mesh, batch and layers"),
    ):
        request = PipelineRequest(
            **{"folder": "stages", "ranks": 2, "systems": ["system"], **changes}
        )
        with pytest.raises(UsageError, match=message):
            request.choose_system()
    with pytest.raises(UsageError, match="no schedule is called '1f2b'"):
        plan_pipelines(PipelineRequest(schedules=["1f2b"]), "HGX_H100_8")
    for options, message in (
        ({"ranks": 0}, "'ranks' is 0"),
        ({"straggler": -1.0}, "'straggler' is -1"),
        ({"schedules": "1f1b"}, "'schedules' is"),
    ):
        with pytest.raises(UsageError, match=message):
            hespas.pipeline(**options)
    assert PipelineRequest(options={"batch": 2}).options == {"batch": "2"}


def test_microbatches_divide_the_global_batch() -> None:
    request = PipelineRequest(
        ranks=2, schedules=["1f1b"], microbatches=[2, 4, 3], mesh={"fsdp": 2, "tensor": 2},
        global_batch=16, options={"model": "tiny"},
    )  # fmt: skip
    assert request.choose_system() == "HGX_H100_8"
    rows = plan_pipelines(request, "HGX_H100_8")
    assert [row.batch for row in rows] == [4, 2, None]
    assert rows[2].reason == "16 sequences of a step are not 3 microbatches on 2 batch shards"


@pytest.mark.slow
def test_layers_of_stages_can_be_stated() -> None:
    """The last stage has the logits, so that fewer layers there make a shorter step."""
    pytest.importorskip("jax")
    rows = run_study(
        "--model 100m --set layers=6 --set sequence=512 --ranks 2 --mesh data=2 "
        "--schedules 1f1b --microbatches 2 --stage-layers even 4,2 3,2 6 6,0 --cache none "
        "--keep-going --json"
    )
    assert rows.code == 0, rows.err
    result = json.loads(rows.out)
    even, shifted, *wrong = result["rows"]
    assert even["stage_layers"] == "3 3" and shifted["stage_layers"] == "4 2"
    assert shifted["step_time_s"] < even["step_time_s"] and result["winner"] == 1
    assert wrong[0]["error"].startswith("3,2 are 5 layers, and the model has 6")
    assert wrong[1]["error"].startswith("6 are layers of 1 stages, and 1f1b has 2")
    assert wrong[2]["error"].startswith("6,0: a stage has no layer; give every stage one layer")
    for text in ("x", "2,-2", ""):
        done = run_study(f"--stage-layers '{text}' --schedules 1f1b")
        assert done.code == 2 and "is no list of layers" in done.err


def test_stages_have_their_own_layers_and_ranks_show_them(stages: Path) -> None:
    model = StudyWorkload("moe", {"model": "deepseek-v3", "layers": "8"}, {"data": 2}, {})
    parts = plan_stage_workloads(model, build_schedule("1f1b", 4, 8), [1, 3, 3, 1])
    options = [stage["forward"].options for stage in parts]
    assert [one["layers"] for one in options] == ["1", "3", "3", "1"]
    assert [one["dense_layers"] for one in options] == ["1", "2", "0", "0"]
    row = PipelineRow("interleaved", 4, 2, [3, 1, 1, 2])
    assert row.is_uneven and row.title.endswith("4 microbatches, layers 3 1 1 2")
    assert row.count_rank_layers([0, 2]) == 4 and row.count_rank_layers([1, 3]) == 3
    with pytest.raises(
        UsageError, match="leave out --model, --set, --mesh, --global-batch and --stage-layers"
    ):
        hespas.pipeline(stages, ranks=2, systems=["system"], stage_layers=[[1, 1]])


def test_a_pipeline_that_crashes_a_worker_is_a_row(
    stages: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(pipeline_cells, "FUNCTION", "support.cell_functions:crash_on_gpipe")
    flags = "stages --ranks 2 --system system --schedules gpipe,1f1b --microbatches 2 --cache none"
    done = run_study(f"{flags} --json --jobs 2")
    rows = json.loads(done.out)["rows"]
    assert done.code == 1 and "1 of 2 rows have an error" in done.err
    assert [row["error"] for row in rows] == [
        "the worker crashed (SIGABRT) and printed nothing",
        None,
    ]
