"""The cells of a sweep as jobs for workers, with the cache keys of their results."""

from __future__ import annotations

import functools
import hashlib
import json
import os
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, field
from importlib.metadata import version
from pathlib import Path
from typing import Any

import hespas
from hespas import configs
from hespas.configs import node_files
from hespas.configs.kernel_costs import parse_kernel_costs
from hespas.configs.node_spec import NodeSpec, spell_changed_name
from hespas.configs.system_spec import SystemSpec
from hespas.configs.validation import validate_config
from hespas.estimators import registry
from hespas.estimators.measure.measurement_cache import compute_cache_key
from hespas.simulators import simulator_choice
from hespas.simulators.simulation_options import SimulatorChoice
from hespas.support.errors import HespasError, UsageError
from hespas.workflows.run_config import MEASURING, RunConfig
from hespas.workflows.run_plan import build_annotate_step
from hespas.workflows.sweep.sweep_grid import SweepCell

RESULT, DEVICES = "sweep", "sweep: devices"  # the kinds of cache keys
# Options that the key does not contain by value: it has the contents of the files that they name,
# and those of measurements do not change a result.
NAMED = ("mlir", "node", "system", "output", "timeline", "astra_sim", *MEASURING)


@dataclass(frozen=True)
class SweepJob:
    """A cell for a worker.

    Attributes:
        program: The file of the program.
        payload: The data that the worker receives.
        key: The cache key of the result; "" if it is not cached.
        estimator: The estimator that the cache lists the result under.
        version: The version of the estimator.
        provenance: Content hashes of program, node and system.
    """

    program: str
    payload: dict[str, Any]
    key: str
    estimator: str
    version: str
    provenance: dict[str, Any] = field(default_factory=dict)


@functools.cache
def collect_environment() -> dict[str, str]:
    """Return what every result depends on: versions, and a hash of the files of hespas."""
    return {
        "hespas": hespas.__version__,
        "source": compute_source_digest(Path(next(iter(hespas.__path__)))),
        "jaxlib": version("jaxlib"),
    }


def compute_source_digest(folder: Path) -> str:
    """Hash the files of a package, so that a change of any of them invalidates the cache."""
    hasher = hashlib.sha256()
    for place, folders, files in os.walk(folder, followlinks=True):
        folders[:] = sorted(name for name in folders if name != "__pycache__")
        for name in sorted(files):
            path = Path(place, name)
            hasher.update(f"{path.relative_to(folder)}\0".encode())
            hasher.update(hashlib.sha256(path.read_bytes()).digest())
    return hasher.hexdigest()[:16]


def compute_program_digest(path: str) -> str:
    """Hash the file of a program; raises HespasError."""
    try:
        with open(path, "rb") as file:
            return hashlib.file_digest(file, "sha256").hexdigest()
    except (OSError, ValueError) as error:
        reason = error.strerror if isinstance(error, OSError) else error
        raise HespasError(f"cannot read it: {reason}", where=str(path)) from None


def compute_system_digest(system: SystemSpec) -> str:
    """Hash a system: its numbers, and the files of its custom collectives."""
    values = {k: v for k, v in asdict(system).items() if k != "folder"}
    files = {}
    if system.custom or system.per_node_custom:
        for path in sorted(p for p in system.folder.rglob("*") if p.is_file()):
            files[str(path.relative_to(system.folder))] = compute_program_digest(str(path))
    return compute_digest([values, files])


def compute_digest(values: Any) -> str:
    """Hash plain data."""
    return hashlib.sha256(json.dumps(values, sort_keys=True).encode()).hexdigest()


def inline_kernel_costs(config: RunConfig) -> RunConfig:
    """Replace a file of kernel costs by its contents, which need no file in keys and workers."""
    if not config.kernel_cost:
        return config
    costs = parse_kernel_costs(config.kernel_cost).to_text()
    return config.model_copy(update={"kernel_cost": costs})


def describe_options(
    config: RunConfig, digest_file: Callable[[str], str] = compute_program_digest
) -> dict[str, Any]:
    """Describe all options of a run for the key of its result, with the contents of files."""
    files = {
        name: digest_file(value)
        for name, value in config.setting.items()
        if isinstance(value, str) and os.path.isfile(value)
    }
    values = inline_kernel_costs(config).model_dump(exclude=set(NAMED))
    return {"values": values, "files": files}


class SweepJobFactory:
    """Makes jobs, and reads each file and preset once."""

    def __init__(self) -> None:
        self._program_digest = functools.cache(compute_program_digest)
        self._system_digest = functools.cache(
            lambda name: compute_system_digest(configs.load_system(name))
        )
        self._resolve_node = functools.cache(_resolve_node)
        self._identify_simulator = functools.cache(_identify_simulator)
        self._checked_settings: set[str] = set()

    def make_job(self, cell: SweepCell) -> SweepJob:
        """Make the job of a cell; raises HespasError if one of its values is wrong.

        Values that are right alone, but not together, are left to the worker: they cost one cell.
        """
        config = _read_config(cell)
        config = inline_kernel_costs(config)
        self._check_settings(config)
        program = _get_program_path(config)
        estimator = registry.load_estimator_class(config.estimator)
        changes = {k.partition(".")[2]: v for k, v in cell.items() if k.startswith("node.")}
        node = self._resolve_node(config.node, json.dumps(changes))
        system = self._system_digest(config.system) if config.system else ""
        update: dict[str, Any] = {"node": node.preset}
        astra: list[Any] = []
        if config.system and config.simulate:
            astra = self._identify_simulator(config.simulator, config.astra_sim)
            update["simulator"] = config.simulator if astra else "embedded"
        sent = config.model_copy(update=update).model_dump(exclude_unset=True) | update
        content = {
            "program": self._program_digest(program),
            "node": node.digest,
            "system": system,
        }
        payload = {"config": sent, "node": node.file, "program": content["program"]}
        options = describe_options(config, self._program_digest)
        parts = {**content, **options, "astra_sim": astra}
        key = (
            ""
            if estimator.measures
            else compute_cache_key(RESULT, estimator.version, parts, collect_environment())
        )
        provenance = {f"{name}_sha256": value or None for name, value in content.items()}
        return SweepJob(program, payload, key, estimator.name, estimator.version, provenance)

    def _check_settings(self, config: RunConfig) -> None:
        """Check the names and the values of settings, each combination once; raises UsageError."""
        text = f"{config.estimator} {sorted(config.setting.items())!r}"
        if config.setting and text not in self._checked_settings:
            build_annotate_step(config.estimator, None, config.setting)
            registry.check_single_settings(config.estimator, config.setting)
            self._checked_settings.add(text)

    def make_device_count_job(self, cell: SweepCell) -> SweepJob:
        """Make the job that counts the devices of a cell's program; raises HespasError."""
        config = _read_config(cell)
        program = _get_program_path(config)
        parts = {"program": self._program_digest(program), "keep_going": config.keep_going}
        key = compute_cache_key(DEVICES, "1", parts, collect_environment())
        return SweepJob(program, {"devices_of": program, **parts}, key, "devices", "1")


def _read_config(cell: SweepCell) -> RunConfig:
    """Build the configuration of a cell; raises HespasError for a wrong value."""
    values: dict[str, Any] = {k: v for k, v in cell.items() if k in RunConfig.model_fields}
    setting = {k.partition(".")[2]: v for k, v in cell.items() if k.startswith("setting.")}
    return validate_config(RunConfig, {**values, **({"setting": setting} if setting else {})}, "")


def _get_program_path(config: RunConfig) -> str:
    if config.mlir is None:
        raise UsageError("no program is given", remedy="name it with --mlir, or in the file")
    return config.mlir


@dataclass(frozen=True)
class _NodeChoice:
    """The node of a cell.

    Attributes:
        preset: The name of a preset, or None.
        file: The ``stem``, ``data`` and ``label`` of a node file, or None.
        digest: The hash of the node; "" if no node is named, so that the estimator chooses.
    """

    preset: str | None = None
    file: dict[str, Any] | None = None
    digest: str = ""


def _resolve_node(name: str | None, changes_json: str) -> _NodeChoice:
    changes: dict[str, Any] = json.loads(changes_json)
    if name is None and not changes:
        return _NodeChoice()
    name = name or configs.DEFAULT_NODE
    is_preset = configs.is_preset_name(name)
    if is_preset and not changes:
        return _NodeChoice(name, None, compute_node_digest(configs.load_node(name)))
    label = stem = name if is_preset else Path(name).stem
    data = configs.read_node_json(name)
    if changes:
        label = stem = spell_changed_name(stem, changes)
        for key, value in changes.items():
            _set_nested_value(data, key.split("."), value, label)
        if "name" in data:
            data["name"] = label
    node = node_files.parse_node_file(data, label)
    file = {"stem": stem.replace("/", "_"), "data": data, "label": label if changes else name}
    return _NodeChoice(None, file, compute_node_digest(node))


def _set_nested_value(data: dict[str, Any], path: list[str], value: Any, where: str) -> None:
    """Set a value in the JSON object of a node by its path; raises HespasError."""
    for i, key in enumerate(path[:-1]):
        data = data.setdefault(key, {})
        if not isinstance(data, dict):
            raise HespasError(f"'{'.'.join(path[: i + 1])}' holds no other keys", where=where)
    data[path[-1]] = value


def compute_node_digest(node: NodeSpec) -> str:
    """Hash the numbers of a node."""
    return compute_digest(_to_plain_data(asdict(node)))


def _to_plain_data(value: Any) -> Any:
    if isinstance(value, Mapping):
        return {key: _to_plain_data(inner) for key, inner in value.items()}
    return value


def _identify_simulator(simulator: str, astra_sim: str | None) -> list[Any]:
    """Identify the ASTRA-sim executable; empty for the embedded simulator."""
    choice = SimulatorChoice(simulator, astra_sim=astra_sim)
    program = simulator_choice.select_astra_program(choice)
    if program is None:
        return []
    status = os.stat(program.path)
    return [str(program.path), *program.arguments, status.st_size, status.st_mtime_ns]
