"""Plans over the axis ``pipeline``: the layouts, their programs, and the command of the winner."""

from __future__ import annotations

import json
import shlex
from dataclasses import replace
from pathlib import Path
from unittest import mock

import pytest
from support.budgets import PROFILE
from support.tool_commands import parse_pipe, run_command

import hespas
from hespas import configs
from hespas.dialects.xla import find_gpu_library
from hespas.frontends.export import program_source, recipe_options
from hespas.recipes import stage
from hespas.simulators.in_memory_programs import InMemoryPrograms
from hespas.simulators.simulation_options import SimulationOptions, SimulatorChoice
from hespas.simulators.simulator_choice import simulate_inputs
from hespas.support.errors import UsageError
from hespas.tools.commands.study import build_pipeline_parser
from hespas.tools.model_flags import read_run_options
from hespas.workflows.estimate_source import lower_exportable_module
from hespas.workflows.pipelines.stage_estimates import (
    UPDATE,
    StagePart,
    estimate_stage_program,
)
from hespas.workflows.planning import layout_builders, pipeline_layouts
from hespas.workflows.planning.layout_bounds import CommBounds, ComputeBounds, LayoutBounds
from hespas.workflows.planning.layout_programs import LayoutRuns
from hespas.workflows.planning.layout_space import (
    LayoutCandidate,
    LayoutRequest,
    ProgramInterface,
)
from hespas.workflows.planning.pipeline_layouts import PipelineBounds
from hespas.workflows.run_config import RunConfig, RunOptions

INTERFACE = ProgramInterface(
    ("data", "fsdp", "tensor"),
    {"batch": "1", "accumulate": "1", "scan": "false", "model": "8b", "remat": "full"},
)
REQUEST = LayoutRequest(
    "llama", "H100_80GB", 8, 32, {"pipeline": (1, 2), "tensor": (1,)}, {"remat": ("full",)}
)


def list_layouts(request: LayoutRequest, ranks: int = 2):
    return pipeline_layouts.list_pipeline_candidates(request, INTERFACE, ranks)


def test_the_command_that_studies_a_pipeline_has_the_options_of_the_plan() -> None:
    layout = LayoutCandidate(
        {"pipeline": 2}, {"schedule": "1f1b", "stages_per_rank": "1", "accumulate": "2"}
    )
    options = RunOptions(
        overlap="none",
        slowdown={"all_reduce": 0.5, "other": 0.1},
        setting={"quantise": True, "job-devices": 8},
    )
    for form in ("fused", "scheduled"):
        words = pipeline_layouts.list_study_words(
            LayoutRuns("H100_80GB", None, options), layout, form
        )
        flags = words[words.index("H100_80GB") + 1 :]
        assert flags == [
            *(["--form", form] if form != "fused" else []), "--overlap", "none",
            "--setting", "quantise=true", "--setting", "job-devices=8",
            "--slowdown", "all_reduce=0.5,other=0.1",
        ]  # fmt: skip
        command_line = build_pipeline_parser().parse_args(words[3:])
        read = read_run_options(command_line, "hespas study pipeline")
        assert read.slowdown == options.slowdown


def test_every_pipeline_does_the_same_step() -> None:
    layouts = list_layouts(REQUEST)
    assert all(pipeline_layouts.is_pipeline(one) and not one.error for one in layouts)
    for one in layouts:
        shards = one.mesh["data"] * one.mesh["fsdp"]
        assert one.mesh["pipeline"] * shards * one.mesh["tensor"] == 8
        assert shards * int(one.options["batch"]) * int(one.options["accumulate"]) == 32
    # fsdp divides the optimiser's state over all batch shards, however data divides these.
    meshes = {(one.mesh["data"], one.mesh["fsdp"]) for one in layouts}
    assert len(meshes) == 2 and {(4, 1)} < meshes
    assert {one.options["accumulate"] for one in layouts} == {"2", "4", "8"}


def test_schedules_are_searched_if_they_can_run() -> None:
    options = {
        **REQUEST.options, "schedule": ("zb-h1", "interleaved"), "accumulate": ("1", "4"),
        "stages_per_rank": ("2", "4"),
    }  # fmt: skip
    layouts = list_layouts(replace(REQUEST, options=options))
    tried = {tuple(one.options[n] for n in ("schedule", "accumulate", "stages_per_rank", "scan"))
             for one in layouts}  # fmt: skip
    assert tried == {
        ("zb-h1", "1", "1", "false"), ("zb-h1", "4", "1", "false"),
        ("interleaved", "4", "2", "true"), ("interleaved", "4", "4", "true"),
    }  # fmt: skip
    plain = pipeline_layouts.drop_pipeline_options(replace(REQUEST, options=options))
    assert plain.axes == {"tensor": (1,)} and set(plain.options) == {"remat", "accumulate"}


def test_pipelines_that_cannot_be_are_rows_with_the_reason() -> None:
    (layout,) = list_layouts(REQUEST, 3)
    assert layout.error == "8 devices are not divisible by 3 ranks"
    (layout,) = list_layouts(replace(REQUEST, global_batch=7))
    assert layout.error == "no number of microbatches divides the global batch"


def test_only_recipes_with_stages_have_the_axis() -> None:
    assert pipeline_layouts.select_rank_counts(REQUEST, INTERFACE) == [1, 2]
    assert pipeline_layouts.select_rank_counts(replace(REQUEST, axes={}), INTERFACE) == [1]
    own = ProgramInterface(("pipeline", "data"), {})  # an axis of the user's own mesh
    assert pipeline_layouts.select_rank_counts(replace(REQUEST, program="x.py:step"), own) == [1]
    for changes, message in (
        ({"program": "step.py:train"}, "'step.py:train' has no programs of stages"),
        ({"axes": {"pipeline": (0,)}}, "one below 1"),
        ({"axes": {}, "options": {"schedule": ("gpipe",)}}, "needs the axis pipeline"),
    ):
        with pytest.raises(UsageError, match=message):
            pipeline_layouts.select_rank_counts(replace(REQUEST, **changes), INTERFACE)


@pytest.mark.parametrize("name", program_source.DECODERS)
def test_stages_have_the_options_of_their_model(name: str) -> None:
    whole, stage = (
        {option.name: option.format_default()
         for option in recipe_options.collect_options(program_source.find_program_function(recipe))}
        for recipe in (name, "stage")
    )  # fmt: skip
    of_steps = {
        "partitioning", "fsdp_copies", "token_copies", "loss_metrics", "pad_weights",
        "lora_rank", "lora_targets", "spread_weights", "separate_kernels",
    }  # fmt: skip
    assert whole.keys() - stage.keys() <= of_steps
    shared = whole.keys() & stage.keys() - {"mesh", "model"}
    assert {n: whole[n] for n in shared} == {n: stage[n] for n in shared}


@pytest.mark.parametrize("position", ["first", "last"])
@pytest.mark.parametrize("part", ["forward", "backward", "update"])
def test_no_bound_of_a_stage_is_above_its_estimate(
    part: StagePart, position: str, tmp_path: Path
) -> None:
    mesh, system = {"data": 2, "tensor": 2}, configs.load_system("H100_80GB_4GPU")
    options = {"remat": "full", "attention": "dot_product"} if part != UPDATE else {}
    program = stage.build(
        model="tiny", mesh=mesh, part=part, position=position, layers=2, sequence=512, emb=1024,
        mlp=4096, heads=8, kv_heads=8, head_dim=128, scan=True, **options,
    )  # fmt: skip
    path = tmp_path / "stage.mlir"
    path.write_text(str(lower_exportable_module(program, "cuda")))
    estimate = estimate_stage_program(str(path), RunConfig(node="H100_80GB", form="fuse"))
    simulated = simulate_inputs(
        InMemoryPrograms(estimate.trace).place_on_system(system), SimulatorChoice("embedded")
    )
    ops = layout_builders.sketch_module(hespas.read(path), mesh)
    layouts = LayoutBounds(
        mock.Mock(), ComputeBounds(configs.load_node("H100_80GB"), True),
        CommBounds(system, SimulationOptions()), print,
    )  # fmt: skip
    pipelines = PipelineBounds(layouts, system.device_count, mock.Mock())
    bound = pipelines.bound_program(ops, LayoutCandidate(mesh, {"part": part}))
    assert 0 < bound.compute_s <= 1e-9 * estimate.compute_ns
    assert bound.time_s <= 1e-9 * simulated.step_time_ns
    assert (bound.argument_bytes, bound.result_bytes) == (
        estimate.argument_bytes, estimate.result_bytes,
    )  # fmt: skip


@pytest.mark.slow
@pytest.mark.skipif(PROFILE != "nightly", reason="it plans and studies for half a minute")
def test_the_winner_is_a_pipeline_that_can_be_studied(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    plan = hespas.plan(
        "llama", node="H100_80GB", devices=4, global_batch=8, compile_count=0,
        mesh={"pipeline": 2, "fsdp": 1, "tensor": 1},
        options={"model": "tiny", "schedule": ["1f1b", "interleaved"], "sequence": 64,
                 "remat": "full", "accumulate": [2, 4], "attention": "dot_product"},
        work_dir="programs", cache="cache.sqlite",
    )  # fmt: skip
    winner = plan.winner
    assert winner is not None and winner.figures is not None and winner.bound is None
    assert [row.reason for row in plan.rows if row.status == "failed"] == [
        "2 layers cannot fill 4 stages"
    ] * 2
    assert len(plan.ranked) == 2 and winner.candidate.options["accumulate"] == "2"
    assert {difference.part for difference in plan.differences} <= {
        "compute", "exposed communication and bubbles",
    }  # fmt: skip
    assert "study " in str(plan) and not plan.partition_specs
    words = f"{plan.export_command} --work-dir programs --cache cache.sqlite --json"
    commands = parse_pipe(words)
    assert commands is not None and shlex.split(words)[:3] == ["hespas", "study", "pipeline"]
    done = run_command(commands[0])
    assert done.code == 0, done.err
    study = json.loads(done.out)
    assert study["rows"][0]["step_time_s"] == winner.figures.step_time_s
    assert ", 0 computed now" in study["notes"][-1]


@pytest.mark.slow
@pytest.mark.skipif(find_gpu_library() is None, reason="needs hespas[gpu-compiler]")
def test_a_compiled_pipeline_is_that_of_the_study_in_its_form(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    plan = hespas.plan(
        "llama", node="H100_80GB", devices=4, global_batch=4, compile_count=1,
        mesh={"pipeline": 2, "fsdp": 1, "tensor": 1},
        options={"model": "tiny", "schedule": ["1f1b"], "sequence": 64, "remat": "full",
                 "accumulate": [2], "attention": "dot_product"},
        work_dir="programs", cache="cache.sqlite",
    )  # fmt: skip
    (row,) = plan.ranked
    assert row.fused is not None and row.compiled is not None
    assert row.compiled.form == "scheduled"
    assert 0.2 < row.compiled.step_time_s / row.fused.step_time_s < 1
    commands = parse_pipe(f"{plan.export_command} --work-dir programs --cache cache.sqlite --json")
    assert commands is not None
    done = run_command(commands[0])
    assert done.code == 0, done.err
    study = json.loads(done.out)
    assert "--form scheduled" in plan.export_command and ", 0 computed now" in study["notes"][-1]
    assert study["rows"][0]["step_time_s"] == row.compiled.step_time_s
    assert 0 < study["rows"][0]["ideal_bubble_share"] < study["rows"][0]["bubble_share"] < 1
