"""Writes a collective algorithm as Chakra traces that simulators can use."""

from __future__ import annotations

import math
from dataclasses import dataclass
from pathlib import Path

from hespas.configs.system_spec import SystemSpec
from hespas.simulators.collectives import program_verifier, trace_files, trace_lowering
from hespas.simulators.collectives.collective_program import COLLECTIVES, KINDS, CollectiveProgram
from hespas.simulators.collectives.trace_lowering import CollectiveNode
from hespas.support.errors import HespasError, UsageError

MAX_TAG = 500_000_000  # ASTRA-sim's limit of message tags


@dataclass(frozen=True)
class CollectiveTraceOptions:
    """Options of ``write_collective_traces``.

    Attributes:
        size_bytes: Operand bytes of one rank.
        folder: The folder for the traces, and for the files of ``system``.
        name: The name of the traces; if empty, it is made of collective, ranks and size.
        system: A system whose files are written to the folder, changed to use the traces.
        local_bandwidth_gb_s: Memory bandwidth of reductions in 1e9 bytes per second; 0 if they
            take no time, None for that of ``system``.
        charge_copies: Whether copies within a rank take time.
        rounding: How times are rounded to microseconds, see ``LocalWorkCosts``.
        node_ids: The nodes of the workload that use the traces; if empty, all collectives of the
            kind do.
        first_tag: The tag of the first message.
        verify: Whether the algorithm must be proved correct.
    """

    size_bytes: int
    folder: Path
    name: str = ""
    system: SystemSpec | None = None
    local_bandwidth_gb_s: float | None = None
    charge_copies: bool = False
    rounding: str = "carry"
    node_ids: tuple[int, ...] = ()
    first_tag: int = 0
    verify: bool = True


def write_collective_traces(
    program: CollectiveProgram, options: CollectiveTraceOptions
) -> tuple[list[list[CollectiveNode]], list[str]]:
    """Write the traces of a collective algorithm; returns the nodes of each rank and the files.

    Raises:
        HespasError: The algorithm is wrong, or a file cannot be written.
    """
    if program.collective not in COLLECTIVES:
        raise HespasError(
            f"{program.name} is a '{program.collective}', which no simulator supports",
            remedy=f"name the kind of collective with --collective: {', '.join(COLLECTIVES)}",
        )
    if options.verify:
        program_verifier.verify_program(program)
    bandwidth = _select_local_bandwidth(program, options)
    if not 0 <= options.first_tag < MAX_TAG:
        raise UsageError(f"--tag is not between 0 and {MAX_TAG - 1}, the range of message tags")
    costs = trace_lowering.LocalWorkCosts(bandwidth, options.charge_copies, options.rounding)
    ranks = trace_lowering.lower_to_nodes(program, options.size_bytes, costs, options.first_tag)
    destination = trace_files.TraceDestination(
        options.folder,
        options.name or f"{program.collective}_{len(program.ranks)}x{options.size_bytes}",
        program.collective,
        options.node_ids,
        options.system,
    )
    other_files = trace_files.write_traces(ranks, program.parts, destination)
    return ranks, [f"{destination.name}.*.et", *other_files]


def _select_local_bandwidth(program: CollectiveProgram, options: CollectiveTraceOptions) -> float:
    bandwidth = options.local_bandwidth_gb_s
    if bandwidth is None:
        has_reductions = any(KINDS[step.kind][1] for _, _, _, step in program.iterate_steps())
        if options.system is None and has_reductions:
            raise UsageError(
                "the time of reductions depends on the memory bandwidth, which is unknown",
                remedy="give --system, or --local-mem-bw (0 for no time)",
            )
        bandwidth = options.system.local_mem_bw_gb_s if options.system is not None else 0.0
    if not 0 <= bandwidth < math.inf:
        raise UsageError(f"--local-mem-bw {bandwidth} is not a bandwidth")
    return bandwidth
