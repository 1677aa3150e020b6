"""How training cases are predicted, and what becomes of each."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from hespas.estimators.calibrated.attention_library import CUDNN
from hespas.workflows.cells import PoolOptions
from hespas.workflows.run_config import RunOptions
from hespas.workflows.validation.training_cases import TrainingCase

if TYPE_CHECKING:
    from hespas.workflows.pipelines.schedules import PipelineSchedule
    from hespas.workflows.pipelines.stage_estimates import StagePart
    from hespas.workflows.pipelines.stage_workloads import StageWorkloads
    from hespas.workflows.studies.study_definition import StudyWorkload
    from hespas.workflows.studies.study_programs import StudyProgram
    from hespas.workflows.validation.case_layers import LayerExtension
    from hespas.workflows.validation.case_systems import CaseSystem
    from hespas.workflows.validation.prediction_scores import StepPrediction

FORMS = ("scheduled", "optimised", "fused")


@dataclass(frozen=True)
class CaseOptions(PoolOptions):
    """How cases are predicted.

    Attributes:
        form: One of ``FORMS``.
        run: The options of each estimate.
        changes: Options of the recipe that replace those of every row.
        all_layers: Whether unrolled programs are compiled with all their layers, not extended
            from programs with a few.
    """

    form: str = "scheduled"
    run: RunOptions = field(default_factory=RunOptions)
    changes: Mapping[str, str] = field(default_factory=dict)
    all_layers: bool = False


@dataclass
class CaseOutcome:
    """A case with its prediction, or the reasons why there is none.

    What reads a part of the row adds what the row leaves open to the assumptions, and what no
    recipe can express to the reasons.

    Attributes:
        case: The case.
        reasons: By kind (model, precision, ...), why there is no prediction.
        assumptions: What the row does not state, one phrase each.
        workload: The recipe with options and mesh; None if the case is refused.
        schedule: The schedule of a pipeline; None without one.
        stage_workloads: The recipes of its stages.
        xla_options: Options of the pass xla-optimize.
        node: The node; "" if unknown.
        system: The network; None if it was not chosen.
        program: The program in the form of the run; None of a pipeline.
        extension: The smaller programs from which it is predicted; None if it is compiled itself.
        stages: The programs of the stages of a pipeline by their parts.
        attention: The library whose rates fused attention has.
        paths: The files of the programs that are compiled.
        compile_s: The seconds that XLA took now; None if the programs existed before.
        figures: The row of the sweep.
        prediction: The prediction; None if the case has reasons.
    """

    case: TrainingCase
    reasons: dict[str, str] = field(default_factory=dict)
    assumptions: list[str] = field(default_factory=list)
    workload: StudyWorkload | None = None
    schedule: PipelineSchedule | None = None
    stage_workloads: Sequence[StageWorkloads] = ()
    xla_options: str = ""
    node: str = ""
    system: CaseSystem | None = None
    program: StudyProgram | None = None
    extension: LayerExtension | None = None
    stages: Sequence[Mapping[StagePart, StudyProgram]] = ()
    attention: str = CUDNN
    paths: Sequence[str] = ()
    compile_s: float | None = None
    figures: Mapping[str, Any] = field(default_factory=dict)
    prediction: StepPrediction | None = None

    @property
    def compiled_programs(self) -> Sequence[StudyProgram]:
        """The programs that are compiled for a case without a pipeline."""
        if self.extension is not None:
            return self.extension.programs
        return [] if self.program is None else [self.program]

    def extend_layers(self, extension: LayerExtension) -> None:
        """Predict the case from the programs of an extension, and say so."""
        self.extension = extension
        self.assumptions.append(extension.describe())

    def join_words(self, *columns: str) -> str:
        """Return what the row says in some columns, in lower case."""
        return " ".join(map(self.case.get_text, columns)).lower()

    @property
    def warnings(self) -> list[str]:
        """The warnings of the run."""
        text = self.figures.get("warnings")
        return json.loads(text) if text else []
