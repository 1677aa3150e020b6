"""Orders of things that need each other."""

from __future__ import annotations

import heapq
from collections.abc import Iterable, Mapping


def order_topologically(
    needs: Mapping[int, Iterable[int]], position: Mapping[int, int]
) -> list[int]:
    """Units, each after those that it needs, otherwise by position."""
    waiting = dict.fromkeys(needs, 0)
    users: dict[int, list[int]] = {unit: [] for unit in needs}
    for unit, before in needs.items():
        for other in set(before):
            users[other].append(unit)
            waiting[unit] += 1
    ready = [(position[unit], unit) for unit, count in waiting.items() if not count]
    heapq.heapify(ready)
    order = []
    while ready:
        _, unit = heapq.heappop(ready)
        order.append(unit)
        for user in users[unit]:
            waiting[user] -= 1
            if not waiting[user]:
                heapq.heappush(ready, (position[user], user))
    if len(order) < len(needs):
        raise ValueError("the units need each other in a circle")
    return order
