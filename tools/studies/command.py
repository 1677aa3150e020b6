"""The command line of a study of programs."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from hespas.dialects.errors import UsageError
from hespas.tools.commands.parser import Parser, count
from hespas.tools.studies import output
from hespas.tools.studies.forms import FORMS
from hespas.tools.studies.study import Study

SPLITS = ("linear", "individual", "individual-merge")


@dataclass(frozen=True)
class Command:
    """``hespas study NAME``."""

    study: Study

    def arguments(self) -> Parser:
        parser = Parser(f"hespas study {self.study.name}", self.study.description)
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
        output.add_arguments(parser)
        add("--jobs", type=count, metavar="N", help="worker processes; default: one for each core")
        add("--work-dir", default="", metavar="DIR", help="where programs are kept")
        add("--cache", default="", metavar="FILE", help="where cells are kept; none: nowhere")
        return parser

    def main(self, argv: Sequence[str]) -> int:
        """Run the study; returns the exit code, raises HespasError."""
        options = self.arguments().parse_args(argv)
        given = {axis.name: axis.values(getattr(options, axis.name)) for axis in self.study.axes}
        changes = dict(_pair(text) for text in options.set)

        from hespas import configs
        from hespas.estimators import registry
        from hespas.estimators.measure import host
        from hespas.tools.commands import flow
        from hespas.tools.studies import draw, engine

        nodes = list(dict.fromkeys(options.node or self.study.nodes))
        for name in nodes:
            configs.node(name)
        registry.get(options.estimator)
        output.check(options)
        chosen = engine.Options(
            nodes, options.system or (), options.form, options.estimator, options.split, changes,
            options.xla_optimize, options.jobs or host.cores(), options.work_dir,
            options.cache,
        )  # fmt: skip
        found = engine.find(self.study, given, chosen, flow.to_stderr)
        output.write(
            output.Output(
                rows=found.rows,
                data={"study": self.study.name, "notes": found.notes, "rows": found.rows},
                tables=[engine.table(self.study, found)],
                notes=found.notes,
                draw=lambda figure: draw.draw(figure, self.study, found.rows),
                size=draw.size(self.study, found.rows),
            ),
            options,
        )
        return 0


def _pair(text: str) -> tuple[str, str]:
    key, equals, value = text.partition("=")
    if not equals or not key:
        raise UsageError(f"--set takes KEY=VALUE, not '{text}'")
    return key, value
