"""The flags that options of xla-optimize stand for."""

from __future__ import annotations

from hespas.passes.base import build_pass
from hespas.passes.optimize.xla_optimize import XlaOptimizePass
from hespas.passes.pipeline import parse_options


def read_flags(options: str) -> str:
    """Return the flags of the framework, of the preset and of ``flags``, separated by spaces."""
    step = build_pass(XlaOptimizePass, dict(parse_options(options)))
    assert isinstance(step, XlaOptimizePass)
    return " ".join(step.list_user_flags())
