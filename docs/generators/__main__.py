"""Writes every generated file of the repository: ``python -m docs.generators``.

``make generate`` runs it. With ``--check``, as in ``make lint``, it names the files that are not
current.
"""

from __future__ import annotations

import importlib
import itertools
import sys
from collections.abc import Callable, Iterator, Sequence

from benchmarks import ROOT
from docs.generators.schemas import format_schema_files
from hespas.configs.published_presets import render_published_files

GENERATORS = {  # file to the module whose ``render_page`` returns its text
    "dialects/hespas.irdl": "docs.generators.irdl",
    "docs/reference/cli.md": "docs.generators.cli",
    "docs/reference/dialect.md": "docs.generators.dialect",
    "docs/reference/figures.md": "docs.generators.figures",
    "docs/reference/op-costs.md": "docs.generators.op_costs",
    "docs/reference/passes.md": "docs.generators.passes",
    "docs/reference/presets.md": "docs.generators.presets",
    "docs/reference/recipes.md": "docs.generators.recipes",
    "docs/reference/run-config.md": "docs.generators.run_config",
    "docs/reference/training-runs.md": "docs.generators.training_runs",
    "docs/reference/whole-programs.md": "benchmarks.reference",
}


def _render_schemas() -> dict[str, str]:
    return {f"configs/schemas/{name}": text for name, text in format_schema_files().items()}


def _render_published_presets() -> dict[str, str]:
    return {f"configs/{path}": text for path, text in render_published_files().items()}


# Patterns of all files of a kind, and the function that returns their texts by path. A file that
# fits a pattern and is not returned is left over.
FILE_SETS: tuple[tuple[tuple[str, ...], Callable[[], dict[str, str]]], ...] = (
    (("configs/schemas/*.json",), _render_schemas),
    (
        (
            "configs/nodes/*/roofline/config.json",
            "configs/nodes/*/cocossim/config.json",
            "configs/systems/*/astra-sim/*",
        ),
        _render_published_presets,
    ),
)


def render_page(path: str) -> str:
    """Return the current text of a file in ``GENERATORS``."""
    return importlib.import_module(GENERATORS[path]).render_page()


def find_stale_sets() -> Iterator[tuple[str, str | None]]:
    """Yield each file of the file sets that is not current with its current text.

    The text is None for a file that is left over.
    """
    for patterns, render in FILE_SETS:
        texts = render()
        on_disk = {str(path.relative_to(ROOT)) for each in patterns for path in ROOT.glob(each)}
        yield from ((name, text) for name, text in texts.items() if _read_text(name) != text)
        yield from ((name, None) for name in sorted(on_disk - texts.keys()))


def find_stale_pages() -> Iterator[tuple[str, str]]:
    """Yield each page that is not current with its current text."""
    for name in GENERATORS:
        text = render_page(name)
        if _read_text(name) != text:
            yield name, text


def _read_text(name: str) -> str | None:
    path = ROOT / name
    return path.read_text("utf-8") if path.exists() else None


def main(argv: Sequence[str]) -> int:
    """Write or remove the files that are not current, and print their names; returns 0.

    With ``--check`` nothing is written, and the exit code is 1 if there are any.
    """
    is_stale, writes = False, "--check" not in argv
    for name, text in itertools.chain(find_stale_sets(), find_stale_pages()):  # made from presets
        print(name)
        is_stale, path = True, ROOT / name
        if writes and text is not None:
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text, "utf-8")
        elif writes:
            path.unlink()
    if is_stale and not writes:
        print("these generated files are not current: run make generate", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
