"""``hespas simulate``: the step time of a folder of Chakra traces on a network."""

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
Simulate Chakra traces on a network: step time, compute, communication total and exposed, the
collectives with their bandwidths, the critical path, and what to fix first. TRACES is a folder of
PREFIX.N.et files with comm_group.json, of hespas or of any other tool.

  hespas simulate out --system A100_SXM_40GB_4GPU --timeline step.perfetto-trace
"""
SIMULATORS = ("auto", "embedded", "astra-sim", "both")


def build_parser() -> CommandParser:
    parser = CommandParser("hespas simulate", DESCRIPTION)
    add = parser.add_argument
    add("traces", help="folder with PREFIX.N.et files and comm_group.json")
    add(
        "--system",
        required=True,
        metavar="NAME",
        help="system preset (hespas presets systems), or folder with network.yml and system.json",
    )
    add("--prefix", help="the traces' name, where the folder has several programs")
    add(
        "--simulator",
        choices=SIMULATORS,
        default="auto",
        help="embedded; astra-sim, which must be installed; auto (default): astra-sim where it is "
        "found and can do it; both: fail where they disagree",
    )
    add("--astra-sim", metavar="PATH", help="the ASTRA-sim program, where it is not on PATH")
    add(
        "--timeout", type=parse_positive, metavar="S", help="seconds that ASTRA-sim may take (3600)"
    )
    add("--json", action="store_true", help="print one JSON object instead of tables")
    add("--per-device", action="store_true", help="one row a device, not one for equal ones")
    add("--timeline", metavar="FILE", help="write a timeline for https://ui.perfetto.dev")
    model = parser.add_argument_group("what is modelled (ASTRA-sim's congestion-unaware otherwise)")
    add = model.add_argument
    add("--congestion", action="store_true", help="messages share links")
    add(
        "--by-dimension",
        action="store_true",
        help="collectives between some devices go dimension by dimension, and messages pay for "
        "all dimensions that they cross",
    )
    add(
        "--curves",
        metavar="DEVICE",
        default="",
        help="collectives take what was measured on this device, where it was",
    )
    add(
        "--slowdown",
        type=parse_non_negative,
        metavar="X",
        default=0.0,
        help="compute takes longer by this share while communication runs, e.g. 0.18",
    )
    add(
        "--micros",
        action="store_true",
        help="durations in whole microseconds, as ASTRA-sim reads the files as they are",
    )
    add(
        "--queues-per-dim",
        type=parse_count,
        metavar="N",
        default=1,
        help="as ASTRA-sim's --num-queues-per-dim (default 1)",
    )
    add(
        "--injection-scale",
        type=parse_positive,
        metavar="X",
        default=1.0,
        help="as ASTRA-sim's: times the endpoint delay (default 1)",
    )
    add("--rendezvous", action="store_true", help="as ASTRA-sim's --rendezvous-protocol")
    add(
        "--no-symmetry",
        action="store_true",
        help="simulate each device, also those that behave alike: the same result, slower",
    )
    return parser


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
