"""The flags of ``hespas study serving`` that describe its load."""

from __future__ import annotations

import argparse
import math
from typing import TYPE_CHECKING

from hespas.support.errors import UsageError
from hespas.tools.commands.command_parser import CommandParser, parse_count

if TYPE_CHECKING:
    from hespas.workflows.studies.serving import LoadOptions
    from hespas.workflows.studies.study_output import StudyOutput


# The fields of LoadOptions whose flags have the same values.
NAMED_FIELDS = (
    "trace", "requests", "prompt_tokens", "output_tokens", "seed", "replicas", "memory_share",
    "policy", "chunk_tokens", "slots",
)  # fmt: skip


def add_load_flags(parser: CommandParser) -> None:
    """Add the flags of requests, servers and limits, and of the page."""
    add = parser.add_argument
    add_page_flag(parser)
    add(
        "--trace", default="", metavar="FILE",
        help="requests, as CSV with the columns arrival_s,prompt_tokens,output_tokens",
    )  # fmt: skip
    add(
        "--rates", default="", metavar="LIST",
        help="mean rates of arrivals in requests/s, without --trace; default: 25, 50, 75 and 90 %% "
        "of what the servers reach if all requests arrive at once",
    )  # fmt: skip
    add(
        "--clients", default="", metavar="LIST",
        help="numbers of clients of each server, instead of rates; each sends its next request "
        "when its last one has ended",
    )  # fmt: skip
    add("--requests", type=parse_count, default=500, metavar="N",
        help="requests of each load; with --clients, of each server")  # fmt: skip
    add("--prompt-tokens", type=parse_count, default=1024, metavar="N", help="of each request")
    add("--output-tokens", type=parse_count, default=128, metavar="N", help="of each request")
    add("--seed", type=int, default=0, metavar="N", help="selects the random arrivals")
    add(
        "--replicas", type=parse_count, default=1, metavar="N",
        help="equal servers, to which requests are dealt in turn (data parallelism)",
    )  # fmt: skip
    add(
        "--policy", choices=("alternate", "prefill-first"), default="alternate",
        help="alternate: a decode step follows each prefill step, the work of a step of servers "
        "that do both in one; prefill-first: waiting requests are prefilled before any decode step",
    )  # fmt: skip
    add(
        "--chunk-tokens", type=parse_count, metavar="N",
        help="most tokens of a prompt that one step prefills; default: whole prompts",
    )  # fmt: skip
    add(
        "--slots", type=parse_count, metavar="N",
        help="most requests that a server runs at once, as max_batch_size of TensorRT-LLM and "
        "max_num_seqs of vLLM; default: the largest of --batches",
    )  # fmt: skip
    add(
        "--memory-share", type=float, default=0.9, metavar="X",
        help="share of a device's memory for weights, activations and cache; default: 0.9",
    )  # fmt: skip
    add("--ttft-limit", type=float, metavar="S", help="longest time to the first token of a good "
        "request, in seconds")  # fmt: skip
    add("--tpot-limit", type=float, metavar="S", help="longest time per output token after the "
        "first one of a good request, in seconds")  # fmt: skip


def parse_load_options(options: argparse.Namespace) -> LoadOptions:
    """Make the options of the load; raises HespasError."""
    from hespas.workflows.studies.serving import LatencyLimits, LoadOptions
    from hespas.workflows.studies.study_definition import parse_positive_count
    from hespas.workflows.studies.study_output import parse_value_list

    if sum(map(bool, (options.trace, options.rates, options.clients))) > 1:
        raise UsageError("--trace, --rates and --clients exclude each other")
    if not 0 < options.memory_share <= 1:
        raise UsageError(f"--memory-share is {options.memory_share:g}, not a share above 0")
    for flag in ("ttft_limit", "tpot_limit"):
        limit_s = getattr(options, flag)
        if limit_s is not None and not limit_s > 0:
            raise UsageError(f"--{flag.replace('_', '-')} is {limit_s:g}, not a time above 0")
    named = {name: getattr(options, name) for name in NAMED_FIELDS}
    return LoadOptions(
        rates=parse_value_list(options.rates, _parse_rate, "--rates") if options.rates else (),
        clients=parse_value_list(options.clients, parse_positive_count, "--clients")
        if options.clients
        else (),
        limits=LatencyLimits(options.ttft_limit, options.tpot_limit),
        **named,
    )


def _parse_rate(text: str) -> float:
    try:
        rate = float(text)
    except ValueError:
        rate = math.nan
    if not 0 < rate < math.inf:
        raise UsageError(f"'{text}' is not a rate in requests/s")
    return rate


def add_page_flag(parser: CommandParser) -> None:
    """Add the flag of the page of a study."""
    parser.add_argument("--page", metavar="FILE", help="write the tables as an HTML page")


def write_page(path: str, title: str, output: StudyOutput) -> None:
    """Write the tables and the chart of the study as a page; raises HespasError."""
    from hespas.support.output_file import write_atomically
    from hespas.tools.report.table_page import render_table_page

    page = render_table_page(title, "; ".join(output.notes), output.tables, output.gantt)
    write_atomically(path, page)
