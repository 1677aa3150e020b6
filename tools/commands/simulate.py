"""``hespas simulate``: simulate Chakra traces on a network and print the step time."""

from __future__ import annotations

import json
from collections.abc import Sequence

from hespas.tools.commands.command_parser import (
    CommandParser,
    parse_count,
    parse_non_negative,
    parse_positive,
)

DESCRIPTION = """\
Simulate Chakra traces on a network, and print the step time, compute, total and exposed
communication, the collectives with their bandwidths, the critical path, and what to fix first.
TRACES is a folder of PREFIX.N.et files with comm_group.json, written by hespas or any other tool.

  hespas simulate out --system A100_SXM_40GB_4GPU --timeline step.perfetto-trace
"""
SIMULATORS = ("auto", "embedded", "astra-sim", "both")


def build_parser() -> CommandParser:
    parser = CommandParser("hespas simulate", DESCRIPTION)
    add = parser.add_argument
    add("traces", metavar="TRACES", help="folder with PREFIX.N.et files and comm_group.json")
    add(
        "--system", required=True, metavar="NAME",
        help="system preset (hespas presets systems lists them), or folder with network.yml and "
        "system.json",
    )  # fmt: skip
    add("--prefix", help="name of the traces, if the folder contains several trace sets")
    add(
        "--simulator", choices=SIMULATORS, default="auto",
        help="embedded; astra-sim, which must be installed; auto (default): astra-sim if it is "
        "installed and supports the traces; both: run both, and fail if they differ",
    )  # fmt: skip
    add("--astra-sim", metavar="PATH", help="ASTRA-sim executable; by default searched on PATH")
    add(
        "--timeout", type=parse_positive, metavar="S",
        help="time limit of ASTRA-sim in seconds (default 3600)",
    )  # fmt: skip
    add("--json", action="store_true", help="print one JSON object instead of tables")
    add("--per-device", action="store_true", help="print a row for each device, also equal ones")
    add("--timeline", metavar="FILE", help="write a timeline for https://ui.perfetto.dev")
    _add_model_options(parser)
    return parser


def _add_model_options(parser: CommandParser) -> None:
    title = "network model (default: that of ASTRA-sim's congestion-unaware backend)"
    add = parser.add_argument_group(title).add_argument
    add("--congestion", action="store_true", help="messages on a link share its bandwidth")
    add(
        "--by-dimension", action="store_true",
        help="run collectives between some of the devices dimension by dimension, and charge "
        "messages for all dimensions that they cross",
    )  # fmt: skip
    add(
        "--curves", metavar="DEVICE", default="",
        help="use collective timings measured on DEVICE where they exist",
    )  # fmt: skip
    add(
        "--slowdown", type=parse_non_negative, metavar="X", default=0.0,
        help="share by which compute takes longer while communication runs, such as 0.18",
    )  # fmt: skip
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

    from hespas import configs
    from hespas.simulators.simulation_options import SimulationOptions, SimulatorChoice
    from hespas.support import text_tables
    from hespas.tools.terminal import print_to_stderr
    from hespas.workflows import simulation_report

    system = configs.load_system(command_line.system)
    options = SimulationOptions(
        queues_per_dim=command_line.queues_per_dim,
        injection_scale=command_line.injection_scale,
        rendezvous=command_line.rendezvous,
        congestion=command_line.congestion,
        by_dimension=command_line.by_dimension,
        curves=command_line.curves,
        slowdown=command_line.slowdown,
        symmetry=not command_line.no_symmetry,
    )
    report = simulation_report.simulate_trace_folder(
        command_line.traces,
        system,
        SimulatorChoice(
            simulator=command_line.simulator,
            options=options,
            astra_sim=command_line.astra_sim,
            timeout_s=command_line.timeout,
            exact_durations=not command_line.micros,
        ),
        prefix=command_line.prefix,
        timeline=command_line.timeline,
        note=print_to_stderr,
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
        text_tables.print_tables(tables)
    return 0
