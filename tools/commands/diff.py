"""``hespas diff``: what changed between two results."""

from __future__ import annotations

import json
import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from hespas.tools.commands.parser import Parser, not_negative

if TYPE_CHECKING:
    from hespas.tools.commands.render import Row, Table
    from hespas.tools.differences import Change, Difference

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


def arguments() -> Parser:
    parser = Parser("hespas diff", DESCRIPTION)
    add = parser.add_argument
    add("a", metavar="A", help="result folder, configuration (.json) or program")
    add("b", metavar="B", help="what it is compared with")
    add("--top", type=int, default=10, metavar="N", help="rows of a table (10); 0: all")
    add("--depth", type=int, default=2, metavar="N", help="components of a name in a layer (2)")
    add(
        "--fail-above", type=not_negative, metavar="PERCENT",
        help="exit with 1 where B takes longer than A by more than this",
    )  # fmt: skip
    add("--json", action="store_true", help="print one JSON object instead of tables")
    running = parser.add_argument_group("where A or B has to be run: as for hespas run")
    running.add_argument("--node", help="node preset or file")
    running.add_argument("--system", help="system preset or folder: the network")

    from hespas.tools.commands.run import add_options

    add_options(parser)
    return parser


def main(argv: Sequence[str]) -> int:
    """Run the command; returns its exit code, raises HespasError."""
    options = vars(arguments().parse_args(argv))
    names = [options.pop("a"), options.pop("b")]
    top, depth, limit = (options.pop(key) for key in ("top", "depth", "fail_above"))
    wants_json = options.pop("json")
    if top < 0 or depth < 1:
        from hespas.dialects.errors import UsageError

        raise UsageError("--top takes 0 or more, --depth 1 or more")

    import tempfile

    from hespas.tools.commands import flow, render
    from hespas.tools.commands.run import given_flags
    from hespas.tools.differences import difference
    from hespas.tools.sources import Runner

    with tempfile.TemporaryDirectory() as scratch, flow.progress() as before:
        a, b = Runner(scratch, before).results(names, given_flags(options))
        found = difference(a, b, depth)
    if wants_json:
        print(json.dumps(as_json(found, names), indent=1))
    else:
        render.show(_tables(found, names, top or None))
    return _verdict(found, limit)


def _verdict(found: Difference, limit: float | None) -> int:
    growth = 100 * found.growth
    if limit is None or growth <= limit:
        return 0
    what = "step" if found.measure == "step_time_s" else "compute"
    message = f"the {what} takes {growth:.2f} % longer, more than the {limit:g} % allowed"
    print(f"error: {message}", file=sys.stderr)
    return 1


def as_json(found: Difference, names: Sequence[str]) -> dict[str, Any]:
    """The object that ``--json`` prints: docs/how-to/compare.md."""

    def changes(rows: list[Change], *keys: str) -> list[dict[str, Any]]:
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

    def pairs(values: Any) -> dict[str, Any]:
        return {name: {"a": a, "b": b} for name, (a, b) in values.items()}

    growth = found.growth
    return {
        "a": names[0],
        "b": names[1],
        "measure": found.measure,
        "growth": None if growth == float("inf") else growth,
        "totals": pairs(found.totals),
        "counts": pairs(found.counts),
        "provenance": pairs(found.provenance),
        "kinds": changes(found.kinds, "kind"),
        "kernels": changes(found.kernels, "kind", "shapes"),
        "layers": changes(found.layers, "layer"),
        "collectives": changes(found.collectives, "kind", "group_size", "operand_bytes"),
    }


def _tables(found: Difference, names: Sequence[str], top: int | None) -> list[Table]:
    from hespas.tools.commands.render import Table, seconds

    totals = [
        (_title(name), seconds(a), seconds(b), *_apart(a, b))
        for name, (a, b) in found.totals.items()
        if a is not None and b is not None
    ]
    totals += [
        (
            AMOUNTS[name][0],
            _amount(a, AMOUNTS[name][1]),
            _amount(b, AMOUNTS[name][1]),
            _sign(b - a) + _amount(abs(b - a), AMOUNTS[name][1], " points"),
            _percent(a, b),
        )
        for name, (a, b) in found.counts.items()
        if a is not None and b is not None and a != b
    ]
    settings: list[Row] = []
    for name, (a, b) in found.provenance.items():
        if a != b:
            settings += [(name, "A", _text(a)), ("", "B", _text(b))]
    return [
        Table("Compared", [("A", names[0]), ("B", names[1])], left=2),
        Table("Settings that differ", settings or [("none", "", "")], left=3),
        Table("Totals, one device", totals, ("", "A", "B", "difference", "change")),
        _changes("kind of kernel", ("kind",), found.kinds, top),
        _changes("kernel", ("kind", "shapes"), found.kernels, top),
        _changes("layer", ("layer",), found.layers, top),
        _changes("collective", ("kind", "group", "operand"), found.collectives, top),
    ]


def _title(name: str) -> str:
    return name.removesuffix("_s").replace("_", " ").replace("comm", "communication")


def _amount(value: float, unit: str, of_shares: str = " %") -> str:
    """A value with its unit; ``of_shares`` is that of a share, or of a difference of shares."""
    from hespas.tools.commands.render import scaled

    if unit == "%":
        return f"{100 * value:.1f}{of_shares}"
    return f"{value:.4g} USD" if unit == "USD" else scaled(value, unit).strip()


def _changes(what: str, keys: tuple[str, ...], changes: Sequence[Change], top: int | None) -> Table:
    """The rows that differ, the largest change first; equal ones are counted."""
    from hespas.tools.commands.render import Table, scaled

    unequal = [change for change in changes if not change.is_equal]
    equal = len(changes) - len(unequal)
    title = f"By {what}" + (f", {equal} equal" if equal else "")
    rows: list[Row] = []
    for change in unequal[:top]:
        name = [part if len(part) <= 60 else f"{part[:57]}..." for part in change.name]
        if "operand" in keys:
            name[-1] = scaled(int(name[-1]), "B") if name[-1] else "-"
        times = (_seconds(change.a_s), _seconds(change.b_s))
        counts = ("-" if n is None else str(n) for n in (change.a_count, change.b_count))
        rows.append((*name, *counts, *times, *_apart(change.a_s, change.b_s)))
    rest = unequal[top:] if top else []
    if rest:
        apart = sum(change.difference_s for change in rest)
        blank = [""] * (len(keys) + 3)
        rows.append((f"({len(rest)} more)", *blank, _signed(apart), ""))
    if not rows:
        return Table(title, [("no difference",)])
    header = (*keys, "A runs", "B runs", "A", "B", "difference", "change")
    return Table(title, rows, header, left=len(keys))


def _apart(a: float | None, b: float | None) -> tuple[str, str]:
    """Their difference in time, and as a share of A."""
    if a is None and b is None:
        return "-", "-"
    return _signed((b or 0.0) - (a or 0.0)), _percent(a, b)


def _percent(a: float | None, b: float | None) -> str:
    if a is None or b is None:
        return "new" if a is None else "gone"
    return f"{100 * (b / a - 1):+.1f} %" if a else "-"


def _seconds(value: float | None) -> str:
    from hespas.tools.commands.render import seconds

    return "-" if value is None else seconds(value)


def _signed(value: float) -> str:
    from hespas.tools.commands.render import seconds

    return _sign(value) + seconds(abs(value))


def _sign(value: float) -> str:
    return "-" if value < 0 else "+" if value else ""


def _text(value: Any) -> str:
    return "-" if value is None else value if isinstance(value, str) else json.dumps(value)
