"""``hespas study``: a question over a range of workloads."""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from hespas.support.errors import UsageError
from hespas.support.suggestions import suggest_nearest
from hespas.support.text_tables import print_tables
from hespas.tools import console_scripts
from hespas.tools.commands.command_parser import (
    CommandParser,
    parse_count,
    parse_mesh,
    parse_non_negative,
    parse_positive,
)
from hespas.tools.commands.shared_flags import (
    add_cache_flag,
    add_json_flag,
    add_keep_going_flag,
    read_jobs,
)
from hespas.tools.terminal import print_to_stderr

if TYPE_CHECKING:
    from hespas.workflows.studies.study_definition import AxisValues, Study
    from hespas.workflows.studies.study_output import StudyOutput
    from hespas.workflows.studies.study_runner import StudyOptions

COMMAND = "hespas study"
STUDIES = {
    "operators": "one matrix product after another, by every estimator of an accelerator",
    "gemm": "one matrix product over more and more devices, divided in five ways",
    "resnet": "training of ResNets of several depths, data-parallel",
    "llama": "training of Llama models of several sizes, node by node",
    "scale-out": "training of Llama 2 7B over 8 to 4,096 devices",
    "serving": "prefill and decoding of a model, and the load that it can serve",
    "pipeline": "schedules of pipeline parallelism over numbers of microbatches",
    "variation": "the tails of a step of devices and kernels that are not all alike",
    "goodput": "what failures and checkpoints leave of the time of a training job",
    "groups": "one job on devices of several kinds, such as H100 beside A100",
    "jobs": "how much several jobs on one network slow each other down",
}
USAGE = """\
usage: hespas study NAME [...]

{studies}

hespas study NAME --help lists the options of a study.
"""


PIPELINE_STUDY = "hespas study pipeline"
_BANDS = "bands"


def main(argv: Sequence[str]) -> int:
    """Run a study and return the exit code; raises HespasError."""
    if not argv or argv[0] in ("-h", "--help"):
        studies = "\n".join(f"  {name:<10} {text}" for name, text in STUDIES.items())
        print(USAGE.format(studies=studies), end="")
        return 0 if argv else console_scripts.EXIT_USAGE
    name = argv[0]
    if name not in STUDIES:
        raise UsageError(f"no study is called '{name}'", remedy=suggest_nearest(name, [*STUDIES]))
    from hespas.workflows.studies import study_output

    options = build_study_parser(name).parse_args(argv[1:])
    page = getattr(options, "page", None)
    study_output.check_output_files(options.csv, options.plot, page)
    if name in _OWN_STUDIES:
        output = _OWN_STUDIES[name][1](options)
    elif name == "serving":
        output = _run_serving_study(load_study(name), options)
    else:
        output = _run_program_study(load_study(name), options)
    if page:
        _write_page(page, name.capitalize(), output)
    _write_output(output, options)
    if not output.failed:
        return 0

    print_to_stderr(f"{output.failed} of {len(output.rows)} rows have an error")
    return 0 if getattr(options, "keep_going", False) else 1


def load_study(name: str) -> Study:
    """Load the definition of a study of programs."""
    if name == "serving":
        from hespas.workflows.studies import serving

        return serving.STUDY
    from hespas.workflows.studies.grid_studies import STUDIES as grid_studies

    return grid_studies[name]


def build_study_parser(name: str) -> CommandParser:
    """Build the parser of one study."""
    if name in _OWN_STUDIES:
        parser = _OWN_STUDIES[name][0]()
        _add_output_flags(parser)
        if name != "operators":
            _add_page_flag(parser)
        return parser
    parser = _build_program_parser(load_study(name))
    if name == "serving":
        from hespas.tools.model_flags import add_model_flags
        from hespas.workflows.studies.serving import LoadOptions

        _add_page_flag(parser)
        add_model_flags(parser, LoadOptions)
    return parser


def _build_operator_parser() -> CommandParser:
    from hespas.workflows.studies import operators

    parser = CommandParser("hespas study operators", operators.DESCRIPTION)
    add = parser.add_argument
    add("--node", default=operators.NODE, help=f"node preset or file; default: {operators.NODE}")
    add(
        "--sizes", metavar="LIST", default=operators.SIZES,
        help="products, MxKxN or M, separated by commas",
    )  # fmt: skip
    add(
        "--dtype", choices=operators.DTYPES, default="bf16",
        help="type of the elements; default: bf16",
    )  # fmt: skip
    add(
        "--estimator", action="append", metavar="NAME{KEY=VALUE ...}",
        help="an estimator with its settings; may be repeated",
    )  # fmt: skip
    add("--jobs", type=parse_count, default=1, metavar="N", help="simulations at once; default: 1")
    add_cache_flag(parser, "simulated times")
    return parser


def _run_operator_study(options: argparse.Namespace) -> StudyOutput:
    from hespas import configs
    from hespas.estimators.measure.measurement_run import MeasureOptions
    from hespas.workflows.studies import operators, study_output

    shapes = study_output.parse_value_list(
        options.sizes.replace(" ", ","), operators.parse_product_shape, "--sizes"
    )
    result = operators.compare_estimators(
        configs.load_node(options.node),
        shapes,
        options.dtype,
        list(dict.fromkeys(options.estimator or operators.ESTIMATORS)),
        MeasureOptions(jobs=options.jobs, cache=options.cache),
        strict=bool(options.estimator),
    )
    return operators.build_operator_output(result)


def _build_program_parser(study: Study) -> CommandParser:
    from hespas.tools.model_flags import add_model_flags, add_run_option_flags
    from hespas.workflows.studies.study_runner import StudyOptions

    parser = CommandParser(f"hespas study {study.name}", study.description)
    for axis in study.axes:
        parser.add_argument(f"--{axis.name}", metavar="LIST", default=axis.default, help=axis.help)
    parser.add_argument(
        "--node", nargs="+", action="extend",
        help=f"node presets; default: {' '.join(study.nodes)}",
    )  # fmt: skip
    add_model_flags(parser, StudyOptions)
    _add_output_flags(parser)
    add_keep_going_flag(parser)
    add_run_option_flags(parser, COMMAND)
    return parser


def _run_program_study(study: Study, options: argparse.Namespace) -> StudyOutput:
    from hespas.workflows.studies import study_runner

    axis_values, study_options = _parse_program_options(study, options)
    return study_runner.run_study(study, axis_values, study_options, print_to_stderr)


def _run_serving_study(study: Study, options: argparse.Namespace) -> StudyOutput:
    from hespas.tools.model_flags import read_model_flags
    from hespas.workflows.studies import serving

    load = read_model_flags(serving.LoadOptions, options)
    axis_values, study_options = _parse_program_options(study, options)
    return serving.run_serving_study(axis_values, study_options, load, print_to_stderr)


def _parse_program_options(
    study: Study, options: argparse.Namespace
) -> tuple[AxisValues, StudyOptions]:
    """Parse the options of a study of programs, and check them and its files."""
    axis_values = {axis.name: axis.parse_values(getattr(options, axis.name)) for axis in study.axes}

    from hespas.tools.model_flags import read_model_flags, read_run_options
    from hespas.workflows.studies import study_runner

    study_options = read_model_flags(
        study_runner.StudyOptions,
        options,
        nodes=list(dict.fromkeys(options.node or study.nodes)),
        run=read_run_options(options, COMMAND),
        jobs=read_jobs(options),
    )
    study_runner.check_study_options(study_options)
    return axis_values, study_options


def _add_output_flags(parser: CommandParser) -> None:
    add = parser.add_argument
    add("--csv", metavar="FILE", help="write the results as a table")
    add("--plot", metavar="FILE", help="write a plot, .png, .svg or .pdf")
    add_json_flag(parser)


def _write_output(output: StudyOutput, options: argparse.Namespace) -> None:
    """Write the requested files, then print tables and notes, or JSON; raises HespasError."""
    from hespas.workflows.studies import study_output

    study_output.write_output_files(output, options.csv, options.plot)
    if options.json:
        print(json.dumps(output.data, indent=1))
        return
    print_tables(output.tables)
    for line in output.notes:
        print(f"- {line}", file=sys.stderr)


def build_pipeline_parser() -> CommandParser:
    """Build the parser of the study of pipelines, without the flags of its output."""
    from hespas.tools.model_flags import add_model_flags, add_run_option_flags
    from hespas.workflows.pipelines import pipeline_study

    parser = CommandParser("hespas study pipeline", pipeline_study.DESCRIPTION)
    parser.add_argument(
        "folder", nargs="?", default="", metavar="FOLDER",
        help="programs of stages; default: those of the recipe stage",
    )  # fmt: skip
    parser.add_argument(
        "--model", metavar="NAME", help=f"the model; default: {pipeline_study.MODEL}"
    )
    parser.add_argument(
        "--mesh", type=parse_mesh, default={}, metavar="AXIS=SIZE,...",
        help="the devices of each rank: data, fsdp, context, expert and tensor; default: one",
    )  # fmt: skip
    add_model_flags(parser, pipeline_study.PipelineRequest)
    add_keep_going_flag(parser)
    add_run_option_flags(parser, PIPELINE_STUDY)
    return parser


def run_pipeline_study(options: argparse.Namespace) -> StudyOutput:
    """Run the study; raises HespasError."""
    from hespas.tools.model_flags import read_model_flags, read_run_options
    from hespas.workflows.pipelines.pipeline_study import PipelineRequest, compare_pipelines

    model = {"model": options.model} if options.model else {}
    request = read_model_flags(
        PipelineRequest,
        options,
        folder=options.folder,
        options={**(options.options or {}), **model},
        mesh=options.mesh,
        run=read_run_options(options, PIPELINE_STUDY),
        jobs=read_jobs(options),
    )
    return compare_pipelines(request, print_to_stderr).build_output()


def _add_page_flag(parser: CommandParser) -> None:
    """Add the flag of the page of a study."""
    parser.add_argument("--page", metavar="FILE", help="write the tables as an HTML page")


def _write_page(path: str, title: str, output: StudyOutput) -> None:
    """Write the tables and the chart of the study as a page; raises HespasError."""
    from hespas.support.output_file import write_atomically
    from hespas.tools.report.table_page import render_table_page

    page = render_table_page(title, "; ".join(output.notes), output.tables, output.gantt)
    write_atomically(path, page)


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


# The studies that are not of programs of recipes: what builds the parser, and what runs the study.
_OWN_STUDIES: dict[
    str, tuple[Callable[[], CommandParser], Callable[[argparse.Namespace], StudyOutput]]
] = {
    "operators": (_build_operator_parser, _run_operator_study),
    "pipeline": (build_pipeline_parser, run_pipeline_study),
    "variation": (build_variation_parser, run_variation_study),
    "groups": (build_group_parser, run_group_study),
    "jobs": (build_job_parser, run_job_study),
    "goodput": (build_goodput_parser, run_goodput_study),
}
