"""The slowdown of compute alongside communication: one share, or one for each kind of collective.

A share of 0.2 means that compute takes 20 % longer while such a collective is in progress.
"""

from __future__ import annotations

import math

from hespas.support.errors import UsageError

OTHER = "other"  # the kinds without a share of their own
KINDS = ("all_reduce", "all_gather", "reduce_scatter", "all_to_all", "broadcast", "send", OTHER)

SlowdownShares = float | dict[str, float]
"""The share of all communication, or shares by kind; one of them is that of ``OTHER``."""


def find_slowdown_share(shares: SlowdownShares, kind: str) -> float:
    """Return the share of a kind of communication."""
    if isinstance(shares, dict):
        return shares.get(kind, shares[OTHER])
    return shares


def list_slowdown_shares(shares: SlowdownShares) -> dict[str, float]:
    """Return the shares by kind; one share for all is that of ``all``."""
    return dict(shares) if isinstance(shares, dict) else {"all": shares}


def find_slowdown_problem(shares: SlowdownShares) -> str:
    """Return what is wrong with shares; "" if nothing is."""
    if not isinstance(shares, dict):
        return ""
    unknown = sorted(set(shares) - set(KINDS))
    if unknown:
        return f"'{unknown[0]}' is not a kind of communication; known: {', '.join(KINDS)}"
    return "" if OTHER in shares else f"the share of '{OTHER}' communication is missing"


def format_slowdown_shares(shares: SlowdownShares) -> str:
    """Format shares as ``parse_slowdown_shares`` reads them; "" if there is no slowdown."""
    if not isinstance(shares, dict):
        return f"{shares:g}" if shares else ""
    return ",".join(f"{kind}={share:g}" for kind, share in shares.items())


def parse_slowdown_shares(text: str) -> SlowdownShares:
    """Parse ``0.2`` or ``all_reduce=0.3,other=0.2``.

    Raises:
        UsageError: The text has another form.
    """
    if "=" not in text:
        return _parse_share(text)
    items = [item.partition("=") for item in text.split(",")]
    shares = {kind: _parse_share(share) for kind, _, share in items}
    problem = find_slowdown_problem(shares)
    if problem:
        raise UsageError(f"--slowdown {text}: {problem}")
    return shares


def _parse_share(text: str) -> float:
    try:
        share = float(text)
    except ValueError:
        share = math.nan
    if not math.isfinite(share):
        raise UsageError(f"--slowdown: '{text}' is not a number")
    if share < 0:
        raise UsageError(f"--slowdown: '{text}' is negative")
    return share
