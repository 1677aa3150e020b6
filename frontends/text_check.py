"""Checks of a program before MLIR parses it.

Strings can hold text that is not UTF-8, which MLIR accepts: then locations are read with care. Some
text ends the process inside MLIR's parser, and is refused.
"""

from __future__ import annotations

import re
from mmap import mmap

from hespas.dialects import bytecode
from hespas.support import errors
from hespas.support.errors import HespasError

BLOCK_BYTES = 1 << 20
ESCAPE_BYTES = 3
# MLIR's text spells a byte of a string as two hexadecimal digits.
_ESCAPED_BYTE = re.compile(rb"\\[89A-Fa-f][0-9A-Fa-f]")
# MLIR's verifier of all_to_all divides by the number of groups.
_EMPTY_GROUPS = rb"replica_groups\s*=\s*dense<[^<>]*>\s*:\s*tensor<0x\d+xi\d+>"
_OP_NAME = rb'"(?:stablehlo|mhlo)\.(\w+)"'
_LONGEST_OP_BYTES = 4096


def check_text(text: bytes | mmap, name: str) -> None:
    """Raise HespasError for MLIR text in which the parser ends the process.

    Locations are read with care from now on if it holds anything but ASCII.
    """
    for match in re.finditer(_EMPTY_GROUPS, text):
        before = text[max(0, match.start() - _LONGEST_OP_BYTES) : match.start()]
        ops = list(re.finditer(_OP_NAME, before))
        if ops and ops[-1][1] == b"all_to_all":
            start = match.start() - len(before) + ops[-1].start()
            line = text[:start].count(b"\n") + 1
            column = start - text.rfind(b"\n", 0, start)
            raise HespasError(
                "the replica groups of the all_to_all are empty",
                where=f"{name}:{line}:{column}",
                remedy="list the devices of each group",
            )
    for start in range(0, len(text), BLOCK_BYTES):
        block = text[start : start + BLOCK_BYTES + ESCAPE_BYTES]
        if not block.isascii() or _ESCAPED_BYTE.search(block):
            errors.read_locations_as_text()
            return


def check_bytecode(data: bytes) -> None:
    """Read locations with care from now on if MLIR bytecode has strings of anything but ASCII."""
    try:
        strings = _extract_strings(data)
    except (IndexError, ValueError):  # damaged, which MLIR will report
        strings = None
    if strings is None or not strings.isascii():
        errors.read_locations_as_text()


def _extract_strings(data: bytes) -> bytes | None:
    """Return the strings of bytecode, joined, or None if it has no section of strings."""
    for kind, start, _ in bytecode.list_sections(data):
        if kind == bytecode.STRINGS:
            return b"".join(bytecode.read_strings(data, start))
    return None
