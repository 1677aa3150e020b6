"""``hespas trace collective``: write collective algorithms as Chakra traces."""

from __future__ import annotations

import argparse
import dataclasses
from pathlib import Path
from typing import TYPE_CHECKING

from hespas.support.errors import UsageError
from hespas.support.suggestions import suggest_nearest
from hespas.tools.commands.command_parser import CommandParser

if TYPE_CHECKING:
    from hespas.simulators.collectives.collective_program import CollectiveProgram
    from hespas.simulators.collectives.trace_lowering import CollectiveNode

DESCRIPTION = """\
Write a collective algorithm as Chakra traces, one per rank, for the key
<COLLECTIVE>-implementation-custom of system.json. Before anything is written, a proof shows that
every schedule of the algorithm computes the result of the collective.

  hespas trace collective convert allreduce.xml --size 1048576 --system MY_SYSTEM --output custom
  hespas trace collective generate ring --ranks 4 --size 1048576 --system MY_SYSTEM --output custom
"""
FIRST_TAG = 499_000_000  # above the tags of a workload's own messages, below ASTRA-sim's limit


def add_collective_commands(parser: CommandParser) -> None:
    """Add ``collective convert`` and ``collective generate`` to the parser of ``hespas trace``."""
    from hespas.simulators.collectives.standard_algorithms import ABOUT

    group = parser.add_command(
        "collective",
        "write a collective algorithm as traces, from MSCCL XML or generated",
        description=DESCRIPTION,
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
    """Write the traces of an algorithm and print a summary of them."""
    from hespas import configs
    from hespas.workflows.collective_traces import CollectiveTraceOptions, write_collective_traces

    trace_options = CollectiveTraceOptions(
        size_bytes=options.size,
        folder=Path(options.output),
        name=options.name or "",
        system=configs.load_system(options.system) if options.system else None,
        local_bandwidth_gb_s=options.local_mem_bw,
        charge_copies=options.charge_copies,
        rounding=options.rounding,
        node_ids=tuple(options.node),
        first_tag=options.tag,
        verify=not options.no_verify,
    )
    ranks, files = write_collective_traces(program, trace_options)
    _print_collective_report(program, ranks, options, files)
    return 0


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
