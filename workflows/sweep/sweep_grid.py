"""The keys of a sweep, and the cells of the grid that they span.

A key with one value has it in every cell; a key with a list is an axis of the grid. The cells of a
large grid are all of them, or a balanced sample.
"""

from __future__ import annotations

import fnmatch
import functools
import glob
import itertools
import math
import os
import random
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, TypeVar

from hespas import configs
from hespas.configs.simple_yaml import read_yaml_or_json
from hespas.configs.system_files import ASTRA_FOLDER
from hespas.support.errors import HespasError, UsageError
from hespas.support.suggestions import suggest_nearest
from hespas.workflows.run_config import OUTPUTS, RunConfig
from hespas.workflows.sweep.sweep_expressions import (
    LET,
    DerivedValue,
    SweepExpression,
    derive_cell,
    expand_number_list,
    resolve_name,
)

TOGETHER, CELLS = "together", "cells"
WHERE, LIMITS, SAMPLE, SEED = "where", "limits", "sample", "seed"
CONTROLS = (TOGETHER, CELLS, WHERE, LIMITS, SAMPLE, SEED)  # keys that are no values of cells
FAMILY = "family"  # the key of a cell that holds its program's name with {NAME} for each number
NOT_DERIVED = ("mlir", FAMILY)  # whose braces stand for the numbers of a pattern
RECIPE, MESH = "recipe", "mesh"
NESTED = ("node.", "setting.", LET, f"{RECIPE}.", f"{MESH}.")
AUTO = "auto"
"""The system that is the preset of the cell's node with as many devices as the program."""
MAX_CELLS = 1_000_000
SHIPPED_SWEEPS = Path(configs.__file__).parent / "sweeps"
WILD = re.compile(r"[*?\[]")
NUMBER = re.compile(r"\{(\w+)\}")
# The text that fnmatch puts around an expression; it depends on the version of Python.
BEFORE = "(?s:"
AFTER = fnmatch.translate("").removeprefix(BEFORE)

SweepCell = dict[str, Any]
"""The values of one run by key: the keys of ``RunConfig``, ``node.KEY``, ``setting.KEY``; the
numbers that a pattern extracts from the name of the program, and ``family``: that name with
``{NAME}`` in place of each number; or, instead of ``mlir``, ``recipe``, ``recipe.KEY`` and
``mesh.AXIS``."""
Row = TypeVar("Row")
MOST_BALANCED_VALUES = 12  # pairs of values of longer axes are too many to occur equally often
# Candidates for each cell, of which the most balanced that is new is taken; a large sample is
# balanced enough with one.
ATTEMPTS, MOST_CELLS_WITH_ATTEMPTS = 4, 1000


def read_sweep_file(path: str) -> dict[str, Any]:
    """Read the file of a sweep, YAML or JSON, or the shipped one of that name.

    Raises:
        HespasError: The file cannot be read, or a line is wrong.
    """
    shipped = SHIPPED_SWEEPS / f"{path}.yml"
    is_shipped = not os.path.exists(path) and shipped.name in os.listdir(SHIPPED_SWEEPS)
    return read_yaml_or_json(shipped if is_shipped else Path(path))


def merge_flags(file: Mapping[str, Any], flags: Mapping[str, Any]) -> dict[str, Any]:
    """Override the keys of a file by flags.

    Raises:
        UsageError: A flag overrides a key that the file ties to others.
    """
    tied = {key for group in _parse_key_groups(file.get(TOGETHER, [])) for key in group}
    tied |= {key for cell in _parse_listed_cells(file.get(CELLS, []), {}) for key in cell}
    for key in flags:
        if key in tied:
            raise UsageError(f"a flag sets '{key}', which goes with other keys in the file")
    return {**file, **flags}


def expand_cells(sweep_keys: Mapping[str, Any]) -> list[SweepCell]:
    """Expand the keys of a sweep into its distinct cells, the last axis varying fastest.

    Derived values are computed, and cells that do not meet ``where`` are left out. Patterns of
    programs and nodes are expanded. Patterns of systems are not, because the matching
    systems depend on the number of devices of the program.

    Raises:
        HespasError: A key or a value is wrong, or a pattern matches nothing.
    """
    axes = [
        [wide for row in axis for wide in _expand_patterns(row)]
        for axis in _collect_axes(sweep_keys)
    ]
    sample_count, seed = _read_count(sweep_keys, SAMPLE), _read_count(sweep_keys, SEED) or 0
    count = math.prod(map(len, axes))
    if count > MAX_CELLS and sample_count is None:
        remedy = f"the limit is {MAX_CELLS:,}; 'sample: 1000' takes a Latin hypercube of them"
        raise HespasError(f"there are {count:,} cells", remedy=remedy)
    conditions = read_expressions(sweep_keys, WHERE)
    parse_value = functools.cache(DerivedValue.parse)
    unique_cells: dict[str, SweepCell] = {}
    for rows in combine_axes(axes, sample_count, seed):
        raw = {key: value for row in rows for key, value in row.items()}
        parsed = {k: parse_value(v) for k, v in raw.items() if k not in NOT_DERIVED}
        derived = {key: value for key, value in parsed.items() if value is not None}
        cell = derive_cell(raw, derived) if derived else raw
        _check_program(cell)
        if all(_meets_condition(cell, condition) for condition in conditions):
            unique_cells.setdefault(repr(sorted(cell.items())), cell)
    if not unique_cells:
        texts = " and ".join(condition.text for condition in conditions)
        raise HespasError(f"no cell meets '{WHERE}': {texts}")
    return list(unique_cells.values())


def _check_program(cell: SweepCell) -> None:
    """Raise HespasError if a cell has two programs, or options of a recipe without one."""
    if RECIPE in cell and "mlir" in cell:
        raise HespasError(f"a cell has both '{RECIPE}' and 'mlir'")
    for key in cell:
        if RECIPE not in cell and key.startswith((f"{RECIPE}.", f"{MESH}.")):
            raise HespasError(f"'{key}' is for a program of a recipe, and there is none")


def _meets_condition(cell: SweepCell, condition: SweepExpression) -> bool:
    return bool(condition.evaluate(lambda name: cell[resolve_name(name, cell)]))


def find_derived_keys(sweep_keys: Mapping[str, Any]) -> frozenset[str]:
    """Find the keys all of whose values follow from other keys; raises HespasError."""
    return frozenset(
        key
        for key, value in sweep_keys.items()
        if key not in (*CONTROLS, *NOT_DERIVED)
        and all(map(DerivedValue.parse, value if isinstance(value, list) else [value]))
    )


def read_expressions(sweep_keys: Mapping[str, Any], key: str) -> list[SweepExpression]:
    """Read the expressions of ``where`` or ``limits``, one or a list; raises HespasError."""
    value = sweep_keys.get(key, [])
    texts = value if isinstance(value, list) else [value]
    if not all(isinstance(text, str) for text in texts):
        raise HespasError(f"'{key}' is not an expression, or a list of expressions")
    return [SweepExpression.parse(text) for text in texts]


def _read_count(sweep_keys: Mapping[str, Any], key: str) -> int | None:
    value = sweep_keys.get(key)
    least = 0 if key == SEED else 1
    if value is not None and (type(value) is not int or value < least):
        raise HespasError(f"'{key}' is {value!r}, not a whole number of at least {least}")
    return value


def _collect_axes(sweep_keys: Mapping[str, Any]) -> list[list[SweepCell]]:
    """Return the axes of the grid; each is a list of rows of values that vary together."""
    flat = _flatten_keys(sweep_keys)
    groups = _parse_key_groups(sweep_keys.get(TOGETHER, []))
    group_of = {key: group for group in groups for key in group}
    if len(group_of) < sum(map(len, groups)):
        raise HespasError(f"'{TOGETHER}' names a key twice")
    for key in group_of:
        if not isinstance(flat.get(key), list):
            raise HespasError(f"'{TOGETHER}' names '{key}', which is not a list")
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
            raise HespasError(f"lists that go together differ in length: {counts}")
        axes.append([dict(zip(group, row, strict=True)) for row in zip(*columns, strict=True)])
    listed = _parse_listed_cells(sweep_keys.get(CELLS, []), flat)
    return [*axes, listed] if listed else axes


def _flatten_keys(sweep_keys: Mapping[str, Any]) -> dict[str, Any]:
    """Check the keys that span the grid, and spell an object ``setting`` as ``setting.KEY``."""
    flat: dict[str, Any] = {}
    for key, value in sweep_keys.items():
        if key in (*CONTROLS, "$schema"):
            continue
        if key == "setting" and isinstance(value, dict):
            inner = {f"setting.{name}": setting_value for name, setting_value in value.items()}
        else:
            inner = {key: value}
        for name, inner_value in inner.items():
            flat[name] = _expand_ranges(name, inner_value)
            _check_values(name, flat[name] if isinstance(flat[name], list) else [flat[name]])
    return flat


def _expand_ranges(key: str, value: Any) -> Any:
    """Replace each ``range``, ``linspace`` and ``logspace`` by its numbers, which make a list."""
    values = value if isinstance(value, list) else [value]
    lists = [
        expand_number_list(key, one, MAX_CELLS) if isinstance(one, str) else None for one in values
    ]
    if all(numbers is None for numbers in lists):
        return value
    expanded: list[Any] = []
    for one, numbers in zip(values, lists, strict=True):
        expanded += [one] if numbers is None else numbers
    return expanded


def _check_values(key: str, values: Iterable[Any]) -> None:
    """Raise HespasError if a key is unknown or a value is not a scalar."""
    known = [RECIPE, *(k for k in RunConfig.model_fields if k not in (*OUTPUTS, "setting"))]
    if key in OUTPUTS:
        raise HespasError(f"a sweep has no '{key}': it keeps figures, not files")
    if key not in known and not (key.startswith(NESTED) and key.partition(".")[2]):
        nested = "(or node.KEY, setting.KEY, recipe.KEY, mesh.AXIS, let.NAME)"
        remedy = f"{suggest_nearest(key, [*known, *CONTROLS])} {nested}"
        raise HespasError(f"unknown key '{key}'", remedy=remedy)
    for value in values:
        if value is not None and not isinstance(value, (str, int, float, bool)):
            raise HespasError(f"'{key}' holds {value!r}: give a value, or a list of values")
        if key == RECIPE and not (isinstance(value, str) and value):
            raise HespasError(f"'{key}' holds {value!r}, not the name of a recipe")


def _parse_key_groups(together: Any) -> list[tuple[str, ...]]:
    """Parse ``node system`` or ``["node system", "split estimator"]`` into groups of keys."""
    texts = [together] if isinstance(together, str) else together
    remedy = f"write {TOGETHER}: node system, or a list of such groups"
    if not isinstance(texts, list) or not all(isinstance(text, str) for text in texts):
        raise HespasError(f"'{TOGETHER}' is not a group of keys", remedy=remedy)
    groups = [tuple(text.replace(",", " ").split()) for text in texts]
    for group in groups:
        if len(group) < 2:
            named = f"'{group[0]}' alone" if group else "nothing"
            raise HespasError(f"'{TOGETHER}' has a group of {named}", remedy=remedy)
    return groups


def _parse_listed_cells(cell_list: Any, flat: Mapping[str, Any]) -> list[SweepCell]:
    """Parse the cells that are listed one by one."""
    if not isinstance(cell_list, list) or not all(isinstance(cell, dict) for cell in cell_list):
        raise HespasError(f"'{CELLS}' is not a list of objects")
    rows = []
    for cell in cell_list:
        row = _flatten_keys(cell)
        for key, value in row.items():
            if key in flat:
                raise HespasError(f"'{key}' is both in '{CELLS}' and outside of it")
            if isinstance(value, list):
                raise HespasError(f"'{CELLS}': '{key}' must be a value, not a list")
        rows.append(row)
    return rows


def _expand_patterns(row: SweepCell) -> list[SweepCell]:
    """Return a row for each program and each node that match the row's patterns."""
    programs = _find_programs(row["mlir"]) if isinstance(row.get("mlir"), str) else [{}]
    nodes = _find_nodes(row["node"]) if isinstance(row.get("node"), str) else [{}]
    for numbers in programs:
        if "mlir" in row and numbers:
            _check_number_names(row["mlir"])
    return [{**row, **program, **node} for program in programs for node in nodes]


def _check_number_names(pattern: str) -> None:
    """Raise HespasError if ``{NAME}`` in a pattern has the name of another key of a cell."""
    if os.path.exists(pattern):
        return
    for name in NUMBER.findall(pattern):
        if name == FAMILY or name in RunConfig.model_fields:
            kind = "a column of the table" if name == FAMILY else "an option of a run"
            raise HespasError(f"{{{name}}} in the name of a program is {kind}")


def _find_programs(pattern: str) -> list[SweepCell]:
    """Find the programs of a pattern, sorted by the numbers that match its ``{NAME}`` parts."""
    if os.path.exists(pattern) or not (WILD.search(pattern) or NUMBER.search(pattern)):
        return [{"mlir": pattern}]
    expression = ""
    name_of_group: dict[str, str] = {}  # in the order of the groups
    for i, part in enumerate(NUMBER.split(pattern)):
        if i % 2 == 0:
            expression += fnmatch.translate(part).removeprefix(BEFORE).removesuffix(AFTER)
        elif part in name_of_group:
            expression += f"(?P<{part}__{i}>(?P={part}))"
            name_of_group[f"{part}__{i}"] = part
        else:
            expression += rf"(?P<{part}>\d+)"
            name_of_group[part] = part
    try:
        exact = re.compile(expression, re.DOTALL)
    except re.error:
        raise HespasError("{NAME} in the pattern is not a valid name", where=pattern) from None
    programs = []
    for path in glob.glob(NUMBER.sub("*", pattern)):
        match = exact.fullmatch(path)
        if match:
            numbers = {name: int(match[name]) for name in dict.fromkeys(name_of_group.values())}
            programs.append((path, numbers, _replace_numbers(match, name_of_group)))
    if not programs:
        raise HespasError("no file matches the pattern", where=pattern)
    programs.sort(key=lambda program: (*program[1].values(), program[0]))
    return [
        {"mlir": path, **numbers, **({FAMILY: family} if numbers else {})}
        for path, numbers, family in programs
    ]


def _replace_numbers(match: re.Match[str], name_of_group: Mapping[str, str]) -> str:
    """Return the matched text with ``{NAME}`` in place of each number."""
    family, end = "", 0
    for group, name in name_of_group.items():
        family += f"{match.string[end : match.start(group)]}{{{name}}}"
        end = match.end(group)
    return family + match.string[end:]


def _find_nodes(pattern: str) -> list[SweepCell]:
    if not WILD.search(pattern) or os.path.exists(pattern):
        return [{"node": pattern}]
    return [{"node": name} for name in _match_presets("node", pattern, configs.list_node_presets())]


def is_pattern(system: Any) -> bool:
    """Return whether the name of a system is a pattern."""
    return isinstance(system, str) and bool(WILD.search(system)) and not os.path.exists(system)


def find_systems(pattern: str) -> list[str]:
    """Find the system presets or folders that match a pattern.

    Raises:
        HespasError: Nothing matches.
    """
    if os.sep in pattern:
        folders = sorted(
            folder
            for inner in ("", f"/{ASTRA_FOLDER}")
            for file in glob.glob(f"{pattern}{inner}/network.yml")
            if (folder := file.removesuffix(f"{inner}/network.yml"))
        )
        if not folders:
            raise HespasError("no folder that matches has a network.yml", where=pattern)
        return folders
    return _match_presets("system", pattern, configs.list_system_presets())


def _match_presets(kind: str, pattern: str, names: Sequence[str]) -> list[str]:
    matches = [name for name in names if fnmatch.fnmatchcase(name, pattern)]
    if not matches:
        raise HespasError(f"no {kind} preset matches '{pattern}'")
    return matches


def combine_axes(
    axes: Sequence[Sequence[Row]], sample_count: int | None, seed: int
) -> Iterator[tuple[Row, ...]]:
    """Yield one row of each axis: all combinations, or a balanced sample of ``sample_count``.

    Equal seeds give equal cells. A grid with no more cells than the sample is taken whole.
    """
    if sample_count is None or math.prod(map(len, axes)) <= sample_count:
        yield from itertools.product(*axes)
        return
    sampler = _BalancedSampler([len(axis) for axis in axes], sample_count, random.Random(seed))
    for places in sorted(sampler.draw_sample()):
        yield tuple(axis[place] for axis, place in zip(axes, places, strict=True))


class _BalancedSampler:
    """Draws a Latin hypercube in which pairs of values of two axes are equally frequent.

    A Latin hypercube takes each n-th part of every axis once (McKay, Beckman and Conover,
    Technometrics 21(2), 1979), so that a few hundred cells show the effect of each of many axes.
    By chance, the slowest of three programs may still have most of the cells with one kind of
    memory, and its time then looks like an effect of the memory. Therefore pairs are balanced
    too, as in an orthogonal array (Owen, Statistica Sinica 2(2), 1992).

    Cells are drawn one after the other. Each takes, axis by axis, the value whose pairs with the
    values that it has already are rarest so far, among those that the hypercube has left.
    """

    def __init__(self, sizes: Sequence[int], sample_count: int, draw: random.Random) -> None:
        self.sizes, self.sample_count, self.draw = sizes, sample_count, draw
        self.balanced = [k for k, size in enumerate(sizes) if size <= MOST_BALANCED_VALUES]
        # The places that are left on each axis: a count of each, or a shuffled list of all.
        places = [[part * size // sample_count for part in range(sample_count)] for size in sizes]
        self.left = {k: Counter(places[k]) for k in self.balanced}
        self.shuffled = {k: places[k] for k in range(len(sizes)) if k not in self.left}
        for column in self.shuffled.values():
            draw.shuffle(column)
        self.pair_counts: Counter[tuple[int, int, int, int]] = Counter()

    def draw_sample(self) -> list[tuple[int, ...]]:
        drawn: list[tuple[int, ...]] = []
        known: set[tuple[int, ...]] = set()
        attempts = ATTEMPTS if self.sample_count <= MOST_CELLS_WITH_ATTEMPTS else 1
        for number in range(self.sample_count):
            candidates = [self._draw_candidate(number) for _ in range(attempts)]
            _, places = min(candidates, key=lambda pair: (pair[1] in known, pair[0]))
            drawn.append(places)
            known.add(places)
            for k in self.balanced:
                self.left[k][places[k]] -= 1
                for j in self.balanced:
                    self.pair_counts[j, places[j], k, places[k]] += 1
        return self._separate_equal_cells(drawn)

    def _separate_equal_cells(self, cells: list[tuple[int, ...]]) -> list[tuple[int, ...]]:
        """Make equal cells differ, as the last ones may not: exchange a value with another cell."""
        counts = Counter(cells)
        for i in range(len(cells)):
            if counts[cells[i]] > 1:
                self._exchange_value(cells, i, counts)
        return cells

    def _exchange_value(
        self, cells: list[tuple[int, ...]], i: int, counts: Counter[tuple[int, ...]]
    ) -> None:
        """Exchange a value of cell ``i`` with another cell, so that both are new."""
        for j, k in itertools.product(range(len(cells)), self.balanced):
            one, other = cells[i], cells[j]
            exchanged = (*one[:k], other[k], *one[k + 1 :]), (*other[:k], one[k], *other[k + 1 :])
            if one[k] != other[k] and not any(map(counts.__getitem__, exchanged)):
                counts.subtract((one, other))
                counts.update(exchanged)
                cells[i], cells[j] = exchanged
                return

    def _draw_candidate(self, number: int) -> tuple[float, tuple[int, ...]]:
        """Draw a cell; the first result is less for one that makes the sample more balanced."""
        places = {k: column[number] for k, column in self.shuffled.items()}
        order = self.draw.sample(self.balanced, len(self.balanced))
        frequency = 0.0
        for position, k in enumerate(order):
            by_place = {
                place: self._rate_place(k, place, order[:position], places)
                for place, count in self.left[k].items()
                if count > 0
            }
            rarest = min(by_place.values())
            places[k] = self.draw.choice([p for p, rate in by_place.items() if rate == rarest])
            frequency += rarest
        return frequency, tuple(places[k] for k in range(len(self.sizes)))

    def _rate_place(
        self, axis: int, place: int, previous: Sequence[int], places: dict[int, int]
    ) -> float:
        """Rate how frequent a value and its pairs are so far, relative to a balanced sample."""
        pairs = sum(
            self.pair_counts[other, places[other], axis, place] * self.sizes[other]
            for other in previous
        )
        return self.sizes[axis] * (pairs - self.left[axis][place])
