"""The argument parser of all commands. A wrong command line is reported as one line on stderr."""

from __future__ import annotations

import argparse
import functools
import math
import re
from collections.abc import Callable, Sequence
from typing import Any, NoReturn

from hespas.support.errors import UsageError
from hespas.support.suggestions import suggest_nearest

CommandFunction = Callable[[argparse.Namespace], int]
HELP_FORMATTER = functools.partial(argparse.RawDescriptionHelpFormatter, max_help_position=30)
INVALID_CHOICE = r"argument (.+): invalid choice: '(.*)' \(choose from (.*)\)"


class CommandParser(argparse.ArgumentParser):
    """An argparse parser without abbreviations that raises UsageError instead of exiting."""

    def __init__(self, prog: str, description: str = "", **options: Any) -> None:
        super().__init__(
            prog=prog,
            description=description,
            formatter_class=HELP_FORMATTER,
            allow_abbrev=False,
            **options,
        )
        self._commands: Any = None

    def add_command(
        self, name: str, summary: str, run: CommandFunction | None = None, description: str = ""
    ) -> CommandParser:
        """Add a sub-command and return its parser.

        Args:
            name: The word that selects the sub-command.
            summary: One line for the list of sub-commands.
            run: The function that ``run_command`` calls; None if the sub-command has
                sub-commands.
            description: The text of its help; the summary if it is empty.
        """
        if self._commands is None:
            self._commands = self.add_subparsers(
                title="commands", dest="command", metavar="COMMAND", required=True
            )
        text = description or f"{summary[0].upper()}{summary[1:]}."
        parser = self._commands.add_parser(name, help=summary, description=text)
        if run is not None:
            parser.set_defaults(run=run)
        return parser

    def run_command(self, argv: Sequence[str]) -> int:
        """Parse the arguments and run the selected sub-command; returns its exit code."""
        options = self.parse_args(list(argv))
        return options.run(options)

    def parse_known_args(  # type: ignore[override]
        self, args: Any = None, namespace: Any = None
    ) -> tuple[Any, list[str]]:
        """Report an unknown option here, so that the parser of a sub-command is named."""
        options, unknown = super().parse_known_args(args, namespace)
        if unknown:
            self.error(f"unrecognized arguments: {' '.join(unknown)}")
        return options, []

    def error(self, message: str) -> NoReturn:
        """Raise UsageError with the nearest known name as the remedy."""

        help_command = f"see {self.prog} --help"
        if match := re.match(INVALID_CHOICE, message):
            argument, value, choices = match.groups()
            remedy = suggest_nearest(value, re.findall(r"[\w.-]+", choices))
            raise UsageError(f"{argument}: invalid choice: '{value}'", remedy=remedy)
        unknown = message.removeprefix("unrecognized arguments: ").split()[0].partition("=")[0]
        if unknown.startswith("--"):
            known = [name for name in self._option_string_actions if name.startswith("--")]
            hint = suggest_nearest(unknown, known, min_similarity=0.7)
            remedy = f"{hint}{'' if hint.endswith('?') else ';'} {help_command}"
            raise UsageError(f"there is no option {unknown}", remedy=remedy)
        raise UsageError(message, remedy=help_command)


def parse_positive(text: str) -> float:
    """Parse an argument that is a number greater than 0."""
    value = _parse_finite_number(text)
    if value <= 0:
        raise argparse.ArgumentTypeError(f"'{text}' is not greater than 0")
    return value


def parse_non_negative(text: str) -> float:
    """Parse an argument that is a number of at least 0."""
    value = _parse_finite_number(text)
    if value < 0:
        raise argparse.ArgumentTypeError(f"'{text}' is negative")
    return value


def parse_count(text: str) -> int:
    """Parse an argument that is a whole number of at least 1."""
    if not text.isdecimal() or int(text) < 1:
        raise argparse.ArgumentTypeError(f"'{text}' is not a whole number of at least 1")
    return int(text)


def parse_row_limit(text: str) -> int | None:
    """Parse a limit of table rows; 0 means no limit and returns None."""
    if not text.isdecimal():
        raise argparse.ArgumentTypeError(f"'{text}' is not a whole number of at least 0")
    return int(text) or None


def parse_mesh(text: str) -> dict[str, int]:
    """Parse a mesh such as ``fsdp=4,tensor=2``."""
    mesh: dict[str, int] = {}
    for part in text.split(","):
        axis, equals, size = (word.strip() for word in part.partition("="))
        if not equals or not axis or not size.isdecimal() or int(size) < 1:
            raise argparse.ArgumentTypeError(f"'{part}' is not AXIS=N with N of at least 1")
        if axis in mesh:
            raise argparse.ArgumentTypeError(f"the axis '{axis}' is repeated")
        mesh[axis] = int(size)
    return mesh


def _parse_finite_number(text: str) -> float:
    try:
        value = float(text)
    except ValueError:
        value = math.nan
    if not math.isfinite(value):
        raise argparse.ArgumentTypeError(f"'{text}' is not a number")
    return value
