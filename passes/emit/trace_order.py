"""The dependencies between trace nodes: program order for ``linear``, data flow for ``individual``.

Invariant of both orders: communication is a chain in program order, because a device runs one
communication at a time and all ranks must agree on the order. In the linear order, each network has
a chain of its own: transfers between slices of TPUs, and to the host, run alongside collectives on
the links between devices. A *value*, which represents what a tensor depends on, is the ids of steps
of which none implies another.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Collection, Sequence

from hespas.chakra.trace_steps import (
    CollectiveContent,
    CommunicationContent,
    ComputeContent,
    HostCopyContent,
    ProgramTrace,
    TraceStep,
    TransferContent,
)
from hespas.dialects.attrs import HOST_LINK, NETWORKS

COMM_CHAIN = -1  # of the links between devices
_CHAINS = {network: COMM_CHAIN - 1 - i for i, network in enumerate(NETWORKS)}

Value = tuple[int, ...]
NOTHING: Value = ()  # the value that depends on no step


class TraceOrder(ABC):
    """A trace that grows by steps."""

    def __init__(self, trace: ProgramTrace) -> None:
        self.trace = trace
        self._next = 1
        self._latest: dict[int, int] = {}  # the latest communication step of each chain

    @abstractmethod
    def add_compute_step(self, activity: ComputeContent, value: Value) -> Value:
        """Append a compute step that depends on ``value``; return the value of its results."""

    @abstractmethod
    def add_communication_step(
        self, activity: CommunicationContent, value: Value, is_async: bool
    ) -> Value:
        """Append a communication step that depends on ``value``; return that of its results."""

    @abstractmethod
    def wait_for_value(self, value: Value) -> Value:
        """Wait for ``value`` at this point of the program; return the value after the wait."""

    def join_values(self, values: Sequence[Value]) -> Value:
        """Return the value that depends on all of ``values``."""
        if len(values) == 1:  # as of many ops
            return values[0]
        distinct = set(values)
        distinct.discard(NOTHING)
        if len(distinct) < 2:
            return distinct.pop() if distinct else NOTHING
        return self.trace.drop_implied_deps(set().union(*distinct))

    def get_latest_communication(self) -> Value:
        """Return the value of the latest communication."""
        return self._list_latest(COMM_CHAIN)

    def _list_latest(self, chain: int) -> Value:
        return (self._latest[chain],) if chain in self._latest else NOTHING

    def _append_compute(self, activity: ComputeContent, deps: Value) -> int:
        number = self._next
        self.trace.steps.append(TraceStep(number, deps, activity))
        self._next = number + 1
        return number

    def _append_communication(
        self, activity: CommunicationContent, deps: Value, chain: int = COMM_CHAIN
    ) -> int:
        """Append a step that becomes the latest of its chain."""
        number = self._next
        self.trace.steps.append(TraceStep(number, deps, activity))
        self._next += 2 if isinstance(activity, TransferContent) else 1
        self.trace.chain[number] = chain
        self._latest[chain] = number
        return number


def _choose_chain(activity: CommunicationContent) -> int:
    """Return the chain of the network that carries a communication."""
    if isinstance(activity, HostCopyContent):
        return _CHAINS[HOST_LINK]
    network = activity.network if isinstance(activity, CollectiveContent) else ""
    return _CHAINS[network] if network else COMM_CHAIN


class LinearOrder(TraceOrder):
    """Program order: each step depends on the one before.

    An asynchronous communication delays no other step until its ``wait`` or first use. A value is
    the latest asynchronous communication of each chain that it depends on.
    """

    def __init__(self, trace: ProgramTrace) -> None:
        super().__init__(trace)
        self._last: Value = NOTHING  # dependencies of the next step
        self._waited: dict[int, int] = {}  # by chain: all communication up to it is implied

    def add_compute_step(self, activity: ComputeContent, value: Value) -> Value:
        self.wait_for_value(value)
        self._last = (self._append_compute(activity, self._last),)
        return NOTHING

    def add_communication_step(
        self, activity: CommunicationContent, value: Value, is_async: bool
    ) -> Value:
        chain = _choose_chain(activity)
        needed = (*value, *self._list_latest(chain))
        if not is_async:
            self.wait_for_value(needed)
            number = self._append_communication(activity, self._last, chain)
            self._last, self._waited[chain] = (number,), number
            return NOTHING
        deps = self._depend_on_communication(needed)
        return (self._append_communication(activity, deps, chain),)

    def wait_for_value(self, value: Value) -> Value:
        self._last = self._depend_on_communication(value)
        for step in value:
            chain = self.trace.chain[step]
            self._waited[chain] = max(self._waited.get(chain, 0), step)
        return NOTHING

    def _depend_on_communication(self, steps: Value) -> Value:
        """Return the dependencies of the next step together with communication up to ``steps``."""
        chain, waited = self.trace.chain, self._waited
        pending = [step for step in steps if step > waited.get(chain[step], 0)]
        return self.trace.drop_implied_deps({*self._last, *pending}) if pending else self._last


class DataFlowOrder(TraceOrder):
    """Data flow: a step depends on the steps of its operands. A value is the tuple of their ids.

    Compute steps get edges between each other too, where these change no time. ASTRA-sim runs one
    compute step at a time, of the ready steps the one with the lowest id. Let the *level* of a step
    be the latest communication that it depends on. Since communication is one chain, all
    communication up to that level is done when the step starts.

    Let c come before b with level(c) <= level(b). When b is ready, consider c and the steps that c
    depends on. The first of them that is unfinished is ready too: its level is at most level(b), so
    its communication is done. It has a lower id than b, so it runs first, and c ends before b
    starts. The edge from the nearest such c to b is therefore free. It keeps the set of ready steps
    small, which ASTRA-sim scans on each event.

    Invariants: ``_stack`` holds the candidates for c, with increasing levels. ``_level`` holds the
    levels of compute steps; that of a communication, for the steps that depend on it, is its id.
    """

    def __init__(self, trace: ProgramTrace) -> None:
        super().__init__(trace)
        self._level: dict[int, int] = {}
        self._stack: list[int] = []

    def add_compute_step(self, activity: ComputeContent, value: Value) -> Value:
        chain, stack, levels = self.trace.chain, self._stack, self._level
        level = 0
        for d in value:
            step_level = levels.get(d, d)
            if step_level > level:
                level = step_level
        number = self._next
        while stack and levels[stack[-1]] > level:
            chain[stack.pop()] = number
        if not stack:
            deps = self._reduce_dependencies(value)
        elif not value or value == (stack[-1],):
            deps = (stack[-1],)
        else:
            deps = self._reduce_dependencies({*value, stack[-1]})
        levels[number] = level
        stack.append(number)
        return (self._append_compute(activity, deps),)

    def add_communication_step(
        self, activity: CommunicationContent, value: Value, is_async: bool
    ) -> Value:
        deps = {*value, *self._list_latest(COMM_CHAIN)}
        return (self._append_communication(activity, self._reduce_dependencies(deps)),)

    def _reduce_dependencies(self, deps: Collection[int]) -> Value:
        """Remove implied dependencies, such as communication before a compute step."""
        if len(deps) < 2:
            return tuple(deps)
        newest = self.trace.drop_implied_deps(deps)
        levels = self._level
        for d in newest:
            if d not in levels:
                break
        else:
            return newest
        level = max([levels[d] for d in newest if d in levels], default=0)
        return tuple([d for d in newest if d in levels or d > level])

    def wait_for_value(self, value: Value) -> Value:
        return value
