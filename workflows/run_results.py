"""Writing and reading the results in the output folder of a run."""

from __future__ import annotations

import functools
import json
import os
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Self

from hespas import configs, frontends
from hespas.configs.node_overrides import NodeOverrides, load_overridden_node
from hespas.configs.node_spec import NodeSpec
from hespas.dialects.attrs import TargetAttr
from hespas.dialects.mlir import ir, make_context
from hespas.passes.annotate.stale_costs import refresh_costs
from hespas.passes.base import PassRun
from hespas.support.errors import HespasError
from hespas.support.folder_publication import hold_folder_unchanged
from hespas.workflows.figures import get_figure
from hespas.workflows.kernel_rows import KernelRow, collect_kernel_rows
from hespas.workflows.memory_timeline import (
    MEMORY_TIMELINE,
    MemoryTimeline,
    read_memory_timeline,
)
from hespas.workflows.module_output import to_mlir_bytecode
from hespas.workflows.network_settings import FIGURES
from hespas.workflows.result_models import check_run_figures, check_simulated_figures
from hespas.workflows.sweep.sweep_table import is_table_file

_RUN_AGAIN = "run hespas run again"
MODULE, SIMULATION = "annotated.mlirbc", "simulation.json"


def write_run_result(
    folder: Path | str,
    module: ir.Module,
    figures: dict[str, Any],
    simulation: dict[str, Any] | None = None,
    timeline: dict[str, Any] | None = None,
) -> None:
    """Write the annotated module and the figures of a run beside its traces.

    Args:
        folder: The folder from ``open_output_folder`` that holds the traces.
        module: The annotated module.
        figures: The object of run.json.
        simulation: The object of simulation.json; None writes none.
        timeline: The object of memory_timeline.json; None writes none.

    Raises:
        OSError: A file cannot be written.
    """
    Path(folder, MODULE).write_bytes(to_mlir_bytecode(module))
    objects = {FIGURES: figures, SIMULATION: simulation, MEMORY_TIMELINE: timeline}
    for name, values in objects.items():
        if values is not None:
            Path(folder, name).write_bytes(_to_json_bytes(values))


def _to_json_bytes(values: dict[str, Any]) -> bytes:
    return (json.dumps(values, indent=1) + "\n").encode()


@dataclass(frozen=True)
class RunResult:
    """A finished run.

    Attributes:
        folder: The output folder, or the table that holds the result.
        figures: The object that ``hespas run --json`` prints.
        simulation: The object that ``hespas simulate --json`` prints; None if the traces were not
            simulated.
    """

    folder: str
    figures: dict[str, Any]
    simulation: dict[str, Any] | None = None

    @classmethod
    def load_folder(cls, folder: str) -> Self:
        """Load the result in a folder; raises HespasError."""
        with hold_folder_unchanged(folder):
            run_figures = read_run_figures(folder)
            path = os.path.join(folder, SIMULATION)
            simulation = configs.read_json(path) if os.path.exists(path) else None
        if "compute_s" not in run_figures:
            message = f"{FIGURES} was not written by hespas run"
            raise HespasError(message, where=folder, remedy=_RUN_AGAIN)
        check_run_figures(run_figures, os.path.join(folder, FIGURES))
        if simulation is not None:
            check_simulated_figures(simulation, path)
            if simulation["step_time_s"] != run_figures.get("step_time_s"):
                message = f"{FIGURES} and {SIMULATION} are of different runs"
                raise HespasError(message, where=folder, remedy=_RUN_AGAIN)
        return cls(folder, run_figures, simulation)

    @functools.cached_property
    def annotated_module(self) -> ir.Module:
        """The annotated module; raises HespasError."""
        return read_annotated_module(self.folder)

    @functools.cached_property
    def memory_timeline(self) -> MemoryTimeline | None:
        """The live bytes over the program; None if they were not computed. Raises HespasError."""
        return read_memory_timeline(self.folder) if self.figures.get("memory") else None

    @functools.cached_property
    def kernel_rows(self) -> list[KernelRow]:
        """The kernels that take time, longest first; raises HespasError."""
        return collect_kernel_rows(self.annotated_module)

    @functools.cached_property
    def resolved_node(self) -> NodeSpec | None:
        """The node that the program was annotated for. Raises HespasError."""
        return resolve_node(self.figures["node"], self.figures.get("node_overrides"))

    def get_figure(self, path: str) -> Any:
        """Return a figure by its path, such as ``derived.mfu``; None if it is missing."""
        return get_figure(self.figures, path)

    @functools.cached_property
    def program_name(self) -> str:
        """The file name of the program, without its folder."""
        return os.path.basename(str(self.figures.get("program") or self.folder))


def resolve_node(name: str | None, overrides: str | None = None) -> NodeSpec | None:
    """Rebuild the node that a result names, with its overrides; None if it names none.

    Raises HespasError for a file that has been moved.
    """
    if not name:
        return None
    try:
        return load_overridden_node(name, NodeOverrides.from_text(overrides or ""))
    except HespasError as error:
        error.remedy = (
            error.remedy
            or "the result refers to its node's file: run this in the folder of the run"
        )
        raise


def read_program_name(result: str) -> str:
    """Return the file name of the program of a result folder, or of a program file."""
    if os.path.isdir(result) and os.path.exists(os.path.join(result, FIGURES)):
        result = read_run_figures(result)["program"]
    return os.path.basename(result)


def read_run_figures(folder: str) -> dict[str, Any]:
    """Read run.json of an output folder; raises HespasError."""
    path = os.path.join(folder, FIGURES)
    if not os.path.exists(path):
        raise HespasError(
            f"there is no {FIGURES}", where=folder, remedy="name the output folder of a hespas run"
        )
    return configs.read_json(path)


def reject_sweep_table(path: str) -> None:
    """Raise HespasError for the table of a sweep or study where a single result is required."""
    if is_table_file(path):
        remedy = "hespas show shows it, and hespas compare compares its cells"
        raise HespasError(
            "it is a table of many results, not one result", where=path, remedy=remedy
        )


def read_annotated_module(result: str) -> ir.Module:
    """Read the annotated module of a result folder, or a module file; raises HespasError.

    Its costs are brought up to date if it is annotated.
    """
    reject_sweep_table(result)
    path = os.path.join(result, MODULE) if os.path.isdir(result) else result
    if not os.path.exists(path):
        raise HespasError(
            f"there is no {MODULE}" if path != result else "there is no such file",
            where=result,
            remedy="name the output folder of a hespas run",
        )
    module = frontends.read_module(path, make_context())
    target = TargetAttr.read_from_op(module.operation)
    if target is not None and target.estimator is not None:
        refresh_costs(module, PassRun(input_name=frontends.to_display_name(path)))
    return module
