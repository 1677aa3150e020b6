"""Running the cells of a sweep; one that fails is a row with an error, never an exception."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from hespas import configs, frontends
from hespas.estimators.measure.failure import ClusterLostError
from hespas.support.errors import HespasError
from hespas.workflows.cell_keys import collect_environment
from hespas.workflows.cells import Answer, Cell, CellPool, Note, PoolOptions
from hespas.workflows.studies.program_forms import choose_system, match_family_systems
from hespas.workflows.sweep import sweep_grid
from hespas.workflows.sweep.sweep_cells import SweepCellFactory, make_recipe_programs
from hespas.workflows.sweep.sweep_grid import AUTO, FAMILY, RECIPE, SweepCell
from hespas.workflows.sweep.sweep_table import SweepRow, flatten_figures

FUNCTION = "hespas.workflows.sweep.sweep_worker:compute_cell"


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
