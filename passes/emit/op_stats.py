"""``--op-stats``: count the ops of a program by name."""

from __future__ import annotations

import csv
import io
import json
import sys
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, ClassVar

from hespas.dialects.mlir import collect_functions, get_symbol_name, ir
from hespas.dialects.op_kinds import (
    CALLEE,
    CONTROL,
    FUSION,
    MANUAL_COMPUTATION,
    find_entry_function,
)
from hespas.passes.base import FACTS, Pass, PassRun, option
from hespas.support import output_file
from hespas.support.errors import HespasError, UsageError
from hespas.support.suggestions import suggest_nearest

OpKey = tuple[str, tuple[str, ...]]

NAME_WIDTH, COUNT_WIDTH = 30, 5  # columns of the table, as in the published analyzer
RULE = "-" * (NAME_WIDTH + COUNT_WIDTH)

# ``expand`` counts the bodies of these ops, and the functions that ``CALLEE`` ops call, instead of
# the op itself.
REPLACED_BY_BODY = (FUSION, MANUAL_COMPUTATION)


@dataclass(frozen=True)
class OpCensus:
    """The number of ops of each kind in a program.

    Attributes:
        function: The name of the entry function.
        expanded: Whether ops inside fusions, calls and control flow are counted.
        counts: Counts by op name and operand types, most frequent first. The types are empty
            unless ops are distinguished by them.
    """

    function: str
    expanded: bool
    counts: dict[OpKey, int]

    @property
    def total_op_count(self) -> int:
        """The number of ops."""
        return sum(self.counts.values())

    @property
    def unique_op_count(self) -> int:
        """The number of kinds of ops."""
        return len(self.counts)

    def iterate_rows(self) -> Iterator[tuple[str, int]]:
        """Yield (name, count); the name includes operand types if they are distinguished."""
        for (name, operands), count in self.counts.items():
            yield (f"{name}({', '.join(operands)})" if operands else name), count


def count_program_ops(
    module: ir.Module,
    *,
    function: ir.Operation | None = None,
    expand: bool = False,
    by_operands: bool = False,
) -> OpCensus:
    """Count the ops of a function, each once however often it runs.

    Args:
        module: The module.
        function: The function; None for the entry function.
        expand: Count the ops inside fusions and calls instead of the fusion or call, and the
            bodies of control flow too, all with their terminators. The bodies of reducers and
            comparators are never counted.
        by_operands: Count ops with different operand types separately.
    """
    main = function or find_entry_function(module)
    counts = _OpCounter(collect_functions(module), expand, by_operands).count_function(main)
    ordered = sorted(counts.items(), key=lambda item: (-item[1], item[0]))
    return OpCensus(get_symbol_name(main), expand, dict(ordered))


class _OpCounter:
    def __init__(
        self, named_functions: dict[str, ir.Operation], expand: bool, by_operands: bool
    ) -> None:
        self.functions = named_functions
        self.expand = expand
        self.by_operands = by_operands
        self.types: dict[ir.Type, str] = {}
        self.done: dict[str, Counter[OpKey]] = {}
        self.open: list[str] = []

    def count_function(self, function: ir.Operation) -> Counter[OpKey]:
        counts: Counter[OpKey] = Counter()
        self.count_bodies(function, counts)
        return counts

    def count_bodies(self, op: ir.Operation, counts: Counter[OpKey]) -> None:
        for region in op.regions:
            for block in region.blocks:
                for inner in block.operations:
                    self.count_single_op(inner.operation, counts)

    def count_single_op(self, op: ir.Operation, counts: Counter[OpKey]) -> None:
        name = op.name
        if self.expand:
            attributes: Any = op.attributes
            if name in CALLEE and CALLEE[name] in attributes:
                counts.update(self.count_callee(op, attributes[CALLEE[name]].value))
                return
            if name in REPLACED_BY_BODY:
                self.count_bodies(op, counts)
                return
            # Other bodies (reducers, comparators) are part of an op.
            if name in CONTROL:
                self.count_bodies(op, counts)
        counts[name, self.read_operand_types(op) if self.by_operands else ()] += 1

    def count_callee(self, op: ir.Operation, name: str) -> Counter[OpKey]:
        if name in self.open:
            raise HespasError(f"@{name} calls itself", op=op)
        if name not in self.done:
            self.open.append(name)
            self.done[name] = self.count_function(self.functions[name])
            self.open.pop()
        return self.done[name]

    def read_operand_types(self, op: ir.Operation) -> tuple[str, ...]:
        texts = []
        for operand in op.operands:
            kind = operand.type
            if kind not in self.types:
                self.types[kind] = str(kind)
            texts.append(self.types[kind])
        return tuple(texts)


def render_census_table(op_census: OpCensus) -> str:
    """Render lines ``  name....: count``, most frequent first, between a head and the total."""
    lines = [RULE, f"{'Unique Operators':<{NAME_WIDTH}}: {op_census.unique_op_count}", ""]
    lines += [_format_table_line(name, count) for name, count in op_census.iterate_rows()]
    lines += [RULE, _format_table_line("Total Operators", op_census.total_op_count)]
    return "\n".join(lines) + "\n"


def _format_table_line(name: str, count: int) -> str:
    return f"  {name:.<{NAME_WIDTH}}: {count:>{COUNT_WIDTH}}"


def render_census_csv(op_census: OpCensus, *, header: bool = True) -> str:
    """Render a header ``op,count`` and one row for each kind."""
    out = io.StringIO()
    writer = csv.writer(out, lineterminator="\n")
    if header:
        writer.writerow(["op", "count"])
    writer.writerows(op_census.iterate_rows())
    return out.getvalue()


def render_census_json(op_census: OpCensus) -> str:
    """Render an object with ``function``, ``expanded``, ``total``, ``unique`` and ``ops``."""
    ops = []
    for (name, operands), count in op_census.counts.items():
        row: dict[str, object] = {"op": name, "count": count}
        if operands:
            row["operands"] = list(operands)
        ops.append(row)
    report = {
        "function": op_census.function,
        "expanded": op_census.expanded,
        "total": op_census.total_op_count,
        "unique": op_census.unique_op_count,
        "ops": ops,
    }
    return json.dumps(report, indent=1) + "\n"


RENDERERS: dict[str, Callable[[OpCensus], str]] = {
    "table": render_census_table,
    "csv": render_census_csv,
    "json": render_census_json,
}


@dataclass(frozen=True)
class OpStatsPass(Pass):
    """Count the ops of the program by name.

    A prepared module is brought up to date first, as by all passes that read the program.
    The census goes to stderr, because stdout carries the IR. ``apply`` returns the ``OpCensus``.
    """

    name: ClassVar[str] = "op-stats"
    keeps: ClassVar[frozenset[str]] = FACTS
    only_marks: ClassVar[bool] = True

    expand: bool = option(False, "count the ops inside fusions, calls and control flow")
    format: str = option("table", "table, csv or json")
    input_sensitive: bool = option(False, "count ops with different operand types separately")
    output: str = option("", "file to write; -: stdout; default: stderr")

    def apply(self, module: ir.Module, run: PassRun) -> OpCensus:
        if self.format not in RENDERERS:
            raise UsageError(
                f"op-stats: there is no format '{self.format}'",
                remedy=suggest_nearest(self.format, list(RENDERERS)),
            )
        from hespas.passes.pipeline import refresh_facts  # it imports the registry of passes

        refresh_facts(module, run)
        op_census = count_program_ops(module, expand=self.expand, by_operands=self.input_sensitive)
        text = RENDERERS[self.format](op_census)
        if not self.output:
            run.note(text.removesuffix("\n"))
        elif self.output == "-":
            sys.stdout.write(text)
        else:
            output_file.write_atomically(self.output, text.encode())
        return op_census
