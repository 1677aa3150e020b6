"""Which nodes depend on which: program order for ``linear``, data flow for ``individual``.

In both, communication is one chain in program order: a device runs one at a time, and ranks must
agree on the order. A *value* says which steps a tensor comes from; each order has its own kind.
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
    """How a trace grows. ``NOTHING`` is the value of what needs no waiting for."""

    NOTHING: Value

    def join_values(self, values: Iterable[Value]) -> Value:
        """The value of what comes from all of ``values`` without taking time."""
        ...

    def add_compute_step(self, activity: ComputeContent, value: Value) -> Value:
        """Add a compute step that needs ``value``; the value of its results."""
        ...

    def add_communication_step(
        self, activity: CollectiveContent | TransferContent, value: Value, is_async: bool
    ) -> Value:
        """Add a communication step that needs ``value``; the value of its results."""
        ...

    def wait_for_value(self, value: Value) -> Value:
        """The point in the program where ``value`` must be there."""
        ...

    def get_latest_communication(self) -> Value:
        """The value of the latest communication."""
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
                f"the trace has over {MAX_STEPS:,} nodes a device",
                remedy="merge regions, or shorten the loops that hold collectives",
            )
        self.trace.steps.append(TraceStep(number, deps, activity))
        self._next += 2 if isinstance(activity, TransferContent) else 1
        if not isinstance(activity, ComputeContent):
            self.trace.chain[number] = COMM_CHAIN
            self._comm = number
        return number


class LinearOrder(_TraceBuilder):
    """Each step waits for the one before, except that an asynchronous one holds up nothing until
    its ``wait`` or first use. A value is the latest asynchronous step it comes from, or 0."""

    NOTHING = 0

    def __init__(self, trace: ProgramTrace) -> None:
        super().__init__(trace)
        self._last: tuple[int, ...] = ()  # what the next step waits for
        self._waited = 0  # communication up to here is implied by that

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
        before = max(value, self._comm)
        return self._append_step(activity, self._depend_on_communication(before))

    def wait_for_value(self, value: int) -> int:
        self._last = self._depend_on_communication(value)
        self._waited = max(self._waited, value)
        return 0

    def get_latest_communication(self) -> int:
        return self._comm

    def _depend_on_communication(self, comm: int) -> tuple[int, ...]:
        """What the next step waits for, and communication up to ``comm``."""
        return (
            self.trace.drop_implied_deps({*self._last, comm}) if comm > self._waited else self._last
        )


class DataFlowOrder(_TraceBuilder):
    """A step waits for the steps that its operands come from. A value is the tuple of their ids.

    Compute steps are chained too, as far as that changes nothing: ASTRA-sim runs one at a time, of
    those ready the one with the lowest id. Call *level* the latest communication that a step
    depends on; as communication is one chain, at that moment all up to it are done. Let c come
    before b with level(c) <= level(b). When b is ready, the first unfinished step of c and what c
    depends on is ready too (its communication is done, as its level is at most level(b)), and has a
    lower id than b, so it goes first: c ends before b starts anyway. The edge to the nearest such c
    is therefore free, and keeps the set of ready steps small, which ASTRA-sim scans on each event.
    The candidates form a stack of rising levels.
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
        """``deps`` without what others imply, as communication that a compute step waited for."""
        newest = self.trace.drop_implied_deps(deps)
        levels = self._level
        level = max((levels[d] for d in newest if d in levels), default=0)
        return tuple(d for d in newest if d in levels or d > level)

    def wait_for_value(self, value: tuple[int, ...]) -> tuple[int, ...]:
        return value

    def get_latest_communication(self) -> tuple[int, ...]:
        return (self._comm,) if self._comm else ()
