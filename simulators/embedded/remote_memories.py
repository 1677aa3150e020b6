"""Accesses to remote memory, one at a time in each memory, in order of arrival.

At the end of an access its device continues first, and the memory starts the next access after it.
Source: astra-sim/astra-memory-analytical, AnalyticalRemoteMemory.cc.
"""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass
from typing import Any

from hespas.configs.system_spec import RemoteMemory

from .events import DeviceEndpoint, EventCallback, QueuedServer


@dataclass(frozen=True, slots=True)
class _MemoryAccess:
    """An access of a device; ``finish(argument)`` runs at its end."""

    memory: QueuedServer
    endpoint: DeviceEndpoint
    size: int
    finish: EventCallback
    argument: Any


class RemoteMemories:
    """The remote memories of a system; None for a system without, to which there are no accesses.

    A device with a memory of its own never waits, because it accesses it one by one.
    """

    def __init__(self, memory: RemoteMemory | None) -> None:
        self._memory = memory
        self._servers: defaultdict[int, QueuedServer] = defaultdict(
            lambda: QueuedServer(self._start_access)
        )

    @property
    def are_shared(self) -> bool:
        """Whether several devices share a memory, so that one may wait for another."""
        return self._memory is not None and self._memory.devices_per_memory > 1

    def access_memory(
        self,
        device: int,
        endpoint: DeviceEndpoint,
        size: int,
        finish: EventCallback,
        argument: Any,
    ) -> None:
        """Start an access of ``size`` bytes, or let it wait for the memory.

        ``finish(argument)`` runs at its end.
        """
        assert self._memory is not None
        server = self._servers[self._memory.find_memory(device)]
        server.request(_MemoryAccess(server, endpoint, size, finish, argument))

    def _start_access(self, access: _MemoryAccess) -> None:
        assert self._memory is not None
        time = self._memory.compute_access_ns(access.size)
        access.endpoint.schedule_event_after(time, access.finish, access.argument)
        access.endpoint.schedule_event_after(time, access.memory.serve_next)
