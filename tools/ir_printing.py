"""What ``hespas-opt`` prints of a module: at the end, and before and after passes."""

from __future__ import annotations

import argparse
import hashlib
import sys
from collections.abc import Collection, Iterator, Sequence
from dataclasses import field
from typing import TYPE_CHECKING, Any

from hespas.passes.pipeline import PassInstrumentation
from hespas.support.errors import UsageError
from hespas.support.records import record

if TYPE_CHECKING:
    from hespas.dialects.mlir import ir
    from hespas.passes.pipeline import PipelineStep

DUMP = "// -----// IR Dump {when} {name} //----- //"


@record(frozen=True)
class PrintOptions:
    """The form of a printed module; the fields are the flags of MLIR's tools.

    Attributes:
        typed: Whether attributes of hespas are ``#hespas.cost<...>`` instead of dictionaries.
    """

    generic: bool = False
    debug_info: bool = False
    local_scope: bool = False
    elide_elements_if_larger: int | None = None
    typed: bool = False

    @classmethod
    def from_arguments(cls, options: argparse.Namespace) -> PrintOptions:
        return cls(
            options.mlir_print_op_generic,
            options.mlir_print_debuginfo,
            options.mlir_print_local_scope,
            options.mlir_elide_elementsattrs_if_larger,
            options.typed_attributes,
        )

    def render(self, module: ir.Module) -> bytes:
        """Return the text of a module with a final line feed; the module need not be valid."""
        from hespas.workflows import module_output

        options: dict[str, Any] = {
            "locations": self.debug_info,
            "print_generic_op_form": self.generic,
            "use_local_scope": self.local_scope,
            "large_elements_limit": self.elide_elements_if_larger,
        }
        if self.typed:
            from hespas.dialects import typed_attrs

            return module_output.to_mlir_text(
                typed_attrs.copy_with_typed_attributes(module), **options
            )
        return module_output.to_mlir_text(module, **options)


@record()
class IrPrinting(PassInstrumentation):
    """Prints the module on stderr around passes, as the flags of MLIR's tools say.

    Attributes:
        form: The form of the text.
        before: The names of the passes before which it is printed.
        after: Those after which it is printed.
        before_all: Whether it is printed before every pass.
        after_all: Whether it is printed after every pass.
        only_changes: Whether ``after`` leaves out passes that changed nothing.
        after_failure: Whether it is printed after a pass that failed.
    """

    form: PrintOptions
    before: Collection[str] = ()
    after: Collection[str] = ()
    before_all: bool = False
    after_all: bool = False
    only_changes: bool = False
    after_failure: bool = False
    _digests: list[bytes] = field(default_factory=list, init=False)

    @classmethod
    def from_arguments(
        cls, options: argparse.Namespace, steps: Sequence[PipelineStep]
    ) -> IrPrinting:
        """Build the printing of the flags; raises UsageError for a pass that does not run."""
        names = set(_list_names(steps))
        by_flag = {}
        for when in ("before", "after"):
            flag = f"--mlir-print-ir-{when}"
            items = getattr(options, f"mlir_print_ir_{when}")
            by_flag[when] = {part for item in items for part in item.split(",")}
            unknown = by_flag[when] - names
            if unknown:
                raise UsageError(f"{flag}: '{min(unknown)}' is not in the pipeline")
        return cls(
            PrintOptions.from_arguments(options),
            by_flag["before"],
            by_flag["after"],
            options.mlir_print_ir_before_all,
            options.mlir_print_ir_after_all or options.mlir_print_ir_after_change,
            options.mlir_print_ir_after_change,
            options.mlir_print_ir_after_failure,
        )

    def run_before_pass(self, module: ir.Module, step: PipelineStep) -> None:
        if self.before_all or step.name in self.before:
            self._print_module("Before", step, module)
        if self.only_changes:
            self._digests.append(_digest_module(module))

    def run_after_pass(self, module: ir.Module, step: PipelineStep) -> None:
        before = self._digests.pop() if self.only_changes else None
        if self.after_all or step.name in self.after:
            if self.only_changes and _digest_module(module) == before:
                return
            self._print_module("After", step, module)

    run_before_listed_pass = run_before_pass
    run_after_listed_pass = run_after_pass

    def run_after_pass_failed(self, module: ir.Module, step: PipelineStep) -> None:
        if self.after_failure or self.after_all or step.name in self.after:
            self._print_module("After", step, module, " Failed")

    def _print_module(
        self, when: str, step: PipelineStep, module: ir.Module, outcome: str = ""
    ) -> None:
        title = DUMP.format(when=when, name=step.to_pipeline_text() + outcome)
        print(title, self.form.render(module).decode(errors="replace"), sep="\n", file=sys.stderr)


def _list_names(steps: Sequence[PipelineStep]) -> Iterator[str]:
    """List the names of passes, of prepare, and of the passes of lists."""
    from hespas.passes import registry
    from hespas.passes.pass_list import PassList

    for step in (registry.load_pass_class("prepare")(), *steps):
        yield step.name
        if isinstance(step, PassList):
            yield from (one.name for one, _ in step.list_entries())


def _digest_module(module: ir.Module) -> bytes:
    form = PrintOptions(generic=True, debug_info=True)
    return hashlib.sha256(form.render(module)).digest()
