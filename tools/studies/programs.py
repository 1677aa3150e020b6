"""The programs of a study, in files named by what they depend on: each is made once."""

from __future__ import annotations

import functools
import os
import tempfile
from collections.abc import Callable, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass
from importlib.metadata import PackageNotFoundError, version
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import hespas
from hespas.configs import targets
from hespas.dialects.errors import HespasError, UsageError
from hespas.estimators.measure.cache import default_file
from hespas.estimators.measure.failure import Failure
from hespas.estimators.measure.processes import Processes, Spec
from hespas.estimators.measure.progress import Progress, shower
from hespas.tools.studies.forms import BY_XLA
from hespas.tools.studies.study import Workload
from hespas.tools.sweep.jobs import digest, source_digest

WORKER, PROBE = "hespas.tools.studies.worker:work", "hespas.tools.studies.worker:probe"
PACKAGES = ("jax", "jaxlib", "jax-cuda12-pjrt", "jax-cuda13-pjrt")
SOURCES = ("frontends", "dialects", "passes")  # what makes a program
TIMEOUT_S = 3600.0


@dataclass(frozen=True)
class Program:
    """A workload in a form; ``target`` is what XLA optimises it for, "" where it does not.

    ``xla_options`` are further ones of the pass xla-optimize.
    """

    workload: Workload
    form: str
    target: str
    devices_per_node: int
    xla_options: str = ""

    def request(self) -> dict[str, Any]:
        """What is to be exported, as ``frontends/export/worker.py`` takes it."""
        return {
            "program": self.workload.recipe,
            "options": dict(self.workload.options),
            "mesh": dict(self.workload.mesh),
            "spec": None,
            "platform": "cuda" if self.target else "cpu",
        }

    def lowered(self) -> str:
        """The name of the exported file."""
        mesh = [f"{axis}{size}" for axis, size in self.workload.mesh.items() if size > 1]
        key = digest([self.request(), environment()])
        return "-".join([self.workload.recipe, *mesh, key[:16]]) + ".mlirbc"

    def options(self) -> str:
        """Options of the pass xla-optimize."""
        ours = (BY_XLA[self.form], f"devices-per-node={self.devices_per_node}", self.xla_options)
        return ",".join(text for text in ours if text)

    def final(self) -> str:
        """The name of the file that is estimated."""
        if not self.target:
            return self.lowered()
        lowered = self.lowered()
        key = digest([lowered, targets.target(self.target).proto, self.options()])
        return f"{lowered.removesuffix('.mlirbc')}-{self.target}-{key[:16]}.mlirbc"


@functools.cache
def environment() -> dict[str, Any]:
    """What any program depends on besides its options."""
    root = Path(next(iter(hespas.__path__)))
    return {
        "hespas": hespas.__version__,
        "source": [source_digest(root / name) for name in SOURCES],
        "packages": {name: _version(name) for name in PACKAGES},
        "jax": {key: value for key, value in os.environ.items() if key.startswith("JAX_")},
    }


def _version(name: str) -> str | None:
    try:
        return version(name)
    except PackageNotFoundError:
        return None


def default_folder() -> Path:
    """Where programs are kept: beside the cache of measurements."""
    return default_file().parent / "programs"


@dataclass(frozen=True)
class Made:
    """Where each program is, and how many of these files were there before."""

    paths: list[str]
    kept: int


def make(programs: Sequence[Program], folder: Path, jobs: int, note: Callable[[str], None]) -> Made:
    """The files of the programs, in their order; raises HespasError.

    What is made stays, also where a later one fails: the same command goes on from there.
    """
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise HespasError(f"cannot keep programs: {error.strerror}", where=str(folder)) from None
    finals = [folder / program.final() for program in programs]
    exports: dict[Path, dict[str, Any]] = {}
    optimised: dict[Path, dict[str, Any]] = {}
    kept = {path for path in finals if path.exists()}
    for program, final in zip(programs, finals, strict=True):
        if final in kept:
            continue
        lowered = folder / program.lowered()
        if not lowered.exists():
            exports[lowered] = {"export": program.request(), "of": told(program.workload)}
        if program.target:
            optimised[final] = {
                "input": str(lowered),
                "target": program.target,
                "options": program.options(),
                "of": f"{told(program.workload)} for {program.target}",
            }
    if exports and find_spec("jax") is None:
        raise HespasError("exporting needs JAX", remedy="pip install 'hespas[jax]'")
    _run(exports, jobs, "programs exported", note)
    _run(optimised, jobs, "programs optimised", note)
    return Made([str(path) for path in finals], len(kept))


def told(workload: Workload) -> str:
    """A workload in words, for messages."""
    options = " ".join(f"{key}={value}" for key, value in workload.options.items())
    return f"{workload.recipe} {options} on {workload.mesh_text}"


def _run(
    todo: Mapping[Path, dict[str, Any]], jobs: int, units: str, note: Callable[[str], None]
) -> None:
    """Have workers write the files; raises HespasError for the first that cannot be made."""
    if not todo:
        return
    spec = Spec(worker=WORKER, probe=PROBE, turns="own", timed=False, timeout_s=TIMEOUT_S)
    with (
        tempfile.TemporaryDirectory(prefix="hespas-", ignore_cleanup_errors=True) as scratch,
        shower(note, None) as show,
        Processes(spec, jobs, note) as processes,
    ):
        payloads = [
            {**payload, "output": str(path), "scratch": scratch} for path, payload in todo.items()
        ]
        progress = Progress("study", len(payloads), show, units)
        with closing(processes.run(payloads)) as outcomes:
            for number, outcome in outcomes:
                of = payloads[number]["of"]
                if isinstance(outcome, Failure):
                    raise HespasError(outcome.text(), where=of)
                if "error" in outcome:
                    said = outcome["error"]
                    kind = UsageError if said["usage"] else HespasError
                    raise kind(said["message"], where=of, remedy=said["remedy"])
                progress.step(of)
