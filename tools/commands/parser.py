"""The argument parser of all commands: a wrong line is one line on stderr."""

from __future__ import annotations

import argparse
from typing import NoReturn

from hespas.dialects.errors import UsageError


class Parser(argparse.ArgumentParser):
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
            from hespas.passes.base import nearest

            known = [name for name in self._option_string_actions if name.startswith("--")]
            remedy = f"{nearest(unknown, known)} see {self.prog} --help"
            raise UsageError(f"there is no option {unknown}", remedy=remedy)
        raise UsageError(message, remedy=f"see {self.prog} --help")
