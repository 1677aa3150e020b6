"""Writing and reading the results in the output folder of a run."""

from __future__ import annotations

import functools
import json
import os
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Self

from pydantic import BaseModel, Field, ValidationError, model_validator

from hespas import configs, frontends
from hespas.configs import is_preset_name
from hespas.configs.node_overrides import NodeOverrides, load_overridden_node
from hespas.configs.node_spec import NodeSpec
from hespas.dialects.attrs import MemoryAttr, TargetAttr
from hespas.dialects.mlir import ir, make_context, to_mlir_bytecode
from hespas.passes.annotate.stale_costs import refresh_costs
from hespas.passes.base import PassRun, print_note
from hespas.support.data_files import check_link, check_named_path, is_inside_folders
from hespas.support.errors import HespasError
from hespas.support.folder_publication import hold_folder_unchanged
from hespas.workflows.figures import get_figure
from hespas.workflows.kernel_rows import KernelRow, collect_kernel_rows
from hespas.workflows.network_settings import FIGURES
from hespas.workflows.result_models import (
    check_run_figures,
    check_simulated_figures,
    fill_in_run_figures,
)
from hespas.workflows.sweep.sweep_table import is_table_file

_RUN_AGAIN = "run hespas run again"
MODULE, SIMULATION = "annotated.mlirbc", "simulation.json"
NODE_FILE = "node.json"  # a copy of the node's file, so that the result can be read anywhere
MEMORY_TIMELINE = "memory_timeline.json"
# Every version writes these, if only as null. Others have defaults, so that results last.
_REQUIRED = ("program", "devices", "compute_s", "step_time_s", "exposed_comm_s")
_REQUIRED_OF_MEMORY = ("peak_bytes", "live_bytes")  # where the memory was computed


def write_run_result(
    folder: Path | str,
    module: ir.Module,
    figures: dict[str, Any],
    simulation: dict[str, Any] | None,
    timeline: dict[str, Any] | None,
) -> None:
    """Write the annotated module, the file of its node and the figures of a run beside its traces.

    Args:
        folder: The folder from ``open_output_folder`` that holds the traces.
        module: The annotated module.
        figures: The object of run.json.
        simulation: The object of simulation.json; None writes none.
        timeline: The object of memory_timeline.json; None writes none.

    Raises:
        OSError: A file cannot be written.
        HespasError: The file of the node cannot be read.
    """
    target = TargetAttr.read_from_op(module.operation)
    if target is not None and target.node and not is_preset_name(target.node):
        Path(folder, NODE_FILE).write_bytes(_to_json_bytes(configs.read_node_json(target.node)))
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
            check_link(Path(path))
            simulation = configs.read_json(path) if os.path.exists(path) else None
        missing = [key for key in _REQUIRED if key not in run_figures]
        memory = run_figures.get("memory")
        if isinstance(memory, dict):
            missing += [f"memory.{key}" for key in _REQUIRED_OF_MEMORY if key not in memory]
        if missing:
            message = f"{FIGURES} was not written by hespas run: it has no '{missing[0]}'"
            raise HespasError(message, where=folder, remedy=_RUN_AGAIN)
        check_run_figures(run_figures, os.path.join(folder, FIGURES))
        if simulation is not None:
            check_simulated_figures(simulation, path)
            if simulation["step_time_s"] != run_figures.get("step_time_s"):
                message = f"{FIGURES} and {SIMULATION} are of different runs"
                raise HespasError(message, where=folder, remedy=_RUN_AGAIN)
        return cls(folder, fill_in_run_figures(run_figures), simulation)

    @property
    def has_module(self) -> bool:
        """Whether the annotated module is there; a cell of a table has none."""
        return os.path.exists(os.path.join(self.folder, MODULE))

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
        overrides = self.figures.get("node_overrides")
        return resolve_node(self.figures["node"], overrides, self.folder)

    def get_figure(self, path: str) -> Any:
        """Return a figure by its path, such as ``derived.mfu``; None if it is missing."""
        return get_figure(self.figures, path)

    @functools.cached_property
    def program_name(self) -> str:
        """The file name of the program, without its folder."""
        return os.path.basename(str(self.figures.get("program") or self.folder))


def resolve_node(name: str | None, overrides: str | None, result: str) -> NodeSpec | None:
    """Rebuild the node that a result names, with its overrides; None if it names none.

    Args:
        name: The preset or the file.
        overrides: The options that replaced values of the node, as the command line spells them.
        result: The file or folder that names it.

    Raises:
        HespasError: The file has been moved, or is neither in the folder of the result nor in the
            working directory, where results refer to it.
    """
    if not name:
        return None
    name = _locate_node(name, result)
    try:
        return load_overridden_node(name, NodeOverrides.from_text(overrides or ""))
    except HespasError as error:
        error.remedy = (
            error.remedy
            or "the result refers to its node's file: run this in the folder of the run"
        )
        raise


def _locate_node(name: str, result: str) -> str:
    """Return the preset of a node, or the path of its file: the copy in the folder of the result.

    Raises:
        HespasError: There is no copy, and the result names a file where it must not.
    """
    if is_preset_name(name):
        return name
    folder = result if os.path.isdir(result) else os.path.dirname(result) or "."
    copy = Path(folder, NODE_FILE)
    if os.path.isdir(result) and copy.exists():
        check_link(copy)
        return str(copy)
    if not is_inside_folders(name, ["."]):
        path = Path(os.path.abspath(name))
        check_named_path(name, path, folder, result, f"run this in {path.parent}")
    return name


def read_program_name(result: str) -> str:
    """Return the file name of the program of a result folder, or of a program file."""
    if os.path.isdir(result) and os.path.exists(os.path.join(result, FIGURES)):
        result = read_run_figures(result).get("program") or result
    return os.path.basename(result)


def read_run_figures(folder: str) -> dict[str, Any]:
    """Read run.json of an output folder; raises HespasError."""
    path = os.path.join(folder, FIGURES)
    if not os.path.exists(path):
        raise HespasError(
            f"there is no {FIGURES}", where=folder, remedy="name the output folder of a hespas run"
        )
    check_link(Path(path))
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

    Its costs are brought up to date if it is prepared.
    """
    reject_sweep_table(result)
    path = os.path.join(result, MODULE) if os.path.isdir(result) else result
    if not os.path.exists(path):
        raise HespasError(
            f"there is no {MODULE}" if path != result else "there is no such file",
            where=result,
            remedy="name the output folder of a hespas run",
        )
    if path != result:
        check_link(Path(path))
    module = frontends.read_module(path, make_context())
    target = TargetAttr.read_from_op(module.operation)
    may_estimate = True
    if target is not None and target.node:
        # The copy of a node's file is for readers; an annotate pass would read the file itself.
        may_estimate = _locate_node(target.node, result) == target.node
    if target is not None:
        run = PassRun(input_name=frontends.to_display_name(path), note=print_note)
        refresh_costs(module, run, may_estimate=may_estimate)
    return module


class MemoryTimeline(BaseModel):
    """The bytes that are live at some points of the program, on one device."""

    points: list[int] = Field(description="a sample of the points of the program, ascending")
    live_bytes: list[int] = Field(
        description="bytes live at each sampled point: the maximum over the points that it "
        "stands for"
    )

    @model_validator(mode="after")
    def _check_lengths(self) -> MemoryTimeline:
        if len(self.points) != len(self.live_bytes):
            raise ValueError("points and live_bytes differ in length")
        return self


def to_timeline_json(memory: MemoryAttr | None) -> dict[str, Any] | None:
    """Convert the timeline of the memory of a program to the object of its file."""
    if memory is None:
        return None
    return {"points": list(memory.timeline_points), "live_bytes": list(memory.timeline_bytes)}


def read_memory_timeline(folder: str) -> MemoryTimeline | None:
    """Read the memory timeline of an output folder; None if there is none. Raises HespasError."""
    path = os.path.join(folder, MEMORY_TIMELINE)
    if not os.path.exists(path):
        return None
    check_link(Path(path))
    try:
        return MemoryTimeline.model_validate(configs.read_json(path))
    except ValidationError as error:
        message = f"is not a memory timeline: {error.errors()[0]['msg']}"
        raise HespasError(message, where=path, remedy="run hespas run again") from None
