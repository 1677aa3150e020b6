"""Validation: predict measured step times by several flows, and score the predictions."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Literal

from pydantic.dataclasses import dataclass as options_record

from hespas import configs
from hespas.support.errors import HespasError, UsageError
from hespas.workflows.cells import Cell, CellPool
from hespas.workflows.run_config import (
    COMPILE_OPTIONS,
    STRICT,
    PoolOptions,
    RunConfig,
    RunOptions,
    list_changed_options,
)
from hespas.workflows.run_flow import TextFunction, ignore_text
from hespas.workflows.sweep.sweep_runner import FUNCTION, SweepCellFactory
from hespas.workflows.validation.prediction_scores import (
    DEFAULT,
    OPTIMISED,
    STARTS,
    UNOPTIMISED,
    MeasuredCell,
    PredictionScore,
    StepPrediction,
    find_cell_program,
    find_programs,
    read_measured_cells,
    score_predictions,
)

BASELINE, RATIO = "roofline", "bandwidth ratio"
BASELINE_OPTIONS = ("keep_going", "kernel_cost")


@dataclass(frozen=True, slots=True)
class PredictionFlow:
    """How cells are predicted: options of a run, and one of ``prediction_scores.STARTS``.

    By default a program is what ``hespas run`` takes without options: on a GPU, what XLA compiles.
    """

    options: RunOptions
    start: str

    @property
    def name(self) -> str:
        return f"{self.options.estimator}, {self.start}"

    @property
    def form(self) -> Literal["fuse", "as-is"] | None:
        """The form of a run's configuration."""
        forms: Mapping[str, Literal["fuse", "as-is"]] = {UNOPTIMISED: "fuse", OPTIMISED: "as-is"}
        return forms.get(self.start)

    def make_cell(self, measured: MeasuredCell, program: str, factory: SweepCellFactory) -> Cell:
        """Make the cell of a sweep that predicts a measurement; raises HespasError."""
        config = RunConfig(
            **self.options.model_dump(exclude_unset=True),
            mlir=program,
            node=measured.node,
            system=measured.system,
            form=self.form,
            memory=False,
        )
        name = f"{measured.workload} on {measured.node}, {self.name}"
        return replace(factory.make_cell(config.model_dump(exclude_unset=True)), name=name)


@options_record(frozen=True, config=STRICT)
class ValidationRequest(PoolOptions):
    """What to validate.

    Attributes:
        cells: The CSV file of measured step times.
        programs: The folders with the programs, searched recursively.
        options: The options of each estimate. Those of the compilation are for the start
            ``default``, whose programs hespas compiles.
        starts: Which programs to start from, of ``prediction_scores.STARTS``.
        baselines: Whether to add the pure roofline and the ratio of memory bandwidths.
        at_least_s: The shortest measured time, in seconds, that the scores count.
    """

    cells: str
    programs: Sequence[str]
    options: RunOptions = field(default_factory=RunOptions)
    starts: Sequence[str] = STARTS
    baselines: bool = True
    at_least_s: float = 0.1

    @property
    def flows(self) -> list[PredictionFlow]:
        """The flows to validate, without the baselines."""
        plain = self.options.model_copy(update=dict.fromkeys(COMPILE_OPTIONS))
        return [
            PredictionFlow(self.options if start == DEFAULT else plain, start)
            for start in self.starts
        ]

    @property
    def baseline(self) -> PredictionFlow:
        """The pure roofline, with those options only without which it may have no cost of an op."""
        needed = {name: getattr(self.options, name) for name in BASELINE_OPTIONS}
        start = OPTIMISED if OPTIMISED in self.starts else self.starts[0]
        return PredictionFlow(RunOptions(estimator=BASELINE, **needed), start)

    def check_compile_options(self) -> None:
        """Raise UsageError if there are options for XLA, and no flow compiles."""
        if DEFAULT in self.starts or not {*COMPILE_OPTIONS} & {*list_changed_options(self.options)}:
            return
        raise UsageError(
            f"--xla-optimize and --overlap have no use for the start {' and '.join(self.starts)}, "
            "whose programs hespas does not compile",
            remedy=f"--start {DEFAULT} compiles them",
        )


def validate_estimator(
    request: ValidationRequest, *, note: TextFunction = ignore_text
) -> tuple[dict[str, list[StepPrediction]], dict[str, PredictionScore]]:
    """Predict each measured step time by each flow, and score the predictions.

    Each distinct warning is noted once. All programs are found before the first is estimated. Of
    several flows, one may lack programs of some cells, which are noted.

    Returns:
        The predictions and the score by the name of the flow; one without counted cells has no
        score.

    Raises:
        HespasError: The file of measurements is wrong, or a program is missing or cannot be
            estimated.
    """
    request.check_compile_options()
    cells = read_measured_cells(request.cells)
    flows = request.flows
    names = [flow.name for flow in flows]
    if request.baselines and request.baseline.name not in names:
        flows.append(request.baseline)
    tasks = _find_tasks(cells, flows, request, note)
    with CellPool(FUNCTION, request, note, "validate") as pool:
        factory = SweepCellFactory()
        runs = [flow.make_cell(cell, program, factory) for flow, cell, program in tasks]
        answers = pool.run_cells(runs)
    notes: dict[str, None] = {}
    by_task: dict[tuple[str, int], StepPrediction] = {}
    for (flow, cell, program), run, answer in zip(tasks, runs, answers, strict=True):
        if isinstance(answer, HespasError):
            answer.where = answer.where or run.name
            raise answer
        figures = answer["figures"]
        notes |= dict.fromkeys(f"warning: {text}" for text in figures["warnings"])
        step_s, exposed_s = figures["step_time_s"], figures["exposed_comm_s"]
        low_s, high_s = figures["step_time_band_s"] or (None, None)
        by_task[flow.name, cell.line] = StepPrediction(
            cell,
            step_s,
            low_s,
            high_s,
            compute_s=1e-9 * round(1e9 * (step_s - exposed_s)),
            exposed_s=exposed_s,
            program=Path(program).name,
        )
    for text in notes:
        note(text)
    predictions = {
        flow.name: [p for cell in cells if (p := by_task.get((flow.name, cell.line))) is not None]
        for flow in flows
    }
    if request.baselines:
        predictions[RATIO] = scale_by_bandwidth(
            cells, lambda name: configs.load_node(name).memory_bandwidth_bytes_per_s
        )
    scores = {
        name: score
        for name, flow_predictions in predictions.items()
        if (score := score_predictions(flow_predictions, at_least_s=request.at_least_s)) is not None
    }
    return predictions, scores


def _find_tasks(
    cells: Sequence[MeasuredCell],
    flows: Sequence[PredictionFlow],
    request: ValidationRequest,
    note: TextFunction,
) -> list[tuple[PredictionFlow, MeasuredCell, str]]:
    """List each flow and cell with its program, those with equal inputs together.

    Raises:
        HespasError: The only flow lacks a program, or a cell has none at all.
    """
    program_files = find_programs(request.programs)
    tasks: list[tuple[PredictionFlow, MeasuredCell, str]] = []
    for cell in cells:
        programs_by_start = {
            start: find_cell_program(cell, start, program_files) for start in request.starts
        }
        missing = [start for start, program in programs_by_start.items() if program is None]
        text = f"there is no {' or '.join(missing)} program of {cell.workload} for {cell.node}"
        if missing and len(missing) == len(programs_by_start):
            raise HespasError(
                text,
                where=f"{request.cells}:{cell.line}",
                remedy=f"put it in {', '.join(request.programs)}; hespas validate --help says "
                "how programs are called",
            )
        if missing:
            note(f"{request.cells}:{cell.line}: {text}: not predicted from it")
        tasks += [
            (flow, cell, str(program))
            for flow in flows
            if (program := programs_by_start[flow.start]) is not None
        ]
    return sorted(tasks, key=lambda task: task[2])


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
            text = f"measured on {known.node}"
            predictions.append(StepPrediction(cell, step_s, program=text, is_scaled=True))
    return predictions
