"""Suggestions for a misspelt name."""

from __future__ import annotations

MAX_SUGGESTIONS = 4


def suggest_nearest(word: str, known: list[str], min_similarity: float = 0.5) -> str:
    """Return a remedy that suggests the most similar names, or else lists the known ones.

    Args:
        min_similarity: The least ratio of matching characters, in order, of a suggested name.
    """
    import difflib

    longer = [name for name in known if word and name.lower().startswith(word.lower())]
    if longer:
        listed = ", ".join(f"'{name}'" for name in longer[:MAX_SUGGESTIONS])
        return f"did you mean {listed}{' ...' if longer[MAX_SUGGESTIONS:] else ''}?"
    close = difflib.get_close_matches(word, known, n=1, cutoff=min_similarity)
    if close:
        return f"did you mean '{close[0]}'?"
    return f"known: {', '.join(sorted(known))}" if known else "no name is known"
