"""The programs of a function of this process, which no worker process could import."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Self

from hespas.frontends.export.device_placement import place_module_devices
from hespas.frontends.export.logical_axes import LogicalAxisRules
from hespas.support.errors import HespasError, restore_error
from hespas.support.output_file import write_atomically
from hespas.support.supervised_process import open_temporary_folder
from hespas.workflows.cells import Answer, Cell
from hespas.workflows.module_output import to_mlir_bytecode
from hespas.workflows.planning.layout_builders import FunctionBuilder, LayoutBuilder
from hespas.workflows.planning.layout_programs import LayoutPrograms
from hespas.workflows.planning.layout_space import LayoutCandidate, ProgramInterface
from hespas.workflows.planning.layout_worker import answer_task
from hespas.workflows.studies.study_programs import StudyProgram


@dataclass(kw_only=True)
class FunctionPrograms(LayoutPrograms):
    """Builds and lowers layouts in this process.

    Nothing tells whether a function is the same as in an earlier plan, so sketches are not kept.
    Programs are named by their content, so that equal programs have one estimate.

    Attributes:
        builder: Builds the programs.
    """

    builder: LayoutBuilder
    _scratch: str = ""

    def __enter__(self) -> Self:
        self._scratch = self._stack.enter_context(open_temporary_folder())
        return self

    @property
    def rules(self) -> LogicalAxisRules | None:
        return self.builder.rules if isinstance(self.builder, FunctionBuilder) else None

    def list_warnings(self) -> list[str]:
        return self.rules.list_warnings() if self.rules else []

    def read_interface(self) -> ProgramInterface:
        return self.builder.describe_interface()

    def make_study_program(
        self, candidate: LayoutCandidate, form: str, target: str, per_host: int
    ) -> StudyProgram:
        request = self.make_request(candidate.mesh, candidate.options)
        module = _call_program(
            lambda: self.builder.export_module(request, Path(self._scratch)), self.program
        )
        place_module_devices(module, candidate.mesh, candidate.dcn)
        data = to_mlir_bytecode(module)
        program = super().make_study_program(candidate, form, target, per_host)
        program = replace(program, content=hashlib.sha256(data).hexdigest())
        path = self.folder / program.name_lowered_file()
        if not path.exists():
            write_atomically(str(path), data)
        return program

    def _locate_sketch(self, request: dict[str, Any]) -> str:
        return os.path.join(self._scratch, os.path.basename(super()._locate_sketch(request)))

    def _run_tasks(self, cells: Sequence[Cell], units: str) -> list[Answer | HespasError]:
        return list(map(self._run_task, cells))

    def _run_task(self, cell: Cell) -> Answer | HespasError:
        if cell.output and os.path.exists(cell.output):
            return {}
        try:
            return _call_program(
                lambda: answer_task(cell.payload, self.builder, self._scratch), self.program
            )
        except HespasError as error:
            return error


def _call_program(call: Callable[[], Any], name: str) -> Any:
    """Call what runs the user's function; raises HespasError for whatever it raises."""
    from hespas.frontends.export.export_worker import describe_error

    try:
        return call()
    except MemoryError:
        raise
    except (Exception, SystemExit) as error:
        raise restore_error(describe_error(error), where=name) from error
