"""``hespas schema``: the keys of a configuration file, as JSON Schema."""

from __future__ import annotations

import json
from collections.abc import Sequence

from hespas.tools.commands.parser import Parser

DESCRIPTION = """\
List the JSON Schemas, or print one: an editor that has it completes and checks the keys of a file.

  hespas schema
  hespas schema run > run.schema.json
"""


def arguments() -> Parser:
    parser = Parser("hespas schema", DESCRIPTION)
    parser.add_argument("name", nargs="?", metavar="NAME", help="print this one")
    return parser


def main(argv: Sequence[str]) -> int:
    """List the schemas, or print one; returns the exit code, raises HespasError."""
    options = arguments().parse_args(argv)

    from hespas import configs
    from hespas.tools.commands import render

    if options.name:
        print(configs.schema_text(options.name), end="")
        return 0
    rows = [
        (name, json.loads(configs.schema_text(name))["title"]) for name in configs.schema_names()
    ]
    render.show([render.Table("", rows, ("schema", "of"), left=2)])
    return 0
