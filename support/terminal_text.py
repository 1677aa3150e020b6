"""Text that a terminal shows as it is: names of programs may hold what would control it."""

from __future__ import annotations

import re
from typing import TextIO

# Controls, marks that turn the direction of text, separators of lines, and halves of characters.
# Tabs and line feeds are kept.
_CONTROLS = "[\x00-\x08\x0b-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069\ud800-\udfff]"
_BREAKS = re.compile("[\t\n]")


def escape_controls(text: str) -> str:
    """Escape the characters that control a terminal, as ``\\x1b``; keeps tabs and line feeds."""
    if text.replace("\n", "").replace("\t", "").isprintable():  # the pattern is slow to compile
        return text
    return re.sub(_CONTROLS, _escape_character, text)


def escape_cell(text: str) -> str:
    """Escape the characters that control a terminal or break a line or a column."""
    return _BREAKS.sub(_escape_character, escape_controls(text))


def _escape_character(match: re.Match[str]) -> str:
    return ascii(match[0])[1:-1]


class EscapingStream:
    """A text stream that escapes control characters, and those that its encoding lacks.

    Attributes:
        terminal: The stream itself, for output that controls the terminal on purpose.
    """

    def __init__(self, stream: TextIO) -> None:
        self.terminal = stream

    def write(self, text: str) -> int:
        escaped = escape_controls(text)
        try:
            self.terminal.write(escaped)
        except UnicodeEncodeError as error:
            known = escaped.encode(error.encoding, "backslashreplace").decode(error.encoding)
            self.terminal.write(known)
        return len(text)

    def __getattr__(self, name: str) -> object:
        return getattr(self.terminal, name)


def get_terminal(stream: TextIO) -> TextIO:
    """Return the stream that an EscapingStream writes to, and other streams as they are."""
    return getattr(stream, "terminal", stream)
