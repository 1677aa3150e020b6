"""The programs of the stages of a model, as workloads of the recipe ``stage``."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from hespas.frontends.recipes.published_models import MODELS
from hespas.support.errors import UsageError
from hespas.workflows.pipelines.schedules import PipelineSchedule
from hespas.workflows.pipelines.stage_estimates import UPDATE, StagePart, list_task_kinds
from hespas.workflows.studies.study_definition import StudyWorkload

RECIPE = "stage"
StageWorkloads = Mapping[StagePart, StudyWorkload]


def plan_stage_workloads(model: StudyWorkload, schedule: PipelineSchedule) -> list[StageWorkloads]:
    """Plan the programs of each stage.

    Args:
        model: The whole model with the options of its stages, on the mesh of one rank.
        schedule: The schedule.

    Raises:
        UsageError: There are fewer layers than stages, or the model is unknown.
    """
    options = dict(model.options)
    published = MODELS.get(options["model"])
    if published is None:
        raise UsageError(f"no recipe knows the model '{options['model']}'")
    layers = int(options.pop("layers", published.layers))
    dense = int(options.pop("dense_layers", published.dense_layers))
    parts: Sequence[StagePart] = (*list_task_kinds(schedule.has_split_backward), UPDATE)
    first, workloads = 0, []
    for stage, count in enumerate(divide_layers(layers, schedule.stages)):
        own = {
            **options,
            "layers": str(count),
            "dense_layers": str(min(max(dense - first, 0), count)),
            "position": _choose_position(stage, schedule.stages),
            "accumulate": str(schedule.microbatches),
        }
        first += count
        workloads.append(
            {part: replace(model, recipe=RECIPE, options={**own, "part": part}) for part in parts}
        )
    return workloads


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
