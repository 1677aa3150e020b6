"""Reproducers: the module before a pass that fails, with the pipeline that makes it fail."""

from __future__ import annotations

import os
import re
from dataclasses import dataclass
from typing import TYPE_CHECKING

from hespas.passes.pipeline import PassInstrumentation
from hespas.support import output_file
from hespas.support.errors import HespasError

if TYPE_CHECKING:
    from hespas.dialects.mlir import ir
    from hespas.passes.pipeline import PipelineStep

# MLIR's tools write and read this too.
RESOURCE = """\

{{-#
  external_resources: {{
    mlir_reproducer: {{
      pipeline: "builtin.module({pipeline})",
      disable_threading: true,
      verify_each: true
    }}
  }}
#-}}
"""
PIPELINE = re.compile(rb'mlir_reproducer:\s*\{\s*pipeline:\s*"((?:[^"\\]|\\.)*)"')


@dataclass
class ReproducerWriting(PassInstrumentation):
    """Writes a reproducer before each pass, and removes it when all passes have ended well.

    It is there before a pass starts because native code may end the process.

    Attributes:
        path: The file.
        remaining: The passes that have not ended.
    """

    path: str
    remaining: list[PipelineStep]

    def run_before_pass(self, module: ir.Module, step: PipelineStep) -> None:
        from hespas.passes.pipeline import format_pipeline
        from hespas.tools.ir_printing import PrintOptions

        pipeline = format_pipeline(self.remaining).replace("\\", "\\\\").replace('"', '\\"')
        text = PrintOptions(generic=True, debug_info=True).render(module)
        output_file.write_atomically(self.path, text + RESOURCE.format(pipeline=pipeline).encode())

    def run_after_pass(self, module: ir.Module, step: PipelineStep) -> None:
        self.remaining.pop(0)
        if not self.remaining:
            os.unlink(self.path)

    def run_after_pass_failed(self, module: ir.Module, step: PipelineStep) -> None:
        """Leave the reproducer where it is."""


def read_pipeline(data: bytes, name: str) -> list[PipelineStep]:
    """Read the pipeline of a reproducer; raises HespasError."""
    from hespas.passes.pipeline import parse_pipeline

    match = PIPELINE.search(data)
    if match is None:
        raise HespasError(
            "the file is no reproducer", where=name, remedy="leave out --run-reproducer"
        )
    return parse_pipeline(re.sub(r"\\(.)", r"\1", match[1].decode(errors="replace")))
