"""The text of ``docs/reference/run-config.md``."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from pydantic.fields import FieldInfo

from hespas.tools.model_flags import spell_flag
from hespas.workflows.run_config import EXCLUDED, OUTPUTS, RunConfig, get_flag, list_run_options

HEAD = """# Options of a run

This page is generated from `RunConfig` by `make generate`.

Each option is a flag of `hespas run`, a key of its [configuration file](../how-to/run.md), a
keyword argument of `hespas.run` and `hespas.estimate`, and, with the exceptions below, a key of a
[sweep](sweep.md). The JSON Schema is `hespas presets schema run`.

| key | flag | default | meaning |
|---|---|---|---|
"""

SHARED = """
Commands that make and estimate programs of their own have the options that follow, too. Those of
Python are keyword arguments of `hespas.plan` and `hespas.pipeline`.

| command | options | left out, and why |
|---|---|---|
"""


def render_page() -> str:
    """Render the whole page."""
    parts = [HEAD, *_format_rows(), f"\nNot in a sweep: {_list_names(OUTPUTS)}.\n", SHARED]
    return "".join([*parts, *_format_commands()])


def _list_names(names: Iterable[str]) -> str:
    return ", ".join(f"`{name}`" for name in names)


def _format_commands() -> Iterator[str]:
    for command, excluded in EXCLUDED.items():
        lacking = "; ".join(f"`{name}`: {reason}" for name, reason in excluded.items())
        yield f"| `{command}` | {_list_names(list_run_options(command))} | {lacking} |\n"


def _format_rows() -> Iterator[str]:
    for name, option in RunConfig.model_fields.items():
        group = get_flag(option).group.partition(";")[0]
        meaning = f"{option.description} ({group})" if group else str(option.description)
        cells = (f"`{name}`", f"`{spell_flag(name, option)}`", _format_default(option), meaning)
        yield f"| {' | '.join(cell.replace('|', chr(92) + '|') for cell in cells)} |\n"


def _format_default(option: FieldInfo) -> str:
    if option.default is None or option.default_factory is not None:
        return ""
    return f"`{str(option.default).lower()}`"
