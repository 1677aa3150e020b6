"""The frame of a page: one HTML file that loads nothing."""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Sequence
from dataclasses import dataclass
from importlib import resources

import hespas
from hespas.tools.report.markup import Child, Markup, join_markup, tag


@dataclass(frozen=True, slots=True)
class PageSection:
    """A section of a page; ``name`` is its id, ``lead`` the text below its title."""

    name: str
    title: str
    content: Markup
    lead: Child = None


def render_page(
    title: str, subtitle: Child, sections: Sequence[PageSection], top: Child = None
) -> bytes:
    """Render a whole page in UTF-8; ``top`` is placed before the sections.

    The content security policy allows only the script and style of the page, and no loading.
    """
    style, script = (read_asset(name) for name in ("page.css", "page.js"))
    policy = (
        f"default-src 'none'; style-src '{_compute_policy_hash(style)}'; "
        f"script-src '{_compute_policy_hash(script)}'"
    )
    links = [tag("a", section.title, href=f"#{section.name}") for section in sections]
    head = tag(
        "head",
        tag("meta", charset="utf-8"),
        tag("meta", http_equiv="Content-Security-Policy", content=policy),
        tag("meta", name="viewport", content="width=device-width, initial-scale=1"),
        tag("meta", name="color-scheme", content="light dark"),
        tag("meta", name="generator", content=f"hespas {hespas.__version__}"),
        tag("title", f"{title} - hespas"),
        tag("style", Markup(style)),
    )
    body = tag(
        "body",
        tag("a", "Skip to the content", class_="skip", href="#main"),
        tag("header", tag("h1", title), tag("p", subtitle, class_="subtitle")),
        tag("nav", *links, aria_label="Sections") if len(links) > 1 else None,
        tag("main", top, *(_render_section(section) for section in sections), id="main"),
        tag(
            "footer",
            f"Written by hespas {hespas.__version__}. This page is one file and loads nothing.",
        ),
        tag("div", id="tip", role="status", hidden=True),
        tag("script", Markup(script)),
    )
    document = join_markup(
        Markup("<!doctype html>"), tag("html", head, body, lang="en"), between="\n"
    )
    return (document + "\n").encode()


def _render_section(section: PageSection) -> Markup:
    return tag(
        "section",
        tag("h2", section.title, id=f"{section.name}-title"),
        tag("p", section.lead, class_="lead") if section.lead else None,
        section.content,
        id=section.name,
        aria_labelledby=f"{section.name}-title",
    )


def read_asset(name: str) -> str:
    """Read a style sheet or script of the pages."""
    return resources.files("hespas.tools.report").joinpath(name).read_text("utf-8")


def _compute_policy_hash(text: str) -> str:
    return "sha256-" + base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()
