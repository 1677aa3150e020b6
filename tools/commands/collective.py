"""``hespas collective``: collective algorithms of one's own, from MSCCL XML or generated."""

from __future__ import annotations

import argparse
import math
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from hespas.support.errors import HespasError, UsageError
from hespas.tools.commands.command_parser import CommandParser

if TYPE_CHECKING:
    from hespas.simulators.collectives.collective_program import CollectiveProgram
    from hespas.simulators.collectives.trace_lowering import CollectiveNode

DESCRIPTION = """\
Write a collective algorithm as Chakra traces, one per rank, for the key
<COLLECTIVE>-implementation-custom of system.json. It is proved first that every schedule of the
algorithm ends in the collective's result.

  hespas collective convert allreduce.xml --size 1048576 --system MY_SYSTEM --output custom
  hespas collective generate ring --ranks 4 --size 1048576 --system MY_SYSTEM --output custom
"""
TAG = 499_000_000  # beyond the tags of a workload's own messages, below ASTRA-sim's limit


def build_parser() -> CommandParser:
    from hespas.simulators.collectives.standard_algorithms import ABOUT

    parser = CommandParser("hespas collective", DESCRIPTION)
    commands = parser.add_subparsers(dest="command", required=True, metavar="COMMAND")
    convert = commands.add_parser("convert", help="from MSCCL XML", description="")
    convert.add_argument("xml", metavar="IN.xml", help="the algorithm, in MSCCL's XML")
    convert.add_argument("--collective", metavar="NAME", help="what it is, if not what coll says")
    generate = commands.add_parser("generate", help="a standard algorithm", description="")
    generate.add_argument(
        "algorithm",
        metavar="ALGORITHM",
        help="; ".join(f"{name}: {text}" for name, text in ABOUT.items()),
    )
    generate.add_argument(
        "--collective", metavar="NAME", default="all_reduce",
        help="all_reduce (default), all_gather, reduce_scatter, all_to_all",
    )  # fmt: skip
    generate.add_argument("--ranks", type=int, required=True, metavar="N")
    generate.add_argument("--local", type=int, default=0, metavar="N", help="ranks in a node")
    generate.add_argument("--xml", metavar="FILE", help="write MSCCL XML too")
    for subparser in (convert, generate):
        _add_common_options(subparser)
    return parser


def _add_common_options(parser: argparse.ArgumentParser) -> None:
    add = parser.add_argument
    add(
        "--size", type=int, required=True, metavar="BYTES",
        help="operand bytes of one rank (of an all-gather, its share)",
    )  # fmt: skip
    add("--output", required=True, metavar="DIR", help="folder for the traces; others there stay")
    add("--name", help="the traces' name; default: COLLECTIVE_RANKSxBYTES")
    add(
        "--system", metavar="NAME",
        help="preset or folder: its files go to the output, changed to use the traces",
    )  # fmt: skip
    add(
        "--local-mem-bw", type=float, metavar="GB/S",
        help="what reductions are timed with; default: the system's; 0: they take no time",
    )  # fmt: skip
    add("--charge-copies", action="store_true", help="copies within a rank take time too")
    add(
        "--rounding", choices=("carry", "down"), default="carry",
        help="of reductions to whole microseconds: carry the rest on (default), or drop it",
    )  # fmt: skip
    add(
        "--node", type=int, action="append", default=[], metavar="ID",
        help="for this node of the workload only, instead of for all such collectives",
    )  # fmt: skip
    add("--tag", type=int, default=TAG, metavar="N", help=f"first message tag (default {TAG})")
    add("--no-verify", action="store_true", help="write it without the proof")


def main(argv: Sequence[str]) -> int:
    """Run the command; returns its exit code, raises HespasError."""
    options = build_parser().parse_args(argv)

    from hespas import configs
    from hespas.simulators.collectives import program_verifier, trace_files, trace_lowering
    from hespas.simulators.collectives.collective_program import COLLECTIVES

    system = configs.load_system(options.system) if options.system else None
    program = _build_collective_program(options)
    if program.collective not in COLLECTIVES:
        raise HespasError(
            f"{program.name} is a '{program.collective}', which no simulator plays",
            remedy=f"say what it is with --collective: {', '.join(COLLECTIVES)}",
        )
    if not options.no_verify:
        program_verifier.verify_program(program)
    count = len(program.ranks)
    bandwidth = options.local_mem_bw
    if bandwidth is None:
        if system is None and _has_reductions(program):
            raise UsageError(
                "reductions take time, which depends on the memory",
                remedy="give --system, or --local-mem-bw (0 for no time)",
            )
        bandwidth = system.local_mem_bw_gb_s if system is not None else 0.0
    if not 0 <= bandwidth < math.inf:
        raise UsageError(f"--local-mem-bw {bandwidth} is no bandwidth")
    if not 0 <= options.tag < 500_000_000:
        raise UsageError("--tag is not between 0 and 499999999, the tags of messages")
    costs = trace_lowering.LocalWorkCosts(bandwidth, options.charge_copies, options.rounding)
    ranks = trace_lowering.lower_to_nodes(program, options.size, costs, options.tag)
    place = trace_files.TraceDestination(
        Path(options.output),
        options.name or f"{program.collective}_{count}x{options.size}",
        program.collective,
        tuple(options.node),
        system,
    )
    others = trace_files.write_traces(ranks, program.parts, place)
    if options.command == "generate" and options.xml:
        from hespas.simulators.collectives import msccl_xml
        from hespas.support.output_file import write_atomically

        write_atomically(options.xml, msccl_xml.format_program(program).encode())
    _print_collective_report(program, ranks, options, [f"{place.name}.*.et", *others])
    return 0


def _build_collective_program(options: argparse.Namespace) -> CollectiveProgram:
    import dataclasses

    from hespas.simulators.collectives import msccl_xml, standard_algorithms
    from hespas.simulators.collectives.collective_program import COLLECTIVES, check_program
    from hespas.support.suggestions import suggest_nearest

    name = (options.collective or "").replace("-", "_")
    if name and name not in COLLECTIVES:
        raise UsageError(
            f"no collective is called '{name}'", remedy=suggest_nearest(name, [*COLLECTIVES])
        )
    if options.command == "convert":
        program = msccl_xml.read_program(Path(options.xml))
        if name:
            program = dataclasses.replace(program, collective=name)
            check_program(program)
        return program
    if options.algorithm not in standard_algorithms.ALGORITHMS:
        remedy = suggest_nearest(options.algorithm, [*standard_algorithms.ALGORITHMS])
        raise UsageError(f"no algorithm is called '{options.algorithm}'", remedy=remedy)
    return standard_algorithms.generate_program(
        options.algorithm, name, options.ranks, options.local
    )


def _has_reductions(program: CollectiveProgram) -> bool:
    from hespas.simulators.collectives.collective_program import KINDS

    return any(KINDS[step.kind][1] for _, _, _, step in program.iterate_steps())


def _print_collective_report(
    program: CollectiveProgram,
    ranks: Sequence[Sequence[CollectiveNode]],
    options: argparse.Namespace,
    files: list[str],
) -> None:
    from hespas.chakra.schema import NodeType

    sent = [[n for n in nodes if n.type == NodeType.COMM_SEND_NODE] for nodes in ranks]
    most = max(sent, key=lambda nodes: sum(n.size_bytes for n in nodes))
    work = max(sum(n.type == NodeType.COMP_NODE for n in nodes) for nodes in ranks)
    print(
        f"{program.name}: {program.collective} of {options.size} bytes over {len(ranks)} ranks\n"
        f"  each sends up to {len(most)} messages, {sum(n.size_bytes for n in most)} bytes, "
        f"and reduces up to {work} times\n"
        f"  {'not verified' if options.no_verify else 'verified: every schedule ends right'}\n"
        f"  {options.output}: {', '.join(files)}"
    )
