"""The names of collective algorithms in system files, and what each can run.

``simulators/embedded/algorithms`` has a module for each.
"""

from __future__ import annotations

import re
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class AlgorithmLimits:
    """What an algorithm can run.

    Attributes:
        kinds: The kinds of collectives.
        needs_power_of_two: Whether the number of devices must be a power of two.
        spans_all: Whether it has a form for all dimensions at once, such as ``oneRing``.
        has_window: Whether a number after its name limits the peers that a device sends to at once.
    """

    kinds: tuple[str, ...]
    needs_power_of_two: bool = False
    spans_all: bool = True
    has_window: bool = False


_REDUCE_AND_GATHER = ("all_reduce", "all_gather", "reduce_scatter")
_ROOTED = ("broadcast", "reduce")
ALGORITHM_LIMITS = {
    "ring": AlgorithmLimits((*_REDUCE_AND_GATHER, "all_to_all", *_ROOTED)),
    "direct": AlgorithmLimits(
        (*_REDUCE_AND_GATHER, "all_to_all", "gather", "scatter"), has_window=True
    ),
    "halvingDoubling": AlgorithmLimits(_REDUCE_AND_GATHER, needs_power_of_two=True),
    "doubleBinaryTree": AlgorithmLimits(
        ("all_reduce", *_ROOTED, "barrier"), needs_power_of_two=True, spans_all=False
    ),
}


def build_name_pattern() -> str:
    """Build the regular expression of the names in system.json."""
    forms = []
    for name, limits in ALGORITHM_LIMITS.items():
        window = r"\d*" if limits.has_window else ""
        forms.append(f"{name}{window}")
        if limits.spans_all:
            forms.append(f"one{name[0].upper()}{name[1:]}{window}")
    return f"^({'|'.join(forms)})$"


def find_limit_problem(name: str, kind: str, count: int) -> str:
    """Describe why an algorithm cannot run a collective on ``count`` devices; "" if it can."""
    limits = ALGORITHM_LIMITS[name]
    if kind not in limits.kinds:
        return f"{name} does no {kind.replace('_', '-')}"
    if limits.needs_power_of_two and count & (count - 1):
        return f"{name} needs a power of two of devices, and there are {count}"
    return ""


def split_algorithm_name(spelled: str) -> tuple[str, bool, int]:
    """Split a name of system.json, such as ``oneDirect4``.

    Returns:
        The name of the algorithm, whether it spans all dimensions, and its window; -1 for none.
    """
    match = re.fullmatch(r"(one)?([a-zA-Z]+?)(\d*)", spelled)
    assert match
    name = match[2][0].lower() + match[2][1:]
    return name, bool(match[1]), int(match[3]) if match[3] else -1
