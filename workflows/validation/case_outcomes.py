"""How training cases are predicted, and what becomes of each."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from hespas.estimators.calibrated.attention_library import CUDNN
from hespas.workflows.cells import PoolOptions
from hespas.workflows.pipelines.stage_estimates import StagePart
from hespas.workflows.run_config import RunOptions
from hespas.workflows.studies.study_programs import StudyProgram
from hespas.workflows.validation.case_layers import LayerExtension
from hespas.workflows.validation.case_programs import CasePlan
from hespas.workflows.validation.case_systems import CaseSystem
from hespas.workflows.validation.prediction_scores import StepPrediction
from hespas.workflows.validation.training_cases import TrainingCase

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

    Attributes:
        case: The case.
        plan: Its recipe, options, reasons and assumptions.
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
    plan: CasePlan
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
    def reasons(self) -> dict[str, str]:
        """By kind, why there is no prediction."""
        return self.plan.reasons

    @property
    def compiled_programs(self) -> Sequence[StudyProgram]:
        """The programs that are compiled for a case without a pipeline."""
        if self.extension is not None:
            return self.extension.programs
        return [] if self.program is None else [self.program]

    def extend_layers(self, extension: LayerExtension) -> None:
        """Predict the case from the programs of an extension, and say so."""
        self.extension = extension
        self.plan.assumptions.append(extension.describe())

    @property
    def warnings(self) -> list[str]:
        """The warnings of the run."""
        text = self.figures.get("warnings")
        return json.loads(text) if text else []
