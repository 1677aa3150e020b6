"""The cells of a sweep, with the keys of their results in the store, and running them.

A cell that fails is a row with an error, never an exception.
"""

from __future__ import annotations

import functools
import json
import os
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from hespas import configs, frontends
from hespas.configs import node_files
from hespas.configs.node_spec import spell_changed_name
from hespas.configs.validation import validate_config
from hespas.estimators import registry
from hespas.estimators.measure.failure import ClusterLostError
from hespas.estimators.measure.measurement_cache import compute_cache_key
from hespas.simulators import simulator_choice
from hespas.simulators.simulation_options import SimulatorChoice
from hespas.support.errors import HespasError, UsageError
from hespas.workflows.cell_keys import (
    collect_environment,
    compute_node_digest,
    compute_program_digest,
    compute_system_digest,
    describe_options,
    inline_kernel_costs,
)
from hespas.workflows.cells import Answer, Cell, CellPool, Note, PoolOptions, make_estimate_cell
from hespas.workflows.program_form import AS_IS, FUSE
from hespas.workflows.run_config import RunConfig
from hespas.workflows.run_plan import build_annotate_step
from hespas.workflows.studies.program_forms import (
    choose_system,
    find_compiler,
    match_family_systems,
)
from hespas.workflows.studies.study_definition import StudyWorkload
from hespas.workflows.studies.study_programs import (
    PLATFORMS,
    StudyProgram,
    digest_program_source,
    make_program_files,
)
from hespas.workflows.sweep import sweep_grid
from hespas.workflows.sweep.sweep_grid import AUTO, FAMILY, MESH, RECIPE, SweepCell
from hespas.workflows.sweep.sweep_table import SweepRow, flatten_figures

FUNCTION = "hespas.workflows.sweep.sweep_worker:compute_cell"
RESULT, DEVICES = "sweep", "sweep: devices"  # the kinds of keys
# What cells with an equal program share, that which costs most first: its split, then its estimate.
SHARED_KEYS = (
    "dims", "trip_count", "keep_going", "form", "fuse", "split", "block_limit",
    "estimator", "setting", "kernel_cost", "node",
)  # fmt: skip


@dataclass
class SweepOutcome:
    """The result of a sweep.

    Attributes:
        rows: One row for each cell, in their order.
        cached: The number of cells from the cache.
        computed: The number of cells that were computed now.
        failed: The number of cells with an error.
        elapsed_s: The time of the sweep in seconds.
        lost: Why the sweep stopped before its end, which the cells that it has not run have as
            their error; "" if it did not.
    """

    rows: list[SweepRow] = field(default_factory=list)
    cached: int = 0
    computed: int = 0
    failed: int = 0
    elapsed_s: float = 0.0
    lost: str = ""


def run_sweep(keys: Sequence[SweepCell], options: PoolOptions, note: Note) -> SweepOutcome:
    """Run the cells with these keys and return a row for each; a failed one has an ``error``.

    Raises:
        HespasError: A value is wrong, such as an unknown preset. No cell has been run then.
    """
    start, factory = time.monotonic(), SweepCellFactory()
    keys, failed = make_recipe_programs(keys, options, note)
    with CellPool(FUNCTION, options, note, "sweep") as pool:
        keys, errors = _expand_systems(keys, failed, factory, pool)
        cells = {i: factory.make_cell(one) for i, one in enumerate(keys) if i not in errors}
        answers = errors | dict(zip(cells, pool.run_cells([*cells.values()]), strict=True))
    lost = [str(answer) for answer in answers.values() if isinstance(answer, ClusterLostError)]
    return SweepOutcome(
        [_make_row(one, cells.get(i), answers[i]) for i, one in enumerate(keys)],
        pool.recalled,
        pool.computed,
        len(keys) - pool.recalled - pool.computed,
        time.monotonic() - start,
        lost[0] if lost else "",
    )


def _expand_systems(
    keys: Sequence[SweepCell],
    failed: Mapping[int, HespasError],
    factory: SweepCellFactory,
    pool: CellPool,
) -> tuple[list[SweepCell], dict[int, Answer | HespasError]]:
    """Replace ``auto``, and each pattern of systems, by those with as many devices as the program.

    Returns:
        The keys, and errors by position: those of ``failed``, and new ones for programs that cannot
        be read and for cells without a system of the right size.
    """
    open_keys = {
        i: one
        for i, one in enumerate(keys)
        if i not in failed
        and (one.get("system") == AUTO or sweep_grid.is_pattern(one.get("system")))
    }
    named = {
        pattern: [
            (name, configs.load_system(name).device_count)
            for name in sweep_grid.find_systems(pattern)
        ]
        for pattern in {one["system"] for one in open_keys.values()} - {AUTO}
    }
    devices = _count_devices([*open_keys.values()], factory, pool)
    expanded_keys: list[SweepCell] = []
    errors: dict[int, Answer | HespasError] = {}
    for i, one in enumerate(keys):
        error, chosen = failed.get(i), [one]
        if i in open_keys:
            answer = devices[one["mlir"], str(one.get("keep_going"))]
            try:
                chosen = [{**one, "system": name} for name in _choose_systems(one, answer, named)]
            except HespasError as problem:
                error = problem
        if error is not None:
            errors[len(expanded_keys)] = error
        expanded_keys += chosen
    return expanded_keys, errors


def _choose_systems(
    keys: SweepCell,
    answer: Answer | HespasError,
    named: Mapping[str, Sequence[tuple[str, int]]],
) -> Sequence[str | None]:
    """Choose the systems of a cell by the devices of its program; raises HespasError."""
    if isinstance(answer, HespasError):
        raise answer
    count, pattern = answer["devices"], keys["system"]
    if pattern == AUTO:
        return [choose_system(keys.get("node") or configs.DEFAULT_NODE, count, ())]
    fitting = [name for name, size in named[pattern] if size == count]
    fitting = fitting or match_family_systems(count, [str(pattern)])
    if not fitting:
        message = f"no system that matches '{pattern}' has {count} devices"
        raise HespasError(message, where=keys["mlir"])
    return fitting


def _count_devices(
    keys: Sequence[SweepCell], factory: SweepCellFactory, pool: CellPool
) -> dict[tuple[str, str], Answer | HespasError]:
    """Count the devices of the programs of these cells."""
    cells: dict[tuple[str, str], Cell] = {}
    for one in keys:
        cell = factory.make_count_cell(one)  # refuses keys without a program
        cells[one["mlir"], str(one.get("keep_going"))] = cell
    return dict(zip(cells, pool.run_cells([*cells.values()], "programs read"), strict=True))


def _make_row(keys: SweepCell, cell: Cell | None, answer: Answer | HespasError) -> SweepRow:
    """Make the row of a cell: its keys, the figures or the error, and their provenance."""
    if RECIPE in keys:  # the name of its file says less, and the options are keys too
        name = keys[RECIPE]
        others = {key: value for key, value in keys.items() if key not in (RECIPE, "mlir")}
        keys = {"mlir": name, FAMILY: name, **others}
    key_columns = {f"cell.{key}": value for key, value in keys.items()}
    if cell is None or isinstance(answer, HespasError):
        return {**key_columns, "error": str(answer)}
    figures: Mapping[str, Any] = answer["figures"]
    program, node = frontends.to_display_name(cell.payload["config"]["mlir"]), cell.payload["node"]
    # The cache may hold the same program under another name.
    warnings = [text.replace(figures["program"], program) for text in figures["warnings"]]
    figures = {**figures, "warnings": warnings, "program": program}
    if node is not None:
        figures["node"] = node["label"]
    origin = {**collect_environment(), **cell.provenance, "created": answer["created"]}
    provenance = {f"provenance.{key}": value for key, value in origin.items()}
    return {**key_columns, "error": None, **flatten_figures(figures), **provenance}


class SweepCellFactory:
    """Makes cells, and reads each file and preset once."""

    def __init__(self) -> None:
        self._program_digest = functools.cache(compute_program_digest)
        self._program_size = functools.cache(os.path.getsize)
        self._system_digest = functools.cache(
            lambda name: compute_system_digest(configs.load_system(name))
        )
        self._resolve_node = functools.cache(_resolve_node)
        self._identify_simulator = functools.cache(_identify_simulator)
        self._checked_settings: set[str] = set()

    def make_cell(self, keys: SweepCell) -> Cell:
        """Make the cell of some keys; raises HespasError if one of the values is wrong.

        Values that are right alone, but not together, are left to the worker: they cost one cell.
        """
        config = inline_kernel_costs(_read_config(keys))
        self._check_settings(config)
        program = _get_program_path(config)
        estimator = registry.load_estimator_class(config.estimator)
        changes = {k.partition(".")[2]: v for k, v in keys.items() if k.startswith("node.")}
        node = self._resolve_node(config.node, json.dumps(changes))
        system = self._system_digest(config.system) if config.system else ""
        update: dict[str, Any] = {"node": node.preset}
        simulator: list[Any] = []
        if config.system and config.simulate:
            simulator = self._identify_simulator(config.simulator, config.astra_sim)
            update["simulator"] = config.simulator if simulator else "embedded"
        sent = config.model_copy(update=update).model_dump(exclude_unset=True) | update
        content = {
            "program": self._program_digest(program),
            "node": node.digest,
            "system": system,
        }
        payload = {"config": sent, "node": node.file, "program": content["program"]}
        options = describe_options(config, self._program_digest)
        parts = {**content, **options, "simulator": simulator}
        return make_estimate_cell(
            os.path.basename(program),
            payload,
            RESULT,
            estimator,
            parts,
            # The program costs most, and the node least.
            sharing=(
                program,
                *(repr(sent.get(name)) for name in SHARED_KEYS),
                node.file["label"] if node.file else "",
            ),
            size_bytes=self._program_size(program),
            provenance={f"{name}_sha256": value or None for name, value in content.items()},
        )

    def _check_settings(self, config: RunConfig) -> None:
        """Check the names and the values of settings, each combination once; raises UsageError."""
        text = f"{config.estimator} {sorted(config.setting.items())!r}"
        if config.setting and text not in self._checked_settings:
            build_annotate_step(config.estimator, None, config.setting)
            registry.check_single_settings(config.estimator, config.setting)
            self._checked_settings.add(text)

    def make_count_cell(self, keys: SweepCell) -> Cell:
        """Make the cell that counts the devices of a program; raises HespasError."""
        config = _read_config(keys)
        program = _get_program_path(config)
        parts = {"program": self._program_digest(program), "keep_going": config.keep_going}
        key = compute_cache_key(DEVICES, "1", parts, collect_environment())
        payload = {"devices_of": program, **parts}
        size_bytes = self._program_size(program)
        return Cell(
            os.path.basename(program), payload, key, estimator=DEVICES, version="1",
            sharing=(program,), size_bytes=size_bytes,
        )  # fmt: skip


def _read_config(keys: SweepCell) -> RunConfig:
    """Build the configuration of some keys; raises HespasError for a wrong value."""
    values: dict[str, Any] = {k: v for k, v in keys.items() if k in RunConfig.model_fields}
    setting = {k.partition(".")[2]: v for k, v in keys.items() if k.startswith("setting.")}
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


def _identify_simulator(simulator: str, astra_sim: str | None) -> list[Any]:
    """Identify the ASTRA-sim executable, or SimGrid; empty for the embedded simulator."""
    if simulator == "simgrid":
        from hespas.simulators.simgrid_backend import simgrid_program  # few sweeps need it

        return [simgrid_program.name_python(), simgrid_program.check_simgrid()]
    choice = SimulatorChoice(simulator, astra_sim=astra_sim)
    program = simulator_choice.select_astra_program(choice)
    if program is None:
        return []
    status = os.stat(program.path)
    return [str(program.path), *program.arguments, status.st_size, status.st_mtime_ns]


def make_recipe_workload(keys: Mapping[str, Any]) -> StudyWorkload:
    """Read the recipe of a cell, its options and its mesh; an axis of 0 devices is left out.

    Raises:
        UsageError: A size of the mesh is no whole number.
    """
    mesh: dict[str, int] = {}
    for key, size in keys.items():
        if key.startswith(f"{MESH}."):
            is_number = isinstance(size, (int, float)) and not isinstance(size, bool)
            if not is_number or size < 0 or size % 1:
                shown = f"{size:g}" if is_number else json.dumps(size)
                raise UsageError(f"{key} is {shown}, not a whole number of devices")
            mesh |= {key.partition(".")[2]: int(size)} if size else {}
    options = {
        key.partition(".")[2]: _spell_option(value)
        for key, value in keys.items()
        if key.startswith(f"{RECIPE}.")
    }
    return StudyWorkload(keys[RECIPE], options, mesh, {})


def _spell_option(value: Any) -> str:
    """Spell a value as ``--set`` does; a division has a float, which is often a whole number."""
    if isinstance(value, float) and value.is_integer():
        return str(int(value))
    return json.dumps(value) if isinstance(value, bool) else str(value)


def make_recipe_programs(
    keys: Sequence[SweepCell], options: PoolOptions, note: Note
) -> tuple[list[SweepCell], dict[int, HespasError]]:
    """Export the recipes of cells, each program once, as ``mlir`` of their cells.

    Returns:
        The cells, and the errors of those whose program or system cannot be made, by position.

    Raises:
        HespasError: The folder of programs cannot be written, or JAX is not installed.
    """
    cells = [dict(one) for one in keys]
    programs: dict[int, StudyProgram] = {}
    errors: dict[int, HespasError] = {}
    for i, cell in enumerate(cells):
        if RECIPE not in cell:
            continue
        try:
            workload = make_recipe_workload(cell)
            node = cell.get("node") or configs.DEFAULT_NODE
            compiled = not cell.get("fuse") and cell.get("form") not in (FUSE, AS_IS)
            platform = PLATFORMS[find_compiler(node) if compiled else None]
            programs[i] = StudyProgram(
                workload, "lowered", "", 1, platform=platform,
                content=digest_program_source(workload.recipe),
            )  # fmt: skip
            if cell.get("system") == AUTO:
                cell["system"] = choose_system(node, workload.devices, ())
        except HespasError as error:
            errors[i] = error
    made = make_program_files([*programs.values()], options, note) if programs else None
    for i, path in zip(programs, made.paths if made else (), strict=True):
        cells[i]["mlir"] = path
        if made and path in made.errors:
            errors.setdefault(i, made.errors[path])
    return cells, errors
