"""Builds HTML and SVG from Python values. Text that is not markup is escaped."""

from __future__ import annotations

import html
import re

# Characters that HTML forbids even when escaped: controls, surrogates and non-characters.
_FORBIDDEN = re.compile(
    "[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f\ud800-\udfff\ufdd0-\ufdef\ufffe\uffff]"
)
_VOID = frozenset(("br", "input", "link", "meta", "wbr"))
_BREAK = re.compile(r"(?<=[\w)\]])(?=\[)|(?<=[_/=,])(?=[^\s_/=,])")  # where a long name may break
LONG_WORD = 16  # letters that a word may have without a place to break


class Markup(str):
    """Text that is markup and must not be escaped."""

    __slots__ = ()


Child = str | int | None


def escape_markup(text: object) -> Markup:
    """Escape text for an element or a quoted attribute; markup is returned unchanged."""
    if isinstance(text, Markup):
        return text
    return Markup(html.escape(_FORBIDDEN.sub("\ufffd", str(text))))


def join_markup(*children: Child, between: str = "") -> Markup:
    """Concatenate children, with ``between`` between them; None is skipped."""
    return Markup(between.join(escape_markup(child) for child in children if child is not None))


def allow_breaks(text: Child) -> Child:
    """Allow line breaks inside of long words; markup is returned unchanged."""
    if not isinstance(text, str) or isinstance(text, Markup):
        return text
    parts = []
    for word in re.split(r"(\s+)", text):
        is_long = len(word) > LONG_WORD
        parts.append(join_markup(*_BREAK.split(word), between=tag("wbr")) if is_long else word)
    return join_markup(*parts)


def tag(name: str, /, *children: Child, **attributes: str | float | bool | None) -> Markup:
    """Build an element.

    Attributes are named as in HTML, with ``_`` for ``-`` and ``class_`` for ``class``. The value
    True gives an attribute without a value; None and False give no attribute.
    """
    words = [name]
    for key, value in attributes.items():
        if value is None or value is False:
            continue
        shown = key.rstrip("_").replace("_", "-")
        if value is True:
            words.append(shown)
        else:
            text = f"{value:.2f}".rstrip("0").rstrip(".") if isinstance(value, float) else value
            words.append(f'{shown}="{escape_markup(text)}"')
    opening = f"<{' '.join(words)}>"
    return Markup(opening if name in _VOID else f"{opening}{join_markup(*children)}</{name}>")
