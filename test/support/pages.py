"""Reading and rendering pages for the tests: html.parser, and Chromium where there is one."""

from __future__ import annotations

import re
import shutil
import subprocess
import tempfile
from dataclasses import dataclass, field
from html.parser import HTMLParser
from pathlib import Path

VOID = {"area", "base", "br", "col", "embed", "hr", "img", "input", "link", "meta", "wbr"}
CHROMIUM = next(
    filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None
)
QUIET = (
    "--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run",
    "--disable-background-networking", "--disable-component-update", "--disable-sync",
)  # fmt: skip


@dataclass
class Element:
    name: str
    attributes: dict[str, str]
    children: list[Element | str] = field(default_factory=list)

    @property
    def text(self) -> str:
        return "".join(c if isinstance(c, str) else c.text for c in self.children)

    def all(self, name: str = "", **attributes: str) -> list[Element]:
        """The elements below of that name, with these attributes; a class is one of several."""
        elements = []
        for child in self.children:
            if isinstance(child, Element):
                expected = ((k.rstrip("_").replace("_", "-"), v) for k, v in attributes.items())
                if name in ("", child.name) and all(
                    value in child.attributes.get(key, "").split() for key, value in expected
                ):
                    elements.append(child)
                elements += child.all(name, **attributes)
        return elements

    def one(self, name: str = "", **attributes: str) -> Element:
        (element,) = self.all(name, **attributes)
        return element


class Page(HTMLParser):
    """The tree of a page; AssertionError where an element is not closed, or closed twice."""

    def __init__(self, text: str) -> None:
        super().__init__(convert_charrefs=True)
        self.root = Element("", {})
        self.open = [self.root]
        self.feed(text)
        self.close()
        assert self.open == [self.root], f"not closed: {self.open[-1].name}"

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        names = [name for name, _ in attrs]
        assert len(set(names)) == len(names), f"an attribute twice: {tag} {names}"
        element = Element(tag, {name: value or "" for name, value in attrs})
        self.open[-1].children.append(element)
        if tag not in VOID:
            self.open.append(element)

    def handle_endtag(self, tag: str) -> None:
        assert tag not in VOID and self.open[-1].name == tag, f"</{tag}> in <{self.open[-1].name}>"
        self.open.pop()

    def handle_data(self, data: str) -> None:
        self.open[-1].children.append(data)


def parse(text: str) -> Element:
    return Page(text).root


def rows(page: Element, table: str) -> list[list[str]]:
    """The texts of the rows of a table that are shown."""
    body = page.one("table", id=table).one("tbody")
    return [
        [cell.text for cell in row.all("td")]
        for row in body.all("tr")
        if "hidden" not in row.attributes
    ]


@dataclass
class Rendered:
    """The document as Chromium has it in the end, and what it wrote to its console."""

    document: Element
    console: list[str]


def render(path: Path, fragment: str = "", script: str = "", *, width: int = 1200) -> Rendered:
    """Load a page; ``script`` runs at its end, which needs its policy gone: a copy is loaded."""
    assert CHROMIUM is not None
    with tempfile.TemporaryDirectory() as folder:
        if script:
            text = re.sub(r'<meta http-equiv="Content-Security-Policy"[^>]*>', "", path.read_text())
            path = Path(folder, "copy.html")
            path.write_text(text.replace("</body>", f"<script>{script}</script></body>"))
        done = subprocess.run(
            [CHROMIUM, *QUIET, f"--user-data-dir={folder}/profile", f"--window-size={width},900",
             "--enable-logging=stderr", "--virtual-time-budget=2000", "--dump-dom",
             path.as_uri() + fragment],
            capture_output=True, text=True, timeout=120, check=True,
        )  # fmt: skip
    console = [line for line in done.stderr.splitlines() if ":CONSOLE" in line]
    return Rendered(parse(done.stdout), console)
