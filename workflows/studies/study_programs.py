"""Making the programs of a study, once each: files are named by a hash of their inputs."""

from __future__ import annotations

import functools
import os
from collections.abc import Callable, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass, field
from importlib.metadata import PackageNotFoundError, version
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import hespas
from hespas.configs import compile_targets
from hespas.estimators.measure.failure import WorkerFailure
from hespas.estimators.measure.measurement_cache import locate_default_file
from hespas.estimators.measure.processes import LocalWorkerPool, WorkerSpec
from hespas.estimators.measure.progress import ProgressCounter, open_progress_display
from hespas.frontends.export.export_worker import PRELOADED as EXPORT_MODULES
from hespas.frontends.export.slice_mesh import is_in_device_order
from hespas.passes.pipeline import parse_options
from hespas.support.errors import HespasError, UsageError
from hespas.support.supervised_process import open_temporary_folder
from hespas.workflows.program_form import SCHEDULED_OPTIONS
from hespas.workflows.studies.program_forms import SCHEDULED, find_compiler
from hespas.workflows.studies.study_definition import StudyWorkload
from hespas.workflows.sweep.sweep_jobs import compute_digest, compute_source_digest

WORKER, PROBE = (
    "hespas.workflows.studies.program_worker:write_program_file",
    "hespas.workflows.studies.program_worker:probe_device",
)
PACKAGES = ("jax", "jaxlib", "jax-cuda12-pjrt", "jax-cuda13-pjrt", "libtpu")
PLATFORMS = {"gpu": "cuda", "tpu": "tpu", None: "cpu"}  # JAX's, by the compiler
SOURCES = (
    "frontends",
    "recipes",
    "dialects",
    "passes",
    "configs/xla_flags",
)  # what a program is made by
TIMEOUT_S = 3600.0


@dataclass(frozen=True)
class StudyProgram:
    """A workload in a form.

    Attributes:
        workload: The workload.
        form: One of ``program_forms.FORMS``.
        target: The target that XLA optimises for; "" if XLA does not optimise it.
        devices_per_host: The number of devices of a host.
        xla_options: More options of the pass xla-optimize.
        platform: The platform that JAX lowers for; "" for that of the target, or the CPU.
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
        return {
            "program": self.workload.recipe,
            "options": dict(self.workload.options),
            "mesh": dict(self.workload.mesh),
            "spec": self.spec,
            "platform": self.platform
            or PLATFORMS[find_compiler(self.target) if self.target else None],
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


def compute_request_digest(request: dict[str, Any]) -> str:
    """Hash a request with everything else that its program depends on, for names of files."""
    return compute_digest([request, _collect_environment()])[:16]


@functools.cache
def _collect_environment() -> dict[str, Any]:
    """Return what every program depends on besides its options."""
    root = Path(next(iter(hespas.__path__)))
    return {
        "hespas": hespas.__version__,
        "source": [compute_source_digest(root / name) for name in SOURCES],
        "packages": {name: _find_version(name) for name in PACKAGES},
        "jax": {key: value for key, value in os.environ.items() if key.startswith("JAX_")},
    }


def _find_version(name: str) -> str | None:
    try:
        return version(name)
    except PackageNotFoundError:
        return None


def get_default_folder() -> Path:
    """Return the folder that keeps programs, beside the cache of measurements."""
    return locate_default_file().parent / "programs"


@dataclass(frozen=True)
class ProgramFiles:
    """The files of programs.

    Attributes:
        paths: The path of each program, in the order of the programs.
        existing_count: How many of these files existed before.
        errors: By path, why a file could not be made.
        elapsed_s: By path, the seconds to make a file from its export, if it was made now.
    """

    paths: list[str]
    existing_count: int
    errors: dict[str, HespasError]
    elapsed_s: dict[str, float]


def make_program_files(
    programs: Sequence[StudyProgram], folder: Path, jobs: int, note: Callable[[str], None]
) -> ProgramFiles:
    """Make the files of programs that do not exist yet, and return all of them in order.

    A program that cannot be exported or optimised has an error, and the others are made.

    Raises:
        HespasError: The folder cannot be written, or JAX is not installed.
    """
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise HespasError(f"cannot keep programs: {error.strerror}", where=str(folder)) from None
    finals = [folder / program.name_final_file() for program in programs]
    exports: dict[Path, dict[str, Any]] = {}
    optimised: dict[Path, dict[str, Any]] = {}
    sources: dict[Path, Path] = {}
    existing_paths = {path for path in finals if path.exists()}
    for program, final in zip(programs, finals, strict=True):
        if final in existing_paths:
            continue
        lowered = sources[final] = folder / program.name_lowered_file()
        if not lowered.exists():
            exports[lowered] = {
                "export": program.make_request(),
                "of": describe_workload(program.workload),
            }
        if program.target:
            optimised[final] = {
                "input": str(lowered),
                "target": program.target,
                "options": program.format_pass_options(),
                "of": f"{describe_workload(program.workload)} for {program.target}",
            }
    if exports and find_spec("jax") is None:
        raise HespasError("exporting needs JAX", remedy="pip install 'hespas[jax]'")
    elapsed_s: dict[Path, float] = {}
    failed = _run_workers(exports, jobs, "programs exported", note, elapsed_s, EXPORT_MODULES)
    todo = {final: one for final, one in optimised.items() if sources[final] not in failed}
    failed |= _run_workers(todo, jobs, "programs optimised", note, elapsed_s)
    errors = {
        str(final): error
        for final, lowered in sources.items()
        if (error := failed.get(lowered) or failed.get(final))
    }
    final_s = {str(final): elapsed_s[final] for final in finals if final in elapsed_s}
    return ProgramFiles([str(path) for path in finals], len(existing_paths), errors, final_s)


def describe_workload(workload: StudyWorkload) -> str:
    """Describe a workload in words, for messages."""
    options = " ".join(f"{key}={value}" for key, value in workload.options.items())
    return f"{workload.recipe} {options} on {workload.mesh_text}"


def _run_workers(
    todo: Mapping[Path, dict[str, Any]],
    jobs: int,
    units: str,
    note: Callable[[str], None],
    elapsed_s: dict[Path, float],
    preloaded: tuple[str, ...] = (),
) -> dict[Path, HespasError]:
    """Let workers write the files, and return the errors of those that they could not write.

    The seconds that each file took are added to ``elapsed_s``.
    """
    errors: dict[Path, HespasError] = {}
    if not todo:
        return errors
    spec = WorkerSpec(
        worker=WORKER,
        probe=PROBE,
        turns="own",
        timed=False,
        timeout_s=TIMEOUT_S,
        preloaded=preloaded,
    )
    with (
        open_temporary_folder() as scratch,
        open_progress_display(note, None) as show,
        LocalWorkerPool(spec, jobs, note) as processes,
    ):
        payloads = [
            {**payload, "output": str(path), "scratch": scratch} for path, payload in todo.items()
        ]
        progress = ProgressCounter("study", len(payloads), show, units)
        with closing(processes.run_payloads(payloads)) as outcomes:
            for number, outcome in outcomes:
                of, path = payloads[number]["of"], Path(payloads[number]["output"])
                if isinstance(outcome, WorkerFailure):
                    errors[path] = HespasError(outcome.format_message(), where=of)
                elif "error" in outcome:
                    error_report = outcome["error"]
                    kind = UsageError if error_report["usage"] else HespasError
                    errors[path] = kind(
                        error_report["message"], where=of, remedy=error_report["remedy"]
                    )
                else:
                    elapsed_s[path] = outcome["elapsed_s"]
                progress.count_finished(of)
    return errors
