"""A named list of passes that one pass runs, each of which is also a pass of its own."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Sequence
from contextlib import nullcontext
from typing import TYPE_CHECKING, Any, Generic, NamedTuple, TypeVar

from hespas.passes.base import Pass, PassRun

if TYPE_CHECKING:
    from hespas.dialects.mlir import ir

View = TypeVar("View")


class ListedPass(Pass, Generic[View]):
    """A pass of a list. It reads the module by a view that the passes of the list share."""

    def apply(self, module: ir.Module, run: PassRun) -> None:
        self.check_options(self.name)
        self.rewrite(module, self.collect_view(module), run)

    def check_options(self, owner: str) -> None:
        """Raise UsageError for a wrong option; ``owner`` is the pass that the user has named."""

    @abstractmethod
    def collect_view(self, module: ir.Module) -> View:
        """Collect what the passes of the list read of a module."""

    @abstractmethod
    def rewrite(self, module: ir.Module, view: View, run: PassRun) -> bool:
        """Transform the module, and return whether its view is no longer true."""


class ListEntry(NamedTuple):
    """A pass of a list, and why it stands where it does."""

    step: ListedPass[Any]
    reason: str


class PassList(Pass):
    """A pass that runs a list of passes."""

    @abstractmethod
    def list_entries(self) -> list[ListEntry]:
        """List the passes that these options run, in order."""

    def to_entries_text(self) -> str:
        """Format the passes of the list as a textual pipeline, which does the same more slowly."""
        return ",".join(step.to_pipeline_text() for step, _ in self.list_entries())


def run_entries(
    entries: Sequence[ListEntry], module: ir.Module, run: PassRun, *, is_shown: bool = True
) -> Any:
    """Run the passes of a list. A view is collected again only if a pass has changed it.

    Args:
        is_shown: Whether the tool prints, times and verifies each pass, if it does so at all.

    Returns:
        The view, or None if it is no longer true.
    """
    view = None
    for step, _ in entries:
        if view is None:
            view = step.collect_view(module)
        with run.observe(step) if is_shown and run.observe is not None else nullcontext():
            if step.rewrite(module, view, run):
                view = None
    return view
