"""What a plan asks of its program: its interface, its meshes, its sketches and its parameters."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, closing
from dataclasses import dataclass, field
from importlib.util import find_spec
from pathlib import Path
from typing import Any, Self

from hespas.estimators.measure.failure import WorkerFailure
from hespas.estimators.measure.processes import LocalWorkerPool, WorkerSpec
from hespas.support.errors import HespasError, UsageError
from hespas.support.supervised_process import open_temporary_folder
from hespas.workflows.planning.layout_space import (
    ACCUMULATE,
    BATCH,
    LayoutCandidate,
    MeshFacts,
    ProgramInterface,
)
from hespas.workflows.planning.program_sketch import SketchOp
from hespas.workflows.studies.study_programs import TIMEOUT_S, compute_request_digest

WORKER, PROBE = (
    "hespas.workflows.planning.layout_worker:run_task",
    "hespas.workflows.planning.layout_worker:probe_device",
)
ONE_EACH = {BATCH: "1", ACCUMULATE: "1"}  # one sample of one microbatch for each batch shard


@dataclass
class LayoutPrograms:
    """Asks workers about the layouts of a program; a context manager.

    Attributes:
        program: The program, as of ``hespas export``.
        platform: The platform that JAX lowers for.
        folder: The folder that keeps sketches.
        jobs: The number of worker processes.
        note: Receives notes, one line each.
    """

    program: str
    platform: str
    folder: Path
    jobs: int
    note: Callable[[str], None]
    _stack: ExitStack = field(default_factory=ExitStack)
    _pool: LocalWorkerPool = field(init=False)
    _scratch: str = ""

    def __enter__(self) -> Self:
        if find_spec("jax") is None:
            raise HespasError(
                "a plan exports programs, which needs JAX", remedy="pip install 'hespas[jax]'"
            )
        spec = WorkerSpec(worker=WORKER, probe=PROBE, turns="own", timed=False, timeout_s=TIMEOUT_S)
        self._scratch = self._stack.enter_context(open_temporary_folder())
        self._pool = self._stack.enter_context(LocalWorkerPool(spec, self.jobs, self.note))
        return self

    def __exit__(self, *_: object) -> None:
        self._stack.close()

    def make_request(self, mesh: Mapping[str, int], options: Mapping[str, str]) -> dict[str, Any]:
        """Make the request for ``frontends.export.export_worker``."""
        return {
            "program": self.program,
            "options": dict(options),
            "mesh": dict(mesh),
            "spec": None,
            "platform": self.platform,
        }

    def read_interface(self) -> ProgramInterface:
        """Read the axes and options of the program; raises HespasError."""
        answer = self._run_single({"task": "interface", "export": self.make_request({}, {})})
        return ProgramInterface(tuple(answer["axes"]), answer["defaults"])

    def describe_meshes(
        self,
        meshes: Sequence[Mapping[str, int]],
        options: Mapping[str, str],
        interface: ProgramInterface,
    ) -> list[MeshFacts]:
        """Describe the program over each mesh; raises HespasError for a wrong option."""
        single = {name: one for name, one in ONE_EACH.items() if name in interface.defaults}
        request = self.make_request({}, {**options, **single})
        answer = self._run_single(
            {"task": "meshes", "export": request, "meshes": [dict(mesh) for mesh in meshes]}
        )
        return [MeshFacts(**facts) for facts in answer["meshes"]]

    def list_partition_specs(self, candidate: LayoutCandidate) -> dict[str, str]:
        """List the PartitionSpec of each argument of a layout by its name."""
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
        paths = [
            self.folder / f"sketch-{compute_request_digest(request)}.json" for request in requests
        ]
        missing = {
            path: {"task": "sketch", "export": request, "output": str(path)}
            for path, request in zip(paths, requests, strict=True)
            if not path.exists()
        }
        errors: dict[Path, HespasError] = {}
        outputs = list(missing)
        for number, answer in self._run_tasks([*missing.values()]):
            if isinstance(answer, HespasError):
                errors[outputs[number]] = answer
        return [errors[path] if path in errors else _read_sketch(path) for path in paths]

    def _run_single(self, payload: dict[str, Any]) -> dict[str, Any]:
        (_, answer), = self._run_tasks([payload])  # fmt: skip
        if isinstance(answer, HespasError):
            raise answer
        return answer

    def _run_tasks(
        self, payloads: Sequence[dict[str, Any]]
    ) -> Iterator[tuple[int, dict[str, Any] | HespasError]]:
        """Yield the number of each task with its answer, when it is done."""
        sent = [{**payload, "scratch": self._scratch} for payload in payloads]
        with closing(self._pool.run_payloads(sent)) as outcomes:
            for number, outcome in outcomes:
                if isinstance(outcome, WorkerFailure):
                    yield number, HespasError(outcome.format_message(), where=self.program)
                elif "error" in outcome:
                    report = outcome["error"]
                    kind = UsageError if report["usage"] else HespasError
                    where = report["where"] or self.program
                    yield number, kind(report["message"], where=where, remedy=report["remedy"])
                else:
                    yield number, outcome


def _read_sketch(path: Path) -> list[SketchOp]:
    return [SketchOp.from_json(data) for data in json.loads(path.read_text())]
