"""What users bring besides modules: the artefact of ``jax.export``, which holds one, and others."""

from __future__ import annotations

import os
import re
import struct
from typing import NamedTuple

from hespas.support.errors import HespasError

FORMATS = (
    "MLIR text or bytecode, a portable artifact, an artefact of jax.export, HLO text or an HLO "
    "protobuf"
)
BYTECODE_MAGIC = b"ML\xefR"
# The first bytes of files, what they are, and where the program is instead.
_LOWERED = "write jax.jit(f).lower(...).as_text(), or let hespas export lower the program"
_BINARIES = (
    (b"PK\x03\x04", "a zip archive, such as torch.export and Keras save", (
        "let hespas export lower the program: a function of a Python file that loads the archive, "
        "as docs/how-to/pytorch.md shows"
    )),
    (b"\x7fELF", "machine code", _LOWERED),
    (b"\x80", "a pickle, such as jax.experimental.serialize_executable makes", _LOWERED),
)  # fmt: skip
_TEXTS = (
    (rb"\{ lambda|let\s+\w+\s*=\s*\{ lambda", "a jaxpr", _LOWERED),
    (rb"digraph|<", "a picture of a program", _LOWERED),
)  # fmt: skip
_MODELS = {
    ".onnx": "an ONNX model", ".pb": "a model of TensorFlow", ".tflite": "a TFLite model",
}  # fmt: skip
_EXPORTED = "export the program as StableHLO from the framework that it is written in"
_DUMP = r"(^|/)module_\d+\.[^/]*$"
_SKIPPED = rb"(?:\s|//[^\n]*(?:\n|$))*"


_PLATFORMS_FIELD = 9  # of the platforms in the table of an Exported


class ExportedArtefact(NamedTuple):
    """The bytecode in a serialised ``jax.export.Exported``, and the platforms that it is for."""

    bytecode: bytes
    platforms: list[str]


def read_exported_artefact(data: bytes) -> ExportedArtefact | None:
    """Read a serialised ``jax.export.Exported``; None if the data is something else.

    This is a flatbuffer: an offset leads to its root table, whose fields are offsets of vectors.
    The gradient that it may hold is an artefact of its own, in another field.
    """
    try:
        root = _read_number("<I", data, 0)
        table = root - _read_number("<i", data, root)
        entries = range(table + 4, table + _read_number("<H", data, table), 2)
        offsets = [_read_number("<H", data, entry) for entry in entries]
    except struct.error:
        return None
    for offset in offsets:
        try:
            vector = root + offset + _read_number("<I", data, root + offset)
            length = _read_number("<I", data, vector)
        except struct.error:  # a number, not an offset
            continue
        start = vector + 4
        if data.startswith(BYTECODE_MAGIC, start) and start + length <= len(data):
            try:
                platforms = _read_texts(data, root + offsets[_PLATFORMS_FIELD])
            except (struct.error, IndexError, UnicodeDecodeError):  # damaged, or of a later format
                platforms = []
            return ExportedArtefact(data[start : start + length], platforms)
    return None


def _read_texts(data: bytes, field: int) -> list[str]:
    """Read a vector of texts of a flatbuffer, each of which is a vector of bytes."""
    vector = field + _read_number("<I", data, field)
    places = range(vector + 4, vector + 4 + 4 * _read_number("<I", data, vector), 4)
    starts = [place + _read_number("<I", data, place) for place in places]
    ends = [start + 4 + _read_number("<I", data, start) for start in starts]
    return [data[start + 4 : end].decode() for start, end in zip(starts, ends, strict=True)]


def _read_number(form: str, data: bytes, at: int) -> int:
    """Read a number in a form of ``struct``; raises struct.error if the data ends before it."""
    return struct.unpack_from(form, data, at)[0]


def describe_binary(data: bytes, name: str) -> HespasError:
    """Describe a binary file that is no module."""
    for magic, what, remedy in _BINARIES:
        if data.startswith(magic):
            return HespasError(f"this is {what}, not a module", where=name, remedy=remedy)
    return _describe_model(name) or HespasError(
        "unknown or damaged binary format", where=name, remedy=f"hespas reads {FORMATS}"
    )


def _describe_model(name: str) -> HespasError | None:
    """Describe a file whose name is that of a model of another framework; None if it is not."""
    what = _MODELS.get(os.path.splitext(name)[1].lower())
    if what is None:
        return None
    return HespasError(f"this is {what}, not a module", where=name, remedy=_EXPORTED)


def describe_text(error: HespasError, name: str, text: bytes) -> HespasError:
    """Return an error about a text that is no MLIR, or of several modules; or the error as it is.

    It is no MLIR if the error is at its very first word.
    """
    stated = re.fullmatch(r":(\d+):\d+", error.where.removeprefix(name))
    lines = text.split(b"\n")
    at = lines[int(stated[1]) - 1] if stated and int(stated[1]) <= len(lines) else b""
    if "redefinition of symbol" in error.message and at.startswith(b"module"):
        remedy = "write each module to a file of its own"
        return HespasError("the file has several modules", where=error.where, remedy=remedy)
    if b"__elided__" in at:
        error.remedy = "a printer has left out this constant: print the module with its constants"
    first = re.match(_SKIPPED, text)
    start = first.end() if first else 0
    line, column = text.count(b"\n", 0, start) + 1, start - text.rfind(b"\n", 0, start)
    place = f":{line}:{column}"
    word = text[start:].split(maxsplit=1)[0][:40] if text[start:].strip() else b""
    if error.where != f"{name}{place}" or re.match(rb'"|\w+\.\w', word):
        return error
    for pattern, what, remedy in _TEXTS:
        if re.match(pattern, text[start : start + 200]):
            return HespasError(f"this is {what}, not a module", where=error.where, remedy=remedy)
    model = _describe_model(name)
    if model is not None:
        return model
    remedy = f"hespas reads {FORMATS}"
    if re.search(_DUMP, os.path.abspath(name)):
        remedy += "; of XLA's dumps, ....before_optimizations.txt and ...after_optimizations.txt"
    return HespasError(
        f"this is neither MLIR nor HLO: it starts with {word.decode(errors='replace')!r}",
        where=error.where,
        remedy=remedy,
    )
