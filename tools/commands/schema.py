"""``hespas schema``: the keys of a configuration file, as JSON Schema."""

from __future__ import annotations

import json
from collections.abc import Sequence

from hespas.tools.commands.command_parser import CommandParser

DESCRIPTION = """\
List the JSON Schemas, or print one: an editor that has it completes and checks the keys of a file.

  hespas schema
  hespas schema run > run.schema.json
"""


def build_parser() -> CommandParser:
    parser = CommandParser("hespas schema", DESCRIPTION)
    parser.add_argument("name", nargs="?", metavar="NAME", help="print this one")
    return parser


def main(argv: Sequence[str]) -> int:
    """List the schemas, or print one; returns the exit code, raises HespasError."""
    options = build_parser().parse_args(argv)

    from hespas import configs
    from hespas.support import text_tables

    if options.name:
        print(configs.read_schema_text(options.name), end="")
        return 0
    rows = [
        (name, json.loads(configs.read_schema_text(name))["title"])
        for name in configs.list_schema_names()
    ]
    text_tables.print_tables([text_tables.TextTable("", rows, ("schema", "of"), left=2)])
    return 0
