"""What the commands share that list presets, or print one of them in full."""

from __future__ import annotations

import argparse
import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from hespas.tools.commands.parser import Parser
from hespas.tools.commands.render import Row, Table, show


@dataclass(frozen=True)
class Listing:
    """Presets: their ``names``, and what one is by ``load``, in JSON, and as a ``row``.

    The first ``left`` columns are text.
    """

    names: Sequence[str]
    load: Callable[[str], Any]
    as_json: Callable[[Any], Any]
    row: Callable[[Any], Row]
    header: Row
    left: int = 1


def arguments(prog: str, description: str, one: str) -> Parser:
    """A parser with ``name`` and ``--json``; ``one`` says what a name stands for."""
    parser = Parser(prog, description)
    parser.add_argument("name", nargs="?", help=one)
    parser.add_argument("--json", action="store_true", help="print JSON")
    return parser


def print_listing(listing: Listing, options: argparse.Namespace) -> int:
    """Print all presets, or the one of ``options.name`` as JSON; returns the exit code.

    Raises HespasError.
    """
    if options.name:
        print(json.dumps(listing.as_json(listing.load(options.name)), indent=1))
        return 0
    found = [listing.load(name) for name in listing.names]
    if options.json:
        print(json.dumps([listing.as_json(one) for one in found], indent=1))
    else:
        rows = [listing.row(one) for one in found]
        show([Table("", rows, listing.header, left=listing.left)])
    return 0
