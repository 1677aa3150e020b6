"""Estimating many pipelines: each program is estimated once, and results come from the cache.

Results are kept in the cache of sweeps, under keys with the contents of the programs, the node and
the system.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from hespas import configs
from hespas.configs.node_spec import NodeSpec
from hespas.estimators import registry
from hespas.estimators.measure.measurement_cache import MeasurementCache, compute_cache_key
from hespas.support.errors import HespasError
from hespas.workflows.cell_keys import (
    collect_environment,
    compute_node_digest,
    compute_program_digest,
    compute_system_digest,
    describe_options,
)
from hespas.workflows.pipelines.pipeline_estimate import (
    choose_pipeline_network,
    estimate_pipeline,
    find_worst_straggler,
)
from hespas.workflows.pipelines.pipeline_figures import Figures, collect_pipeline_figures
from hespas.workflows.pipelines.schedules import PipelineSchedule
from hespas.workflows.pipelines.stage_estimates import (
    SPLIT,
    UPDATE,
    StageFiles,
    StageProgramEstimate,
    add_job_devices,
    estimate_stages,
    list_task_kinds,
)
from hespas.workflows.run_config import RunConfig

RESULT = "pipeline"  # the kind of cache keys


@dataclass(frozen=True)
class PipelineCell:
    """A pipeline to estimate.

    Attributes:
        schedule: The schedule.
        files: The programs of each stage.
        system: The network, a preset or a folder.
        straggler: How many times as long the compute of one slow rank takes, to find the rank that
            costs most; None for no such search.
    """

    schedule: PipelineSchedule
    files: Sequence[StageFiles]
    system: str
    straggler: float | None = None

    def select_files(self) -> list[StageFiles]:
        """Select the files that the schedule runs."""
        parts = (*list_task_kinds(self.schedule.has_split_backward), UPDATE)
        return [{part: files[part] for part in parts if part in files} for files in self.files]


@dataclass
class PipelineCellEstimator:
    """Estimates pipelines on one type of device.

    Attributes:
        config: The run that estimates each program of a stage, without the program.
        cache: The file that keeps results; "" for the default one, "none" for none.
        note: Receives notes, one line each.
        computed: The number of results that were not in the cache.
    """

    config: RunConfig
    cache: str
    note: Callable[[str], None]
    computed: int = 0
    _programs: dict[int, dict[str, StageProgramEstimate]] = field(default_factory=dict)
    _digests: dict[str, str] = field(default_factory=dict)

    def estimate_cells(self, cells: Sequence[PipelineCell]) -> list[Figures | HespasError]:
        """Estimate pipelines in order; one that cannot be estimated has an error.

        Raises:
            HespasError: The cache cannot be used, or the node or the estimator does not exist.
        """
        with MeasurementCache(self.cache) as cache:
            return [self._recall_cell(cell, cache) for cell in cells]

    def _recall_cell(self, cell: PipelineCell, cache: MeasurementCache) -> Figures | HespasError:
        """Return the figures of a pipeline from the cache, or estimate them."""
        estimator = registry.load_estimator_class(self.config.estimator)
        try:
            key = "" if estimator.measures else self._compute_key(cell, estimator.version)
            figures = cache.find_outcome(key) if key else None
            if isinstance(figures, dict):
                return figures
            figures = self._estimate_cell(cell)
        except HespasError as error:
            return error
        self.computed += 1
        if key:
            name = f"{cell.schedule.name} of {Path(next(iter(cell.files[0].values()))).name}"
            cache.store_outcome(
                key, figures, estimator=f"{RESULT}: {estimator.name}",
                version=estimator.version, name=name,
            )  # fmt: skip
        return figures

    def _compute_key(self, cell: PipelineCell, version: str) -> str:
        schedule = cell.schedule
        content = {
            "schedule": [schedule.name, *map(list, schedule.tasks)],
            "programs": [
                {part: self._digest_program(path) for part, path in files.items()}
                for files in cell.select_files()
            ],
            "node": compute_node_digest(self._node),
            "system": compute_system_digest(configs.load_system(cell.system)),
            **describe_options(self.config.model_copy(update={"split": SPLIT})),
            "straggler": cell.straggler,
        }
        return compute_cache_key(RESULT, version, content, collect_environment())

    @property
    def _node(self) -> NodeSpec:
        node = configs.load_node(self.config.node or configs.DEFAULT_NODE)
        return replace(node, price_per_hour=self.config.price_per_hour or node.price_per_hour)

    def _digest_program(self, path: str) -> str:
        if path not in self._digests:
            self._digests[path] = compute_program_digest(path)
        return self._digests[path]

    def _estimate_cell(self, cell: PipelineCell) -> dict[str, Any]:
        network = choose_pipeline_network(cell.system, self.config)
        devices = network.system.device_count
        config = add_job_devices(self.config, devices)
        known = self._programs.setdefault(devices, {})
        stages = estimate_stages(cell.select_files(), config, self.note, known)
        estimate = estimate_pipeline(cell.schedule, stages, network)
        figures = collect_pipeline_figures(estimate, stages, self._node)
        if cell.straggler is not None:
            straggler = find_worst_straggler(cell.schedule, stages, network, cell.straggler)
            figures |= {
                "straggler_rank": straggler.rank,
                "straggler_step_time_s": straggler.step_time_s,
            }
        return figures
