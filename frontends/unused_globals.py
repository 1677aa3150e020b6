"""Globals of ``ml_program`` that nothing refers to, which are left out of StableHLO text.

jaxlib has no such dialect. torch-mlir writes the seed of its random numbers so at the start of each
module, whether the program draws numbers or not. One that is used is left for MLIR to refuse.
"""

from __future__ import annotations

import re

SYMBOL = rb'(?:[\w$.-]+|"(?:[^"\\\n]|\\.)*")'
CUSTOM_FORM = re.compile(rb"^[ \t]*ml_program\.global\b[^@\n]*(@%b)[^\n]*" % SYMBOL, re.MULTILINE)
GENERIC_FORM = re.compile(
    rb'^[ \t]*"ml_program\.global"\(\)[^\n]*\bsym_name = "((?:[^"\\\n]|\\.)*)"[^\n]*', re.MULTILINE
)


def leave_out_unused_globals(text: bytes, *, keeps_generic_form: bool) -> bytes:
    """Return a text without the globals that nothing refers to; lines stay where they are.

    Args:
        text: The text.
        keeps_generic_form: Whether unregistered ops are read, which are in the generic form.
    """

    def leave_out(op: re.Match[bytes]) -> bytes:
        spelled = op[1] if op[1].startswith(b"@") else b"@" + op[1]
        others = (text[: op.start()], text[op.end() :])
        names = {spelled, b'@"%b"' % spelled[1:].strip(b'"')}
        is_used = any(
            re.search(rb"%b(?![\w$.-])" % re.escape(name), other)
            for name in names
            for other in others
        )
        is_whole = all(op[0].count(a) == op[0].count(b) for a, b in ((b"(", b")"), (b"[", b"]")))
        return b"" if is_whole and not is_used else op[0]

    text = CUSTOM_FORM.sub(leave_out, text)
    return text if keeps_generic_form else GENERIC_FORM.sub(leave_out, text)
