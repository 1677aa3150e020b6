"""Globals of ``ml_program`` that nothing refers to, which are left out of StableHLO text.

jaxlib has no such dialect, so that MLIR cannot parse the form in which it prints them. torch-mlir
writes the seed of its random numbers so at the start of each module, whether the program draws
numbers or not. A global that is used, or that is not written as MLIR writes it, is left for MLIR to
refuse.

Only the tokens of such an op are left out, over as many lines as it has, and blanks take their
places: everything else stays where it is. What a string or a comment contains is no token.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator

from hespas.support.records import record

_STRING = rb'"[^"\\\n]*(?:\\.[^"\\\n]*)*"'
_SYMBOL = rb"@(?:[\w$.-]+|%b)" % _STRING
_COMMENT = rb"//[^\n]*"
_GENERIC_NAME = b'"ml_program.global"'
# What tells where globals are, and what refers to them. Branches that start with a literal are
# searched several times as fast as others.
_MARK = re.compile(
    rb"%b|%b|%b|m(?<![\w$.#!%%^@-]m)l_program\.global(?![\w$.-])" % (_STRING, _COMMENT, _SYMBOL)
)
_TOKEN = re.compile(
    rb"(?:\s|%b)*(%b|%b|[#!%%^]?[\w$.]+|->|[<>]=|::|[^\s])" % (_COMMENT, _STRING, _SYMBOL)
)
_PARTNERS = {b"(": b")", b"[": b"]", b"{": b"}", b"<": b">"}
_ESCAPED = re.compile(rb'\\(?:([0-9A-Fa-f]{2})|(n)|(t)|([\\"]))')


def leave_out_unused_globals(text: bytes, *, keeps_generic_form: bool) -> bytes:
    """Return a text without the globals that nothing refers to; all else stays where it is.

    Args:
        text: The text.
        keeps_generic_form: Whether unregistered ops are read, which are in the generic form.
    """
    globals_of_text: list[_Global] = []
    references = Counter[bytes]()
    for mark in _MARK.finditer(text):
        known = None
        if mark[0].startswith(b"@"):
            references[_read_name(mark[0][1:])] += 1
        elif mark[0].startswith(b"m"):
            known = _read_custom_global(text, mark.start(), mark.end())
        elif mark[0] == _GENERIC_NAME:
            known = _read_generic_global(text, mark.start(), mark.end())
        if known is not None:
            globals_of_text.append(known)
    # The symbol of a definition in the custom form is no reference.
    references.subtract(known.name for known in globals_of_text if not known.is_generic)
    pieces, position = [], 0
    for known in globals_of_text:
        if references[known.name] or (known.is_generic and keeps_generic_form):
            continue
        blanks = re.sub(rb"[^\n]", b" ", text[known.start : known.end])
        pieces += [text[position : known.start], blanks]
        position = known.end
    return b"".join([*pieces, text[position:]])


@record(frozen=True, slots=True)
class _Global:
    """A global: its name, and the positions of its first byte and after its last one."""

    name: bytes
    start: int
    end: int
    is_generic: bool


class _UnknownFormError(Exception):
    """The tokens are not those of a global as MLIR writes it."""


@record(slots=True)
class _Reader:
    """Reads the tokens from a position on; ``position`` is the one after the last that was read."""

    text: bytes
    position: int

    def peek(self) -> bytes:
        """Return the next token; empty at the end of the text."""
        match = _TOKEN.match(self.text, self.position)
        return match[1] if match else b""

    def read(self, *expected: bytes) -> bytes:
        """Read the next token, which must be one of those that are expected, if any is."""
        match = _TOKEN.match(self.text, self.position)
        if match is None or (expected and match[1] not in expected):
            raise _UnknownFormError
        self.position = match.end()
        return match[1]

    def read_if(self, *expected: bytes) -> bool:
        """Read the next token if it is one of those that are expected."""
        if self.peek() not in expected:
            return False
        self.read()
        return True

    def read_group(self, opening: bytes) -> Iterator[bytes]:
        """Yield the tokens up to the bracket that closes ``opening``, which comes next."""
        self.read(opening)
        pending = [_PARTNERS[opening]]
        while pending:
            token = self.read()
            if token in _PARTNERS:
                pending.append(_PARTNERS[token])
            elif token in _PARTNERS.values() and token != pending.pop():
                raise _UnknownFormError
            yield token

    def skip_group(self, opening: bytes) -> bool:
        """Read a group if its bracket comes next."""
        if self.peek() != opening:
            return False
        for _ in self.read_group(opening):
            pass
        return True

    def skip_type(self) -> None:
        """Read a type."""
        if self.skip_group(b"("):
            self.read(b"->")
            if not self.skip_group(b"("):
                self.skip_type()
            return
        if not re.fullmatch(rb"!?[A-Za-z_][\w$.]*", self.read()):
            raise _UnknownFormError
        self.skip_group(b"<")

    def skip_location(self) -> None:
        """Read a location, if there is one."""
        start = self.position
        if self.read_if(b"loc") and not self.skip_group(b"("):
            self.position = start


def _read_custom_global(text: bytes, start: int, end: int) -> _Global | None:
    """Read a global in the form that MLIR prints; None for tokens of anything else.

    Args:
        text: The text.
        start: The position of the name of the op.
        end: The position after it.
    """
    reader = _Reader(text, end)
    try:
        reader.read_if(b"public", b"private", b"nested")
        reader.read_if(b"mutable")
        symbol = reader.read()
        if not symbol.startswith(b"@"):
            return None
        reader.skip_group(b"(")
        reader.read(b":")
        reader.skip_type()
        reader.skip_group(b"{")
        reader.skip_location()
    except _UnknownFormError:
        return None
    return _Global(_read_name(symbol[1:]), start, reader.position, is_generic=False)


def _read_generic_global(text: bytes, start: int, end: int) -> _Global | None:
    """Read a global in the generic form; see ``_read_custom_global``."""
    reader = _Reader(text, end)
    entries: list[bytes] = []
    try:
        reader.read(b"(")
        reader.read(b")")
        if reader.peek() == b"<":
            entries += reader.read_group(b"<")
        if reader.peek() == b"{":
            entries += reader.read_group(b"{")
        for token in (b":", b"(", b")", b"->", b"(", b")"):
            reader.read(token)
        reader.skip_location()
    except _UnknownFormError:
        return None
    for key, sign, value in zip(entries, entries[1:], entries[2:], strict=False):
        if key.strip(b'"') == b"sym_name" and sign == b"=" and value.startswith(b'"'):
            return _Global(_read_name(value), start, reader.position, is_generic=True)
    return None


def _read_name(spelled: bytes) -> bytes:
    """Return a name that may be a string."""
    if not spelled.startswith(b'"'):
        return spelled

    def unescape(match: re.Match[bytes]) -> bytes:
        digits, line, tab, mark = match.groups()
        return (
            bytes.fromhex(digits.decode()) if digits else b"\n" if line else b"\t" if tab else mark
        )

    return _ESCAPED.sub(unescape, spelled[1:-1])
