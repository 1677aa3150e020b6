"""What ``hespas-opt`` prints of a module, at the end and around passes, and its reproducers."""

from __future__ import annotations

import argparse
import hashlib
import os
import re
import sys
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from hespas.passes.base import Pass
from hespas.passes.pipeline import PassInstrumentation, format_pipeline, parse_pipeline
from hespas.support import output_file, supervised_process
from hespas.support.errors import HespasError, UsageError
from hespas.support.suggestions import suggest_nearest
from hespas.support.temporary_paths import open_temporary_file

if TYPE_CHECKING:
    from hespas.dialects.mlir import ir
    from hespas.passes.pipeline import PipelineStep

DUMP = "// -----// IR Dump {when} {name} //----- //"
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


def render_as_asked(module: ir.Module, options: argparse.Namespace) -> bytes:
    """Return the text of a module in the form that the flags of ``hespas-opt`` select.

    They are those of MLIR's tools, and ``--typed-attributes``. The module need not be valid.
    """
    from hespas.dialects import typed_attrs
    from hespas.workflows import module_output

    return module_output.to_mlir_text(
        typed_attrs.copy_with_typed_attributes(module) if options.typed_attributes else module,
        locations=options.mlir_print_debuginfo,
        print_generic_op_form=options.mlir_print_op_generic,
        use_local_scope=options.mlir_print_local_scope,
        use_name_loc_as_prefix=options.mlir_use_nameloc_as_prefix,
        large_elements_limit=options.mlir_elide_elementsattrs_if_larger,
        large_resource_limit=options.mlir_elide_resource_strings_if_larger,
    )


def _render_completely(module: ir.Module) -> bytes:
    """Return the text that has all of a module, in a form that every tool reads."""
    from hespas.workflows import module_output

    return module_output.to_mlir_text(module, locations=True, print_generic_op_form=True)


class IrPrinting(PassInstrumentation):
    """Prints the module on stderr around passes, as the flags of MLIR's tools say."""

    def __init__(self, options: argparse.Namespace, steps: Sequence[PipelineStep]) -> None:
        """Read the flags; raises UsageError for a pass that does not run."""
        self.options = options
        self.only_changes: bool = options.mlir_print_ir_after_change
        self.after_all: bool = options.mlir_print_ir_after_all or self.only_changes
        self.before, self.after = (
            self._read_names(when, {*_list_all_names(steps)}) for when in ("before", "after")
        )
        self._digests: list[bytes] = []

    def _read_names(self, when: str, known: set[str]) -> set[str]:
        items = getattr(self.options, f"mlir_print_ir_{when}")
        names = {part for item in items for part in item.split(",")}
        if names - known:
            unknown = min(names - known)
            raise UsageError(
                f"--mlir-print-ir-{when}: '{unknown}' is not in the pipeline",
                remedy=suggest_nearest(unknown, sorted(known)) if known else "it has no passes",
            )
        return names

    def run_before_pass(self, module: ir.Module, step: PipelineStep) -> None:
        if self.options.mlir_print_ir_before_all or not self.before.isdisjoint(_list_names(step)):
            self._print_module("Before", step, module)
        if self.only_changes:
            self._digests.append(_digest_module(module))

    def run_after_pass(self, module: ir.Module, step: PipelineStep) -> None:
        before = self._digests.pop() if self.only_changes else None
        if self.after_all or not self.after.isdisjoint(_list_names(step)):
            if self.only_changes and _digest_module(module) == before:
                return
            self._print_module("After", step, module)

    run_before_listed_pass = run_before_pass
    run_after_listed_pass = run_after_pass

    def run_after_pass_failed(self, module: ir.Module, step: PipelineStep) -> None:
        after_failure = self.options.mlir_print_ir_after_failure
        if after_failure or self.after_all or not self.after.isdisjoint(_list_names(step)):
            self._print_module("After", step, module, " Failed")

    def _print_module(
        self, when: str, step: PipelineStep, module: ir.Module, outcome: str = ""
    ) -> None:
        title = DUMP.format(when=when, name=step.to_pipeline_text() + outcome)
        text = render_as_asked(module, self.options).decode(errors="replace")
        print(title, text, sep="\n", file=sys.stderr)


def _list_names(step: PipelineStep) -> list[str]:
    """List the name of a pass, and of the native passes that are nested in it."""
    return [step.name] if isinstance(step, Pass) else step.list_names()


def _list_all_names(steps: Sequence[PipelineStep]) -> Iterator[str]:
    """List the names of passes, of a prepare that may run before them, and of passes of lists."""
    from hespas.passes import registry
    from hespas.passes.pass_list import PassList

    may_prepare = any(isinstance(step, Pass) and step.prepares for step in steps)
    prepare = [registry.load_pass_class("prepare")()] if may_prepare else []
    for step in (*prepare, *steps):
        yield from _list_names(step)
        if isinstance(step, PassList):
            yield from (one.name for one, _ in step.list_entries())


def _digest_module(module: ir.Module) -> bytes:
    return hashlib.sha256(_render_completely(module)).digest()


class ReproducerWriting(PassInstrumentation):
    """Writes a reproducer if a pass fails.

    Native code may end the process. Therefore a temporary file beside the reproducer holds what it
    will contain while a pass runs, and the supervisor of the process moves it to its place.

    Attributes:
        path: The file. One that is there stays as it is if no pass fails.
        remaining: The passes that have not ended.
    """

    def __init__(self, path: str, steps: Sequence[PipelineStep]) -> None:
        """Check the path; raises HespasError if it cannot be written."""
        output_file.check_writable_file(path)
        self.path = path
        self.remaining = list(steps)
        self._content = b""
        self._temporary = ""

    def run_before_pass(self, module: ir.Module, step: PipelineStep) -> None:
        pipeline = format_pipeline(self.remaining).replace("\\", "\\\\").replace('"', '\\"')
        text = _render_completely(module)
        self._content = text + RESOURCE.format(pipeline=pipeline).encode()
        target = os.path.realpath(self.path)
        is_plain = os.path.isfile(target) or not os.path.exists(target)
        if is_plain and not output_file.is_open_file(self.path):
            temporary, descriptor = open_temporary_file(os.path.dirname(target))
            self._temporary = os.fspath(temporary)
            supervised_process.record_crash_file(temporary, target)
            with open(descriptor, "wb") as file:
                file.write(self._content)

    def run_after_pass(self, module: ir.Module, step: PipelineStep) -> None:
        self._remove_temporary()
        if self.remaining[:1] == [step]:  # not a prepare that became necessary
            self.remaining.pop(0)

    def run_after_pass_failed(self, module: ir.Module, step: PipelineStep) -> None:
        self._remove_temporary()
        output_file.write_atomically(self.path, self._content)

    def _remove_temporary(self) -> None:
        if self._temporary:
            os.unlink(self._temporary)
            supervised_process.forget_temporary(self._temporary)
            self._temporary = ""


def read_pipeline(data: bytes, name: str) -> list[PipelineStep]:
    """Read the pipeline of a reproducer; raises HespasError."""
    match = PIPELINE.search(data)
    if match is None:
        raise HespasError(
            "the file is no reproducer", where=name, remedy="leave out --run-reproducer"
        )
    return parse_pipeline(re.sub(r"\\(.)", r"\1", match[1].decode(errors="replace")))
