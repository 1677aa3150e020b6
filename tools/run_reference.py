"""Generate docs/reference/run-config.md: ``python -m hespas.tools.run_reference``."""

from __future__ import annotations

from collections.abc import Iterator

from pydantic.fields import FieldInfo

from hespas.tools.model_flags import spell_flag
from hespas.workflows.run_config import OUTPUTS, RunConfig, get_flag

HEAD = """# Options of a run

This page is generated from `RunConfig` by `python -m hespas.tools.run_reference`.

Each option is a flag of `hespas run`, a key of its [configuration file](../how-to/run.md), a
keyword argument of `hespas.run` and `hespas.estimate`, and, with the exceptions below, a key of a
[sweep](sweep.md). The JSON Schema is `hespas presets schema run`.

| key | flag | default | meaning |
|---|---|---|---|
"""


def render_markdown() -> str:
    """Render the whole page."""
    return "".join([HEAD, *_format_rows(), "\nNot in a sweep: ", _list_outputs(), ".\n"])


def _list_outputs() -> str:
    return ", ".join(f"`{name}`" for name in OUTPUTS)


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


if __name__ == "__main__":
    print(render_markdown(), end="")
