"""``hespas chakra check DIR`` and ``hespas chakra print FILE``."""

from __future__ import annotations

import json
import sys
from collections.abc import Sequence
from itertools import islice
from pathlib import Path

from hespas.chakra import check as checking
from hespas.chakra.reader import Node, read
from hespas.chakra.schema import CollectiveCommType, NodeType
from hespas.dialects.errors import UsageError
from hespas.tools.commands.parser import Parser

SHOWN = 50  # problems printed, of either kind


def arguments() -> Parser:
    parser = Parser("hespas chakra", "Check or print Chakra traces.")
    commands = parser.add_subparsers(dest="command", required=True, metavar="COMMAND")
    one = commands.add_parser(
        "check", description="", help="find what ASTRA-sim would fail on in a trace folder"
    )
    one.add_argument("folder", help="with PREFIX.N.et files and comm_group.json")
    one.add_argument("--prefix", help="the traces' name, where there are several")
    one.add_argument("--json", action="store_true", help="one JSON object on stdout")
    one.add_argument("--strict", action="store_true", help="fail on warnings too")
    two = commands.add_parser("print", description="", help="print a trace file readably")
    two.add_argument("file", help="an .et file")
    two.add_argument("--limit", type=int, default=None, help="print the first N nodes only")
    return parser


def main(argv: Sequence[str]) -> int:
    """Run ``check`` or ``print``; returns the exit code, raises HespasError."""
    found = arguments().parse_args(list(argv))
    if found.command == "check":
        return check(found.folder, found.prefix, as_json=found.json, strict=found.strict)
    if found.limit is not None and found.limit < 0:
        raise UsageError(f"--limit is {found.limit}: it takes a number of nodes")
    return print_trace(found.file, found.limit)


def check(
    folder: str, prefix: str | None = None, *, as_json: bool = False, strict: bool = False
) -> int:
    """Check a folder of traces and print what is wrong; 1 where there are errors."""
    report = checking.report(folder, prefix)
    failed = any(p.severity == "error" or strict for p in report.problems)
    if as_json:
        rows = [
            {
                "severity": p.severity,
                "rule": p.rule,
                "text": p.text,
                "where": p.where,
                "count": p.count,
            }
            for p in report.problems
        ]
        counts = {"devices": report.devices, "nodes": report.nodes, "ok": not failed}
        print(json.dumps({**counts, "problems": rows}, indent=1))
        return int(failed)
    for problem in report.problems[:SHOWN]:
        print(problem)
    if len(report.problems) > SHOWN:
        print(f"... and {len(report.problems) - SHOWN} more")
    warnings = sum(p.count for p in report.problems) - report.errors
    print(
        f"{folder}: {report.devices} devices, {report.nodes} nodes: "
        f"{report.errors} errors, {warnings} warnings"
    )
    return int(failed)


def print_trace(file: str, limit: int | None = None) -> int:
    """Print a trace, one node a line."""
    path = Path(file)
    for node in islice(read(path), limit):
        sys.stdout.write(line(node) + "\n")
    return 0


def line(node: Node) -> str:
    """One node readably: id, type, name, dependencies, and its attributes without their kinds."""
    try:
        kind = NodeType(node.type).name.removesuffix("_NODE")
    except ValueError:
        kind = str(node.type)
    words = [f"{node.id:>6} {kind:<9} {node.name!r}"]
    if node.duration_us or node.type == NodeType.COMP_NODE:
        words.append(f"{node.duration_us}us")
    if node.data_deps:
        words.append(f"after {','.join(map(str, node.data_deps))}")
    if node.ctrl_deps:
        words.append(f"ctrl {','.join(map(str, node.ctrl_deps))}")
    for name, (_, value) in node.attrs.items():
        if name == "comm_type" and value in iter(CollectiveCommType):
            value = CollectiveCommType(value).name
        if not (name == "is_cpu_op" and value is False):
            words.append(f"{name}={value}")
    return "  ".join(words)
