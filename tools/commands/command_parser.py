"""The argument parser of all commands: a wrong line is one line on stderr."""

from __future__ import annotations

import argparse
import math
from typing import NoReturn

from hespas.support.errors import UsageError


class CommandParser(argparse.ArgumentParser):
    """argparse without abbreviations, that raises UsageError where argparse exits."""

    def __init__(self, prog: str, description: str) -> None:
        super().__init__(
            prog=prog,
            description=description,
            formatter_class=argparse.RawDescriptionHelpFormatter,
            allow_abbrev=False,
        )

    def error(self, message: str) -> NoReturn:
        unknown = message.removeprefix("unrecognized arguments: ").split()[0].partition("=")[0]
        if unknown.startswith("--"):
            from hespas.support.suggestions import suggest_nearest

            known = [name for name in self._option_string_actions if name.startswith("--")]
            hint = suggest_nearest(unknown, known, alike=0.7)
            remedy = f"{hint}{'' if hint.endswith('?') else ';'} see {self.prog} --help"
            raise UsageError(f"there is no option {unknown}", remedy=remedy)
        raise UsageError(message, remedy=f"see {self.prog} --help")


def parse_positive(text: str) -> float:
    """An argument that is a number above 0."""
    value = _parse_finite_number(text)
    if value <= 0:
        raise argparse.ArgumentTypeError(f"'{text}' is not above 0")
    return value


def parse_non_negative(text: str) -> float:
    """An argument that is a number from 0."""
    value = _parse_finite_number(text)
    if value < 0:
        raise argparse.ArgumentTypeError(f"'{text}' is negative")
    return value


def parse_count(text: str) -> int:
    """An argument that is a whole number from 1."""
    if not text.isdecimal() or int(text) < 1:
        raise argparse.ArgumentTypeError(f"'{text}' is not a whole number from 1")
    return int(text)


def _parse_finite_number(text: str) -> float:
    try:
        value = float(text)
    except ValueError:
        value = math.nan
    if not math.isfinite(value):
        raise argparse.ArgumentTypeError(f"'{text}' is not a number")
    return value
