"""The flags of ``hespas study variation``, ``goodput``, ``groups`` and ``jobs``."""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING

from hespas.support.errors import UsageError
from hespas.tools.commands.command_parser import (
    CommandParser,
    parse_count,
    parse_non_negative,
    parse_positive,
)

if TYPE_CHECKING:
    from hespas.workflows.studies.study_output import StudyOutput

_BANDS = "bands"


def build_variation_parser() -> CommandParser:
    """Build the parser of the study of variation, without the flags of its output."""
    from hespas.workflows.variation import step_variation

    parser = CommandParser("hespas study variation", step_variation.DESCRIPTION)
    add = parser.add_argument
    add("folder", metavar="FOLDER", help="the folder of a run, or of other traces")
    add("--system", metavar="NAME", help="the network; default: that of the run")
    add(
        "--device-spread", type=_parse_spread, default=0.0, metavar="SHARE",
        help="standard deviation of compute times between devices, 0.03 for 3 %% (default 0), or "
        f"'{_BANDS}' to take it from the 80 %% band of the run's compute",
    )  # fmt: skip
    add(
        "--jitter", type=parse_non_negative, default=0.0, metavar="SHARE",
        help="standard deviation of the time of a compute node between its executions (default 0)",
    )  # fmt: skip
    add(
        "--draws", type=parse_count, default=1000, metavar="N",
        help="number of simulated steps with random times (default 1000)",
    )  # fmt: skip
    add(
        "--seed", type=int, default=0, metavar="N",
        help="seed of the random numbers (default 0); equal seeds give equal results",
    )  # fmt: skip
    return parser


def _parse_spread(text: str) -> float | str:
    return text if text == _BANDS else parse_non_negative(text)


def run_variation_study(options: argparse.Namespace) -> StudyOutput:
    """Run the study; raises HespasError."""
    from hespas.workflows.variation import step_variation

    return step_variation.variation(
        options.folder,
        device_spread=options.device_spread,
        jitter=options.jitter,
        draws=options.draws,
        seed=options.seed,
        system=options.system,
    ).build_output()


def build_goodput_parser() -> CommandParser:
    """Build the parser of the study of goodput, without the flags of its output."""
    from hespas.workflows.variation import checkpoint_goodput

    parser = CommandParser("hespas study goodput", checkpoint_goodput.DESCRIPTION)
    add = parser.add_argument
    add("--devices", metavar="LIST", required=True, help="numbers of devices")
    add(
        "--device-mtbf-h", type=parse_positive, default=checkpoint_goodput.DEVICE_MTBF_H,
        metavar="H",
        help="mean time between failures of one device in hours; default: "
        f"{checkpoint_goodput.DEVICE_MTBF_H:g}, {checkpoint_goodput.DEVICE_MTBF_SOURCE}",
    )  # fmt: skip
    add(
        "--checkpoint-s", type=parse_positive, metavar="S",
        help="time for which a checkpoint stops the job",
    )  # fmt: skip
    add(
        "--checkpoint-gb", type=parse_positive, metavar="GB",
        help="size of a checkpoint in 1e9 bytes; with --storage-gb-s, in place of --checkpoint-s",
    )  # fmt: skip
    add(
        "--storage-gb-s", type=parse_positive, metavar="GB/S",
        help="bandwidth of the storage in 1e9 bytes per second",
    )  # fmt: skip
    add(
        "--restart-s", type=parse_non_negative, default=0.0, metavar="S",
        help="time from a failure until the job computes again (default 0)",
    )  # fmt: skip
    add(
        "--interval-s", type=parse_positive, metavar="S",
        help="seconds of work between two checkpoints; default: the best interval",
    )  # fmt: skip
    add(
        "--step-s", type=parse_positive, metavar="S",
        help="time of a step, for the steps between checkpoints",
    )  # fmt: skip
    return parser


def run_goodput_study(options: argparse.Namespace) -> StudyOutput:
    """Run the study; raises HespasError."""
    from hespas.workflows.studies import study_definition, study_output
    from hespas.workflows.variation import checkpoint_goodput

    devices = study_output.parse_value_list(
        options.devices, study_definition.parse_positive_count, "--devices"
    )
    return checkpoint_goodput.goodput(
        devices,
        _select_checkpoint_s(options),
        restart_s=options.restart_s,
        device_mtbf_h=options.device_mtbf_h,
        interval_s=options.interval_s,
        step_time_s=options.step_s,
    ).build_output()


def _select_checkpoint_s(options: argparse.Namespace) -> float:
    sized = options.checkpoint_gb is not None or options.storage_gb_s is not None
    if sized == (options.checkpoint_s is not None):
        raise UsageError(
            "the time of a checkpoint must be given once",
            remedy="give either --checkpoint-s, or --checkpoint-gb with --storage-gb-s",
        )
    if not sized:
        return options.checkpoint_s
    if options.checkpoint_gb is None or options.storage_gb_s is None:
        raise UsageError("--checkpoint-gb and --storage-gb-s belong together")
    return options.checkpoint_gb / options.storage_gb_s


def build_job_parser() -> CommandParser:
    """Build the parser of the study of jobs, without the flags of its output."""
    from hespas.workflows.variation import job_interference

    parser = CommandParser("hespas study jobs", job_interference.DESCRIPTION)
    add = parser.add_argument
    add("folders", nargs="+", metavar="FOLDER", help="the traces of each job")
    add("--system", required=True, metavar="NAME", help="the network that they share")
    add(
        "--placement", choices=job_interference.PLACEMENTS, default="packed",
        help="packed: consecutive devices for each job (default); spread: devices dealt out to the "
        "jobs in turn",
    )  # fmt: skip
    return parser


def run_job_study(options: argparse.Namespace) -> StudyOutput:
    """Run the study; raises HespasError."""
    from hespas.workflows.variation import job_interference

    return job_interference.run_job_study(options.folders, options.system, options.placement)


def build_group_parser() -> CommandParser:
    """Build the parser of the study of unlike devices, without the flags of its output."""
    from hespas.workflows.variation import device_groups

    parser = CommandParser("hespas study groups", device_groups.DESCRIPTION)
    add = parser.add_argument
    add(
        "groups", nargs="+", metavar="FOLDER=DEVICES",
        help="the run of the whole job on devices of one kind, and the numbers of those that are "
        "of this kind, such as 0-3,8; or one file that holds the groups",
    )  # fmt: skip
    add("--system", metavar="NAME", help="the network; default: that of the file or the first run")
    return parser


def run_group_study(options: argparse.Namespace) -> StudyOutput:
    """Run the study; raises HespasError."""
    from hespas.workflows.variation import device_groups

    texts, file_system = options.groups, None
    if len(texts) == 1 and texts[0].endswith(device_groups.FILE_SUFFIXES):
        groups, file_system = device_groups.read_group_file(texts[0])
    else:
        groups = [device_groups.parse_device_group(text) for text in texts]
    system = options.system or file_system
    return device_groups.simulate_group_folders(groups, system).build_output()
