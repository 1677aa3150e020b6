"""``hespas sweep``: many runs at once, as one table."""

from __future__ import annotations

import json
import sys
from collections.abc import Sequence
from typing import Any

from hespas.dialects.errors import UsageError
from hespas.tools.commands.parser import Parser, above_zero, count

DESCRIPTION = """\
Run every combination of programs, nodes, systems, splits, estimators and any other value that
hespas run knows, in parallel, and write one table of the results. FILE is YAML or JSON: a key with
one value is the same in every cell, one with a list is an axis of the grid; flags take the place of
its keys. Finished cells are kept, so that the same command goes on where it was stopped.

  hespas sweep --mlir steps/*.mlir --node A100_SXM_40GB H100_80GB --system '*_4GPU' \\
    --estimator roofline --set node.memory_bandwidth_bytes_per_s=1.5e12,2e12 --output cells.csv
"""
AXES = ("mlir", "node", "system", "split", "estimator")


def arguments() -> Parser:
    parser = Parser("hespas sweep", DESCRIPTION)
    add = parser.add_argument
    add("file", nargs="?", metavar="FILE", help="the sweep: YAML, or JSON (.json)")
    add(
        "--mlir", nargs="+", action="extend", metavar="PROGRAM",
        help="programs, or patterns; {NAME} in one stands for a number, which becomes a column",
    )  # fmt: skip
    add("--node", nargs="+", action="extend", help="node presets, patterns of them, or files")
    add(
        "--system", nargs="+", action="extend",
        help="system presets or folders; of a pattern, those with the program's number of devices",
    )  # fmt: skip
    add("--split", nargs="+", action="extend", help="linear, individual, individual-merge")
    add("--estimator", nargs="+", action="extend", help="estimators")
    add(
        "--set", nargs="+", action="extend", metavar="KEY=VALUE[,VALUE...]", dest="values",
        help="any other key: of hespas run's file, node.KEY, setting.KEY",
    )  # fmt: skip
    add("--output", metavar="FILE", help="the table: .csv, .json or .parquet")
    add("--jobs", type=count, metavar="N", help="worker processes; default: one for each core")
    add("--dask", metavar="ADDRESS", help="run on a Dask cluster instead, tcp://host:port")
    add("--cache", metavar="FILE", default="", help="where cells are kept; none: nowhere")
    add("--timeout", type=above_zero, metavar="S", default=3600.0, help="of a cell; default: 3600")
    add(
        "--columns", metavar="NAME[,NAME...]",
        help="print these columns, or patterns of them, of every cell",
    )  # fmt: skip
    add("--json", action="store_true", help="print the rows as JSON instead of tables")
    add("--keep-going", action="store_true", help="exit with 0 though cells have errors")
    return parser


def main(argv: Sequence[str]) -> int:
    """Run the command; returns its exit code, raises HespasError."""
    given = arguments().parse_args(argv)
    if given.dask and given.jobs:
        raise UsageError("--jobs and --dask exclude each other: the cluster has its own workers")
    if not given.file and not given.mlir:
        raise UsageError("no program is given", remedy="name it with --mlir, or in a file")

    from hespas.tools.commands import flow, render
    from hespas.tools.sweep import run, summary, table

    if given.output:
        table.check_file(given.output)
    cells = _cells(given)
    options = run.Options(given.jobs or _cores(), given.dask or "", given.cache, given.timeout)
    found = run.run(cells, options, flow.to_stderr)
    if given.output:
        table.write(given.output, found.rows, {"hespas sweep": json.dumps(list(argv))})
    if given.json:
        sys.stdout.write(table.as_json(found.rows))
    elif given.columns:
        render.show([summary.chosen(found.rows, given.columns.split(","))])
    else:
        render.show(summary.tables(found, given.output))
    if found.failed:
        flow.to_stderr(f"{found.failed} of {len(found.rows)} cells have an error")
    return 1 if found.failed and not given.keep_going else 0


def _cells(given: Any) -> list[dict[str, Any]]:
    """The cells of the file and the flags; raises HespasError that names the file."""
    from hespas.dialects.errors import HespasError
    from hespas.tools.sweep import spec

    flags = {name: value for name in AXES if (value := getattr(given, name)) is not None}
    flags |= _values(given.values or [])
    file = spec.read(given.file) if given.file else {}
    try:
        return spec.expand(spec.merged(file, flags))
    except UsageError:
        raise
    except HespasError as error:
        if not given.file:
            raise UsageError(error.message, where=error.where, remedy=error.remedy) from None
        error.where = error.where or given.file
        raise


def _values(texts: Sequence[str]) -> dict[str, Any]:
    """``key=1,2`` each, to lists of values; raises UsageError."""
    from hespas.configs.yaml import scalar

    found: dict[str, Any] = {}
    for text in texts:
        key, equals, values = text.partition("=")
        if not equals or not key or not values:
            raise UsageError(f"--set: '{text}' is not KEY=VALUE[,VALUE...]")
        found[key] = [scalar(value) for value in values.split(",")]
    return found


def _cores() -> int:
    from hespas.estimators.measure import host

    return host.cores()
