"""``hespas cache``: what was measured and is kept."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path

from hespas.support.errors import HespasError
from hespas.tools.commands.command_parser import CommandParser

DESCRIPTION = """\
List the cache of measurements, or clear it.

  hespas cache
  hespas cache clear --estimator xla
"""


def build_parser() -> CommandParser:
    parser = CommandParser("hespas cache", DESCRIPTION)
    add = parser.add_argument
    add("action", nargs="?", choices=("list", "clear"), default="list", help="list (default)")
    add("--cache", metavar="FILE", default="", help="else HESPAS_CACHE, else the user's")
    add("--estimator", metavar="NAME", default="", help="clear the results of this one only")
    add("--json", action="store_true", help="print JSON")
    return parser


def main(argv: Sequence[str]) -> int:
    """Run the command; returns its exit code, raises HespasError."""
    options = build_parser().parse_args(argv)

    from hespas.estimators.measure.measurement_cache import MeasurementCache, locate_default_file

    file = options.cache or str(locate_default_file())
    if not Path(file).expanduser().exists():
        raise HespasError("there is no cache: nothing was measured", where=file)
    with MeasurementCache(file) as cache:
        if options.action == "clear":
            removed = cache.remove_outcomes(options.estimator)
            print(json.dumps({"file": file, "removed": removed}) if options.json else
                  f"{file}: {removed} results removed")  # fmt: skip
            return 0
        size_bytes, groups = cache.measure_size_bytes(), cache.count_grouped_outcomes()
    keys = ("estimator", "version", "device", "results", "failures")
    if options.json:
        group_objects = [dict(zip(keys, row, strict=True)) for row in groups]
        print(json.dumps({"file": file, "bytes": size_bytes, "groups": group_objects}, indent=1))
        return 0
    from hespas.support import text_tables

    print(f"{file}: {text_tables.format_scaled(size_bytes, 'B')}")
    if groups:
        text_tables.print_tables(
            [text_tables.TextTable("", [tuple(map(str, row)) for row in groups], keys, left=3)]
        )
    return 0
