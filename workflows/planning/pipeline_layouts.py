"""Layouts with pipeline parallelism: the axis ``pipeline`` of recipes whose models have stages.

A layout of this kind has the programs of its stages in place of one program.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace

from hespas.support.errors import HespasError, UsageError
from hespas.workflows.cells import Note, PoolOptions
from hespas.workflows.pipelines.pipeline_cells import (
    PipelineCell,
    estimate_pipelines,
)
from hespas.workflows.pipelines.pipeline_estimate import Figures
from hespas.workflows.pipelines.pipeline_study import (
    PipelineRequest,
    divide_global_batch,
    make_study_stages,
)
from hespas.workflows.pipelines.schedules import INTERLEAVED, PipelineSchedule, build_schedule
from hespas.workflows.pipelines.stage_workloads import (
    RECIPE,
    StageWorkloads,
    place_on_rank,
    plan_stage_workloads,
)
from hespas.workflows.planning import layout_space
from hespas.workflows.planning.layout_programs import LayoutRuns
from hespas.workflows.planning.layout_space import (
    ACCUMULATE,
    BATCH,
    SEQUENCE,
    LayoutCandidate,
    LayoutRequest,
    ProgramInterface,
)
from hespas.workflows.run_config import COMPILE_OPTIONS, list_flag_words, list_run_options
from hespas.workflows.studies import program_forms
from hespas.workflows.studies.study_definition import StudyWorkload

PIPELINE, SCHEDULE, STAGES_PER_RANK = "pipeline", "schedule", "stages_per_rank"
PIPELINE_OPTIONS = (SCHEDULE, STAGES_PER_RANK)  # which are no options of the recipe
STAGED_RECIPES = ("llama", "gpt", "gemma", "moe")  # whose models the recipe ``stage`` divides
OPEN_SCHEDULES = ("1f1b",)  # tried unless the request names others
MOST_MICROBATCHES = 4  # for each rank, unless the request names their numbers


def is_pipeline(candidate: LayoutCandidate) -> bool:
    """Return whether a layout has programs of stages."""
    return SCHEDULE in candidate.options


def select_rank_counts(request: LayoutRequest, interface: ProgramInterface) -> list[int]:
    """Select the sizes of the axis ``pipeline``; [1] if the request does not name it.

    Raises:
        UsageError: The program has no stages, or a size is wrong.
    """
    if PIPELINE in interface.axes:
        return [1]  # an axis of the program's own mesh
    sizes = list(dict.fromkeys(request.axes.get(PIPELINE, (1,))))
    for name in PIPELINE_OPTIONS:
        if name in request.options and PIPELINE not in request.axes:
            raise UsageError(
                f"option '{name}' needs the axis pipeline", remedy="give --mesh pipeline=2"
            )
    if sizes == [1]:
        return sizes
    if request.program not in STAGED_RECIPES:
        raise UsageError(
            f"'{request.program}' has no programs of stages, which the axis {PIPELINE} needs",
            remedy=f"leave the axis out, or plan one of the recipes {', '.join(STAGED_RECIPES)}",
        )
    if not sizes or min(sizes) < 1:
        raise UsageError(f"mesh axis '{PIPELINE}' has no sizes, or one below 1")
    return sizes


def drop_pipeline_options(request: LayoutRequest) -> LayoutRequest:
    """Return the request of the layouts without pipeline parallelism."""
    axes = {name: sizes for name, sizes in request.axes.items() if name != PIPELINE}
    options = {n: tried for n, tried in request.options.items() if n not in PIPELINE_OPTIONS}
    return replace(request, axes=axes, options=options)


def list_pipeline_candidates(
    request: LayoutRequest, interface: ProgramInterface, ranks: int
) -> list[LayoutCandidate]:
    """List the layouts with so many ranks, or one that says why there is none.

    Raises:
        UsageError: An option is wrong.
    """
    plain = drop_pipeline_options(request)
    rank_devices, rest = divmod(request.devices, ranks)
    if rest:
        error = f"{request.devices} devices are not divisible by {ranks} ranks"
        return [_make_impossible(ranks, error)]
    plain = replace(plain, devices=rank_devices)
    axes = layout_space.select_axis_sizes(plain, interface)
    values = layout_space.select_option_values(plain, interface)
    try:
        meshes = layout_space.enumerate_meshes(axes, rank_devices)
    except UsageError as error:
        return [_make_impossible(ranks, error.message)]
    defaults = {"model": interface.defaults["model"]} if "model" in interface.defaults else {}
    distinct: dict[str, LayoutCandidate] = {}
    for mesh in meshes:
        for chosen in layout_space.list_option_choices(values):
            for candidate in _list_schedules(request, ranks, mesh, {**defaults, **chosen}):
                # fsdp divides the state only: several divisions of a mesh are one layout.
                model = _make_rank_model(candidate)
                schedule = [candidate.options[name] for name in PIPELINE_OPTIONS]
                distinct.setdefault(repr((model, schedule)), candidate)
    if distinct:
        return list(distinct.values())
    return [_make_impossible(ranks, "no number of microbatches divides the global batch")]


def _make_impossible(ranks: int, error: str) -> LayoutCandidate:
    return LayoutCandidate({PIPELINE: ranks}, {SCHEDULE: OPEN_SCHEDULES[0]}, error=error)


def _list_schedules(
    request: LayoutRequest, ranks: int, mesh: Mapping[str, int], options: Mapping[str, str]
) -> Iterator[LayoutCandidate]:
    """Yield the layouts of a mesh and options: each schedule with each number of microbatches."""
    samples = request.count_samples(options.get(SEQUENCE))
    for schedule in request.options.get(SCHEDULE, OPEN_SCHEDULES):
        per_rank = request.options.get(STAGES_PER_RANK, ("2",)) if schedule == INTERLEAVED else ()
        for stages in per_rank or ("1",):
            for count in _list_microbatches(request, ranks, samples):
                own = {**options, SCHEDULE: schedule, STAGES_PER_RANK: stages}
                own[ACCUMULATE] = str(count)
                if schedule == "zb-h1" and "scan" not in request.options:
                    own["scan"] = "false"  # the gradients of a loop cannot be divided
                pipeline = PipelineRequest(request.node, ranks, mesh=mesh, global_batch=samples)
                try:
                    build_schedule(schedule, ranks, count, int(stages))
                    own[BATCH] = str(divide_global_batch(pipeline, count))
                except UsageError:
                    continue
                if own[BATCH] in request.options.get(BATCH, (own[BATCH],)):
                    yield LayoutCandidate({PIPELINE: ranks, **mesh}, own)


def _list_microbatches(request: LayoutRequest, ranks: int, samples: int) -> list[int]:
    """List the numbers of microbatches to try: as requested, or from the ranks up."""
    if ACCUMULATE in request.options:
        return [int(count) for count in request.options[ACCUMULATE]]
    counts = range(ranks, min(MOST_MICROBATCHES * ranks, samples) + 1)
    return [count for count in counts if samples % count == 0]


def _make_rank_model(candidate: LayoutCandidate) -> StudyWorkload:
    """Make the model of a layout on the mesh of a rank, without axes of one device."""
    mesh = {axis: size for axis, size in candidate.mesh.items() if axis != PIPELINE and size > 1}
    return _place_model(candidate, mesh)


def _place_model(candidate: LayoutCandidate, mesh: Mapping[str, int]) -> StudyWorkload:
    options = {n: v for n, v in candidate.options.items() if n not in PIPELINE_OPTIONS}
    return place_on_rank(StudyWorkload(RECIPE, options, mesh, {}))


def plan_layout_stages(
    candidate: LayoutCandidate, schedule: PipelineSchedule
) -> list[StageWorkloads]:
    """Plan the programs of a layout, over all axes of its mesh.

    Raises:
        HespasError: The layers cannot fill the stages.
    """
    mesh = {axis: size for axis, size in candidate.mesh.items() if axis != PIPELINE}
    return plan_stage_workloads(_place_model(candidate, mesh), schedule)


def build_layout_schedule(candidate: LayoutCandidate) -> PipelineSchedule:
    """Build the schedule of a layout; raises UsageError if it cannot run."""
    options = candidate.options
    return build_schedule(
        options[SCHEDULE],
        candidate.mesh[PIPELINE],
        int(options[ACCUMULATE]),
        int(options[STAGES_PER_RANK]),
    )


def estimate_pipeline_layouts(
    candidates: Sequence[LayoutCandidate],
    runs: LayoutRuns,
    form: str,
    options: PoolOptions,
    note: Note,
) -> list[Figures | HespasError]:
    """Estimate layouts in a form, in order; one that cannot be estimated has an error."""
    assert runs.system is not None  # only a single device has none
    request = PipelineRequest(runs.node, form=form, run=runs.options)
    config = runs.make_config(form)
    answers: dict[int, Figures | HespasError] = {}
    pipelines: dict[int, PipelineCell] = {}
    for i, candidate in enumerate(candidates):
        schedule = build_layout_schedule(candidate)
        try:
            model = _make_rank_model(candidate)
            programs = make_study_stages(model, schedule, request, runs.system)
            pipelines[i] = PipelineCell(config, schedule, (), runs.system, programs=programs)
        except HespasError as error:
            answers[i] = error
    figures, _ = estimate_pipelines([*pipelines.values()], options, note)
    answers |= zip(pipelines, figures, strict=True)
    return [answers[i] for i in range(len(candidates))]


def list_study_words(runs: LayoutRuns, candidate: LayoutCandidate, form: str) -> list[str]:
    """List the words of the command that studies the pipeline of a layout in a form."""
    options, mesh = candidate.options, candidate.mesh
    sizes = [f"{n}={size}" for n, size in mesh.items() if n != PIPELINE and size > 1]
    words = ["hespas", "study", "pipeline", "--ranks", str(mesh[PIPELINE])]
    words += ["--mesh", ",".join(sizes)] if sizes else []
    words += [
        "--schedules",
        options[SCHEDULE],
        "--microbatches",
        options[ACCUMULATE],
        "--node",
        runs.node,
    ]
    words += ["--system", runs.system] if runs.system else []
    words += ["--form", form] if form != PipelineRequest.form else []
    if options[SCHEDULE] == INTERLEAVED:
        words += ["--stages-per-rank", options[STAGES_PER_RANK]]
    left = (*PIPELINE_OPTIONS, ACCUMULATE)
    for name, value in options.items():
        if name not in left:
            words += ["--set", f"{name}={value}"]
    names = set(list_run_options("hespas study pipeline"))
    if form not in program_forms.BY_XLA:
        names.difference_update(COMPILE_OPTIONS)
    return words + list_flag_words(runs.options, names)
