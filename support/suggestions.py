"""Suggestions for a misspelt name."""

from __future__ import annotations

MAX_SUGGESTIONS = 4
_CLEAR_SIMILARITY = 0.65  # from which the other names of a family are not suggested


def suggest_nearest(word: str, known: list[str], min_similarity: float = 0.5) -> str:
    """Return a remedy that suggests the most similar names, or else lists the known ones.

    Args:
        min_similarity: The least ratio of matching characters, in order, of a suggested name.
    """
    import difflib

    def find_closest(names: list[str], cutoff: float) -> list[str]:
        return difflib.get_close_matches(word, names, n=1, cutoff=cutoff)

    longer = [name for name in known if word and name.lower().startswith(word.lower())]
    # Names of a family share their first word, such as H100_80GB and H100_PCIe_80GB.
    family = [name for name in known if _get_first_word(name) == _get_first_word(word)]
    found = (
        longer
        or find_closest(family, _CLEAR_SIMILARITY)
        or family
        or find_closest(known, min_similarity)
    )
    if found:
        listed = ", ".join(f"'{name}'" for name in found[:MAX_SUGGESTIONS])
        return f"did you mean {listed}{' ...' if found[MAX_SUGGESTIONS:] else ''}?"
    return f"known: {', '.join(sorted(known))}" if known else "no name is known"


def _get_first_word(name: str) -> str:
    return name.lower().lstrip("-").replace("-", "_").partition("_")[0]
