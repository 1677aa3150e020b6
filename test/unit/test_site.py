"""The documentation site: it builds strictly, has every page, and takes nothing from elsewhere."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from html.parser import HTMLParser
from pathlib import Path

import pytest
from support.paths import ROOT

pytestmark = pytest.mark.slow

for package in ("material", "mkdocstrings"):
    pytest.importorskip(package, reason="pip install 'hespas[docs]'")


class Loaded(HTMLParser):
    """What a browser fetches for a page, links to follow left out."""

    def __init__(self) -> None:
        super().__init__()
        self.found: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        values = dict(attrs)
        fetched = tag in ("img", "script", "iframe", "source", "video", "object")
        if tag == "link" and values.get("rel") not in ("canonical", "next", "prev"):
            fetched = True
        self.found += [values[key] or "" for key in ("src", "href") if fetched and values.get(key)]


@pytest.fixture(scope="module")
def site(tmp_path_factory) -> Path:
    folder = tmp_path_factory.mktemp("site")
    done = subprocess.run(
        [sys.executable, "-m", "mkdocs", "build", "--strict", "--site-dir", str(folder)],
        cwd=ROOT, env={**os.environ, "NO_MKDOCS_2_WARNING": "1"}, capture_output=True, text=True,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr  # --quiet would hide warnings from --strict
    return folder


def test_every_page_is_there(site):
    pages = [p.relative_to(ROOT / "docs") for p in (ROOT / "docs").glob("**/*.md")]
    assert len(pages) > 30
    for page in pages:
        place = page.parent if page.stem == "index" else page.with_suffix("")
        assert (site / place / "index.html").exists(), page


def test_nothing_is_loaded_from_elsewhere(site):
    for page in site.glob("**/*.html"):
        reader = Loaded()
        reader.feed(page.read_text("utf-8"))
        assert reader.found
        assert [link for link in reader.found if re.match(r"(https?:)?//", link)] == [], page
    for style in site.glob("**/*.css"):
        assert not re.search(r"(url\(|@import)\s*[\"']?(https?:)?//", style.read_text("utf-8"))


def test_fences_are_highlighted_and_not_shown(site):
    """What the tests read behind a fence's language is not on the page."""
    page = (site / "how-to" / "own-gpu" / "index.html").read_text("utf-8")
    assert "json=mine" not in page and "```" not in page and "highlight" in page
