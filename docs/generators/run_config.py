"""The text of ``docs/reference/run-config.md``."""

from __future__ import annotations

from collections.abc import Iterator

from pydantic.fields import FieldInfo

from docs.generators.markdown import format_codes, format_table
from hespas.tools.model_flags import spell_flag
from hespas.workflows.run_config import EXCLUDED, OUTPUTS, RunConfig, get_flag, list_run_options

HEAD = """# Options of a run

This page is generated from `RunConfig` by `make generate`.

Each option is a flag of `hespas run`, a key of its [configuration file](../how-to/run.md), a
keyword argument of `hespas.run` and `hespas.estimate`, and, with the exceptions below, a key of a
[sweep](sweep.md). The JSON Schema is `hespas presets schema run`.

"""

SHARED = """
Commands that make and estimate programs of their own have the options that follow, too. Those of
Python are keyword arguments of `hespas.plan` and `hespas.pipeline`.

"""


def render_page() -> str:
    """Render the whole page."""
    options = format_table(("key", "flag", "default", "meaning"), _list_options())
    commands = format_table(("command", "options", "left out, and why"), _list_commands())
    return f"{HEAD}{options}\nNot in a sweep: {format_codes(OUTPUTS)}.\n{SHARED}{commands}"


def _list_commands() -> Iterator[tuple[str, ...]]:
    for command, excluded in EXCLUDED.items():
        lacking = "; ".join(f"`{name}`: {reason}" for name, reason in excluded.items())
        yield f"`{command}`", format_codes(list_run_options(command)), lacking


def _list_options() -> Iterator[tuple[str, ...]]:
    for name, option in RunConfig.model_fields.items():
        group = get_flag(option).group.partition(";")[0]
        meaning = f"{option.description} ({group})" if group else str(option.description)
        yield f"`{name}`", f"`{spell_flag(name, option)}`", _format_default(option), meaning


def _format_default(option: FieldInfo) -> str:
    if option.default is None or option.default_factory is not None:
        return ""
    return f"`{str(option.default).lower()}`"
