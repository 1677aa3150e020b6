"""The passes and the pipeline that runs them: ``hespas.passes.run(module, "split-linear,...")``."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from hespas.passes.pipeline import run

__all__ = ["run"]


def __getattr__(name: str) -> Any:
    """``run``, imported when asked for: the names of passes are needed without the bindings."""
    if name == "run":
        from hespas.passes.pipeline import run

        return run
    raise AttributeError(f"module '{__name__}' has no attribute '{name}'")
