"""Cells of a sweep whose programs are recipes: ``recipe``, ``recipe.KEY`` and ``mesh.AXIS``."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

from hespas import configs
from hespas.support.errors import HespasError, UsageError
from hespas.workflows.cells import Note, PoolOptions
from hespas.workflows.program_form import AS_IS, FUSE
from hespas.workflows.studies.program_forms import choose_system, find_compiler
from hespas.workflows.studies.study_definition import StudyWorkload
from hespas.workflows.studies.study_programs import (
    PLATFORMS,
    StudyProgram,
    digest_program_source,
    make_program_files,
)
from hespas.workflows.sweep.sweep_grid import AUTO, MESH, RECIPE, SweepCell


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
