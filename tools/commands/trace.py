"""``hespas trace``: check and print Chakra traces, and write collective algorithms as traces."""

from __future__ import annotations

import argparse
import dataclasses
import json
import math
import sys
from collections.abc import Sequence
from dataclasses import asdict
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING

from hespas.support.errors import HespasError, UsageError
from hespas.support.suggestions import suggest_nearest
from hespas.tools.commands.command_parser import CommandParser
from hespas.tools.commands.shared_flags import add_json_flag, add_trace_flags

if TYPE_CHECKING:
    from hespas.chakra.trace_reader import TraceNode
    from hespas.configs.system_spec import SystemSpec
    from hespas.simulators.collectives.collective_program import CollectiveProgram
    from hespas.simulators.collectives.trace_lowering import CollectiveNode

MAX_PROBLEMS = 50  # printed problems
COLLECTIVE_DESCRIPTION = """\
Write a collective algorithm as Chakra traces, one per rank, for the key
<COLLECTIVE>-implementation-custom of system.json. Before anything is written, a proof shows that
every schedule of the algorithm computes the result of the collective.

  hespas trace collective convert allreduce.xml --size 1048576 --system MY_SYSTEM --output custom
  hespas trace collective generate ring --ranks 4 --size 1048576 --system MY_SYSTEM --output custom
"""
FIRST_TAG = 499_000_000  # above the tags of a workload's own messages, below ASTRA-sim's limit


def build_parser() -> CommandParser:
    parser = CommandParser(
        "hespas trace", "Check and print Chakra traces, and write collective algorithms as traces."
    )
    check = parser.add_command(
        "check", "check that ASTRA-sim can simulate a folder of traces", _check_traces
    )
    add = check.add_argument
    add("folder", metavar="DIR", help="folder with PREFIX.N.et files and comm_group.json")
    add_trace_flags(check)
    add_json_flag(check, "print one JSON object instead of lines of text")
    add("--strict", action="store_true", help="exit with 1 on warnings too")
    show = parser.add_command("print", "print the nodes of a trace, one per line", _print_trace)
    add = show.add_argument
    add("file", metavar="FILE", help="trace of one device (.et)")
    add("--limit", type=int, metavar="N", help="print only the first N nodes")
    _add_collective_commands(parser)
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


def _add_collective_commands(parser: CommandParser) -> None:
    """Add ``collective convert`` and ``collective generate`` to the parser of ``hespas trace``."""
    from hespas.simulators.collectives.standard_algorithms import ABOUT

    group = parser.add_command(
        "collective",
        "write a collective algorithm as traces, from MSCCL XML or generated",
        description=COLLECTIVE_DESCRIPTION,
    )
    convert = group.add_command(
        "convert", "write an algorithm from MSCCL XML as traces", _convert_algorithm
    )
    convert.add_argument("xml", metavar="IN.xml", help="algorithm in MSCCL's XML")
    convert.add_argument(
        "--collective",
        metavar="NAME",
        help="kind of collective; default: attribute coll of the XML",
    )
    generate = group.add_command(
        "generate", "write a standard algorithm as traces", _generate_algorithm
    )
    generate.add_argument(
        "algorithm",
        metavar="ALGORITHM",
        help="; ".join(f"{name}: {text}" for name, text in ABOUT.items()),
    )
    generate.add_argument(
        "--collective", metavar="NAME", default="all_reduce",
        help="all_reduce (default), all_gather, reduce_scatter or all_to_all",
    )  # fmt: skip
    generate.add_argument("--ranks", type=int, required=True, metavar="N", help="number of ranks")
    generate.add_argument(
        "--local", type=int, default=0, metavar="N",
        help="number of ranks in a host, for the hierarchical algorithm",
    )  # fmt: skip
    generate.add_argument("--xml", metavar="FILE", help="also write the algorithm as MSCCL XML")
    for subparser in (convert, generate):
        _add_common_options(subparser)


def _add_common_options(parser: argparse.ArgumentParser) -> None:
    add = parser.add_argument
    add(
        "--size", type=int, required=True, metavar="BYTES",
        help="operand bytes of one rank; of an all-gather, the bytes that a rank contributes",
    )  # fmt: skip
    add(
        "--output", required=True, metavar="DIR",
        help="folder to write the traces to; other traces in it are kept",
    )  # fmt: skip
    add("--name", help="name of the traces; default: COLLECTIVE_RANKSxBYTES")
    add(
        "--system", metavar="NAME",
        help="system preset or folder; its files are written to DIR, changed to use the traces",
    )  # fmt: skip
    add(
        "--local-mem-bw", type=float, metavar="GB/S",
        help="memory bandwidth that reductions are timed with; 0: they take no time; default: the "
        "bandwidth of --system",
    )  # fmt: skip
    add("--charge-copies", action="store_true", help="also count the time of copies within a rank")
    add(
        "--rounding", choices=("carry", "down"), default="carry",
        help="how times of reductions are rounded to microseconds: add the remainder to the next "
        "reduction (carry, default), or drop it (down)",
    )  # fmt: skip
    add(
        "--node", type=int, action="append", default=[], metavar="ID",
        help="use the traces for this node of the workload only; may be repeated; default: for all "
        "collectives of this kind",
    )  # fmt: skip
    add(
        "--tag", type=int, default=FIRST_TAG, metavar="N",
        help=f"tag of the first message (default {FIRST_TAG})",
    )  # fmt: skip
    add("--no-verify", action="store_true", help="do not prove the algorithm correct")


def _convert_algorithm(options: argparse.Namespace) -> int:
    from hespas.simulators.collectives import msccl_xml
    from hespas.simulators.collectives.collective_program import check_program

    name = _check_collective_name(options.collective)
    program = msccl_xml.read_program(Path(options.xml))
    if name:
        program = dataclasses.replace(program, collective=name)
        check_program(program)
    size = program.count_buffer_bytes(options.size)
    smallest, largest = program.size_limits
    if size < smallest or 0 < largest < size:
        print(
            f"warning: MSCCL does not run {program.name} for {size} bytes: minBytes is {smallest} "
            f"and maxBytes {largest}",
            file=sys.stderr,
        )
    return _write_traces(program, options)


def _generate_algorithm(options: argparse.Namespace) -> int:
    from hespas.simulators.collectives import msccl_xml, standard_algorithms
    from hespas.support.output_file import write_atomically

    name = _check_collective_name(options.collective)
    if options.algorithm not in standard_algorithms.ALGORITHMS:
        remedy = suggest_nearest(options.algorithm, [*standard_algorithms.ALGORITHMS])
        raise UsageError(f"no algorithm is called '{options.algorithm}'", remedy=remedy)
    program = standard_algorithms.generate_program(
        options.algorithm, name, options.ranks, options.local
    )
    code = _write_traces(program, options)
    if options.xml:
        write_atomically(options.xml, msccl_xml.format_program(program).encode())
    return code


def _check_collective_name(text: str | None) -> str:
    """Return the name with underscores; raises UsageError for an unknown one."""
    from hespas.simulators.collectives.collective_program import COLLECTIVES

    name = (text or "").replace("-", "_")
    if name and name not in COLLECTIVES:
        remedy = suggest_nearest(name, [*COLLECTIVES])
        raise UsageError(f"no collective is called '{name}'", remedy=remedy)
    return name


def _write_traces(program: CollectiveProgram, options: argparse.Namespace) -> int:
    """Write the traces of an algorithm and print a summary of them; raises HespasError."""
    from hespas import configs
    from hespas.chakra.schema import MAX_TAG
    from hespas.simulators.collectives import program_verifier, trace_files, trace_lowering
    from hespas.simulators.collectives.collective_program import COLLECTIVES

    system = configs.load_system(options.system) if options.system else None
    if program.collective not in COLLECTIVES:
        raise HespasError(
            f"{program.name} is a '{program.collective}', which no simulator supports",
            remedy=f"name the kind of collective with --collective: {', '.join(COLLECTIVES)}",
        )
    if not options.no_verify:
        program_verifier.verify_program(program)
    bandwidth = _select_local_bandwidth(program, system, options.local_mem_bw)
    if not 0 <= options.tag < MAX_TAG:
        raise UsageError(f"--tag is not between 0 and {MAX_TAG - 1}, the range of message tags")
    costs = trace_lowering.LocalWorkCosts(bandwidth, options.charge_copies, options.rounding)
    ranks = trace_lowering.lower_to_nodes(program, options.size, costs, options.tag)
    destination = trace_files.TraceDestination(
        Path(options.output),
        options.name or f"{program.collective}_{len(program.ranks)}x{options.size}",
        program.collective,
        tuple(options.node),
        system,
    )
    files = trace_files.write_traces(ranks, program.parts, destination)
    _print_collective_report(program, ranks, options, [f"{destination.name}.*.et", *files])
    return 0


def _select_local_bandwidth(
    program: CollectiveProgram, system: SystemSpec | None, bandwidth: float | None
) -> float:
    """Return the memory bandwidth of reductions in 1e9 B/s; raises UsageError if unknown."""
    from hespas.simulators.collectives.collective_program import KINDS

    if bandwidth is None:
        has_reductions = any(KINDS[step.kind][1] for _, _, _, step in program.iterate_steps())
        if system is None and has_reductions:
            raise UsageError(
                "the time of reductions depends on the memory bandwidth, which is unknown",
                remedy="give --system, or --local-mem-bw (0 for no time)",
            )
        bandwidth = system.local_mem_bw_gb_s if system is not None else 0.0
    if not 0 <= bandwidth < math.inf:
        raise UsageError(f"--local-mem-bw {bandwidth} is not a bandwidth")
    return bandwidth


def _print_collective_report(
    program: CollectiveProgram,
    ranks: list[list[CollectiveNode]],
    options: argparse.Namespace,
    files: list[str],
) -> None:
    from hespas.chakra.schema import NodeType

    sends_by_rank = [
        [node for node in nodes if node.type == NodeType.COMM_SEND_NODE] for nodes in ranks
    ]
    largest_sends = max(sends_by_rank, key=lambda nodes: sum(node.size_bytes for node in nodes))
    reductions = max(sum(node.type == NodeType.COMP_NODE for node in nodes) for nodes in ranks)
    proof = "not verified" if options.no_verify else "verified: every schedule is correct"
    print(
        f"{program.name}: {program.collective} of {options.size} bytes over {len(ranks)} ranks\n"
        f"  each rank sends up to {len(largest_sends)} messages, "
        f"{sum(node.size_bytes for node in largest_sends)} bytes, "
        f"and reduces up to {reductions} times\n"
        f"  {proof}\n"
        f"  {options.output}: {', '.join(files)}"
    )
