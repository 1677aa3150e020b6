"""Making the programs of a study, once each: files are named by a hash of their inputs."""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any

from hespas import configs
from hespas.configs import compile_targets
from hespas.frontends.export.export_worker import PRELOADED as EXPORT_MODULES
from hespas.frontends.export.slice_mesh import is_in_device_order
from hespas.passes.pipeline import parse_options
from hespas.support.errors import HespasError
from hespas.workflows.cell_keys import collect_environment, compute_digest
from hespas.workflows.cells import Cell, CellPool, Note, PoolOptions
from hespas.workflows.program_form import SCHEDULED_OPTIONS
from hespas.workflows.run_config import RunOptions
from hespas.workflows.studies import program_forms
from hespas.workflows.studies.program_forms import SCHEDULED, find_compiler
from hespas.workflows.studies.study_definition import StudyWorkload

if TYPE_CHECKING:
    from hespas.dialects.xla import CompilerName

FUNCTION = "hespas.workflows.studies.program_worker:write_program_file"
PACKAGES = ("jax", "jaxlib", "jax-cuda12-pjrt", "jax-cuda13-pjrt", "libtpu")
# JAX's, by the compiler.
PLATFORMS: Mapping[CompilerName | None, str] = {"gpu": "cuda", "tpu": "tpu", None: ""}
ATTENTION_PLATFORMS = {  # JAX's, by the kernel of attention
    program_forms.FUSED_ATTENTION[name]: platform for name, platform in PLATFORMS.items() if name
}
# What a program is made by.
SOURCES = ("frontends", "recipes", "dialects", "passes", "configs/xla_flags")


@dataclass(frozen=True)
class StudyProgram:
    """A workload in a form.

    Attributes:
        workload: The workload.
        form: One of ``program_forms.FORMS``.
        target: The target that XLA optimises for; "" if XLA does not optimise it.
        devices_per_host: The number of devices of a host.
        xla_options: More options of the pass xla-optimize.
        platform: The platform that JAX lowers for; "" for that of the target or, without one, of
            the program's kernel of attention, or the CPU.
        spec: The specification of a plain function; None for a recipe.
        content: A hash of the sources that the program depends on besides hespas; "" for none.
        dcn: The part of each axis of the mesh that lies between slices; {} for the first axes.
    """

    workload: StudyWorkload
    form: str
    target: str
    devices_per_host: int
    xla_options: str = ""
    platform: str = ""
    spec: Mapping[str, Any] | None = None
    content: str = ""
    dcn: Mapping[str, int] = field(default_factory=dict)

    def make_request(self) -> dict[str, Any]:
        """Make the request for ``frontends.export.export_worker``."""
        compiler = find_compiler(self.target) if self.target else None
        kernel = self.workload.options.get("attention", "")
        return {
            "program": self.workload.recipe,
            "options": dict(self.workload.options),
            "mesh": dict(self.workload.mesh),
            "spec": self.spec,
            "platform": self.platform
            or PLATFORMS[compiler]
            or ATTENTION_PLATFORMS.get(kernel, "cpu"),
            **({"content": self.content} if self.content else {}),
            **({} if is_in_device_order(self.workload.mesh, self.dcn) else {"dcn": self.dcn}),
        }

    def name_lowered_file(self) -> str:
        """Return the name of the exported file."""
        mesh = [f"{axis}{size}" for axis, size in self.workload.mesh.items() if size > 1]
        recipe = Path(self.workload.recipe.replace(":", "-")).name
        return "-".join([recipe, *mesh, compute_request_digest(self.make_request())]) + ".mlirbc"

    def format_pass_options(self) -> str:
        """Format the options of the pass xla-optimize."""
        stage_options = SCHEDULED_OPTIONS if self.form == SCHEDULED else {}
        pass_options = {**stage_options, "devices-per-host": self.devices_per_host}
        replaced = parse_options(self.xla_options)
        texts = [f"{name}={value}" for name, value in pass_options.items() if name not in replaced]
        return ",".join(filter(None, (*texts, self.xla_options)))

    def name_final_file(self) -> str:
        """Return the name of the file that is estimated."""
        if not self.target:
            return self.name_lowered_file()
        lowered = self.name_lowered_file()
        target = compile_targets.load_compile_target(self.target)
        device = target.proto if target.tpu is None else target.tpu.model_dump()
        key = compute_digest([lowered, device, self.format_pass_options()])
        return f"{lowered.removesuffix('.mlirbc')}-{self.target}-{key[:16]}.mlirbc"


def make_node_program(
    workload: StudyWorkload,
    form: str,
    node: str,
    host_devices: int,
    run: RunOptions,
    *compile_options: str,
    **origin: Any,
) -> StudyProgram:
    """Make the program of a workload in a form for a node.

    Args:
        workload: The workload.
        form: One of ``program_forms.FORMS``.
        node: The node.
        host_devices: The number of devices of a host.
        run: The options of its estimate, of which some concern its compilation.
        *compile_options: Options of the pass xla-optimize that come before these.
        **origin: The attributes ``platform``, ``spec``, ``content`` and ``dcn``.

    Raises:
        HespasError: XLA has no target for the node, or its compiler is not installed.
    """
    target = program_forms.choose_xla_target(form, node)
    options = program_forms.format_compile_options(run, *compile_options) if target else ""
    return StudyProgram(workload, form, target, host_devices, options, **origin)


def count_host_devices(system: str | None) -> int:
    """Count the devices of a host of a system; None is a single device."""
    return configs.load_system(system).npus_count[0] if system else 1


def compute_request_digest(request: dict[str, Any]) -> str:
    """Hash a request with everything else that its program depends on, for names of files."""
    jax_settings = {key: value for key, value in os.environ.items() if key.startswith("JAX_")}
    return compute_digest([request, collect_environment(SOURCES, PACKAGES), jax_settings])[:16]


def digest_program_source(program: str) -> str:
    """Hash the user's own source, which names of programs depend on; "" for a recipe."""
    place = program.partition(":")[0]
    if place == program and not place.endswith(".py"):
        return ""
    return compute_digest(
        {path.name: path.read_text("utf-8") for path in _list_source_files(place)}
    )


def _list_source_files(place: str) -> list[Path]:
    """List the Python files beside a program, itself included: a file, or a module by its name."""
    if not place.endswith(".py"):
        sys.path.append(os.getcwd())
        try:
            spec = find_spec(place)
        except ModuleNotFoundError:
            spec = None
        finally:
            sys.path.pop()
        place = spec.origin if spec and spec.origin else ""
    return sorted(Path(place).parent.glob("*.py")) if place else []


@dataclass(frozen=True)
class ProgramFiles:
    """The files of programs.

    Attributes:
        paths: The path of each program, in the order of the programs.
        existing_count: How many of these files existed before.
        errors: By path, why a file could not be made.
        elapsed_s: By path, the seconds to make a file, from its export if there is one.
    """

    paths: list[str]
    existing_count: int
    errors: dict[str, HespasError]
    elapsed_s: dict[str, float]


def make_program_files(
    programs: Sequence[StudyProgram], options: PoolOptions, note: Note
) -> ProgramFiles:
    """Make the files of programs that do not exist yet, and return all of them in order.

    They are made on this machine, also for the cells of a cluster. A program that cannot be
    exported or optimised has an error, and the others are made.

    Raises:
        HespasError: The folder cannot be written, or JAX is not installed.
    """
    folder = options.program_folder
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise HespasError(f"cannot keep programs: {error.strerror}", where=str(folder)) from None
    finals = [str(folder / program.name_final_file()) for program in programs]
    existing_paths = {path for path in finals if os.path.exists(path)}
    exports: dict[str, Cell] = {}
    optimised: dict[str, Cell] = {}
    sources: dict[str, str] = {}
    for program, final in zip(programs, finals, strict=True):
        if final in existing_paths:
            continue
        lowered = sources[final] = str(folder / program.name_lowered_file())
        name = describe_workload(program.workload)
        request = {"export": program.make_request(), "output": lowered}
        exports[lowered] = Cell(name, request, output=lowered)
        if program.target:
            request = {
                "input": lowered,
                "target": program.target,
                "options": program.format_pass_options(),
                "output": final,
            }
            optimised[final] = Cell(f"{name} for {program.target}", request, output=final)
    if find_spec("jax") is None and not all(map(os.path.exists, exports)):
        raise HespasError("exporting needs JAX", remedy="pip install 'hespas[jax]'")
    local = PoolOptions(jobs=options.jobs, timeout_s=options.timeout_s)
    elapsed_s: dict[str, float] = {}
    failed: dict[str, HespasError] = {}
    for cells, units, preloaded in (
        (exports, "programs exported", EXPORT_MODULES),
        (optimised, "programs optimised", ()),
    ):
        todo = {path: cell for path, cell in cells.items() if sources.get(path) not in failed}
        with CellPool(FUNCTION, local, note, "study", preloaded) as pool:
            answers = pool.run_cells([*todo.values()], units)
        for (path, cell), answer in zip(todo.items(), answers, strict=True):
            if isinstance(answer, HespasError):
                answer.where, failed[path] = cell.name, answer
            elif answer:
                elapsed_s[path] = answer["elapsed_s"]
    errors = {
        final: error
        for final, lowered in sources.items()
        if (error := failed.get(lowered) or failed.get(final))
    }
    return ProgramFiles(finals, len(existing_paths), errors, elapsed_s)


def describe_workload(workload: StudyWorkload) -> str:
    """Describe a workload in words, for messages."""
    options = [f"{key}={value}" for key, value in workload.options.items()]
    mesh = ["on", workload.mesh_text] if workload.mesh else []
    return " ".join([workload.recipe, *options, *mesh])
