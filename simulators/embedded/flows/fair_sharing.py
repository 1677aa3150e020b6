"""Max-min fair shares of the links of a network.

Invariants:

* A flow crosses its links at one rate. Rates are max-min fair: no flow can be faster without
  slowing down one that is not faster than it. So each flow crosses a saturated link on which no
  flow is faster.
* A pattern is a set of flows that all have the rate of the slowest of them, such as the messages
  of a round of a collective. A link carries its number of flows times that rate.
* Rates change only when a pattern starts or ends.
* All links of a class have the same capacity and the same number of flows in each pattern, so that
  shares of classes are those of links. Classes are split when a pattern is added, and never merge.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from ..link_arrays import Array

CrossingTest = Callable[[Array], Array]
"""Returns for each member of a pattern whether it crosses any of the links that are marked."""

_DIGITS = 9  # numbers of flows that agree in as many digits are equal


class UnequalShares(Exception):
    """Members of a pattern that were taken to be alike have different rates.

    Attributes:
        pattern: The pattern.
        is_slow: Whether each of its members crosses a link that limits the rate of the pattern.
    """

    def __init__(self, pattern: LinkPattern, is_slow: Array) -> None:
        super().__init__()
        self.pattern, self.is_slow = pattern, is_slow


@dataclass(eq=False)
class LinkPattern:
    """Flows that have the same rate.

    Attributes:
        number: The number of the pattern.
        counts: The number of flows on each link, by class of links.
        find_crossing: Tests the members of the pattern, such as the groups of a collective that
            runs between several groups at once; None if there is one.
        owner: What the pattern belongs to, for ``UnequalShares``.
        tested: The sets of classes of which each member is known to cross a link. A set of classes
            that is split is removed.
    """

    number: int
    counts: dict[int, float]
    find_crossing: CrossingTest | None = None
    owner: Any = None
    tested: set[frozenset[int]] = field(default_factory=set)


class SharedLinks:
    """The links of a network in classes, and the rates of patterns that are active together."""

    def __init__(self, capacities: Array) -> None:
        self._patterns: list[LinkPattern] = []
        self._flows: list[tuple[Array, Array]] = []
        distinct, classes = np.unique(capacities, return_inverse=True)
        self._class_of = classes.reshape(-1).astype(np.int64)
        self._sizes: list[int] = np.bincount(self._class_of, minlength=len(distinct)).tolist()
        self._capacities: list[float] = distinct.tolist()
        self._users: list[list[LinkPattern]] = [[] for _ in distinct]
        self._rates: dict[tuple[int, ...], list[float]] = {}

    def add_pattern(
        self,
        links: Array,
        counts: Array,
        find_crossing: CrossingTest | None,
        owner: Any,
    ) -> LinkPattern:
        """Add a pattern.

        Args:
            links: The links that its flows cross.
            counts: The number of flows on each of them.
            find_crossing: Tests its members; None if there is one.
            owner: What it belongs to.
        """
        pattern = LinkPattern(len(self._patterns), {}, find_crossing, owner)
        self._patterns.append(pattern)
        self._flows.append((links, counts))
        for number, value in self._split_classes(links, np.round(counts, _DIGITS)):
            pattern.counts[number] = value
            self._users[number].append(pattern)
        return pattern

    def get_flows(self, pattern: LinkPattern) -> tuple[Array, Array]:
        """Return the links of a pattern, and the number of flows on each."""
        return self._flows[pattern.number]

    def _split_classes(self, links: Array, counts: Array) -> Iterable[tuple[int, float]]:
        """Split classes so that links of a class have equal counts; yield those with a count."""
        values, codes = np.unique(counts, return_inverse=True)
        keys = self._class_of[links] * len(values) + codes.reshape(-1)
        distinct, parts, sizes = np.unique(keys, return_inverse=True, return_counts=True)
        numbers = []
        for key, size in zip(distinct.tolist(), sizes.tolist(), strict=True):
            number, code = divmod(key, len(values))
            if size < self._sizes[number]:
                number = self._split_off(number, size)
            numbers.append(number)
            yield number, float(values[code])
        self._class_of[links] = np.array(numbers, dtype=np.int64)[parts.reshape(-1)]

    def _split_off(self, number: int, size: int) -> int:
        """Make a class of some links of a class; return its number."""
        self._sizes[number] -= size
        self._sizes.append(size)
        self._capacities.append(self._capacities[number])
        users = self._users[number]
        self._users.append(list(users))
        new = len(self._sizes) - 1
        for pattern in users:
            pattern.counts[new] = pattern.counts[number]
            pattern.tested = {classes for classes in pattern.tested if number not in classes}
        return new

    def compute_rates(self, patterns: Sequence[LinkPattern]) -> list[float]:
        """Compute the bytes per nanosecond of a flow of each pattern while all are active.

        Raises:
            UnequalShares: Members of a pattern do not all cross a link that limits its rate.
        """
        key = tuple([pattern.number for pattern in patterns])
        rates = self._rates.get(key)
        if rates is None:
            rates = self._rates[key] = self._fill_links(patterns)
        return rates

    def _fill_links(self, patterns: Sequence[LinkPattern]) -> list[float]:
        """Raise all rates together; a pattern that crosses a saturated link keeps its rate."""
        rates = [0.0] * len(patterns)
        growing = set(range(len(patterns)))
        free: dict[int, float] = {}
        flows: dict[int, float] = {}
        users: dict[int, list[int]] = {}
        for at, pattern in enumerate(patterns):
            for number, count in pattern.counts.items():
                free.setdefault(number, self._capacities[number])
                flows[number] = flows.get(number, 0.0) + count
                users.setdefault(number, []).append(at)
        while growing:
            rate = min([free[number] / flows[number] for number in flows])
            # Links with equal shares are saturated together, also if rounding tells them apart.
            limit = rate * (1 + 1e-9)
            saturated = [number for number in flows if free[number] <= limit * flows[number]]
            stopped = {at for number in saturated for at in users[number]} & growing
            self._check_members([patterns[at] for at in stopped], saturated)
            for at in stopped:
                rates[at] = rate
                for number, count in patterns[at].counts.items():
                    if number in flows:
                        free[number] -= rate * count
                        flows[number] -= count
            growing -= stopped
            for number in list(flows):
                if number in saturated or not any(at in growing for at in users[number]):
                    del flows[number]
        return rates

    def _check_members(self, patterns: Sequence[LinkPattern], saturated: Sequence[int]) -> None:
        marked: Array | None = None
        for pattern in patterns:
            if pattern.find_crossing is None:
                continue
            classes = frozenset(pattern.counts).intersection(saturated)
            if classes in pattern.tested:
                continue
            if marked is None:
                marked = np.isin(self._class_of, saturated)
            is_slow = pattern.find_crossing(marked)
            if not is_slow.all():
                raise UnequalShares(pattern, is_slow)
            pattern.tested.add(classes)


@dataclass(eq=False)
class _ActiveFlow:
    """A pattern that is active, with the bytes that each of its flows still has to carry."""

    pattern: LinkPattern
    rest_bytes: float
    finish: Callable[[Any], None]
    argument: Any
    rate: float = 0.0


@dataclass
class FlowTimes:
    """The flows that are active, from one change of their rates to the next.

    Attributes:
        links: The links that they share.
        active: The active flows, by number of their pattern.
    """

    links: SharedLinks
    active: list[_ActiveFlow] = field(default_factory=list)
    _now: float = 0.0

    def add_flow(
        self, pattern: LinkPattern, size: float, finish: Callable[[Any], None], argument: Any
    ) -> None:
        """Add flows that carry ``size`` bytes each; ``finish(argument)`` runs at their end."""
        self.active.append(_ActiveFlow(pattern, size, finish, argument))

    def advance(self, now: float) -> list[_ActiveFlow]:
        """Carry bytes until ``now``; remove the flows that have ended, and return them."""
        elapsed, self._now = now - self._now, now
        ended: list[_ActiveFlow] = []
        active: list[_ActiveFlow] = []
        for flow in self.active:
            flow.rest_bytes -= elapsed * flow.rate
            # What takes less than 1e-6 ns more is an error of rounding.
            (ended if flow.rest_bytes <= 1e-6 * flow.rate else active).append(flow)
        self.active = active
        return ended

    def share_links(self) -> float | None:
        """Set the rates of the active flows; return when the first of them ends, if any."""
        if not self.active:
            return None
        # In one order, so that equal sets of patterns are found among the rates that are known.
        self.active.sort(key=lambda flow: flow.pattern.number)
        rates = self.links.compute_rates([flow.pattern for flow in self.active])
        first = float("inf")
        for flow, rate in zip(self.active, rates, strict=True):
            flow.rate = rate
            first = min(first, flow.rest_bytes / rate)
        return self._now + first
