"""When the devices of a collective finish."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple


class CollectiveFinish(NamedTuple):
    """When a device finishes, and when its last wait begins, which schedules the finish."""

    end_ns: int
    since_ns: int

    def shift_by(self, start_ns: int) -> CollectiveFinish:
        """Return the finish of a collective that starts ``start_ns`` later."""
        return CollectiveFinish(self.end_ns + start_ns, self.since_ns + start_ns)


def finish_together(starts: Sequence[int], time_ns: int) -> list[CollectiveFinish]:
    """Return the finishes of devices that all end ``time_ns`` after the last of ``starts``."""
    last_ns = max(starts)
    return [CollectiveFinish(last_ns + time_ns, last_ns)] * len(starts)
