"""What a plan asks of its program: its interface, its meshes, its sketches and its parameters.

Workers build the program, or this process if the program is a function of it, which no worker could
import.
"""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from copy import copy
from dataclasses import dataclass, field, replace
from functools import cached_property
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

from hespas.dialects.mlir import to_mlir_bytecode
from hespas.frontends.export.device_placement import place_module_devices
from hespas.frontends.export.export_worker import PRELOADED as EXPORT_MODULES
from hespas.frontends.export.export_worker import describe_error
from hespas.frontends.export.logical_axes import LogicalAxisRules
from hespas.support.errors import HespasError, restore_error
from hespas.support.output_file import write_atomically
from hespas.support.supervised_process import open_temporary_folder
from hespas.workflows.cell_keys import collect_environment, compute_digest
from hespas.workflows.cells import Answer, Cell, CellPool, PoolOptions
from hespas.workflows.planning.layout_builders import (
    FunctionBuilder,
    LayoutBuilder,
    answer_task,
    select_spec_layout,
)
from hespas.workflows.planning.layout_space import (
    ACCUMULATE,
    BATCH,
    LayoutCandidate,
    MeshFacts,
    ProgramInterface,
)
from hespas.workflows.planning.program_sketch import SketchOp
from hespas.workflows.run_config import BOUNDED_OPTIONS, RunConfig, RunOptions, list_changed_options
from hespas.workflows.studies import program_forms
from hespas.workflows.studies.study_definition import StudyWorkload
from hespas.workflows.studies.study_programs import (
    StudyProgram,
    compute_request_digest,
    count_host_devices,
    digest_program_source,
    make_node_program,
)

if TYPE_CHECKING:
    from hespas.frontends.export.export_spec import ExportSpec

FUNCTION = "hespas.workflows.planning.layout_builders:run_task"
ONE_EACH = {BATCH: "1", ACCUMULATE: "1"}  # one sample of one microbatch for each batch shard
SPLIT = "linear"  # of a GPU, which runs kernels and synchronous collectives in program order
BOUNDED_ESTIMATORS = ("calibrated", "roofline")  # whose times bounds are known not to exceed


@dataclass
class LayoutPrograms:
    """Asks workers about the layouts of a program; a context manager.

    Attributes:
        program: The program, as of ``hespas export``.
        platform: The platform that JAX lowers for.
        folder: The folder that keeps sketches.
        jobs: The number of worker processes.
        note: Receives notes, one line each.
        spec: The specification of a plain function; None for a recipe.
    """

    program: str
    platform: str
    folder: Path
    jobs: int
    note: Callable[[str], None]
    spec: ExportSpec | None = None
    _stack: ExitStack = field(default_factory=ExitStack)
    _pool: CellPool = field(init=False)

    def __enter__(self) -> Self:
        if find_spec("jax") is None:
            raise HespasError(
                "a plan exports programs, which needs JAX", remedy="pip install 'hespas[jax]'"
            )
        local = PoolOptions(jobs=self.jobs)
        preloaded = (*EXPORT_MODULES, "hespas.passes.pipeline")
        pool = CellPool(FUNCTION, local, self.note, "plan", preloaded)
        self._pool = self._stack.enter_context(pool)
        return self

    def select_recipe(self, name: str) -> LayoutPrograms:
        """Return what asks the same workers about a recipe."""
        other = copy(self)
        other.program, other.spec = name, None
        return other

    def __exit__(self, *_: object) -> None:
        self._stack.close()

    @property
    def rules(self) -> LogicalAxisRules | None:
        """The rules of logical axes of a function; None if it has none."""
        return self.spec.axis_rules if self.spec else None

    def list_warnings(self) -> list[str]:
        """Describe what is doubtful about the programs, once they are built."""
        return self.spec.list_warnings() if self.spec else []

    def make_request(self, mesh: Mapping[str, int], options: Mapping[str, str]) -> dict[str, Any]:
        """Make the request for ``frontends.export.export_worker``."""
        workload = StudyWorkload(self.program, options, mesh, {})
        return StudyProgram(
            workload, "lowered", "", 1, **self._describe_origin(workload)
        ).make_request()

    def _describe_origin(self, workload: StudyWorkload) -> dict[str, Any]:
        """Describe what makes a program, as attributes of ``StudyProgram``."""
        spec = self.spec and select_spec_layout(self.spec, workload.mesh, workload.options)
        return {
            "platform": self.platform,
            "spec": spec.model_dump() if spec else None,
            "content": self._source_digest,
        }

    @cached_property
    def _source_digest(self) -> str:
        return digest_program_source(self.program)

    def make_study_program(
        self, candidate: LayoutCandidate, form: str, runs: LayoutRuns
    ) -> StudyProgram:
        """Make the program of a layout in a form, for a study; raises HespasError."""
        workload = StudyWorkload(self.program, candidate.options, candidate.mesh, {})
        return make_node_program(
            workload, form, runs.node, count_host_devices(runs.system), runs.options,
            **self._describe_origin(workload), dcn=candidate.dcn,
        )  # fmt: skip

    def read_interface(self) -> ProgramInterface:
        """Read the axes and options of the program; raises HespasError."""
        if self.spec is not None:
            return ProgramInterface.describe_function(self.spec.list_mesh_axes())
        answer = self._run_single({"task": "interface", "export": self.make_request({}, {})})
        return ProgramInterface(
            tuple(answer["axes"]), answer["defaults"], default_axes=tuple(answer["default_axes"])
        )

    def describe_meshes(
        self,
        meshes: Sequence[Mapping[str, int]],
        options: Mapping[str, str],
        interface: ProgramInterface,
    ) -> list[MeshFacts]:
        """Describe the program over each mesh; raises HespasError for a wrong option."""
        single = {name: one for name, one in ONE_EACH.items() if name in interface.defaults}
        request = self.make_request(meshes[0], {**options, **single})
        answer = self._run_single(
            {"task": "meshes", "export": request, "meshes": [dict(mesh) for mesh in meshes]}
        )
        return [MeshFacts(**facts) for facts in answer["meshes"]]

    def list_partition_specs(self, candidate: LayoutCandidate) -> dict[str, str]:
        """List the PartitionSpec of each array of a layout by its name; ``None`` if XLA chooses."""
        request = self.make_request(candidate.mesh, candidate.options)
        return self._run_single({"task": "specs", "export": request})["specs"]

    def make_sketches(
        self, layouts: Sequence[tuple[Mapping[str, int], Mapping[str, str]]]
    ) -> list[list[SketchOp] | HespasError]:
        """Make the sketches of layouts, or read those that an earlier plan has made.

        Returns:
            For each mesh and options the sketch, or why there is none.
        """
        requests = [self.make_request(mesh, options) for mesh, options in layouts]
        paths = [self._locate_sketch(request) for request in requests]
        cells = {
            path: Cell(
                self.program, {"task": "sketch", "export": request, "output": path}, output=path
            )
            for path, request in zip(paths, requests, strict=True)
        }
        answers = dict(zip(cells, self._run_tasks([*cells.values()], "sketches made"), strict=True))
        return [
            answer
            if isinstance(answer := answers[path], HespasError)
            else [SketchOp.from_json(data) for data in json.loads(Path(path).read_text())]
            for path in paths
        ]

    def _locate_sketch(self, request: dict[str, Any]) -> str:
        # A sketch depends on more than its program: on what reads it, and on the work of its ops.
        reading = collect_environment(("estimators", "workflows/planning"), ())
        digest = compute_digest([compute_request_digest(request), reading])
        return str(self.folder / f"sketch-{digest[:16]}.json")

    def _run_single(self, payload: dict[str, Any]) -> dict[str, Any]:
        (answer,) = self._run_tasks([Cell(self.program, payload)], "questions answered")
        if isinstance(answer, HespasError):
            raise answer
        return answer

    def _run_tasks(self, cells: Sequence[Cell], units: str) -> list[Answer | HespasError]:
        """Return the answer of each task, or its error."""
        answers = self._pool.run_cells(cells, units)
        for answer in answers:
            if isinstance(answer, HespasError):
                answer.where = answer.where or self.program
        return answers


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
        self, candidate: LayoutCandidate, form: str, runs: LayoutRuns
    ) -> StudyProgram:
        request = self.make_request(candidate.mesh, candidate.options)
        module = _call_program(
            lambda: self.builder.export_module(request, Path(self._scratch)), self.program
        )
        place_module_devices(module, candidate.mesh, candidate.dcn)
        data = to_mlir_bytecode(module)
        program = super().make_study_program(candidate, form, runs)
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
    try:
        return call()
    except MemoryError:
        raise
    except (Exception, SystemExit) as error:
        raise restore_error(describe_error(error), where=name) from error


@dataclass(frozen=True)
class LayoutRuns:
    """The runs of layouts.

    Attributes:
        node: The type of device.
        system: The system of all devices; None for a single device.
        options: The options of each estimate.
    """

    node: str
    system: str | None
    options: RunOptions

    def select_options(self, form: str) -> RunOptions:
        """Return the options of the estimates of layouts in a form.

        In fused programs every collective is exposed, as in their bounds. They have no use for
        options for XLA, which are those of the programs that are compiled.
        """
        if form != program_forms.FUSED:
            return self.options
        update = {"split": SPLIT, "overlap": "none", "xla_optimize": None}
        return self.options.model_copy(update=update)

    def make_config(self, form: str) -> RunConfig:
        """Make the run that estimates a layout in a form, without its program."""
        options = self.select_options(form)
        return program_forms.make_run_config(options, form, node=self.node, system=self.system)

    def list_unbounded_options(self) -> list[str]:
        """List the options with which a bound might be above its estimate."""
        names = [n for n in list_changed_options(self.options) if n not in BOUNDED_OPTIONS]
        is_bounded = self.options.estimator in BOUNDED_ESTIMATORS
        return names if is_bounded else ["estimator", *names]
