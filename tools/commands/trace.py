"""``hespas trace``: check and print Chakra traces, and write collective algorithms as traces."""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Sequence
from dataclasses import asdict
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING

from hespas.support.errors import UsageError
from hespas.tools.commands import trace_collective
from hespas.tools.commands.command_parser import CommandParser
from hespas.tools.commands.shared_flags import add_json_flag

if TYPE_CHECKING:
    from hespas.chakra.trace_reader import TraceNode

MAX_PROBLEMS = 50  # printed problems


def build_parser() -> CommandParser:
    parser = CommandParser(
        "hespas trace", "Check and print Chakra traces, and write collective algorithms as traces."
    )
    check = parser.add_command(
        "check", "check that ASTRA-sim can simulate a folder of traces", _check_traces
    )
    add = check.add_argument
    add("folder", metavar="DIR", help="folder with PREFIX.N.et files and comm_group.json")
    add("--prefix", help="name of the traces, if the folder contains several trace sets")
    add(
        "--comm-groups", metavar="FILE",
        help="file of the communicators (default: comm_group.json in the folder)",
    )  # fmt: skip
    add_json_flag(check, "print one JSON object instead of lines of text")
    add("--strict", action="store_true", help="exit with 1 on warnings too")
    show = parser.add_command("print", "print the nodes of a trace, one per line", _print_trace)
    add = show.add_argument
    add("file", metavar="FILE", help="trace of one device (.et)")
    add("--limit", type=int, metavar="N", help="print only the first N nodes")
    trace_collective.add_collective_commands(parser)
    return parser


def main(argv: Sequence[str]) -> int:
    """Run the command; returns its exit code, raises HespasError."""
    return build_parser().run_command(argv)


def _check_traces(options: argparse.Namespace) -> int:
    """Check a folder of traces and print the problems; returns 1 if there are errors."""
    from hespas.chakra.check_traces import check_trace_folder

    report = check_trace_folder(options.folder, options.prefix, options.comm_groups)
    failed = any(problem.severity == "error" or options.strict for problem in report.problems)
    if options.json:
        counts = {"devices": report.devices, "nodes": report.nodes, "ok": not failed}
        problems = [asdict(problem) for problem in report.problems]
        print(json.dumps({**counts, "problems": problems}, indent=1))
        return int(failed)
    for problem in report.problems[:MAX_PROBLEMS]:
        print(problem)
    if len(report.problems) > MAX_PROBLEMS:
        print(f"... and {len(report.problems) - MAX_PROBLEMS} more")
    warnings = sum(problem.count for problem in report.problems) - report.error_count
    print(
        f"{options.folder}: {report.devices} devices, {report.nodes} nodes: "
        f"{report.error_count} errors, {warnings} warnings"
    )
    return int(failed)


def _print_trace(options: argparse.Namespace) -> int:
    """Print a trace, one node per line."""
    from hespas.chakra.trace_reader import read_trace_nodes

    if options.limit is not None and options.limit < 0:
        raise UsageError(f"--limit is {options.limit}; it must be a number of nodes")
    for node in islice(read_trace_nodes(Path(options.file)), options.limit):
        sys.stdout.write(_format_trace_node(node) + "\n")
    return 0


def _format_trace_node(node: TraceNode) -> str:
    """Format id, type, name, dependencies and attributes of a node."""
    from hespas.chakra.schema import CollectiveCommType, NodeType

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
