"""HLO in tests: text in, text out."""

from __future__ import annotations

from hespas.dialects.hlo_schema import build_hlo_message
from hespas.dialects.mlir import hlo_text_to_proto
from hespas.dialects.xla import hlo_proto_to_text
from hespas.passes.compile.hlo_program import HloProgram
from hespas.passes.compile.tpu_hlo import rewrite_tpu_hlo


def read_hlo_program(text: str) -> HloProgram:
    """Read HLO text with XLA's parser."""
    return HloProgram(hlo_text_to_proto(text))


def print_hlo_program(program: HloProgram) -> str:
    """Return a program as XLA prints it, without a schedule."""
    return hlo_proto_to_text(program.serialize(keep_schedule=False), constants=True)


def rewrite_tpu_text(text: str) -> str:
    """Rewrite the text of a module that XLA:TPU has compiled; async pairs are kept."""
    program = read_hlo_program(text)
    rewrite_tpu_hlo(program, keep_async=True)
    return print_hlo_program(program)


def wrap_hlo_proto(text: str) -> bytes:
    """Return HLO text as a serialised HloProto, in which XLA dumps a module."""
    message = build_hlo_message("HloProto")
    message.hlo_module.ParseFromString(hlo_text_to_proto(text))
    return message.SerializeToString()
