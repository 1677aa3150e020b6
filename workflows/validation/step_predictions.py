"""Validation: predict measured step times by several flows, and score the predictions."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from hespas import configs
from hespas.support.errors import HespasError
from hespas.support.supervised_process import open_temporary_folder
from hespas.workflows import run_flow
from hespas.workflows.program_form import AS_IS, FUSE
from hespas.workflows.run_config import RunConfig
from hespas.workflows.run_flow import TextFunction, ignore_text
from hespas.workflows.run_plan import build_run_plan
from hespas.workflows.validation.measured_cells import (
    STARTS,
    UNOPTIMISED,
    MeasuredCell,
    find_cell_program,
    find_programs,
    read_measured_cells,
)
from hespas.workflows.validation.prediction_scores import (
    PredictionScore,
    StepPrediction,
    score_predictions,
)

RATIO = "bandwidth ratio"


@dataclass(frozen=True, slots=True)
class PredictionFlow:
    """How cells are predicted: an estimator, and one of ``measured_cells.STARTS``."""

    estimator: str
    start: str

    @property
    def name(self) -> str:
        return f"{self.estimator}, {self.start}"


@dataclass(frozen=True)
class ValidationRequest:
    """What to validate.

    Attributes:
        cells: The CSV file of measured step times.
        programs: The folders with the programs, searched recursively.
        estimator: The estimator to validate.
        starts: Whether to start from optimised programs, unoptimised ones, or both.
        baselines: Whether to add the pure roofline and the ratio of memory bandwidths.
        at_least_s: The shortest measured time, in seconds, that the scores count.
    """

    cells: str
    programs: Sequence[str]
    estimator: str = "calibrated"
    starts: Sequence[str] = STARTS
    baselines: bool = True
    at_least_s: float = 0.1

    @property
    def flows(self) -> list[PredictionFlow]:
        """The flows to validate, without the baselines."""
        return [PredictionFlow(self.estimator, start) for start in self.starts]


@dataclass(frozen=True)
class ValidationResult:
    """Predictions and scores by the name of the flow; a flow without counted cells has no score."""

    predictions: dict[str, list[StepPrediction]]
    scores: dict[str, PredictionScore]


def validate_estimator(
    request: ValidationRequest,
    *,
    note: TextFunction = ignore_text,
    progress: TextFunction | None = None,
) -> ValidationResult:
    """Predict each measured step time by each flow, and score the predictions.

    Each distinct warning is noted once. All programs are found before the first is estimated.

    Raises:
        HespasError: The file of measurements is wrong, or a program is missing or cannot be
            estimated.
    """
    cells = read_measured_cells(request.cells)
    flows = request.flows
    if request.baselines:
        flows.append(PredictionFlow("roofline", request.starts[0]))
    tasks = _find_tasks(cells, flows, request)
    noted_texts: set[str] = set()

    def note_once(text: str) -> None:
        if text not in noted_texts:
            noted_texts.add(text)
            note(text)

    predictions: dict[str, list[StepPrediction]] = {flow.name: [] for flow in flows}
    for i, (flow, cell, program) in enumerate(tasks):
        if progress is not None:
            progress(f"{i + 1} of {len(tasks)}: {cell.workload} on {cell.node}, {flow.name}")
        predictions[flow.name].append(predict_cell(cell, program, flow, note_once))
    if request.baselines:
        predictions[RATIO] = scale_by_bandwidth(
            cells, lambda name: configs.load_node(name).memory_bandwidth_bytes_per_s
        )
    scores = {
        name: score
        for name, flow_predictions in predictions.items()
        if (score := score_predictions(flow_predictions, at_least_s=request.at_least_s)) is not None
    }
    return ValidationResult(predictions, scores)


def _find_tasks(
    cells: Sequence[MeasuredCell], flows: Sequence[PredictionFlow], request: ValidationRequest
) -> list[tuple[PredictionFlow, MeasuredCell, Path]]:
    """List each flow and cell with its program; raises HespasError if one is missing."""
    program_files = find_programs(request.programs)
    tasks = []
    for flow in flows:
        for cell in cells:
            program = find_cell_program(cell, flow.start, program_files)
            if program is None:
                raise HespasError(
                    f"there is no {flow.start} program of {cell.workload} for {cell.node}",
                    where=f"{request.cells}:{cell.line}",
                    remedy=f"put it in {', '.join(request.programs)}: see hespas validate --help",
                )
            tasks.append((flow, cell, program))
    return tasks


def predict_cell(
    cell: MeasuredCell, program: Path, flow: PredictionFlow, note: TextFunction = ignore_text
) -> StepPrediction:
    """Estimate and simulate one cell as ``hespas run`` does; raises HespasError."""
    with open_temporary_folder() as folder:
        config = RunConfig(
            mlir=str(program),
            node=cell.node,
            system=cell.system,
            estimator=flow.estimator,
            form=FUSE if flow.start == UNOPTIMISED and flow.estimator != "roofline" else AS_IS,
            memory=False,
            output=folder,
        )
        plan = build_run_plan(config)
        outcome = run_flow.execute_plan(plan, note)
        report = run_flow.simulate_traces(plan, outcome, note)
        band = run_flow.summarise_run(plan, outcome, report).step_band_s
    if report is None:
        raise HespasError("the cell's system simulated nothing", where=str(program))
    return StepPrediction(
        cell,
        report.result.step_time_ns * 1e-9,
        *(band or (None, None)),
        compute_s=report.critical_result.compute_ns * 1e-9,
        exposed_s=report.critical_result.exposed_ns * 1e-9,
        program=program.name,
    )


def scale_by_bandwidth(
    cells: Sequence[MeasuredCell], bandwidth: Callable[[str], float]
) -> list[StepPrediction]:
    """Scale a measurement on one node by the ratio of memory bandwidths: the trivial baseline.

    The first cell of each workload and device count is the measurement that the others are scaled
    from, and is not predicted itself.

    Args:
        cells: The measured cells.
        bandwidth: Returns the memory bandwidth of a node, in any one unit.
    """
    first: dict[tuple[str, int], MeasuredCell] = {}
    predictions = []
    for cell in cells:
        known = first.setdefault((cell.workload, cell.devices), cell)
        if known is not cell:
            step_s = known.measured_s * bandwidth(known.node) / bandwidth(cell.node)
            predictions.append(StepPrediction(cell, step_s, program=f"measured on {known.node}"))
    return predictions
