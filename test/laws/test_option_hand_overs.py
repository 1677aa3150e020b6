"""Options of an estimate are handed on whole: from each command line to each run that it makes.

No program is made or estimated here. What runs make of the options is in ``test_options``.
"""

from __future__ import annotations

import importlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from pathlib import Path
from pkgutil import resolve_name
from typing import Any
from unittest import mock

import pytest
from support.option_cases import list_option_values

import hespas
from hespas import configs
from hespas.passes.pipeline import parse_options
from hespas.workflows import api, run_plan
from hespas.workflows.cell_keys import inline_kernel_costs
from hespas.workflows.cells import Cell, CellPool
from hespas.workflows.pipelines import (
    pipeline_cells,
    pipeline_estimate,
    stage_estimates,
)
from hespas.workflows.pipelines.pipeline_cells import PipelineCell, make_cell
from hespas.workflows.pipelines.pipeline_study import PipelineRequest, compare_pipelines
from hespas.workflows.pipelines.schedules import FORWARD, build_schedule
from hespas.workflows.planning.layout_programs import LayoutRuns
from hespas.workflows.planning.layout_space import LayoutCandidate, LayoutRequest, LayoutSpace
from hespas.workflows.planning.plan_result import LayoutFigures, LayoutPlan, LayoutRow
from hespas.workflows.planning.plan_search import LayoutSearch, PlanOptions, explain_plan
from hespas.workflows.program_form import OVERLAP_OPTIONS
from hespas.workflows.run_config import (
    BOUNDED_OPTIONS,
    COMPILE_OPTIONS,
    EXCLUDED,
    RunConfig,
    RunOptions,
    list_flag_words,
    list_run_options,
)
from hespas.workflows.studies import program_forms, study_programs, study_runner
from hespas.workflows.studies.study_definition import StudyWorkload
from hespas.workflows.studies.study_programs import ProgramFiles, StudyProgram, make_node_program
from hespas.workflows.studies.study_runner import StudyOptions
from hespas.workflows.sweep import sweep_runner
from hespas.workflows.validation import case_runner, step_predictions
from hespas.workflows.validation.prediction_scores import COLUMNS
from hespas.workflows.validation.step_predictions import ValidationRequest
from hespas.workflows.validation.training_cases import CaseOptions, TrainingCase

NODE, SYSTEM = "H100_80GB", "HGX_H100_8"
CASE = {
    "model": "llama-x", "hardware": "H100_80GB_SXM", "layers": "4", "hidden": "512", "heads": "8",
    "kv_heads": "2", "ffn": "1024", "vocab": "1000", "seq_len": "2048", "per_device_batch": "2",
    "precision": "bf16", "remat": "full (per block)", "framework": "MaxText (JAX/XLA:GPU)",
}  # fmt: skip
Runs = Sequence[RunConfig]


class HandedOver(Exception):
    """Ends a command when what is looked for has been handed over."""


# From a command line, and from Python, to a request.


@dataclass(frozen=True)
class EntryPoint:
    """A command, and the function that its options arrive at.

    Attributes:
        command: The command in ``run_config.EXCLUDED``.
        words: Its words besides the options.
        place: The module and the name of the function.
        get_options: Returns the options from the arguments of the function.
    """

    command: str
    words: str
    place: tuple[str, str]
    get_options: Callable[..., RunOptions]


ENTRY_POINTS = (
    EntryPoint(
        "hespas plan", f"plan llama --node {NODE} --devices 8 --global-batch 16",
        ("planning.plan_search", "plan_layouts"), lambda request, options, *_, **__: options.run,
    ),
    EntryPoint(
        "hespas study", "study gemm --form scheduled",
        ("studies.study_runner", "run_study"), lambda study, axes, options, note: options.run,
    ),
    EntryPoint(
        "hespas study", "study serving --form scheduled",
        ("studies.serving", "run_serving_study"), lambda axes, options, load, note: options.run,
    ),
    EntryPoint(
        "hespas study pipeline", "study pipeline --form scheduled",
        ("pipelines.pipeline_study", "compare_pipelines"), lambda request, note: request.run,
    ),
    EntryPoint(
        "hespas validate", "validate cells.csv --programs .",
        ("validation.step_predictions", "validate_estimator"),
        lambda request, **_: request.options,
    ),
    EntryPoint(
        "hespas validate", "validate cases.csv",
        ("validation.case_runner", "predict_cases"), lambda cases, options, note: options.run,
    ),
)  # fmt: skip


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The current folder, with a table of each kind."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "cells.csv").write_text(f"{','.join(COLUMNS)}\nw,8,{NODE},{SYSTEM},0.1,0,made up\n")
    (tmp_path / "w.mlir").write_text("func.func @main() { return }")
    (tmp_path / "cases.csv").write_text(
        "id,devices,step_time_s,source,parallelism," + ",".join(CASE) + "\n"
        "a,8,1.0,made up,fsdp=8," + ",".join(CASE.values()) + "\n"
    )
    return tmp_path


def receive_options(entry: EntryPoint, call: Callable[[], Any]) -> RunOptions:
    """Return the options that arrive at the function of an entry point."""
    received: list[RunOptions] = []

    def receive(*arguments: Any, **keywords: Any) -> None:
        received.append(entry.get_options(*arguments, **keywords))
        raise HandedOver

    module, name = entry.place
    with mock.patch(f"hespas.workflows.{module}.{name}", receive), pytest.raises(HandedOver):
        call()
    return received[0]


def check_entry_points(values: Sequence[RunOptions]) -> None:
    """Check that each command accepts each option that it has, and hands it on."""
    for entry in ENTRY_POINTS:
        names = list_run_options(entry.command)
        words = entry.words.split()
        command = importlib.import_module(f"hespas.tools.commands.{words[0]}")
        for options in values:
            own = RunOptions(**options.model_dump(exclude_unset=True, include=set(names)))
            flags = list_flag_words(own, names)
            received = receive_options(entry, lambda: command.main([*words[1:], *flags]))  # noqa: B023
            assert spell_values(received) == spell_values(own), (entry.words, flags)


def spell_values(options: RunOptions) -> dict[str, Any]:
    """Return the values of options, with settings as text, as a command line has them."""
    setting = {
        name: str(value).lower() if value is True else str(value)
        for name, value in options.setting.items()
    }
    return {**options.model_dump(), "setting": setting}


def test_commands_hand_on_all_options(folder: Path) -> None:
    check_entry_points([options for _, options in list_option_values()])


def test_python_hands_on_all_options() -> None:
    plan, pipeline = ENTRY_POINTS[0], ENTRY_POINTS[3]
    for _, options in list_option_values():
        for entry in (plan, pipeline):
            own = options.model_dump(exclude_unset=True, exclude=set(EXCLUDED[entry.command]))

            def call() -> Any:
                if entry is pipeline:  # noqa: B023
                    return hespas.pipeline(**own)  # noqa: B023
                return hespas.plan("llama", node=NODE, devices=8, global_batch=16, **own)  # noqa: B023

            assert receive_options(entry, call) == RunOptions(**own)


def test_options_that_a_command_lacks_are_refused_with_the_reason() -> None:
    for command, call in (
        ("hespas plan", lambda own: hespas.plan("llama", node=NODE, devices=8, **own)),
        ("hespas study pipeline", lambda own: hespas.pipeline(**own)),
    ):
        for name, reason in EXCLUDED[command].items():
            assert name in RunOptions.model_fields
            with pytest.raises(hespas.HespasError, match=f"no option '{name}': {reason}"):
                call({name: "linear"})


# From a request to runs and programs.


@dataclass
class HandOvers:
    """The runs that were to be made, and the options that XLA was to compile programs with."""

    runs: list[RunConfig] = field(default_factory=list)
    compile_options: list[str] = field(default_factory=list)


@pytest.fixture
def handed_over(monkeypatch: pytest.MonkeyPatch) -> HandOvers:
    """Record what arrives where programs are made and estimated, and do neither."""
    record = HandOvers()

    def make_program_files(programs: Sequence[StudyProgram], *_: Any) -> ProgramFiles:
        record.compile_options += [one.format_pass_options() for one in programs if one.target]
        return ProgramFiles([f"{one.name_final_file()}" for one in programs], 0, {}, {})

    def run_sweep(cells: Sequence[Mapping[str, Any]], *_: Any) -> None:
        record.runs += map(sweep_runner._read_config, cells)
        raise HandedOver

    def hand_over_cell(pipeline: PipelineCell, *_: Any) -> None:
        record.runs.append(pipeline.config)
        raise HandedOver

    def estimate(program: str, **options: Any) -> None:
        record.runs.append(run_plan.merge_run_config(options, {}, ""))
        raise HandedOver

    def run_cells(pool: CellPool, cells: Sequence[Cell], *_: Any) -> None:
        record.runs += [RunConfig.model_validate(cell.payload["config"]) for cell in cells]
        raise HandedOver

    def build_run_plan(config: RunConfig) -> None:
        record.runs.append(config)
        raise HandedOver

    def choose_xla_target(form: str, node: str) -> str:
        return node if form in program_forms.BY_XLA else ""

    monkeypatch.setattr(program_forms, "choose_xla_target", choose_xla_target)
    monkeypatch.setattr(study_programs, "make_program_files", make_program_files)
    monkeypatch.setattr(sweep_runner, "run_sweep", run_sweep)
    monkeypatch.setattr(pipeline_cells, "make_cell", hand_over_cell)
    monkeypatch.setattr(api, "estimate", estimate)
    monkeypatch.setattr(CellPool, "run_cells", run_cells)
    monkeypatch.setattr(stage_estimates, "build_run_plan", build_run_plan)
    return record


def request_study(options: RunOptions, form: str) -> None:
    workload = StudyWorkload("gemm", {}, {"data": 8}, {})
    study_options = StudyOptions([NODE], form=form, run=options, cache="none")
    cell = study_runner._plan_cell(workload, NODE, study_options)
    study_runner.estimate_cells([cell], study_options, print)


def request_pipeline(options: RunOptions, form: str) -> None:
    mesh = {"data": 2}
    compare_pipelines(
        PipelineRequest(NODE, form=form, run=options, mesh=mesh, schedules=["1f1b"]), print
    )


def request_layout(mesh: Mapping[str, int]) -> Callable[[RunOptions, str], None]:
    """Make a request of the estimate of a layout."""
    schedule = {"schedule": "1f1b", "stages_per_rank": "1", "accumulate": "2"}

    def request(options: RunOptions, form: str) -> None:
        values = {"model": "tiny", **(schedule if "pipeline" in mesh else {})}
        row = LayoutRow(LayoutCandidate(mesh, values), "pruned")
        programs = mock.Mock(folder=Path())
        programs.make_study_program.side_effect = lambda layout, form, runs: make_node_program(
            StudyWorkload("llama", layout.options, layout.mesh, {}), form, NODE, 8, runs.options
        )
        plan_options = PlanOptions(run=options, cache="none")
        plan = LayoutRequest("llama", NODE, 8, 16)
        search = LayoutSearch(plan, plan_options, mock.Mock(), SYSTEM, programs, print)
        search.estimate_rows([row], form)

    return request


def request_explanation(options: RunOptions, form: str) -> None:
    figures = LayoutFigures(form, {"step_time_s": 1.0}, "program.mlirbc")
    layout = LayoutCandidate({"data": 8}, {})
    rows = [
        LayoutRow(layout, "estimated", rank=rank, **{name: figures})
        for rank in (1, 2)
        for name in ("fused" if form == "fused" else "compiled",)
    ]
    runs = LayoutRuns(NODE, SYSTEM, options)
    plan = LayoutPlan(NODE, SYSTEM, 8, rows)
    explain_plan(plan, LayoutRequest("llama", NODE, 8, 16), runs, mock.Mock())


def request_case(parallelism: str) -> Callable[[RunOptions, str], None]:
    """Make a request of the prediction of a training case."""

    def request(options: RunOptions, form: str) -> None:
        texts = {**CASE, "parallelism": parallelism}
        case_options = CaseOptions(form=form, run=options, cache="none", work_dir=".")
        case = TrainingCase("a", 8, 1.0, texts, 2)
        (outcome,) = case_runner.predict_cases([case], case_options, print)
        assert outcome.reasons == {"run": "internal error: HandedOver: "}
        raise HandedOver

    return request


OVERLAP = {None: {}, **OVERLAP_OPTIONS}
REQUESTS: Mapping[str, Callable[[RunOptions, str], None]] = {
    "hespas study": request_study,
    "hespas study pipeline": request_pipeline,
    "hespas plan": request_layout({"data": 8}),
    "hespas plan, pipelines": request_layout({"pipeline": 2, "data": 4}),
    "hespas plan, explanation": request_explanation,
    "hespas validate": request_case("fsdp=8"),
    "hespas validate, pipelines": request_case("pp=2;fsdp=4"),
}


def check_runs(runs: Runs, options: RunOptions, names: Sequence[str]) -> None:
    """Check that runs have all options, but those of a compilation that has been done."""
    assert runs
    for run in runs:
        for name in names:
            value, wanted = getattr(run, name), getattr(options, name)
            if name == "overlap" and run.form == "fuse":
                assert value in (wanted, "none")  # bounds of plans need serial collectives
            elif name in COMPILE_OPTIONS:
                # Fused programs follow flags, of a framework too.
                assert value is None or (run.form == "fuse" and value.endswith(wanted or ""))
            elif name == "setting":
                assert wanted.items() <= value.items()
            elif wanted is not None or name != "split":
                assert value == wanted, name


def check_requests(way: str, values: Sequence[RunOptions], handed_over: HandOvers) -> None:
    """Check that a request hands all options on to its runs, and to the compilation."""
    names = list_run_options(way.partition(",")[0])
    for options in values:
        form = "scheduled" if {*COMPILE_OPTIONS} & options.model_fields_set else "fused"
        handed_over.runs, handed_over.compile_options = [], []
        with pytest.raises(HandedOver):
            REQUESTS[way](options, form)
        check_runs(handed_over.runs, options, names)
        wanted = {**parse_options(options.xla_optimize or ""), **OVERLAP[options.overlap]}
        for text in handed_over.compile_options:
            assert wanted.items() <= parse_options(text).items()
        if wanted and way != "hespas plan, explanation":
            assert handed_over.compile_options


def list_values() -> list[RunOptions]:
    return [options for _, options in list_option_values()]


@pytest.mark.parametrize("way", REQUESTS)
def test_requests_hand_on_all_options(way: str, handed_over: HandOvers, folder: Path) -> None:
    check_requests(way, list_values(), handed_over)


def check_bounds(values: Sequence[RunOptions]) -> None:
    """Check that the bounds of a plan simulate collectives as its estimates do."""
    for options in values:
        runs = LayoutRuns(NODE, SYSTEM, options)
        if runs.list_unbounded_options() or options.between_hosts == "nccl":
            continue
        plan = LayoutRequest("llama", NODE, 8, 16)
        node = configs.load_node(NODE)
        search = LayoutSearch(plan, PlanOptions(run=options), node, SYSTEM, mock.Mock(), print)
        bounds = search._make_bounds(None)
        settings = run_plan.select_network_settings(runs.make_config("fused"))
        wanted = replace(settings.build_simulator_choice().options, intervals=False)
        assert bounds.comm.options == wanted
        assert bounds.compute.calibrated == (options.estimator == "calibrated")
        check_runs([runs.make_config("fused")], options, list_run_options("hespas plan"))


def test_bounds_have_all_options_of_the_network() -> None:
    check_bounds(list_values())


def test_layouts_have_no_bounds_with_options_that_no_bound_is_known_for() -> None:
    """Every layout is estimated then, also with options that are new."""
    space = LayoutSpace({}, {}, [LayoutCandidate({"data": 8}, {})])
    unbounded = set()
    for options in list_values():
        node, plan = configs.load_node(NODE), LayoutRequest("llama", NODE, 8, 16)
        programs: Any = None  # no sketch is made
        search = LayoutSearch(plan, PlanOptions(run=options), node, SYSTEM, programs, print)
        if names := search.runs.list_unbounded_options():
            unbounded.update(names)
            assert [row.bound for row in search.bound_layouts(space)] == [None]
    assert unbounded == {*RunOptions.model_fields} - {*BOUNDED_OPTIONS} | {"estimator"}


def check_pipelines(values: Sequence[RunOptions], handed_over: HandOvers, folder: Path) -> None:
    """Check that the stages, the network and the key of a pipeline have all options."""
    schedule = build_schedule("1f1b", 2, 2)
    files = [{FORWARD: str(folder / "w.mlir")}] * 2
    keys: dict[str, RunOptions] = {}
    names = list_run_options("hespas study pipeline")
    for options in values:
        config = program_forms.make_run_config(options, "fused", node=NODE)
        pipeline = PipelineCell(config, schedule, files, SYSTEM)
        handed_over.runs = []
        with pytest.raises(HandedOver):
            stage_estimates.estimate_stages(pipeline.select_files(), config)
        check_runs(handed_over.runs, options, names)
        if options.between_hosts != "nccl" or options.estimator == "calibrated":
            wanted = run_plan.select_network_settings(config).build_simulator_choice()
            assert pipeline_estimate.choose_pipeline_network(SYSTEM, config).choice == wanted
        price = options.price_per_hour or configs.load_node(NODE).price_per_hour
        assert pipeline.node.price_per_hour == price
        key = make_cell(pipeline).key
        estimated = RunOptions(**config.model_dump(include=set(names)))
        assert keys.setdefault(key, estimated) == estimated


def test_pipelines_have_all_options(handed_over: HandOvers, folder: Path) -> None:
    check_pipelines(list_values(), handed_over, folder)


def test_keys_of_sweeps_have_all_options(folder: Path) -> None:
    keys: dict[str, RunConfig] = {}
    factory = sweep_runner.SweepCellFactory()
    for options in list_values():
        config = program_forms.make_run_config(
            options, "fused", mlir=str(folder / "w.mlir"), node=NODE, system=SYSTEM
        )
        key = factory.make_cell(config.model_dump(exclude_unset=True)).key
        assert key and spell_values(keys.setdefault(key, config)) == spell_values(config)


def check_validation(values: Sequence[RunOptions], handed_over: HandOvers) -> None:
    """Check that the predictions of measured steps have all options."""
    names = list_run_options("hespas validate")
    for options in values:
        request = ValidationRequest("cells.csv", ["."], options, ("default",), baselines=False)
        handed_over.runs = []
        with pytest.raises(HandedOver):
            step_predictions.validate_estimator(request)
        (run,) = handed_over.runs
        wanted = inline_kernel_costs(RunConfig(**options.model_dump(exclude_unset=True)))
        assert {n: getattr(run, n) for n in names} == {n: getattr(wanted, n) for n in names}


def test_predictions_of_measured_steps_have_all_options(
    handed_over: HandOvers, folder: Path
) -> None:
    check_validation(list_values(), handed_over)


# Mutants: each hand-over forgets its options.

VALUES = (RunOptions(slowdown=0.5), RunOptions(overlap="none"))
LACKING = {"run": RunOptions(), "options": RunOptions(), "slowdown": None, "overlap": None}
MUTANTS = (
    ("tools.model_flags.validate_flags", "commands"),
    ("tools.model_flags.collect_set_flags", "commands"),
    ("workflows.studies.program_forms.make_run_config", "hespas study"),
    ("workflows.studies.program_forms.format_compile_options", "hespas study"),
    ("workflows.studies.study_runner._make_sweep_cell", "hespas study"),
    ("workflows.studies.program_forms.make_run_config", "hespas study pipeline"),
    ("workflows.studies.program_forms.format_compile_options", "hespas study pipeline"),
    ("workflows.pipelines.pipeline_study.PipelineCell", "hespas study pipeline"),
    ("workflows.planning.plan_search.LayoutRuns", "hespas plan"),
    ("workflows.studies.program_forms.format_compile_options", "hespas plan"),
    ("workflows.planning.plan_search.LayoutRuns", "hespas plan, pipelines"),
    ("workflows.planning.pipeline_layouts.PipelineCell", "hespas plan, pipelines"),
    ("workflows.studies.program_forms.make_run_config", "hespas plan, explanation"),
    ("workflows.studies.program_forms.make_run_config", "hespas validate"),
    ("workflows.studies.program_forms.format_compile_options", "hespas validate"),
    ("workflows.validation.case_runner._make_run_config", "hespas validate, pipelines"),
    ("workflows.planning.plan_search.LayoutRuns", "bounds"),
    ("workflows.validation.step_predictions.RunConfig", "validation"),
    ("workflows.validation.step_predictions.PredictionFlow", "validation"),
    ("workflows.pipelines.stage_estimates.RunConfig.model_copy", "pipelines"),
    ("workflows.pipelines.pipeline_cells.describe_options", "pipelines"),
)


def forget_options(value: Any) -> Any:
    """Return a value, which was handed over, without the options that the mutants forget."""
    if isinstance(value, str | list):
        return type(value)()
    if isinstance(value, dict):
        inner = value.get("values", value)
        lacking = {name: entry for name, entry in inner.items() if name not in LACKING}
        return {**value, "values": lacking} if "values" in value else lacking
    if isinstance(value, RunOptions):
        return type(value)(**forget_options(value.model_dump(exclude_unset=True)))
    if isinstance(value, PipelineCell):
        return replace(value, config=forget_options(value.config))
    names = {f.name for f in fields(value) if f.name in LACKING}
    others = {n for n in names if isinstance(getattr(value, n), dict)}  # options of a recipe
    return replace(value, **{name: LACKING[name] for name in names - others})


@pytest.mark.parametrize(("place", "check"), MUTANTS)
def test_a_forgotten_hand_over_is_noticed(
    place: str, check: str, handed_over: HandOvers, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    intact = resolve_name(f"hespas.{place}")
    monkeypatch.setattr(
        f"hespas.{place}", lambda *args, **options: forget_options(intact(*args, **options))
    )
    checks: Mapping[str, Callable[[], None]] = {
        "commands": lambda: check_entry_points(VALUES),
        "bounds": lambda: check_bounds(VALUES),
        "validation": lambda: check_validation(VALUES, handed_over),
        "pipelines": lambda: check_pipelines([RunOptions(), *VALUES], handed_over, folder),
    }
    with pytest.raises(AssertionError):
        checks.get(check, lambda: check_requests(check, VALUES, handed_over))()
