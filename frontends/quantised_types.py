"""Quantised types of StableHLO text, which are read as the types that they are stored in.

jaxlib has no ``quant`` dialect. The cost of an op depends on the bytes and the rate of the storage
type only; scales and zero points change values. An op that needs more than the storage type, such
as ``tanh``, is not valid on integers, and MLIR then says so.
"""

from __future__ import annotations

import re
from mmap import mmap

TYPE = re.compile(rb"!quant\.(?:uniform|any|calibrated)<")
STORAGE = re.compile(rb"\s*([\w.]+)")
CONVERSION = re.compile(rb"\b(stablehlo|mhlo)\.uniform_(?:de)?quantize\b")
REMEDY = (
    "convert the quantised types first: stablehlo-opt --stablehlo-legalize-quant-to-math, or "
    "--stablehlo-legalize-qdq-to-quantized-op before it"
)


def has_quantised_types(text: bytes | mmap) -> bool:
    """Return whether a text has quantised types."""
    return text.find(b"!quant.") >= 0


def replace_quantised_types(text: bytes) -> bytes:
    """Replace quantised types by their storage types, and conversions between them by converts.

    Lines stay where they are.
    """
    pieces, position = [], 0
    for match in TYPE.finditer(text):
        end = _find_closing_bracket(text, match.end())
        storage = STORAGE.match(text, match.end())
        if end < 0 or storage is None or match.start() < position:
            continue
        name = storage[1]
        # Quantised types spell unsigned integers as u8, and MLIR as ui8.
        name = b"ui" + name[1:] if re.fullmatch(rb"u\d+", name) else name
        lines = b"\n" * text.count(b"\n", match.start(), end)
        pieces += [text[position : match.start()], name, lines]
        position = end
    pieces.append(text[position:])
    return CONVERSION.sub(rb"\1.convert", b"".join(pieces))


def _find_closing_bracket(text: bytes, start: int) -> int:
    """Return the position after the bracket that closes the one before ``start``; -1 if none."""
    depth = 1
    for match in re.compile(rb"[<>]").finditer(text, start):
        depth += 1 if match[0] == b"<" else -1
        if depth == 0:
            return match.end()
    return -1
