"""The step time of a cell by one flow: estimator, start, network."""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from hespas.support.errors import HespasError
from hespas.workflows import run_flow
from hespas.workflows.run_config import RunConfig
from hespas.workflows.validation.measured_cells import UNOPTIMISED, MeasuredCell
from hespas.workflows.validation.prediction_scores import StepPrediction

RATIO = "bandwidth ratio"


@dataclass(frozen=True, slots=True)
class PredictionFlow:
    """How cells are predicted; ``start`` is one of ``cells.STARTS``."""

    estimator: str
    start: str

    @property
    def name(self) -> str:
        return f"{self.estimator}, {self.start}"


def predict_cell(
    cell: MeasuredCell,
    program: Path,
    prediction_flow: PredictionFlow,
    note: Callable[[str], None] = lambda text: None,
) -> StepPrediction:
    """Estimate and simulate one cell as ``hespas run`` does; raises HespasError."""
    with tempfile.TemporaryDirectory() as folder:
        plan = run_flow.build_run_plan(
            RunConfig.model_validate(
                {
                    "mlir": str(program),
                    "node": cell.node,
                    "system": cell.system,
                    "estimator": prediction_flow.estimator,
                    "fuse": prediction_flow.start == UNOPTIMISED
                    and prediction_flow.estimator != "roofline",
                    "output": folder,
                }
            )
        )
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
    """The trivial baseline: a measurement on one node, times the ratio of memory bandwidths.

    Each workload's first cell is the one that the others are scaled from, and is not predicted.
    ``bandwidth`` gives a node's, in any one unit.
    """
    first: dict[tuple[str, int], MeasuredCell] = {}
    predictions = []
    for cell in cells:
        known = first.setdefault((cell.workload, cell.devices), cell)
        if known is not cell:
            step_s = known.measured_s * bandwidth(known.node) / bandwidth(cell.node)
            predictions.append(StepPrediction(cell, step_s, program=f"measured on {known.node}"))
    return predictions
