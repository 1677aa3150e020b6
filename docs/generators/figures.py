"""The text of ``docs/reference/figures.md``."""

from __future__ import annotations

from docs.generators.markdown import format_codes, format_table
from hespas.workflows.figures import FIGURES, RULES, Figure

HEAD = """# Figures of a step

This page is generated from `FIGURES` by `make generate`.

Each figure is declared once (`workflows/figures.py`): its name in [run.json](run-json.md) and in
[tables of sweeps](sweep.md), its name in rows of [plans](../how-to/plan.md) and
[studies](../how-to/studies.md) if they have it, its title, its unit, what it means, and how it adds
up over programs that run one after the other. `null` stands for a figure that depends on something
unknown.

"""


def render_page() -> str:
    """Render the whole page."""
    rules = "".join(f"\n- `{rule}`: {text}" for rule, text in RULES.items())
    header = ("name", "in rows", "title", "unit", "adds up as", "meaning")
    return (
        f"{HEAD}{format_table(header, map(_list_cells, FIGURES))}\nHow figures add up:\n{rules}\n"
    )


def _list_cells(figure: Figure) -> tuple[str, ...]:
    path, _, key = figure.name.rpartition(".")
    names = format_codes(figure.row_names) if "rows" in figure.places else ""
    name = f"`{path}`.`{key}`" if path else f"`{key}`"
    return name, names, figure.title, figure.unit, figure.rule, figure.help
