"""``hespas study``: a question over a range of workloads."""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from hespas.support.errors import UsageError
from hespas.tools import console_scripts
from hespas.tools.commands import study_pipeline, study_serving, study_variation
from hespas.tools.commands.command_parser import CommandParser, parse_count
from hespas.tools.commands.shared_flags import (
    add_cache_flag,
    add_json_flag,
    add_pool_flags,
    parse_key_values,
    read_pool_options,
)

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


def main(argv: Sequence[str]) -> int:
    """Run a study and return the exit code; raises HespasError."""
    if not argv or argv[0] in ("-h", "--help"):
        studies = "\n".join(f"  {name:<10} {text}" for name, text in STUDIES.items())
        print(USAGE.format(studies=studies), end="")
        return 0 if argv else console_scripts.EXIT_USAGE
    name = argv[0]
    if name not in STUDIES:
        from hespas.support.suggestions import suggest_nearest

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
        study_serving.write_page(page, name.capitalize(), output)
    _write_output(output, options)
    if not output.failed:
        return 0
    from hespas.tools.terminal import print_to_stderr

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
            study_serving.add_page_flag(parser)
        return parser
    parser = _build_program_parser(load_study(name))
    if name == "serving":
        study_serving.add_load_flags(parser)
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
    from hespas.tools.model_flags import add_run_option_flags
    from hespas.workflows.studies.program_forms import FORMS

    parser = CommandParser(f"hespas study {study.name}", study.description)
    add = parser.add_argument
    for axis in study.axes:
        add(f"--{axis.name}", metavar="LIST", default=axis.default, help=axis.help)
    add(
        "--node", nargs="+", action="extend",
        help=f"node presets; default: {' '.join(study.nodes)}",
    )  # fmt: skip
    add(
        "--system", nargs="+", action="extend",
        help="system presets, patterns of them, or folders; each program uses one with its number "
        "of devices; default: the node's presets",
    )  # fmt: skip
    add(
        "--form", choices=FORMS, default="optimised",
        help="; ".join(f"{name}: {text}" for name, text in FORMS.items()),
    )  # fmt: skip
    add(
        "--set", action="append", default=[], metavar="KEY=VALUE",
        help="another option of the recipe, as of hespas export; may be repeated",
    )  # fmt: skip
    _add_output_flags(parser)
    add_pool_flags(parser, "results of cells")
    add_run_option_flags(parser, COMMAND)
    return parser


def _run_program_study(study: Study, options: argparse.Namespace) -> StudyOutput:
    from hespas.tools.terminal import print_to_stderr
    from hespas.workflows.studies import study_runner

    axis_values, study_options = _parse_program_options(study, options)
    return study_runner.run_study(study, axis_values, study_options, print_to_stderr)


def _run_serving_study(study: Study, options: argparse.Namespace) -> StudyOutput:
    from hespas.tools.terminal import print_to_stderr
    from hespas.workflows.studies import serving

    load = study_serving.parse_load_options(options)
    axis_values, study_options = _parse_program_options(study, options)
    return serving.run_serving_study(axis_values, study_options, load, print_to_stderr)


def _parse_program_options(
    study: Study, options: argparse.Namespace
) -> tuple[AxisValues, StudyOptions]:
    """Parse the options of a study of programs, and check them and its files."""
    axis_values = {axis.name: axis.parse_values(getattr(options, axis.name)) for axis in study.axes}
    changes = parse_key_values(options.set, "--set")

    from hespas.tools.model_flags import read_run_options
    from hespas.workflows.studies import study_runner

    study_options = study_runner.StudyOptions(
        nodes=list(dict.fromkeys(options.node or study.nodes)),
        systems=options.system or (),
        form=options.form,
        run=read_run_options(options, COMMAND),
        changes=changes,
        **read_pool_options(options),
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
    from hespas.support import text_tables
    from hespas.workflows.studies import study_output

    study_output.write_output_files(output, options.csv, options.plot)
    if options.json:
        print(json.dumps(output.data, indent=1))
        return
    text_tables.print_tables(output.tables)
    for line in output.notes:
        print(f"- {line}", file=sys.stderr)


# The studies that are not of programs of recipes: what builds the parser, and what runs the study.
_OWN_STUDIES: dict[
    str, tuple[Callable[[], CommandParser], Callable[[argparse.Namespace], StudyOutput]]
] = {
    "operators": (_build_operator_parser, _run_operator_study),
    "pipeline": (study_pipeline.build_pipeline_parser, study_pipeline.run_pipeline_study),
    "variation": (study_variation.build_variation_parser, study_variation.run_variation_study),
    "groups": (study_variation.build_group_parser, study_variation.run_group_study),
    "jobs": (study_variation.build_job_parser, study_variation.run_job_study),
    "goodput": (study_variation.build_goodput_parser, study_variation.run_goodput_study),
}
