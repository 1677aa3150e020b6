"""Writes every generated file of the repository: ``python -m hespas.tools.generate_pages``.

``make generate`` runs it. ``test/unit/test_generated.py`` checks that the files are current.
"""

from __future__ import annotations

import importlib
from collections.abc import Iterable

from hespas.tools.schemas import SCHEMA_FOLDER, format_schema_files

ROOT = SCHEMA_FOLDER.parents[1]

GENERATORS = {  # file to "module:function", which returns its text
    "dialects/hespas.irdl": "hespas.dialects.irdl_text:render_irdl",
    "docs/reference/cli.md": "hespas.tools.cli_reference:render_markdown",
    "docs/reference/dialect.md": "hespas.dialects.dialect_reference:render_dialect_reference",
    "docs/reference/op-costs.md": "hespas.estimators.rules.op_costs_page:render_op_costs_page",
    "docs/reference/passes.md": "hespas.passes.passes_reference:render_markdown",
    "docs/reference/presets.md": "hespas.configs.preset_reference:render_preset_reference",
    "docs/reference/recipes.md": "hespas.frontends.recipes.recipes_page:render_recipes_page",
    "docs/reference/run-config.md": "hespas.tools.run_reference:render_markdown",
    "docs/reference/training-runs.md": (
        "hespas.workflows.validation.accuracy_page:render_accuracy_page"
    ),
    "docs/reference/whole-programs.md": "benchmarks.reference:render_markdown",
}


def render_generated_files(paths: Iterable[str] = tuple(GENERATORS)) -> dict[str, str]:
    """Return the current text of the given files and of all schemas, by path in the repository."""
    texts = {path: _render(GENERATORS[path]) for path in paths}
    schemas = {f"configs/schemas/{name}": text for name, text in format_schema_files().items()}
    return texts | schemas


def _render(generator: str) -> str:
    module, _, function = generator.partition(":")
    return getattr(importlib.import_module(module), function)()


def main() -> None:
    """Write the files whose text has changed, and print their names."""
    for name, text in render_generated_files().items():
        path = ROOT / name
        if not path.exists() or path.read_text("utf-8") != text:
            path.write_text(text, "utf-8")
            print(name)


if __name__ == "__main__":
    main()
