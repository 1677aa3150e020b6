"""The frame of a page: one file that asks the network for nothing."""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Sequence
from dataclasses import dataclass
from importlib import resources

import hespas
from hespas.tools.report.markup import Child, Markup, join, tag


@dataclass(frozen=True, slots=True)
class Section:
    """A part of a page; ``name`` is its place in the page's address."""

    name: str
    title: str
    content: Markup
    lead: Child = None


def page(title: str, subtitle: Child, sections: Sequence[Section], top: Child = None) -> bytes:
    """A whole page, UTF-8; ``top`` stands before the sections.

    Its policy lets a browser run and apply nothing but what is in it, and load nothing at all.
    """
    style, script = (_asset(name) for name in ("page.css", "page.js"))
    policy = f"default-src 'none'; style-src '{_hash(style)}'; script-src '{_hash(script)}'"
    links = [tag("a", one.title, href=f"#{one.name}") for one in sections]
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
        tag("main", top, *(_section(one) for one in sections), id="main"),
        tag(
            "footer",
            f"Written by hespas {hespas.__version__}. This page is one file and loads nothing.",
        ),
        tag("div", id="tip", role="status", hidden=True),
        tag("script", Markup(script)),
    )
    whole = join(Markup("<!doctype html>"), tag("html", head, body, lang="en"), between="\n")
    return (whole + "\n").encode()


def _section(one: Section) -> Markup:
    return tag(
        "section",
        tag("h2", one.title, id=f"{one.name}-title"),
        tag("p", one.lead, class_="lead") if one.lead else None,
        one.content,
        id=one.name,
        aria_labelledby=f"{one.name}-title",
    )


def _asset(name: str) -> str:
    return resources.files("hespas.tools.report").joinpath(name).read_text("utf-8")


def _hash(text: str) -> str:
    return "sha256-" + base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()
