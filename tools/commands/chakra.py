"""``hespas chakra check DIR`` and ``hespas chakra print FILE``."""

from __future__ import annotations

import json
import sys
from collections.abc import Sequence
from itertools import islice
from pathlib import Path

from hespas.chakra import check_traces as checking
from hespas.chakra.schema import CollectiveCommType, NodeType
from hespas.chakra.trace_reader import TraceNode, read_trace_nodes
from hespas.support.errors import UsageError
from hespas.tools.commands.command_parser import CommandParser

SHOWN = 50  # problems printed, of either kind


def build_parser() -> CommandParser:
    parser = CommandParser("hespas chakra", "Check or print Chakra traces.")
    commands = parser.add_subparsers(dest="command", required=True, metavar="COMMAND")
    check_parser = commands.add_parser(
        "check", description="", help="find what ASTRA-sim would fail on in a trace folder"
    )
    check_parser.add_argument("folder", help="with PREFIX.N.et files and comm_group.json")
    check_parser.add_argument("--prefix", help="the traces' name, where there are several")
    check_parser.add_argument("--json", action="store_true", help="one JSON object on stdout")
    check_parser.add_argument("--strict", action="store_true", help="fail on warnings too")
    print_parser = commands.add_parser("print", description="", help="print a trace file readably")
    print_parser.add_argument("file", help="an .et file")
    print_parser.add_argument(
        "--limit", type=int, default=None, help="print the first N nodes only"
    )
    return parser


def main(argv: Sequence[str]) -> int:
    """Run ``check`` or ``print``; returns the exit code, raises HespasError."""
    options = build_parser().parse_args(list(argv))
    if options.command == "check":
        return _check_trace_folder(
            options.folder, options.prefix, as_json=options.json, strict=options.strict
        )
    if options.limit is not None and options.limit < 0:
        raise UsageError(f"--limit is {options.limit}: it takes a number of nodes")
    return _print_trace_file(options.file, options.limit)


def _check_trace_folder(
    folder: str, prefix: str | None = None, *, as_json: bool = False, strict: bool = False
) -> int:
    """Check a folder of traces and print what is wrong; 1 where there are errors."""
    report = checking.check_trace_folder(folder, prefix)
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
    warnings = sum(p.count for p in report.problems) - report.error_count
    print(
        f"{folder}: {report.devices} devices, {report.nodes} nodes: "
        f"{report.error_count} errors, {warnings} warnings"
    )
    return int(failed)


def _print_trace_file(file: str, limit: int | None = None) -> int:
    """Print a trace, one node a line."""
    path = Path(file)
    for node in islice(read_trace_nodes(path), limit):
        sys.stdout.write(_format_trace_node(node) + "\n")
    return 0


def _format_trace_node(node: TraceNode) -> str:
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
