"""The command line of a study of programs."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from hespas.support.errors import UsageError
from hespas.tools.commands.command_parser import CommandParser, parse_count
from hespas.workflows.studies import study_output
from hespas.workflows.studies.program_forms import FORMS
from hespas.workflows.studies.study_definition import Study

SPLITS = ("linear", "individual", "individual-merge")


@dataclass(frozen=True)
class StudyCommand:
    """``hespas study NAME``."""

    study: Study

    def build_parser(self) -> CommandParser:
        parser = CommandParser(f"hespas study {self.study.name}", self.study.description)
        add = parser.add_argument
        for axis in self.study.axes:
            add(f"--{axis.name}", metavar="LIST", default=axis.default, help=axis.help)
        add(
            "--node", nargs="+", action="extend",
            help=f"node presets; default: {' '.join(self.study.nodes)}",
        )  # fmt: skip
        add(
            "--system", nargs="+", action="extend",
            help="system presets, patterns of them, or folders, of which those with a program's "
            "number of devices are taken; default: the node's presets",
        )  # fmt: skip
        add(
            "--form", choices=FORMS, default="optimised",
            help="; ".join(f"{name}: {text}" for name, text in FORMS.items()),
        )  # fmt: skip
        add("--estimator", default="calibrated", help="what estimates the regions")
        add("--split", choices=SPLITS, help="into regions; default: what goes with the estimator")
        add(
            "--set", action="append", default=[], metavar="KEY=VALUE",
            help="another option of the recipe, as of hespas export",
        )  # fmt: skip
        add(
            "--xla-optimize", default="", metavar="OPTIONS",
            help="more options of that pass, for optimised and scheduled",
        )  # fmt: skip
        study_output.add_output_arguments(parser)
        add(
            "--jobs",
            type=parse_count,
            metavar="N",
            help="worker processes; default: one for each core",
        )
        add("--work-dir", default="", metavar="DIR", help="where programs are kept")
        add("--cache", default="", metavar="FILE", help="where cells are kept; none: nowhere")
        return parser

    def main(self, argv: Sequence[str]) -> int:
        """Run the study; returns the exit code, raises HespasError."""
        options = self.build_parser().parse_args(argv)
        axis_values = {
            axis.name: axis.parse_values(getattr(options, axis.name)) for axis in self.study.axes
        }
        changes = dict(_parse_key_value(text) for text in options.set)

        from hespas import configs
        from hespas.estimators import registry
        from hespas.estimators.measure import host
        from hespas.workflows import run_flow
        from hespas.workflows.studies import study_plot, study_runner

        nodes = list(dict.fromkeys(options.node or self.study.nodes))
        for name in nodes:
            configs.load_node(name)
        registry.load_estimator_class(options.estimator)
        study_output.check_output_files(options)
        study_options = study_runner.StudyOptions(
            nodes, options.system or (), options.form, options.estimator, options.split, changes,
            options.xla_optimize, options.jobs or host.count_usable_cores(), options.work_dir,
            options.cache,
        )  # fmt: skip
        result = study_runner.collect_study_rows(
            self.study, axis_values, study_options, run_flow.print_to_stderr
        )
        study_output.write_study_output(
            study_output.StudyOutput(
                rows=result.rows,
                data={"study": self.study.name, "notes": result.notes, "rows": result.rows},
                tables=[study_runner.make_study_table(self.study, result)],
                notes=result.notes,
                draw=lambda figure: study_plot.draw_study(figure, self.study, result.rows),
                size=study_plot.compute_figure_size(self.study, result.rows),
            ),
            options,
        )
        return 0


def _parse_key_value(text: str) -> tuple[str, str]:
    key, equals, value = text.partition("=")
    if not equals or not key:
        raise UsageError(f"--set takes KEY=VALUE, not '{text}'")
    return key, value
