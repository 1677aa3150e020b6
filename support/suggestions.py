"""Suggestions for a misspelt name."""

from __future__ import annotations

MAX_SUGGESTIONS = 4


def suggest_nearest(word: str, known: list[str], alike: float = 0.5) -> str:
    """A remedy that suggests the near names, or lists the known ones.

    ``alike``: the least share of a word's characters that a near name has, in their order.
    """
    import difflib

    longer = [name for name in known if word and name.lower().startswith(word.lower())]
    if longer:
        listed = ", ".join(f"'{name}'" for name in longer[:MAX_SUGGESTIONS])
        return f"did you mean {listed}{' ...' if longer[MAX_SUGGESTIONS:] else ''}?"
    close = difflib.get_close_matches(word, known, n=1, cutoff=alike)
    if close:
        return f"did you mean '{close[0]}'?"
    return f"known: {', '.join(sorted(known))}" if known else "it takes none"
