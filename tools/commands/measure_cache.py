"""``hespas measure cache``: list or clear the cache of measurements."""

from __future__ import annotations

import argparse
import json
from pathlib import Path

from hespas.support.errors import HespasError
from hespas.support.text_tables import TextTable, format_scaled, print_tables
from hespas.tools.commands.command_parser import CommandParser
from hespas.tools.commands.shared_flags import add_cache_flag, add_json_flag

DESCRIPTION = """\
List the cache of measurements, or clear it.

  hespas measure cache
  hespas measure cache clear --estimator xla
"""


def add_cache_command(parser: CommandParser) -> None:
    """Add ``cache`` to the parser of ``hespas measure``."""
    command = parser.add_command(
        "cache", "list or clear the cache of measurements", _show_cache, DESCRIPTION
    )
    add = command.add_argument
    add(
        "action", nargs="?", choices=("list", "clear"), default="list",
        help="list the cached results (default), or remove them",
    )  # fmt: skip
    add_cache_flag(command, "measurements", allows_none=False)
    add(
        "--estimator", metavar="NAME", default="",
        help="clear only the results of this estimator",
    )  # fmt: skip
    add_json_flag(command)


def _show_cache(options: argparse.Namespace) -> int:
    from hespas.estimators.measure.measurement_cache import MeasurementCache, locate_default_file

    file = options.cache or str(locate_default_file())
    if not Path(file).expanduser().exists():
        raise HespasError("the cache does not exist: nothing has been measured", where=file)
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

    print(f"{file}: {format_scaled(size_bytes, 'B')}")
    if groups:
        print_tables([TextTable("", [tuple(map(str, row)) for row in groups], keys, left=3)])
    return 0
