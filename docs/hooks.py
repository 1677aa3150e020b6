"""mkdocs hook: what the tests read behind a fence's language, the site's renderer does not know."""

import re

FENCE = re.compile(r"^```(\w+)[ =][^\n]*$", re.MULTILINE)


def on_page_markdown(markdown: str, **_: object) -> str:
    """``sh norun`` and ``json=run.json`` are plain ``sh`` and ``json`` to the site."""
    return FENCE.sub(r"```\1", markdown)
