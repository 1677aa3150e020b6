"""Compute that slows down while the device communicates, because both share memory and cores.

Invariant: a compute node progresses at full speed while the communication resource of its device is
free, and at ``1 / (1 + share)`` of it while a collective or SEND is under way, from issue to
finish: the kernel of a collective occupies its cores while it waits for other devices. The share is
that of the kind of communication. RECVs do not slow compute down, and communication itself is never
slowed down. The remaining work is kept in floating point; the end of a node is rounded up to the
nanosecond.
"""

from __future__ import annotations

import math

from hespas.configs.overlap_slowdown import find_slowdown_share

from .device_runner import DeviceRunner


class SlowdownRunner(DeviceRunner):
    """A runner that reschedules its compute node when communication starts or ends."""

    _position = -1  # of the running compute node; -1 if there is none
    _work_ns = 0.0  # remaining work of that node, at full speed
    _since_ns = 0
    _share = 0.0  # of the slowdown since then
    _comm_kind = ""  # of the latest collective or SEND
    _timing = 0  # number of the latest schedule; the events of earlier ones are void

    def issue_ready_nodes(self) -> None:
        super().issue_ready_nodes()
        if self._position >= 0 and self._share != self._find_current_share():
            self._reschedule_end()

    def issue_node(self, position: int, freed_now: list[int]) -> None:
        if self.steps[position].resource == "comm":
            self._comm_kind = self.steps[position].kind
        super().issue_node(position, freed_now)

    def start_compute(self, position: int, duration_ns: int) -> None:
        """Start a compute node."""
        self._position, self._work_ns = position, float(duration_ns)
        self._since_ns, self._share = self.queue.now, self._find_current_share()
        self._reschedule_end()

    def _find_current_share(self) -> float:
        if not self.resources["comm"].busy:
            return 0.0
        return find_slowdown_share(self.engine.options.slowdown, self._comm_kind)

    def _reschedule_end(self) -> None:
        """Subtract the work done since the last schedule, and schedule the end of the rest."""
        now = self.queue.now
        self._work_ns -= (now - self._since_ns) / (1.0 + self._share)
        self._since_ns, self._share = now, self._find_current_share()
        self._timing += 1
        # The tolerance keeps 100 ns of work at 1.1 from being rounded up to 111 ns.
        rest_ns = math.ceil(max(0.0, self._work_ns) * (1.0 + self._share) - 1e-6)
        self.endpoint.schedule_event_after(rest_ns, self._finish_timed_node, self._timing)

    def _finish_timed_node(self, timing: int) -> None:
        if timing == self._timing:
            position, self._position = self._position, -1
            self.finish_node(position)
