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
from hespas.configs.node import Node
from hespas.dialects.errors import HespasError
from hespas.dialects.mlir import ir, make_context
from hespas.passes.annotate.options import CUSTOM
from hespas.passes.emit.file import write_whole
from hespas.tools.kernels import Row, rows
from hespas.tools.modules import bytecode
from hespas.tools.sweep.table import is_table

MODULE, FIGURES, SIMULATION = "annotated.mlirbc", "run.json", "simulation.json"


def write(
    folder: Path | str,
    module: ir.Module,
    figures: dict[str, Any],
    simulation: dict[str, Any] | None = None,
) -> None:
    """Leave the annotated module and the run's figures beside its traces; raises HespasError.

    ``simulation`` is what ``hespas simulate --json`` prints; without one that of an earlier run
    goes.
    """
    write_whole(os.path.join(folder, MODULE), bytecode(module))
    write_whole(os.path.join(folder, FIGURES), _as_text(figures))
    path = os.path.join(folder, SIMULATION)
    if simulation is not None:
        write_whole(path, _as_text(simulation))
    else:
        with contextlib.suppress(FileNotFoundError):
            os.unlink(path)


def _as_text(values: dict[str, Any]) -> bytes:
    return (json.dumps(values, indent=1) + "\n").encode()


@dataclass(frozen=True)
class Result:
    """A finished run: its output folder, and what ``hespas run --json`` printed.

    ``simulation`` is what ``hespas simulate --json`` prints of its traces; None where they were
    not simulated.
    """

    folder: str
    figures: dict[str, Any]
    simulation: dict[str, Any] | None = None

    @classmethod
    def load(cls, folder: str) -> Self:
        """The result in a folder; raises HespasError."""
        found = figures(folder)
        path = os.path.join(folder, SIMULATION)
        simulation = configs.read_json(path) if os.path.exists(path) else None
        same = simulation is None or simulation["step_time_s"] == found.get("step_time_s")
        if not same or "compute_s" not in found:
            text = f"{FIGURES} and {SIMULATION} are of different runs"
            message = f"{FIGURES} is not of a hespas run" if same else text
            raise HespasError(message, where=folder, remedy="run hespas run again")
        return cls(folder, found, simulation)

    @functools.cached_property
    def module(self) -> ir.Module:
        """The annotated module; raises HespasError."""
        return read_module(self.folder)

    @functools.cached_property
    def kernels(self) -> list[Row]:
        """The kernels that take time; raises HespasError."""
        return rows(self.module)

    @functools.cached_property
    def node(self) -> Node | None:
        """The node that it is of, as ``node_of``; raises HespasError."""
        return node_of(self.figures["node"])

    def figure(self, path: str) -> Any:
        """A figure by the keys that lead to it, as ``derived.mfu``; None where there is none."""
        value: Any = self.figures
        for key in path.split("."):
            value = value.get(key) if isinstance(value, dict) else None
        return value

    @functools.cached_property
    def name(self) -> str:
        """The program's name, without its folder."""
        return os.path.basename(str(self.figures.get("program") or self.folder))


def node_of(name: str | None) -> Node | None:
    """The node that a result names; None where options alone described it, or nothing did.

    Raises HespasError for a file that is gone.
    """
    if not name or name == CUSTOM:
        return None
    try:
        return configs.node(name)
    except HespasError as error:
        error.remedy = error.remedy or "a result names its node's file: call from where that is"
        raise


def program_of(result: str) -> str:
    """What the program of a result folder is called, without its folder; a file is its own."""
    if os.path.isdir(result) and os.path.exists(os.path.join(result, FIGURES)):
        result = figures(result)["program"]
    return os.path.basename(result)


def figures(folder: str) -> dict[str, Any]:
    """What ``hespas run --json`` printed, of an output folder; raises HespasError."""
    path = os.path.join(folder, FIGURES)
    if not os.path.exists(path):
        raise HespasError(
            f"there is no {FIGURES}", where=folder, remedy="name the output folder of a hespas run"
        )
    return configs.read_json(path)


def refuse_table(path: str) -> None:
    """Raise HespasError for the table of a sweep, where one result is wanted."""
    if is_table(path):
        remedy = "hespas compare and hespas report take it; hespas run one of its cells"
        raise HespasError("it is the table of a sweep, not one result", where=path, remedy=remedy)


def read_module(result: str) -> ir.Module:
    """The annotated module of a result folder, or in a file; raises HespasError."""
    refuse_table(result)
    path = os.path.join(result, MODULE) if os.path.isdir(result) else result
    if not os.path.exists(path):
        raise HespasError(
            f"there is no {MODULE}" if path != result else "there is no such file",
            where=result,
            remedy="name the output folder of a hespas run",
        )
    return frontends.read(path, make_context())
