"""Passes, and the pipeline that runs them: ``run_pipeline(module, "split-linear,...")``."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from hespas.passes.pipeline import run_pipeline

__all__ = ["run_pipeline"]


def __getattr__(name: str) -> Any:
    """Import ``run_pipeline`` when it is used: pass names are needed without the bindings."""
    if name == "run_pipeline":
        from hespas.passes.pipeline import run_pipeline

        return run_pipeline
    raise AttributeError(f"module '{__name__}' has no attribute '{name}'")
