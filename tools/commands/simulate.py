"""``hespas simulate``: simulate Chakra traces on a network and print the step time."""

from __future__ import annotations

import argparse
import json
from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from hespas.support.text_tables import print_tables
from hespas.tools.commands.command_parser import (
    CommandParser,
    parse_count,
    parse_positive,
)
from hespas.tools.commands.shared_flags import add_json_flag, add_trace_flags
from hespas.tools.terminal import print_to_stderr

if TYPE_CHECKING:
    from hespas.simulators.simulation_options import SimulatorChoice

DESCRIPTION = """\
Simulate Chakra traces on a network, and print the step time, compute, total and exposed
communication, the collectives with their bandwidths, the critical path, and what to fix first.
TRACES is a folder of PREFIX.N.et files with comm_group.json, written by hespas or any other tool.
In the folder of a run, its system, simulator and network model are the defaults; flags override
them.

  hespas simulate out --timeline step.perfetto-trace
  hespas simulate traces --system A100_SXM_40GB_4GPU
"""
SIMGRID_MODELS = ("CM02", "LV08")


def build_parser() -> CommandParser:
    parser = CommandParser("hespas simulate", DESCRIPTION)
    add = parser.add_argument
    add("traces", metavar="TRACES", help="folder with PREFIX.N.et files and comm_group.json")
    add_trace_flags(parser)
    add(
        "--simgrid-model", choices=SIMGRID_MODELS, default=SIMGRID_MODELS[0],
        help="network model of SimGrid: CM02, which shares links max-min fairly (default), or "
        "LV08, its own default, with effects of TCP",
    )  # fmt: skip
    add(
        "--timeout", type=parse_positive, metavar="S",
        help="time limit of ASTRA-sim (default 3600) or SimGrid (none) in seconds",
    )  # fmt: skip
    add_json_flag(parser)
    add("--per-device", action="store_true", help="print a row for each device, also equal ones")
    add("--timeline", metavar="FILE", help="write a timeline for https://ui.perfetto.dev")
    add(
        "--links", metavar="FILE",
        help="write bytes and utilisation of each link, .csv, .png, .svg or .pdf, and print those "
        "of each dimension; with --timeline, also a counter for each dimension there",
    )  # fmt: skip
    _add_model_options(parser)
    return parser


def _add_model_options(parser: CommandParser) -> None:
    from hespas.tools.model_flags import add_model_flags
    from hespas.workflows.network_settings import NetworkSettings

    title = "network and simulator (default: those of the run, else of the system)"
    add_model_flags(parser, NetworkSettings, title=title, overrides_record=True)
    add = parser.add_argument_group(
        "options of the simulators (a run does not record them)"
    ).add_argument
    add(
        "--micros", action="store_true",
        help="use durations in whole microseconds, as ASTRA-sim reads them from unmodified traces",
    )  # fmt: skip
    add(
        "--queues-per-dim", type=parse_count, metavar="N", default=1,
        help="ASTRA-sim's --num-queues-per-dim (default 1)",
    )  # fmt: skip
    add(
        "--injection-scale", type=parse_positive, metavar="X", default=1.0,
        help="ASTRA-sim's --injection-scale: a factor of the endpoint delay (default 1)",
    )  # fmt: skip
    add("--rendezvous", action="store_true", help="ASTRA-sim's --rendezvous-protocol")
    add(
        "--no-symmetry", action="store_true",
        help="simulate equivalent devices one by one: the same result, slower",
    )  # fmt: skip


def main(argv: Sequence[str]) -> int:
    """Run the command; returns its exit code, raises HespasError."""
    command_line = build_parser().parse_args(argv)

    from hespas.simulators.simulation_options import FLOWS
    from hespas.support.errors import HespasError
    from hespas.workflows import network_settings, simulation_report

    if command_line.links:
        simulation_report.check_link_file(command_line.links)

    overrides = {
        name: value
        for name in network_settings.NetworkSettings.model_fields
        if (value := getattr(command_line, name)) is not None
    }
    network = network_settings.resolve_network(
        command_line.traces, overrides, command_line.prefix, print_to_stderr
    )
    system = network.system
    choice = _complete_choice(network.choice, command_line)
    report = simulation_report.simulate_traces(
        simulation_report.load_trace_inputs(
            command_line.traces, system, command_line.prefix, command_line.comm_groups
        ),
        choice,
        timeline=command_line.timeline,
        note=print_to_stderr,
    )
    link_table = None
    if command_line.links:
        use = report.result.link_use
        if use is None:
            raise HespasError(
                f"{report.result.simulator} reports no use of links",
                remedy="use --simulator embedded",
            )
        link_table = simulation_report.report_link_use(system, use, command_line.links)
        overloaded = simulation_report.find_overloaded_link(use)
        if overloaded is not None:
            has_flows = report.result.settings.network_model == FLOWS
            reason = (
                "what was measured, and NCCL's model, share no links; --curves none "
                "--between-hosts network does"
                if has_flows
                else "ASTRA-sim's rules share no links; --network-model flows does"
            )
            print_to_stderr(
                f"warning: {100 * overloaded.utilisation:.1f} % of the link from "
                f"{overloaded.source} to {overloaded.target} would be used: {reason}"
            )
    if command_line.json:
        values = simulation_report.to_simulation_json(
            report,
            traces=command_line.traces,
            system=system.name,
            per_device=command_line.per_device,
        )
        print(json.dumps(values, indent=1))
    else:
        tables = simulation_report.build_simulation_tables(
            report, system=system.name, per_device=command_line.per_device
        )
        print_tables([*tables, link_table] if link_table else tables)
    return 0


def _complete_choice(choice: SimulatorChoice, command_line: argparse.Namespace) -> SimulatorChoice:
    """Add the options that a run does not record to the choice of a simulator."""
    options = replace(
        choice.options,
        queues_per_dim=command_line.queues_per_dim,
        injection_scale=command_line.injection_scale,
        rendezvous=command_line.rendezvous,
        symmetry=not command_line.no_symmetry,
        links=bool(command_line.links),
    )
    return replace(
        choice,
        options=options,
        timeout_s=command_line.timeout,
        simgrid_model=command_line.simgrid_model,
        exact_durations=not command_line.micros,
    )
