"""The programs of the stages of a model, as workloads of the recipe ``stage``."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from hespas.recipes.language_models import DecoderModel
from hespas.recipes.published_models import MODELS, suggest_model
from hespas.support.errors import UsageError
from hespas.workflows.pipelines.schedules import PipelineSchedule
from hespas.workflows.pipelines.stage_estimates import UPDATE, StagePart, list_task_kinds
from hespas.workflows.studies.study_definition import StudyWorkload

RECIPE = "stage"
AXES = ("data", "context", "expert", "tensor")  # of the mesh of a rank, major axis first
StageWorkloads = Mapping[StagePart, StudyWorkload]


def plan_stage_workloads(
    model: StudyWorkload, schedule: PipelineSchedule, stage_layers: Sequence[int] = ()
) -> list[StageWorkloads]:
    """Plan the programs of each stage.

    Args:
        model: The whole model with the options of its stages, on the mesh of one rank.
        schedule: The schedule.
        stage_layers: The layers of each stage; empty for those of ``divide_layers``.

    Raises:
        UsageError: There are fewer layers than stages, the layers of the stages are not those of
            the model, or the model is unknown.
    """
    options = {name: value for name, value in model.options.items() if name != "accumulate"}
    published = _find_model(options)
    counts = count_stage_layers(model, schedule, stage_layers)
    options.pop("layers", None)
    dense = int(options.pop("dense_layers", published.dense_layers))
    period = _find_window_period(published, options)
    parts: Sequence[StagePart] = (*list_task_kinds(schedule.has_split_backward), UPDATE)
    first, workloads = 0, []
    for stage, count in enumerate(counts):
        own = {
            **options,
            "layers": str(count),
            "dense_layers": str(min(max(dense - first, 0), count)),
            "position": _choose_position(stage, schedule.stages),
        }
        if first % period:
            own["earlier_layers"] = str(first % period)
        first += count
        workloads.append({part: _plan_part(model, own, part, schedule) for part in parts})
    return workloads


def count_stage_layers(
    model: StudyWorkload, schedule: PipelineSchedule, stage_layers: Sequence[int]
) -> list[int]:
    """Count the layers of each stage, as requested or divided evenly.

    Raises:
        UsageError: The layers of the stages are not those of the model.
    """
    layers = int(model.options.get("layers", _find_model(model.options).layers))
    if not stage_layers:
        return divide_layers(layers, schedule.stages)
    text = ",".join(map(str, stage_layers))
    if len(stage_layers) != schedule.stages:
        raise UsageError(
            f"{text} are layers of {len(stage_layers)} stages, and {schedule.name} has "
            f"{schedule.stages}",
            remedy=f"give {schedule.stages} numbers",
        )
    remedy = f"give every stage one layer or more, {layers} in all"
    if min(stage_layers) < 1:
        raise UsageError(f"{text}: a stage has no layer", remedy=remedy)
    if sum(stage_layers) != layers:
        raise UsageError(
            f"{text} are {sum(stage_layers)} layers, and the model has {layers}", remedy=remedy
        )
    return list(stage_layers)


def _find_model(options: Mapping[str, str]) -> DecoderModel:
    name = options["model"]
    if name not in MODELS:
        raise UsageError(f"no recipe knows the model '{name}'", remedy=suggest_model(name, MODELS))
    return MODELS[name]


def _find_window_period(published: DecoderModel, options: Mapping[str, str]) -> int:
    """Return the number of layers after which the pattern of windows of a model repeats."""
    sizes: dict[str, Any] = {
        name: int(options[name]) for name in ("window", "global_every") if name in options
    }
    return replace(published, **sizes).period


def _plan_part(
    model: StudyWorkload, options: Mapping[str, str], part: StagePart, schedule: PipelineSchedule
) -> StudyWorkload:
    # Only the update divides by the number of microbatches; the other programs serve any number.
    counts = {"accumulate": str(schedule.microbatches)} if part == UPDATE else {}
    return replace(model, recipe=RECIPE, options={**options, "part": part, **counts})


def place_on_rank(model: StudyWorkload) -> StudyWorkload:
    """Return a model with the mesh and the options of the recipe of stages.

    A rank keeps its weights whole for all microbatches, so that ``fsdp`` divides the optimiser's
    state only.
    """
    mesh, options = dict(model.mesh), dict(model.options)
    shards = mesh.pop("fsdp", 1)
    mesh["data"] = mesh.get("data", 1) * shards
    if shards > 1:
        options["zero1"] = "true"
    ordered = {axis: mesh[axis] for axis in AXES if axis in mesh}
    return replace(model, mesh={**ordered, **mesh}, options=options)


def divide_layers(layers: int, stages: int) -> list[int]:
    """Divide layers over stages. The ends, which have embedding and logits, get no extra layer.

    Raises:
        UsageError: There are fewer layers than stages.
    """
    if layers < stages:
        raise UsageError(f"{layers} layers cannot fill {stages} stages")
    fewest, extra = divmod(layers, stages)
    order = [*range(1, stages - 1), 0, stages - 1][:extra]
    return [fewest + (stage in order) for stage in range(stages)]


def _choose_position(stage: int, stages: int) -> str:
    if stages == 1:
        return "only"
    return "first" if stage == 0 else "last" if stage == stages - 1 else "middle"
