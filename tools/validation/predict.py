"""The step time of a cell by one flow: estimator, start, network."""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from hespas.dialects.errors import HespasError
from hespas.tools.commands import flow
from hespas.tools.commands.config import RunConfig
from hespas.tools.validation.cells import UNOPTIMISED, Cell
from hespas.tools.validation.scores import Prediction

RATIO = "bandwidth ratio"


@dataclass(frozen=True, slots=True)
class Flow:
    """How cells are predicted; ``start`` is one of ``cells.STARTS``."""

    estimator: str
    start: str

    @property
    def name(self) -> str:
        return f"{self.estimator}, {self.start}"


def predict(
    cell: Cell, program: Path, chosen: Flow, note: Callable[[str], None] = lambda text: None
) -> Prediction:
    """Estimate and simulate one cell as ``hespas run`` does; raises HespasError."""
    with tempfile.TemporaryDirectory() as folder:
        plan = flow.plan(
            RunConfig.model_validate(
                {
                    "mlir": str(program),
                    "node": cell.node,
                    "system": cell.system,
                    "estimator": chosen.estimator,
                    "fuse": chosen.start == UNOPTIMISED and chosen.estimator != "roofline",
                    "output": folder,
                }
            )
        )
        outcome = flow.execute(plan, note)
        report = flow.simulate(plan, outcome, note)
        band = flow.summarise(plan, outcome, report).step_band_s
    if report is None:
        raise HespasError("the cell's system simulated nothing", where=str(program))
    return Prediction(
        cell,
        report.result.step_time_ns * 1e-9,
        *(band or (None, None)),
        compute_s=report.critical.compute_ns * 1e-9,
        exposed_s=report.critical.exposed_ns * 1e-9,
        program=program.name,
    )


def by_bandwidth(cells: Sequence[Cell], bandwidth: Callable[[str], float]) -> list[Prediction]:
    """The trivial baseline: a measurement on one node, times the ratio of memory bandwidths.

    Each workload's first cell is the one that the others are scaled from, and is not predicted.
    ``bandwidth`` gives a node's, in any one unit.
    """
    first: dict[tuple[str, int], Cell] = {}
    found = []
    for cell in cells:
        known = first.setdefault((cell.workload, cell.devices), cell)
        if known is not cell:
            step_s = known.measured_s * bandwidth(known.node) / bandwidth(cell.node)
            found.append(Prediction(cell, step_s, program=f"measured on {known.node}"))
    return found
