"""What the commands share that list presets, or print one of them in full."""

from __future__ import annotations

import argparse
import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from hespas.support.text_tables import TextRow, TextTable, print_tables
from hespas.tools.commands.command_parser import CommandParser


@dataclass(frozen=True)
class PresetListing:
    """Presets: their ``names``, and what one is by ``load``, in JSON, and as a ``row``.

    The first ``left`` columns are text.
    """

    names: Sequence[str]
    load: Callable[[str], Any]
    as_json: Callable[[Any], Any]
    row: Callable[[Any], TextRow]
    header: TextRow
    left: int = 1


def build_listing_parser(prog: str, description: str, name_help: str) -> CommandParser:
    """A parser with ``name`` and ``--json``; ``one`` says what a name stands for."""
    parser = CommandParser(prog, description)
    parser.add_argument("name", nargs="?", help=name_help)
    parser.add_argument("--json", action="store_true", help="print JSON")
    return parser


def print_listing(listing: PresetListing, options: argparse.Namespace) -> int:
    """Print all presets, or the one of ``options.name`` as JSON; returns the exit code.

    Raises HespasError.
    """
    if options.name:
        print(json.dumps(listing.as_json(listing.load(options.name)), indent=1))
        return 0
    presets = [listing.load(name) for name in listing.names]
    if options.json:
        print(json.dumps([listing.as_json(preset) for preset in presets], indent=1))
    else:
        rows = [listing.row(preset) for preset in presets]
        print_tables([TextTable("", rows, listing.header, left=listing.left)])
    return 0
