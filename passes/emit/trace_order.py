"""The dependencies between trace nodes: program order for ``linear``, data flow for ``individual``.

Invariant of both orders: communication is one chain in program order, because a device runs one
communication at a time and all ranks must agree on the order. A *value* represents the steps that a
tensor depends on; each order has its own representation.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Protocol, TypeVar

from hespas.chakra.trace_steps import (
    CollectiveContent,
    ComputeContent,
    ProgramTrace,
    TraceStep,
    TransferContent,
)
from hespas.support.errors import HespasError

COMM_CHAIN = -1
MAX_STEPS = 20_000_000

Value = TypeVar("Value")


class TraceOrder(Protocol[Value]):
    """A trace that grows by steps. ``NOTHING`` is the value that depends on no step."""

    NOTHING: Value

    def join_values(self, values: Iterable[Value]) -> Value:
        """Return the value that depends on all of ``values``."""
        ...

    def add_compute_step(self, activity: ComputeContent, value: Value) -> Value:
        """Append a compute step that depends on ``value``; return the value of its results."""
        ...

    def add_communication_step(
        self, activity: CollectiveContent | TransferContent, value: Value, is_async: bool
    ) -> Value:
        """Append a communication step that depends on ``value``; return that of its results."""
        ...

    def wait_for_value(self, value: Value) -> Value:
        """Wait for ``value`` at this point of the program; return the value after the wait."""
        ...

    def get_latest_communication(self) -> Value:
        """Return the value of the latest communication."""
        ...


class _TraceBuilder:
    def __init__(self, trace: ProgramTrace) -> None:
        self.trace = trace
        self._next = 1
        self._comm = 0  # the latest communication step

    def _append_step(
        self, activity: ComputeContent | CollectiveContent | TransferContent, deps: tuple[int, ...]
    ) -> int:
        number = self._next
        if len(self.trace.steps) >= MAX_STEPS:
            raise HespasError(
                f"the trace has over {MAX_STEPS:,} nodes per device",
                remedy="merge regions, or reduce the trip counts of loops that contain collectives",
            )
        self.trace.steps.append(TraceStep(number, deps, activity))
        self._next += 2 if isinstance(activity, TransferContent) else 1
        if not isinstance(activity, ComputeContent):
            self.trace.chain[number] = COMM_CHAIN
            self._comm = number
        return number


class LinearOrder(_TraceBuilder):
    """Program order: each step depends on the one before.

    An asynchronous communication delays no other step until its ``wait`` or first use. A value is
    the latest asynchronous communication that it depends on, or 0.
    """

    NOTHING = 0

    def __init__(self, trace: ProgramTrace) -> None:
        super().__init__(trace)
        self._last: tuple[int, ...] = ()  # dependencies of the next step
        self._waited = 0  # these imply all communication up to this step

    def join_values(self, values: Iterable[int]) -> int:
        return max(values, default=0)

    def add_compute_step(self, activity: ComputeContent, value: int) -> int:
        self.wait_for_value(value)
        self._last = (self._append_step(activity, self._last),)
        return 0

    def add_communication_step(
        self, activity: CollectiveContent | TransferContent, value: int, is_async: bool
    ) -> int:
        if not is_async:
            self.wait_for_value(max(value, self._comm))
            number = self._append_step(activity, self._last)
            self._last, self._waited = (number,), number
            return 0
        latest = max(value, self._comm)
        return self._append_step(activity, self._depend_on_communication(latest))

    def wait_for_value(self, value: int) -> int:
        self._last = self._depend_on_communication(value)
        self._waited = max(self._waited, value)
        return 0

    def get_latest_communication(self) -> int:
        return self._comm

    def _depend_on_communication(self, comm: int) -> tuple[int, ...]:
        """Return the dependencies of the next step together with communication up to ``comm``."""
        return (
            self.trace.drop_implied_deps({*self._last, comm}) if comm > self._waited else self._last
        )


class DataFlowOrder(_TraceBuilder):
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

    Invariant: ``_stack`` holds the candidates for c, with increasing levels.
    """

    NOTHING: tuple[int, ...] = ()

    def __init__(self, trace: ProgramTrace) -> None:
        super().__init__(trace)
        self._level: dict[int, int] = {}
        self._stack: list[int] = []

    def join_values(self, values: Iterable[tuple[int, ...]]) -> tuple[int, ...]:
        distinct = {v for v in values if v}
        if len(distinct) < 2:
            return distinct.pop() if distinct else ()
        return self.trace.drop_implied_deps({d for v in distinct for d in v})

    def add_compute_step(self, activity: ComputeContent, value: tuple[int, ...]) -> tuple[int, ...]:
        chain, stack, levels = self.trace.chain, self._stack, self._level
        level = 0
        for d in value:
            level = max(level, d if chain.get(d) == COMM_CHAIN else levels[d])
        number = self._next
        while stack and levels[stack[-1]] > level:
            chain[stack.pop()] = number
        deps = set(value)
        if stack:
            parent = stack[-1]
            deps.add(parent)
        levels[number] = level
        stack.append(number)
        self._append_step(activity, self._reduce_dependencies(deps))
        return (number,)

    def add_communication_step(
        self, activity: CollectiveContent | TransferContent, value: tuple[int, ...], is_async: bool
    ) -> tuple[int, ...]:
        deps = {*value, self._comm} if self._comm else set(value)
        return (self._append_step(activity, self._reduce_dependencies(deps)),)

    def _reduce_dependencies(self, deps: set[int]) -> tuple[int, ...]:
        """Remove implied dependencies, such as communication before a compute step."""
        newest = self.trace.drop_implied_deps(deps)
        levels = self._level
        level = max((levels[d] for d in newest if d in levels), default=0)
        return tuple(d for d in newest if d in levels or d > level)

    def wait_for_value(self, value: tuple[int, ...]) -> tuple[int, ...]:
        return value

    def get_latest_communication(self) -> tuple[int, ...]:
        return (self._comm,) if self._comm else ()
