"""Computing that slows down while the device communicates: they share memory and cores.

A compute node does its work at full speed while nothing communicates, and at ``1 / (1 + slowdown)``
of it while a collective or SEND of the device is under way, from issue to finish: a kernel that
waits for others takes its cores all the same. A RECV that waits takes nothing. Communication itself
does not slow down. The work left is kept in floating point; a node's time is rounded up to the
nanosecond.
"""

from __future__ import annotations

import math

from .device_runner import DeviceRunner
from .simulation_options import SimulationOptions


class SlowdownRunner(DeviceRunner):
    """A device whose compute node under way is timed anew when communication starts or ends."""

    _position = -1  # of the compute node under way
    _work_ns = 0.0  # what is left of it, at full speed
    _since_ns = 0
    _slow = False
    _timing = 0  # events of earlier timings are void

    def issue_ready_nodes(self) -> None:
        super().issue_ready_nodes()
        if self._position >= 0 and self._slow != self.busy["comm"]:
            self._reschedule_end()

    def start_compute(self, position: int, duration_ns: int) -> None:
        """Start a compute node."""
        self._position, self._work_ns = position, float(duration_ns)
        self._since_ns, self._slow = self.queue.now, self.busy["comm"]
        self._reschedule_end()

    def _reschedule_end(self) -> None:
        """Take off what was done since the last time, and say when the rest will be."""
        now = self.queue.now
        self._work_ns -= (now - self._since_ns) / self._compute_factor()
        self._since_ns, self._slow = now, self.busy["comm"]
        self._timing += 1
        # A hair less, so that 100 ns of work at 1.1 are not 111.
        left = math.ceil(max(0.0, self._work_ns) * self._compute_factor() - 1e-6)
        self.endpoint.schedule_event_after(left, self._finish_timed_node, self._timing)

    def _compute_factor(self) -> float:
        options: SimulationOptions = self.engine.options
        return 1.0 + options.slowdown if self._slow else 1.0

    def _finish_timed_node(self, timing: int) -> None:
        if timing == self._timing:
            position, self._position = self._position, -1
            self.finish_node(position)
