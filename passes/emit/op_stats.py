"""``op-stats``: how many ops of which kind a program has."""

from __future__ import annotations

import csv
import io
import json
import sys
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, ClassVar

from hespas.dialects.errors import HespasError, UsageError
from hespas.dialects.mlir import functions, ir, symbol
from hespas.dialects.ops import CALLEE, entry
from hespas.passes.base import Pass, Run, nearest, option
from hespas.passes.emit import file

Key = tuple[str, tuple[str, ...]]

NAME_WIDTH, COUNT_WIDTH = 30, 5  # of the table's columns, as the published analyzer has them
RULE = "-" * (NAME_WIDTH + COUNT_WIDTH)

# ``expand`` counts what these hold, as what ``CALLEE`` ops call, in place of the op itself.
REPLACED_BY_BODY = ("mhlo.fusion", "sdy.manual_computation")
# Counted themselves, and their bodies too. Other bodies (reducers, comparators) are part of an op.
CONTROL_FLOW = ("stablehlo.while", "stablehlo.if", "stablehlo.case")


@dataclass(frozen=True)
class Census:
    """Ops of a program by name, and by operand types where asked; most frequent first."""

    function: str
    expanded: bool
    counts: dict[Key, int]

    @property
    def total(self) -> int:
        """How many ops there are."""
        return sum(self.counts.values())

    @property
    def unique(self) -> int:
        """How many kinds of ops there are."""
        return len(self.counts)

    def rows(self) -> Iterator[tuple[str, int]]:
        """(name, or name with operand types; count)."""
        for (name, operands), count in self.counts.items():
            yield (f"{name}({', '.join(operands)})" if operands else name), count


def census(module: ir.Module, *, expand: bool = False, by_operands: bool = False) -> Census:
    """Count the ops of the entry function, each once however often it runs.

    ``expand`` counts what fusions and calls hold in place of the fusion or call, and the bodies of
    control flow besides, all with their terminators. Reducer and comparator bodies never count.
    """
    main = entry(module)
    counts = _Counter(functions(module), expand, by_operands).function(main)
    ordered = sorted(counts.items(), key=lambda item: (-item[1], item[0]))
    return Census(symbol(main), expand, dict(ordered))


class _Counter:
    def __init__(self, found: dict[str, ir.Operation], expand: bool, by_operands: bool) -> None:
        self.functions = found
        self.expand = expand
        self.by_operands = by_operands
        self.types: dict[ir.Type, str] = {}
        self.done: dict[str, Counter[Key]] = {}
        self.open: list[str] = []

    def function(self, function: ir.Operation) -> Counter[Key]:
        counts: Counter[Key] = Counter()
        self.bodies(function, counts)
        return counts

    def bodies(self, op: ir.Operation, counts: Counter[Key]) -> None:
        for region in op.regions:
            for block in region.blocks:
                for inner in block.operations:
                    self.op(inner.operation, counts)

    def op(self, op: ir.Operation, counts: Counter[Key]) -> None:
        name = op.name
        if self.expand:
            attributes: Any = op.attributes
            if name in CALLEE and CALLEE[name] in attributes:
                counts.update(self.callee(op, attributes[CALLEE[name]].value))
                return
            if name in REPLACED_BY_BODY:
                self.bodies(op, counts)
                return
            if name in CONTROL_FLOW:
                self.bodies(op, counts)
        counts[name, self.operands(op) if self.by_operands else ()] += 1

    def callee(self, op: ir.Operation, name: str) -> Counter[Key]:
        if name in self.open:
            raise HespasError(f"@{name} calls itself", op=op)
        if name not in self.functions:
            raise HespasError(f"there is no function @{name}", op=op)
        if name not in self.done:
            self.open.append(name)
            self.done[name] = self.function(self.functions[name])
            self.open.pop()
        return self.done[name]

    def operands(self, op: ir.Operation) -> tuple[str, ...]:
        texts = []
        for operand in op.operands:
            kind = operand.type
            if kind not in self.types:
                self.types[kind] = str(kind)
            texts.append(self.types[kind])
        return tuple(texts)


def as_table(found: Census) -> str:
    """Lines ``  name....: count``, most frequent first, between a head and the total."""
    lines = [RULE, f"{'Unique Operators':<{NAME_WIDTH}}: {found.unique}", ""]
    lines += [_line(name, count) for name, count in found.rows()]
    lines += [RULE, _line("Total Operators", found.total)]
    return "\n".join(lines) + "\n"


def _line(name: str, count: int) -> str:
    return f"  {name:.<{NAME_WIDTH}}: {count:>{COUNT_WIDTH}}"


def as_csv(found: Census, *, header: bool = True) -> str:
    """A header ``op,count`` and one row per kind."""
    out = io.StringIO()
    writer = csv.writer(out, lineterminator="\n")
    if header:
        writer.writerow(["op", "count"])
    writer.writerows(found.rows())
    return out.getvalue()


def as_json(found: Census) -> str:
    """One object: function, expanded, total, unique, and the list ``ops``."""
    ops = []
    for (name, operands), count in found.counts.items():
        row: dict[str, object] = {"op": name, "count": count}
        if operands:
            row["operands"] = list(operands)
        ops.append(row)
    whole = {
        "function": found.function,
        "expanded": found.expanded,
        "total": found.total,
        "unique": found.unique,
        "ops": ops,
    }
    return json.dumps(whole, indent=1) + "\n"


RENDER: dict[str, Callable[[Census], str]] = {"table": as_table, "csv": as_csv, "json": as_json}


@dataclass(frozen=True)
class OpStatsPass(Pass):
    """Count the ops of the program by kind, and leave it as it is.

    The census goes to stderr, as stdout carries the IR; ``run.results["op-stats"]`` holds it.
    """

    name: ClassVar[str] = "op-stats"
    only_marks: ClassVar[bool] = True

    expand: bool = option(False, "count inside fusions, calls and control flow too")
    format: str = option("table", "table, csv or json")
    input_sensitive: bool = option(False, "tell ops of different operand types apart")
    output: str = option("", "file to write, - for stdout; default stderr")

    def apply(self, module: ir.Module, run: Run) -> None:
        if self.format not in RENDER:
            raise UsageError(
                f"op-stats: there is no format '{self.format}'",
                remedy=nearest(self.format, list(RENDER)),
            )
        found = census(module, expand=self.expand, by_operands=self.input_sensitive)
        run.results[self.name] = found
        text = RENDER[self.format](found)
        if not self.output:
            run.note(text.removesuffix("\n"))
        elif self.output == "-":
            sys.stdout.write(text)
        else:
            file.write_whole(self.output, text.encode())
