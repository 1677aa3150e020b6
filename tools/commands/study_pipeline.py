"""The flags of ``hespas study pipeline``."""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING

from hespas.support.errors import UsageError
from hespas.tools.commands.command_parser import (
    CommandParser,
    parse_count,
    parse_mesh,
    parse_positive,
)
from hespas.tools.commands.shared_flags import add_pool_flags, parse_key_values, read_pool_options

if TYPE_CHECKING:
    from hespas.workflows.pipelines.pipeline_study import PipelineRequest
    from hespas.workflows.studies.study_output import StudyOutput


COMMAND = "hespas study pipeline"
EVEN = "even"  # the division of layers whose numbers are not stated


def build_pipeline_parser() -> CommandParser:
    """Build the parser of the study of pipelines, without the flags of its output."""
    from hespas.tools.model_flags import add_run_option_flags
    from hespas.workflows.pipelines import pipeline_study, schedules
    from hespas.workflows.studies.program_forms import FORMS

    defaults = pipeline_study.PipelineRequest()
    parser = CommandParser("hespas study pipeline", pipeline_study.DESCRIPTION)
    add = parser.add_argument
    add(
        "folder", nargs="?", default="", metavar="FOLDER",
        help="programs of stages; default: those of the recipe stage",
    )  # fmt: skip
    add(
        "--ranks", type=parse_count, default=defaults.ranks, metavar="N",
        help=f"ranks of the pipeline; default: {defaults.ranks}",
    )  # fmt: skip
    add(
        "--schedules", metavar="LIST", default=",".join(schedules.SCHEDULES),
        help=f"schedules; default: {','.join(schedules.SCHEDULES)}",
    )  # fmt: skip
    add(
        "--microbatches", metavar="LIST", default="",
        help="microbatches of a step; default: 1, 2 and 4 times the ranks",
    )  # fmt: skip
    add(
        "--stages-per-rank", metavar="LIST", default=",".join(map(str, defaults.stages_per_rank)),
        help="stages of each rank in the interleaved schedule; default: 2",
    )  # fmt: skip
    add(
        "--stage-layers", nargs="+", action="extend", default=[], metavar="even|LIST",
        help="divisions of the layers over the stages to compare, such as 9,8,8,7; default: even, "
        "with what is left over in the middle, because the ends have the embedding and the logits",
    )  # fmt: skip
    add("--model", metavar="NAME", help=f"the model; default: {pipeline_study.MODEL}")
    add(
        "--set", action="append", default=[], metavar="KEY=VALUE",
        help="another option of the recipe stage; may be repeated",
    )  # fmt: skip
    add(
        "--mesh", type=parse_mesh, default={}, metavar="AXIS=SIZE,...",
        help="the devices of each rank: data, fsdp, context, expert and tensor; default: one",
    )  # fmt: skip
    add(
        "--global-batch", type=parse_count, metavar="N",
        help="sequences of a step, which the microbatches divide; default: each microbatch has the "
        "sequences of the option batch",
    )  # fmt: skip
    add(
        "--straggler", type=parse_positive, metavar="FACTOR",
        help="also find the rank that delays the step most if its compute takes FACTOR times as "
        "long",
    )  # fmt: skip
    add("--node", default=defaults.node, help=f"node preset or file; default: {defaults.node}")
    add(
        "--system", nargs="+", action="extend",
        help="system presets, patterns of them, or folders; default: the node's presets",
    )  # fmt: skip
    add(
        "--form", choices=FORMS, default=defaults.form,
        help=f"form of the programs, default: {defaults.form}; "
        + "; ".join(f"{name}: {text}" for name, text in FORMS.items()),
    )  # fmt: skip
    add_pool_flags(parser, "results of pipelines")
    add_run_option_flags(parser, COMMAND)
    return parser


def run_pipeline_study(options: argparse.Namespace) -> StudyOutput:
    """Run the study; raises HespasError."""
    from hespas.tools.terminal import print_to_stderr
    from hespas.workflows.pipelines.pipeline_study import compare_pipelines

    return compare_pipelines(_parse_request(options), print_to_stderr).build_output()


def _parse_request(options: argparse.Namespace) -> PipelineRequest:
    from hespas.tools.model_flags import read_run_options
    from hespas.workflows.pipelines.pipeline_study import PipelineRequest
    from hespas.workflows.studies.study_definition import parse_positive_count
    from hespas.workflows.studies.study_output import parse_value_list

    def parse_counts(text: str, flag: str) -> list[int]:
        return parse_value_list(text, parse_positive_count, flag)

    recipe_options = parse_key_values(options.set, "--set")
    if options.model:
        recipe_options["model"] = options.model
    return PipelineRequest(
        node=options.node,
        ranks=options.ranks,
        schedules=parse_value_list(options.schedules, str, "--schedules"),
        microbatches=parse_counts(options.microbatches, "--microbatches")
        if options.microbatches
        else (),
        stages_per_rank=parse_counts(options.stages_per_rank, "--stages-per-rank"),
        stage_layers=[
            () if text == EVEN else _parse_stage_layers(text) for text in options.stage_layers
        ],
        folder=options.folder,
        options=recipe_options,
        mesh=options.mesh,
        global_batch=options.global_batch,
        systems=options.system or (),
        form=options.form,
        run=read_run_options(options, COMMAND),
        straggler=options.straggler,
        **read_pool_options(options),
    )


def _parse_stage_layers(text: str) -> list[int]:
    """Parse the layers of each stage, in which numbers may repeat."""
    counts = text.split(",")
    if not all(count.isdecimal() for count in counts):
        raise UsageError(
            f"--stage-layers: '{text}' is no list of layers",
            remedy=f"write the layers of each stage, such as 9,8,8,7, or {EVEN}",
        )
    return [int(count) for count in counts]
