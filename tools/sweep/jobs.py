"""What a cell is to a worker, and the key that its result is kept under."""

from __future__ import annotations

import functools
import hashlib
import json
import os
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from importlib.metadata import version
from pathlib import Path
from typing import Any

import hespas
from hespas import configs
from hespas.configs import models
from hespas.configs.checked import checked
from hespas.configs.node import Node
from hespas.configs.system import System
from hespas.dialects.errors import HespasError, UsageError
from hespas.estimators import registry
from hespas.estimators.measure.cache import key_of
from hespas.simulators import choose
from hespas.simulators.embedded.options import Options
from hespas.tools.commands.config import MEASURING, RunConfig
from hespas.tools.sweep.spec import Cell

RESULT, DEVICES = "sweep", "sweep: devices"  # what a key is of
NAMED = ("mlir", "node", "system", "output", "timeline", "astra_sim", *MEASURING)


@dataclass(frozen=True)
class Job:
    """A cell for a worker. ``key`` is "" where the result is not to be kept.

    ``estimator`` and ``version`` are what the cache lists it under.
    """

    program: str
    payload: dict[str, Any]
    key: str
    estimator: str
    version: str
    provenance: dict[str, Any] = field(default_factory=dict)


@functools.cache
def environment() -> dict[str, str]:
    """What any result depends on: the versions of hespas and jaxlib, and hespas' own files."""
    return {
        "hespas": hespas.__version__,
        "source": source_digest(Path(next(iter(hespas.__path__)))),
        "jaxlib": version("jaxlib"),
    }


def source_digest(folder: Path) -> str:
    """A hash of the files of a package, so that a changed one never answers from the cache."""
    found = hashlib.sha256()
    for place, folders, files in os.walk(folder, followlinks=True):
        folders[:] = sorted(name for name in folders if name != "__pycache__")
        for name in sorted(files):
            path = Path(place, name)
            found.update(f"{path.relative_to(folder)}\0".encode())
            found.update(hashlib.sha256(path.read_bytes()).digest())
    return found.hexdigest()[:16]


def program_digest(path: str) -> str:
    """A hash of a program's file; raises HespasError."""
    try:
        with open(path, "rb") as file:
            return hashlib.file_digest(file, "sha256").hexdigest()
    except (OSError, ValueError) as error:
        reason = error.strerror if isinstance(error, OSError) else error
        raise HespasError(f"cannot read it: {reason}", where=str(path)) from None


def system_digest(system: System) -> str:
    """A hash of a system: its numbers, and the files of its own collectives."""
    values = {k: v for k, v in asdict(system).items() if k != "folder"}
    files = {}
    if system.custom or system.per_node_custom:
        for path in sorted(p for p in system.folder.rglob("*") if p.is_file()):
            files[str(path.relative_to(system.folder))] = program_digest(str(path))
    return digest([values, files])


def digest(values: Any) -> str:
    """A hash of plain data."""
    return hashlib.sha256(json.dumps(values, sort_keys=True).encode()).hexdigest()


class Maker:
    """Makes jobs, looking at each file, preset and estimator once."""

    def __init__(self) -> None:
        self._program = functools.cache(program_digest)
        self._system = functools.cache(lambda name: system_digest(configs.system(name)))
        self._node = functools.cache(_node)
        self._simulator = functools.cache(_simulator)

    def job(self, cell: Cell) -> Job:
        """The job of a cell; raises HespasError for what is wrong with its values."""
        config = _config(cell)
        program = _program(config)
        estimator = registry.get(config.estimator)
        changes = {k.partition(".")[2]: v for k, v in cell.items() if k.startswith("node.")}
        node = self._node(config.node, json.dumps(changes))
        system = self._system(config.system) if config.system else ""
        values = config.model_dump(exclude=set(NAMED))
        update: dict[str, Any] = {"node": node.preset}
        astra: list[Any] = []
        if config.system and config.simulate:
            astra = self._simulator(config.simulator, config.astra_sim)
            update["simulator"] = config.simulator if astra else "embedded"
        sent = config.model_copy(update=update).model_dump(exclude_unset=True) | update
        content = {
            "program": self._program(program),
            "node": node.digest,
            "system": system,
        }
        payload = {"config": sent, "node": node.file, "program": content["program"]}
        files = {
            name: self._program(value)
            for name, value in config.setting.items()
            if isinstance(value, str) and os.path.isfile(value)
        }
        parts = {**content, "values": values, "astra_sim": astra, "files": files}
        key = "" if estimator.measures else key_of(RESULT, estimator.version, parts, environment())
        told = {f"{name}_sha256": value or None for name, value in content.items()}
        return Job(program, payload, key, estimator.name, estimator.version, told)

    def devices_job(self, cell: Cell) -> Job:
        """The job that tells how many devices a cell's program runs on; raises HespasError."""
        config = _config(cell)
        program = _program(config)
        parts = {"program": self._program(program), "keep_going": config.keep_going}
        key = key_of(DEVICES, "1", parts, environment())
        return Job(program, {"devices_of": program, **parts}, key, "devices", "1")


def _config(cell: Cell) -> RunConfig:
    """The configuration of a cell; raises HespasError for a wrong value."""
    values: dict[str, Any] = {k: v for k, v in cell.items() if k in RunConfig.model_fields}
    setting = {k.partition(".")[2]: v for k, v in cell.items() if k.startswith("setting.")}
    return checked(RunConfig, {**values, **({"setting": setting} if setting else {})}, "")


def _program(config: RunConfig) -> str:
    if config.mlir is None:
        raise UsageError("no program is given", remedy="name it with --mlir, or in the file")
    return config.mlir


@dataclass(frozen=True)
class _Chosen:
    """A node: the name of a ``preset``, or a file's ``stem``, ``data`` and what rows call it.

    Both are None where no node is named, which is for the estimator to mind.
    """

    preset: str | None = None
    file: dict[str, Any] | None = None
    digest: str = ""


def _node(name: str | None, changes_json: str) -> _Chosen:
    changes: dict[str, Any] = json.loads(changes_json)
    if name is None and not changes:
        return _Chosen()
    name = name or configs.DEFAULT_NODE
    is_preset = configs.is_preset_name(name)
    if is_preset and not changes:
        return _Chosen(name, None, _digest(configs.node(name)))
    label = stem = name if is_preset else Path(name).stem
    data = configs.node_data(name)
    if changes:
        texts = [f"{k}={v:g}" if isinstance(v, float) else f"{k}={v}" for k, v in changes.items()]
        label = stem = f"{stem}[{','.join(texts)}]"
        for key, value in changes.items():
            _put(data, key.split("."), value, label)
        if "name" in data:
            data["name"] = label
    found = models.node(data, label)
    file = {"stem": stem.replace("/", "_"), "data": data, "label": label if changes else name}
    return _Chosen(None, file, _digest(found))


def _put(data: dict[str, Any], path: list[str], value: Any, where: str) -> None:
    """Set a value in a node's JSON object, by the keys that lead to it."""
    for i, key in enumerate(path[:-1]):
        data = data.setdefault(key, {})
        if not isinstance(data, dict):
            raise HespasError(f"'{'.'.join(path[: i + 1])}' holds no other keys", where=where)
    data[path[-1]] = value


def _digest(node: Node) -> str:
    return digest(_plain(asdict(node)))


def _plain(value: Any) -> Any:
    if isinstance(value, Mapping):
        return {key: _plain(inner) for key, inner in value.items()}
    return value


def _simulator(simulator: str, astra_sim: str | None) -> list[Any]:
    """What tells the ASTRA-sim that is to run from another; empty for the embedded simulator."""
    program = choose.program_for(simulator, Options(), astra_sim)
    if program is None:
        return []
    status = os.stat(program.path)
    return [str(program.path), *program.arguments, status.st_size, status.st_mtime_ns]
