"""The text of ``docs/reference/passes.md``."""

from __future__ import annotations

import dataclasses
import inspect
from typing import get_args, get_type_hints

from docs.generators.markdown import format_prose, format_table
from hespas.passes import registry
from hespas.passes.base import Pass
from hespas.passes.pass_list import PassList

HEAD = """# Passes

This page is generated from the classes of the passes by `make generate`.

Each pass is a flag of `hespas-opt` (`--split-linear=block-limit=64`) and a step of a textual
pipeline. A pipeline can contain passes of MLIR, StableHLO, MHLO and Shardy too:

    hespas-opt in.mlir -p "split-linear{block-limit=64},cse,roofline-annotate{node=H100_80GB}"

`hespas-opt --help` lists these passes and those of installed packages: the entry points of
`hespas.passes`, and a pass `NAME-annotate` for each entry point of `hespas.estimators`. The options
of a pass `NAME-annotate` are the settings of the estimator, and options that all of these passes
have.

"""
TYPES = {bool: "true or false", int: "whole number", float: "number", str: "text"}


def render_page() -> str:
    """Render the page of the passes of hespas itself."""
    classes = [registry.load_pass_class(name) for name in registry.list_builtin_pass_names()]
    rows = [(_link(cls.name), format_prose(cls.get_help_summary())) for cls in classes]
    table = format_table(("pass", "description"), rows)
    return "".join([HEAD, table, *map(_render_section, classes)])


def _link(name: str) -> str:
    return f"[`{name}`](#{name})"


def _render_section(cls: type[Pass]) -> str:
    parts = [f"\n## {cls.name}\n\n{inspect.cleandoc(cls.__doc__ or '').replace('``', '`')}\n"]
    if cls.prepares:
        parts.append("\n`prepare` runs before this pass, unless it has run.\n")
    if issubclass(cls, PassList):
        rows = [(_link(step.name), format_prose(reason)) for step, reason in cls().list_entries()]
        parts += ["\n", format_table(("pass of the list", "why it stands there"), rows)]
    if cls.only_marks:
        parts.append("\nThis pass only adds or changes `hespas.*` attributes.\n")
    if cls.list_spelled_options():
        hints = get_type_hints(cls)
        options = [
            _list_option_cells(spelled, hints[f.name], f)
            for spelled, f in cls.list_spelled_options()
        ]
        parts += ["\n", format_table(("option", "value", "default", "meaning"), options)]
    return "".join(parts)


def _list_option_cells(
    spelled: str, hint: object, field: dataclasses.Field[object]
) -> tuple[str, ...]:
    kinds = [kind for kind in (hint, *get_args(hint)) if kind in TYPES]
    takes = TYPES[kinds[0]] if kinds else "text"  # type: ignore[index]
    value = str(field.default).lower() if isinstance(field.default, bool) else field.default
    default = f"`{value}`" if value not in ("", None) else "-"
    return f"`{spelled}`", takes, default, format_prose(field.metadata["help"])
