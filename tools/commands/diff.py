"""``hespas diff``: what changed between two results."""

from __future__ import annotations

import json
import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from hespas.tools.commands.command_parser import CommandParser, parse_non_negative

if TYPE_CHECKING:
    from hespas.support.text_tables import TextRow, TextTable
    from hespas.workflows.run_differences import RunDifference, TimeChange

DESCRIPTION = """\
Show what changed from A to B: the step, the compute time by kind of kernel, kernel and layer, the
collectives, and the settings behind both. A and B are output folders of hespas run, or
configurations of it, or programs (annotated or not). The last two are run, in a folder that goes
again, with the flags given here; an annotated program keeps its annotation.

  hespas diff before after --fail-above 2
"""


AMOUNTS = {  # of differences.COUNTS: what each is called, and its unit; % for a share
    "devices": ("devices", ""), "flops": ("operations", "FLOP"), "read_bytes": ("read", "B"),
    "write_bytes": ("written", "B"), "comm_ops": ("collectives", ""),
    "comm_bytes": ("operands of collectives", "B"), "gaps": ("ops without an estimate", ""),
    "memory.peak_bytes": ("peak memory", "B"), "derived.mfu": ("MFU", "%"),
    "derived.hfu": ("HFU", "%"), "derived.tokens_per_s": ("tokens", "/s"),
    "derived.samples_per_s": ("samples", "/s"), "derived.energy_j": ("energy", "J"),
    "derived.cost_usd": ("cost", "USD"),
}  # fmt: skip


def build_parser() -> CommandParser:
    parser = CommandParser("hespas diff", DESCRIPTION)
    add = parser.add_argument
    add("a", metavar="A", help="result folder, configuration (.json) or program")
    add("b", metavar="B", help="what it is compared with")
    add("--top", type=int, default=10, metavar="N", help="rows of a table (10); 0: all")
    add("--depth", type=int, default=2, metavar="N", help="components of a name in a layer (2)")
    add(
        "--fail-above", type=parse_non_negative, metavar="PERCENT",
        help="exit with 1 where B takes longer than A by more than this",
    )  # fmt: skip
    add("--json", action="store_true", help="print one JSON object instead of tables")

    from hespas.tools.commands.run import FILE_OPTIONS
    from hespas.tools.model_flags import add_model_flags
    from hespas.workflows.run_config import RunConfig

    title = "how to run A or B, if they are not results: as for hespas run"
    add_model_flags(parser, RunConfig, exclude=FILE_OPTIONS, title=title)
    return parser


def main(argv: Sequence[str]) -> int:
    """Run the command; returns its exit code, raises HespasError."""
    options = vars(build_parser().parse_args(argv))
    names = [options.pop("a"), options.pop("b")]
    top, depth, limit = (options.pop(key) for key in ("top", "depth", "fail_above"))
    wants_json = options.pop("json")
    if top < 0 or depth < 1:
        from hespas.support.errors import UsageError

        raise UsageError("--top takes 0 or more, --depth 1 or more")

    import tempfile

    from hespas.support import text_tables
    from hespas.tools.commands.run import build_plan_from_flags
    from hespas.tools.model_flags import collect_set_flags
    from hespas.tools.terminal import print_to_stderr, show_progress
    from hespas.workflows.result_sources import ResultRunner
    from hespas.workflows.run_differences import find_run_differences

    with tempfile.TemporaryDirectory() as scratch, show_progress() as progress:
        runner = ResultRunner(scratch, print_to_stderr, progress, build_plan_from_flags)
        a, b = runner.collect_results(names, collect_set_flags(options))
        run_difference = find_run_differences(a, b, depth)
    if wants_json:
        print(json.dumps(_to_difference_json(run_difference, names), indent=1))
    else:
        text_tables.print_tables(_build_difference_tables(run_difference, names, top or None))
    return _check_growth_limit(run_difference, limit)


def _check_growth_limit(run_difference: RunDifference, limit: float | None) -> int:
    growth = 100 * run_difference.relative_growth
    if limit is None or growth <= limit:
        return 0
    measure_name = "step" if run_difference.compared_measure == "step_time_s" else "compute"
    message = f"the {measure_name} takes {growth:.2f} % longer, more than the {limit:g} % allowed"
    print(f"error: {message}", file=sys.stderr)
    return 1


def _to_difference_json(run_difference: RunDifference, names: Sequence[str]) -> dict[str, Any]:
    """The object that ``--json`` prints: docs/how-to/compare.md."""

    def to_change_objects(rows: list[TimeChange], *keys: str) -> list[dict[str, Any]]:
        return [
            {
                **dict(zip(keys, row.name, strict=True)),
                "a_s": row.a_s,
                "b_s": row.b_s,
                "difference_s": row.difference_s,
                "a_count": row.a_count,
                "b_count": row.b_count,
                "only_in": row.only_in,
            }
            for row in rows
        ]

    def to_value_pairs(values: Any) -> dict[str, Any]:
        return {name: {"a": a, "b": b} for name, (a, b) in values.items()}

    growth = run_difference.relative_growth
    return {
        "a": names[0],
        "b": names[1],
        "measure": run_difference.compared_measure,
        "growth": None if growth == float("inf") else growth,
        "totals": to_value_pairs(run_difference.totals),
        "counts": to_value_pairs(run_difference.counts),
        "provenance": to_value_pairs(run_difference.provenance),
        "kinds": to_change_objects(run_difference.kinds, "kind"),
        "kernels": to_change_objects(run_difference.kernels, "kind", "shapes"),
        "layers": to_change_objects(run_difference.layers, "layer"),
        "collectives": to_change_objects(
            run_difference.collectives, "kind", "group_size", "operand_bytes"
        ),
    }


def _build_difference_tables(
    run_difference: RunDifference, names: Sequence[str], top: int | None
) -> list[TextTable]:
    from hespas.support.text_tables import TextTable, format_seconds

    totals = [
        (_format_total_title(name), format_seconds(a), format_seconds(b), *_format_difference(a, b))
        for name, (a, b) in run_difference.totals.items()
        if a is not None and b is not None
    ]
    totals += [
        (
            AMOUNTS[name][0],
            _format_amount(a, AMOUNTS[name][1]),
            _format_amount(b, AMOUNTS[name][1]),
            _get_sign(b - a) + _format_amount(abs(b - a), AMOUNTS[name][1], " points"),
            _format_relative_change(a, b),
        )
        for name, (a, b) in run_difference.counts.items()
        if a is not None and b is not None and a != b
    ]
    settings: list[TextRow] = []
    for name, (a, b) in run_difference.provenance.items():
        if a != b:
            settings += [(name, "A", _format_setting(a)), ("", "B", _format_setting(b))]
    return [
        TextTable("Compared", [("A", names[0]), ("B", names[1])], left=2),
        TextTable("Settings that differ", settings or [("none", "", "")], left=3),
        TextTable("Totals, one device", totals, ("", "A", "B", "difference", "change")),
        _build_change_table("kind of kernel", ("kind",), run_difference.kinds, top),
        _build_change_table("kernel", ("kind", "shapes"), run_difference.kernels, top),
        _build_change_table("layer", ("layer",), run_difference.layers, top),
        _build_change_table(
            "collective", ("kind", "group", "operand"), run_difference.collectives, top
        ),
    ]


def _format_total_title(name: str) -> str:
    return name.removesuffix("_s").replace("_", " ").replace("comm", "communication")


def _format_amount(value: float, unit: str, share_unit: str = " %") -> str:
    """A value with its unit; ``of_shares`` is that of a share, or of a difference of shares."""
    from hespas.support.text_tables import format_scaled

    if unit == "%":
        return f"{100 * value:.1f}{share_unit}"
    return f"{value:.4g} USD" if unit == "USD" else format_scaled(value, unit).strip()


def _build_change_table(
    group_name: str, keys: tuple[str, ...], changes: Sequence[TimeChange], top: int | None
) -> TextTable:
    """The rows that differ, the largest change first; equal ones are counted."""
    from hespas.support.text_tables import TextTable, format_scaled

    unequal = [change for change in changes if not change.is_equal]
    equal = len(changes) - len(unequal)
    title = f"By {group_name}" + (f", {equal} equal" if equal else "")
    rows: list[TextRow] = []
    for change in unequal[:top]:
        name = [part if len(part) <= 60 else f"{part[:57]}..." for part in change.name]
        if "operand" in keys:
            name[-1] = format_scaled(int(name[-1]), "B") if name[-1] else "-"
        times = (_format_optional_seconds(change.a_s), _format_optional_seconds(change.b_s))
        counts = ("-" if n is None else str(n) for n in (change.a_count, change.b_count))
        rows.append((*name, *counts, *times, *_format_difference(change.a_s, change.b_s)))
    rest = unequal[top:] if top else []
    if rest:
        difference_s = sum(change.difference_s for change in rest)
        blank = [""] * (len(keys) + 3)
        rows.append((f"({len(rest)} more)", *blank, _format_signed_seconds(difference_s), ""))
    if not rows:
        return TextTable(title, [("no difference",)])
    header = (*keys, "A runs", "B runs", "A", "B", "difference", "change")
    return TextTable(title, rows, header, left=len(keys))


def _format_difference(a: float | None, b: float | None) -> tuple[str, str]:
    """Their difference in time, and as a share of A."""
    if a is None and b is None:
        return "-", "-"
    return _format_signed_seconds((b or 0.0) - (a or 0.0)), _format_relative_change(a, b)


def _format_relative_change(a: float | None, b: float | None) -> str:
    if a is None or b is None:
        return "new" if a is None else "gone"
    return f"{100 * (b / a - 1):+.1f} %" if a else "-"


def _format_optional_seconds(value: float | None) -> str:
    from hespas.support.text_tables import format_seconds

    return "-" if value is None else format_seconds(value)


def _format_signed_seconds(value: float) -> str:
    from hespas.support.text_tables import format_seconds

    return _get_sign(value) + format_seconds(abs(value))


def _get_sign(value: float) -> str:
    return "-" if value < 0 else "+" if value else ""


def _format_setting(value: Any) -> str:
    return "-" if value is None else value if isinstance(value, str) else json.dumps(value)
