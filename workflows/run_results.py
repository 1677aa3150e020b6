"""What ``hespas run`` leaves in its output folder, read back."""

from __future__ import annotations

import contextlib
import functools
import json
import os
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Self

from hespas import configs, frontends
from hespas.configs.node_overrides import NodeOverrides, load_overridden_node
from hespas.configs.node_spec import NodeSpec
from hespas.dialects.mlir import ir, make_context
from hespas.support.errors import HespasError
from hespas.support.output_file import write_atomically
from hespas.workflows.kernel_rows import KernelRow, collect_kernel_rows
from hespas.workflows.module_output import to_mlir_bytecode
from hespas.workflows.sweep.sweep_table import is_table_file

MODULE, FIGURES, SIMULATION = "annotated.mlirbc", "run.json", "simulation.json"


def write_run_result(
    folder: Path | str,
    module: ir.Module,
    figures: dict[str, Any],
    simulation: dict[str, Any] | None = None,
) -> None:
    """Leave the annotated module and the run's figures beside its traces; raises HespasError.

    ``simulation`` is what ``hespas simulate --json`` prints; without one that of an earlier run
    goes.
    """
    write_atomically(os.path.join(folder, MODULE), to_mlir_bytecode(module))
    write_atomically(os.path.join(folder, FIGURES), _to_json_bytes(figures))
    path = os.path.join(folder, SIMULATION)
    if simulation is not None:
        write_atomically(path, _to_json_bytes(simulation))
    else:
        with contextlib.suppress(FileNotFoundError):
            os.unlink(path)


def _to_json_bytes(values: dict[str, Any]) -> bytes:
    return (json.dumps(values, indent=1) + "\n").encode()


@dataclass(frozen=True)
class RunResult:
    """A finished run: its output folder, and what ``hespas run --json`` printed.

    ``simulation`` is what ``hespas simulate --json`` prints of its traces; None where they were
    not simulated.
    """

    folder: str
    figures: dict[str, Any]
    simulation: dict[str, Any] | None = None

    @classmethod
    def load_folder(cls, folder: str) -> Self:
        """The result in a folder; raises HespasError."""
        run_figures = read_run_figures(folder)
        path = os.path.join(folder, SIMULATION)
        simulation = configs.read_json(path) if os.path.exists(path) else None
        same = simulation is None or simulation["step_time_s"] == run_figures.get("step_time_s")
        if not same or "compute_s" not in run_figures:
            text = f"{FIGURES} and {SIMULATION} are of different runs"
            message = f"{FIGURES} is not of a hespas run" if same else text
            raise HespasError(message, where=folder, remedy="run hespas run again")
        return cls(folder, run_figures, simulation)

    @functools.cached_property
    def annotated_module(self) -> ir.Module:
        """The annotated module; raises HespasError."""
        return read_annotated_module(self.folder)

    @functools.cached_property
    def kernel_rows(self) -> list[KernelRow]:
        """The kernels that take time; raises HespasError."""
        return collect_kernel_rows(self.annotated_module)

    @functools.cached_property
    def resolved_node(self) -> NodeSpec | None:
        """The node that the program was annotated for. Raises HespasError."""
        return resolve_node(self.figures["node"], self.figures.get("node_overrides"))

    def get_figure(self, path: str) -> Any:
        """A figure by the keys that lead to it, as ``derived.mfu``; None where there is none."""
        value: Any = self.figures
        for key in path.split("."):
            value = value.get(key) if isinstance(value, dict) else None
        return value

    @functools.cached_property
    def program_name(self) -> str:
        """The program's name, without its folder."""
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
        error.remedy = error.remedy or "a result names its node's file: call from where that is"
        raise


def read_program_name(result: str) -> str:
    """What the program of a result folder is called, without its folder; a file is its own."""
    if os.path.isdir(result) and os.path.exists(os.path.join(result, FIGURES)):
        result = read_run_figures(result)["program"]
    return os.path.basename(result)


def read_run_figures(folder: str) -> dict[str, Any]:
    """What ``hespas run --json`` printed, of an output folder; raises HespasError."""
    path = os.path.join(folder, FIGURES)
    if not os.path.exists(path):
        raise HespasError(
            f"there is no {FIGURES}", where=folder, remedy="name the output folder of a hespas run"
        )
    return configs.read_json(path)


def reject_sweep_table(path: str) -> None:
    """Raise HespasError for the table of a sweep, where one result is wanted."""
    if is_table_file(path):
        remedy = "hespas show --page writes it as a page, and hespas compare compares its cells"
        raise HespasError("it is the table of a sweep, not one result", where=path, remedy=remedy)


def read_annotated_module(result: str) -> ir.Module:
    """The annotated module of a result folder, or in a file; raises HespasError."""
    reject_sweep_table(result)
    path = os.path.join(result, MODULE) if os.path.isdir(result) else result
    if not os.path.exists(path):
        raise HespasError(
            f"there is no {MODULE}" if path != result else "there is no such file",
            where=result,
            remedy="name the output folder of a hespas run",
        )
    return frontends.read_module(path, make_context())
