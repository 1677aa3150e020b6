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
from hespas.configs.yaml import read_yaml
from hespas.dialects.errors import HespasError, UsageError
from hespas.passes.base import nearest
from hespas.tools.commands.config import RunConfig

TOGETHER, CELLS = "together", "cells"
NOT_OF_A_CELL = ("output", "timeline")
NESTED = ("node.", "setting.")
MAX_CELLS = 1_000_000
WILD = re.compile(r"[*?\[]")
NUMBER = re.compile(r"\{(\w+)\}")
# What fnmatch puts around an expression, which is not the same in every Python.
BEFORE = "(?s:"
AFTER = fnmatch.translate("").removeprefix(BEFORE)

Cell = dict[str, Any]
"""Values by key: those of ``hespas run``'s file, ``node.KEY``, ``setting.KEY``, and numbers that
the pattern of a program's name picks out."""


def read(path: str) -> dict[str, Any]:
    """The keys of a sweep's file, YAML or JSON; raises HespasError with the line."""
    if path.endswith(".json"):
        return configs.read_json(path)
    return read_yaml(Path(path))


def merged(file: Mapping[str, Any], flags: Mapping[str, Any]) -> dict[str, Any]:
    """The keys of a file with those of the flags in place of equal ones; raises UsageError."""
    tied = {key for group in _groups(file.get(TOGETHER, [])) for key in group}
    tied |= {key for cell in file.get(CELLS) or [] if isinstance(cell, dict) for key in cell}
    for key in flags:
        if key in tied:
            raise UsageError(f"'{key}' is given by a flag, and goes with other keys in the file")
    return {**file, **flags}


def expand(given: Mapping[str, Any]) -> list[Cell]:
    """The cells, the last axis the fastest, equal ones once; raises HespasError.

    Names of programs and nodes may be patterns. Those of systems stay: which systems of a pattern
    are meant depends on the program.
    """
    axes = [[wide for row in axis for wide in _widened(row)] for axis in _axes(given)]
    count = 1
    for axis in axes:
        count *= len(axis)
    if count > MAX_CELLS:
        raise HespasError(f"there are {count:,} cells", remedy=f"at most {MAX_CELLS:,} are run")
    found: dict[str, Cell] = {}
    for rows in itertools.product(*axes):
        cell = {key: value for row in rows for key, value in row.items()}
        found.setdefault(repr(sorted(cell.items())), cell)
    return list(found.values())


def _axes(given: Mapping[str, Any]) -> list[list[Cell]]:
    """The axes of the grid: rows of values that go together."""
    flat = _flat(given)
    groups = _groups(given.get(TOGETHER, []))
    group_of = {key: group for group in groups for key in group}
    if len(group_of) < sum(map(len, groups)):
        raise HespasError(f"'{TOGETHER}' names a key twice")
    for key in group_of:
        if not isinstance(flat.get(key), list):
            raise HespasError(f"'{TOGETHER}' names '{key}', which is no list here")
    axes: list[list[Cell]] = []
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
    listed = _listed(given.get(CELLS, []), flat)
    return [*axes, listed] if listed else axes


def _flat(given: Mapping[str, Any]) -> dict[str, Any]:
    """The keys that make axes, checked; an object ``setting`` by its keys."""
    flat: dict[str, Any] = {}
    for key, value in given.items():
        if key in (TOGETHER, CELLS, "$schema"):
            continue
        if key == "setting" and isinstance(value, dict):
            inner = {f"setting.{name}": one for name, one in value.items()}
        else:
            inner = {key: value}
        for name, one in inner.items():
            _check(name, one if isinstance(one, list) else [one])
            flat[name] = one
    return flat


def _check(key: str, values: Iterable[Any]) -> None:
    """Raise HespasError for a key that no cell has, or a value that is no single value."""
    known = [k for k in RunConfig.model_fields if k not in (*NOT_OF_A_CELL, "setting")]
    if key in NOT_OF_A_CELL:
        raise HespasError(f"a cell has no '{key}': a sweep keeps figures, not traces")
    if key not in known and not (key.startswith(NESTED) and key.partition(".")[2]):
        names = [*known, TOGETHER, CELLS]
        remedy = f"{nearest(key, names)} also node.KEY and setting.KEY"
        raise HespasError(f"unknown key '{key}'", remedy=remedy)
    for value in values:
        if value is not None and not isinstance(value, (str, int, float, bool)):
            raise HespasError(f"'{key}' holds {value!r}: give a value, or a list of values")


def _groups(given: Any) -> list[tuple[str, ...]]:
    """``node system`` or ``["node system", "split estimator"]`` to groups of keys."""
    texts = [given] if isinstance(given, str) else given
    remedy = f"write {TOGETHER}: node system, or a list of such groups"
    if not isinstance(texts, list) or not all(isinstance(text, str) for text in texts):
        raise HespasError(f"'{TOGETHER}' is no group of keys", remedy=remedy)
    groups = [tuple(text.replace(",", " ").split()) for text in texts]
    for group in groups:
        if len(group) < 2:
            named = f"'{group[0]}' alone" if group else "nothing"
            raise HespasError(f"'{TOGETHER}' has a group of {named}", remedy=remedy)
    return groups


def _listed(given: Any, flat: Mapping[str, Any]) -> list[Cell]:
    """The cells that are given one by one."""
    if not isinstance(given, list) or not all(isinstance(cell, dict) for cell in given):
        raise HespasError(f"'{CELLS}' is no list of objects")
    found = []
    for cell in given:
        row = _flat(cell)
        for key, value in row.items():
            if key in flat:
                raise HespasError(f"'{key}' is in '{CELLS}' and beside it")
            if isinstance(value, list):
                raise HespasError(f"'{CELLS}': '{key}' holds a list, where a value is wanted")
        found.append(row)
    return found


def _widened(row: Cell) -> list[Cell]:
    """A row for each program and each node that its patterns name."""
    programs = _programs(row["mlir"]) if isinstance(row.get("mlir"), str) else [{}]
    nodes = _nodes(row["node"]) if isinstance(row.get("node"), str) else [{}]
    for numbers in programs:
        taken = [name for name in numbers if name != "mlir" and name in RunConfig.model_fields]
        if taken:
            raise HespasError(f"{{{taken[0]}}} in a program's name is the name of a setting")
    return [{**row, **program, **node} for program in programs for node in nodes]


def _programs(pattern: str) -> list[Cell]:
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
    found = []
    for path in glob.glob(NUMBER.sub("*", pattern)):
        match = exact.fullmatch(path)
        if match:
            numbers = {name: int(text) for name, text in match.groupdict().items()}
            found.append({"mlir": path, **numbers})
    if not found:
        raise HespasError("no file has such a name", where=pattern)
    return sorted(found, key=lambda cell: (*list(cell.values())[1:], cell["mlir"]))


def _nodes(pattern: str) -> list[Cell]:
    if not WILD.search(pattern) or os.path.exists(pattern):
        return [{"node": pattern}]
    return [{"node": name} for name in _presets("node", pattern, configs.node_names())]


def is_wild(system: Any) -> bool:
    """Whether a system is given by a pattern."""
    return isinstance(system, str) and bool(WILD.search(system)) and not os.path.exists(system)


def systems(pattern: str) -> list[str]:
    """The system presets, or folders, of a pattern; raises HespasError where there are none."""
    if os.sep in pattern:
        folders = sorted(str(Path(p).parent) for p in glob.glob(f"{pattern}/network.yml"))
        if not folders:
            raise HespasError("no folder of such a name has a network.yml", where=pattern)
        return folders
    return _presets("system", pattern, configs.system_names())


def _presets(what: str, pattern: str, names: Sequence[str]) -> list[str]:
    found = [name for name in names if fnmatch.fnmatchcase(name, pattern)]
    if not found:
        raise HespasError(f"no {what} preset has a name like '{pattern}'")
    return found
