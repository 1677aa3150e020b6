"""A sweep's file and flags, and the cells that they make.

A key with one value is the same in every cell; one with a list is an axis of the grid.
"""

from __future__ import annotations

import fnmatch
import glob
import itertools
import os
import re
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from hespas import configs
from hespas.configs.simple_yaml import read_simple_yaml
from hespas.support.errors import HespasError, UsageError
from hespas.support.suggestions import suggest_nearest
from hespas.workflows.run_config import OUTPUTS, RunConfig

TOGETHER, CELLS = "together", "cells"
NESTED = ("node.", "setting.")
MAX_CELLS = 1_000_000
WILD = re.compile(r"[*?\[]")
NUMBER = re.compile(r"\{(\w+)\}")
# What fnmatch puts around an expression, which is not the same in every Python.
BEFORE = "(?s:"
AFTER = fnmatch.translate("").removeprefix(BEFORE)

SweepCell = dict[str, Any]
"""Values by key: those of ``hespas run``'s file, ``node.KEY``, ``setting.KEY``, and numbers that
the pattern of a program's name picks out."""


def read_sweep_file(path: str) -> dict[str, Any]:
    """The keys of a sweep's file, YAML or JSON; raises HespasError with the line."""
    if path.endswith(".json"):
        return configs.read_json(path)
    return read_simple_yaml(Path(path))


def merge_flags(file: Mapping[str, Any], flags: Mapping[str, Any]) -> dict[str, Any]:
    """The keys of a file with those of the flags in place of equal ones; raises UsageError."""
    tied = {key for group in _parse_key_groups(file.get(TOGETHER, [])) for key in group}
    tied |= {key for cell in file.get(CELLS) or [] if isinstance(cell, dict) for key in cell}
    for key in flags:
        if key in tied:
            raise UsageError(f"'{key}' is given by a flag, and goes with other keys in the file")
    return {**file, **flags}


def expand_cells(sweep_keys: Mapping[str, Any]) -> list[SweepCell]:
    """The cells, the last axis the fastest, equal ones once; raises HespasError.

    Names of programs and nodes may be patterns. Those of systems stay: which systems of a pattern
    are meant depends on the program.
    """
    axes = [
        [wide for row in axis for wide in _expand_patterns(row)]
        for axis in _collect_axes(sweep_keys)
    ]
    count = 1
    for axis in axes:
        count *= len(axis)
    if count > MAX_CELLS:
        raise HespasError(f"there are {count:,} cells", remedy=f"at most {MAX_CELLS:,} are run")
    unique_cells: dict[str, SweepCell] = {}
    for rows in itertools.product(*axes):
        cell = {key: value for row in rows for key, value in row.items()}
        unique_cells.setdefault(repr(sorted(cell.items())), cell)
    return list(unique_cells.values())


def _collect_axes(sweep_keys: Mapping[str, Any]) -> list[list[SweepCell]]:
    """The axes of the grid: rows of values that go together."""
    flat = _flatten_keys(sweep_keys)
    groups = _parse_key_groups(sweep_keys.get(TOGETHER, []))
    group_of = {key: group for group in groups for key in group}
    if len(group_of) < sum(map(len, groups)):
        raise HespasError(f"'{TOGETHER}' names a key twice")
    for key in group_of:
        if not isinstance(flat.get(key), list):
            raise HespasError(f"'{TOGETHER}' names '{key}', which is no list here")
    axes: list[list[SweepCell]] = []
    for key in flat:
        group = group_of.get(key, (key,))
        if key != group[0]:
            continue
        columns = [flat[name] if isinstance(flat[name], list) else [flat[name]] for name in group]
        if not columns[0]:
            raise HespasError(f"'{key}' is an empty list")
        if len(set(map(len, columns))) > 1:
            counts = ", ".join(f"{n} of {k}" for k, n in zip(group, map(len, columns), strict=True))
            raise HespasError(f"what goes together is not as many: {counts}")
        axes.append([dict(zip(group, row, strict=True)) for row in zip(*columns, strict=True)])
    listed = _parse_listed_cells(sweep_keys.get(CELLS, []), flat)
    return [*axes, listed] if listed else axes


def _flatten_keys(sweep_keys: Mapping[str, Any]) -> dict[str, Any]:
    """The keys that make axes, checked; an object ``setting`` by its keys."""
    flat: dict[str, Any] = {}
    for key, value in sweep_keys.items():
        if key in (TOGETHER, CELLS, "$schema"):
            continue
        if key == "setting" and isinstance(value, dict):
            inner = {f"setting.{name}": one for name, one in value.items()}
        else:
            inner = {key: value}
        for name, one in inner.items():
            _check_values(name, one if isinstance(one, list) else [one])
            flat[name] = one
    return flat


def _check_values(key: str, values: Iterable[Any]) -> None:
    """Raise HespasError for a key that no cell has, or a value that is no single value."""
    known = [k for k in RunConfig.model_fields if k not in (*OUTPUTS, "setting")]
    if key in OUTPUTS:
        raise HespasError(f"a cell has no '{key}': a sweep keeps figures, not traces")
    if key not in known and not (key.startswith(NESTED) and key.partition(".")[2]):
        names = [*known, TOGETHER, CELLS]
        remedy = f"{suggest_nearest(key, names)} also node.KEY and setting.KEY"
        raise HespasError(f"unknown key '{key}'", remedy=remedy)
    for value in values:
        if value is not None and not isinstance(value, (str, int, float, bool)):
            raise HespasError(f"'{key}' holds {value!r}: give a value, or a list of values")


def _parse_key_groups(together: Any) -> list[tuple[str, ...]]:
    """``node system`` or ``["node system", "split estimator"]`` to groups of keys."""
    texts = [together] if isinstance(together, str) else together
    remedy = f"write {TOGETHER}: node system, or a list of such groups"
    if not isinstance(texts, list) or not all(isinstance(text, str) for text in texts):
        raise HespasError(f"'{TOGETHER}' is no group of keys", remedy=remedy)
    groups = [tuple(text.replace(",", " ").split()) for text in texts]
    for group in groups:
        if len(group) < 2:
            named = f"'{group[0]}' alone" if group else "nothing"
            raise HespasError(f"'{TOGETHER}' has a group of {named}", remedy=remedy)
    return groups


def _parse_listed_cells(cell_list: Any, flat: Mapping[str, Any]) -> list[SweepCell]:
    """The cells that are given one by one."""
    if not isinstance(cell_list, list) or not all(isinstance(cell, dict) for cell in cell_list):
        raise HespasError(f"'{CELLS}' is no list of objects")
    rows = []
    for cell in cell_list:
        row = _flatten_keys(cell)
        for key, value in row.items():
            if key in flat:
                raise HespasError(f"'{key}' is in '{CELLS}' and beside it")
            if isinstance(value, list):
                raise HespasError(f"'{CELLS}': '{key}' holds a list, where a value is wanted")
        rows.append(row)
    return rows


def _expand_patterns(row: SweepCell) -> list[SweepCell]:
    """A row for each program and each node that its patterns name."""
    programs = _find_programs(row["mlir"]) if isinstance(row.get("mlir"), str) else [{}]
    nodes = _find_nodes(row["node"]) if isinstance(row.get("node"), str) else [{}]
    for numbers in programs:
        clashing_names = [
            name for name in numbers if name != "mlir" and name in RunConfig.model_fields
        ]
        if clashing_names:
            raise HespasError(
                f"{{{clashing_names[0]}}} in a program's name is the name of a setting"
            )
    return [{**row, **program, **node} for program in programs for node in nodes]


def _find_programs(pattern: str) -> list[SweepCell]:
    """The programs of a pattern, in order of the numbers that ``{NAME}`` in it stands for."""
    if os.path.exists(pattern) or not (WILD.search(pattern) or NUMBER.search(pattern)):
        return [{"mlir": pattern}]
    expression, seen = "", set()
    for i, part in enumerate(NUMBER.split(pattern)):
        if i % 2 == 0:
            expression += fnmatch.translate(part).removeprefix(BEFORE).removesuffix(AFTER)
        else:
            expression += f"(?P={part})" if part in seen else rf"(?P<{part}>\d+)"
            seen.add(part)
    try:
        exact = re.compile(expression, re.DOTALL)
    except re.error:
        raise HespasError("the pattern has a name that is none", where=pattern) from None
    programs = []
    for path in glob.glob(NUMBER.sub("*", pattern)):
        match = exact.fullmatch(path)
        if match:
            numbers = {name: int(text) for name, text in match.groupdict().items()}
            programs.append({"mlir": path, **numbers})
    if not programs:
        raise HespasError("no file has such a name", where=pattern)
    return sorted(programs, key=lambda cell: (*list(cell.values())[1:], cell["mlir"]))


def _find_nodes(pattern: str) -> list[SweepCell]:
    if not WILD.search(pattern) or os.path.exists(pattern):
        return [{"node": pattern}]
    return [{"node": name} for name in _match_presets("node", pattern, configs.list_node_presets())]


def is_pattern(system: Any) -> bool:
    """Whether a system is given by a pattern."""
    return isinstance(system, str) and bool(WILD.search(system)) and not os.path.exists(system)


def find_systems(pattern: str) -> list[str]:
    """The system presets, or folders, of a pattern; raises HespasError where there are none."""
    if os.sep in pattern:
        folders = sorted(str(Path(p).parent) for p in glob.glob(f"{pattern}/network.yml"))
        if not folders:
            raise HespasError("no folder of such a name has a network.yml", where=pattern)
        return folders
    return _match_presets("system", pattern, configs.list_system_presets())


def _match_presets(kind: str, pattern: str, names: Sequence[str]) -> list[str]:
    matches = [name for name in names if fnmatch.fnmatchcase(name, pattern)]
    if not matches:
        raise HespasError(f"no {kind} preset has a name like '{pattern}'")
    return matches
