"""The stages of a program between the passes of a sweep, and caches of the latest of them."""

from __future__ import annotations

from collections.abc import Callable, Hashable
from dataclasses import dataclass, replace
from typing import Generic, TypeVar

from hespas.dialects.attrs import TargetAttr
from hespas.dialects.mlir import clone_module, ir
from hespas.passes.base import PassRun
from hespas.workflows import run_flow

Value = TypeVar("Value")


class SingleEntryCache(Generic[Value]):
    """A cache of the latest value."""

    def __init__(self) -> None:
        self._key: Hashable = None
        self._value: Value | None = None

    def find(self, key: Hashable) -> Value | None:
        """Return the value of a key, or None."""
        return self._value if key == self._key else None

    def store(self, key: Hashable, value: Value | None) -> None:
        """Replace the value."""
        self._key, self._value = key, value

    def get_or_make(self, key: Hashable, make: Callable[[], Value]) -> Value:
        """Return the value of a key, which is made if it is not known."""
        if key != self._key or self._value is None:
            self.store(None, None)  # frees the old module before the new one is made
            self.store(key, make())
            assert self._value is not None
        return self._value


@dataclass(frozen=True)
class ModuleStage:
    """A module between two passes.

    Attributes:
        module: The module.
        run: The state of its pipeline.
        early_warnings: The number of warnings up to the memory analysis, after which ``hespas run``
            warns that the program does not fit.
        form: The description of the program's form.
    """

    module: ir.Module
    run: PassRun
    early_warnings: int = 0
    form: str = ""

    @property
    def compile_target(self) -> TargetAttr:
        """The target of the module."""
        return run_flow.read_module_target(self.module)

    def copy_stage(self) -> ModuleStage:
        """Copy the stage, so that further passes leave this one as it is."""
        return replace(self, module=clone_module(self.module), run=self.copy_run())

    def copy_run(self) -> PassRun:
        """Copy the state of the pipeline."""
        old = self.run
        return replace(
            old,
            warnings=[*old.warnings],
            artefacts=[*old.artefacts],
            contents={**old.contents},
            current={*old.current},
        )
