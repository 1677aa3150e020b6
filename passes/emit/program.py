"""From a split module to the steps of a trace: loops are expanded, branches chosen."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from hespas.chakra.trace import Compute, Trace
from hespas.dialects.attrs import WAIT, Split, Target, communicators, trips_of
from hespas.dialects.errors import HespasError
from hespas.dialects.mlir import ir
from hespas.dialects.ops import CONTROL, LOOPS, TERMINATORS, communicates, entry, is_comm
from hespas.passes.base import Run
from hespas.passes.emit.order import DataFlow, Linear, Order
from hespas.passes.emit.tasks import Task, TaskMaker, is_assumed
from hespas.passes.split.blocks import reads


@dataclass(slots=True)
class Program:
    """The trace, and the ops that it was made from with how often each ran.

    ``assumed`` are the loops around collectives that ran and whose trip count nobody gave.
    """

    trace: Trace
    tasks: list[Task]
    assumed: list[Task]


@dataclass(slots=True)
class _Item:
    """One op in a block: what to do with the values ``reads``, to get the values ``makes``."""

    reads: list[int]
    makes: list[int]
    task: Task | None = None  # none: a wait, a branch, or a loop whose trip count is not assumed
    body: list[_Block] | None = None  # a loop: condition and body; a branch: the chosen one
    trips: int = -1


@dataclass(slots=True)
class _Block:
    arguments: list[int]
    items: list[_Item]
    results: list[int]


def build(module: ir.Module, run: Run) -> Program:
    """The program of a split and annotated module; raises HespasError, naming the missing pass."""
    split, target = Split.of(module.operation), Target.of(module.operation)
    if split is None:
        raise HespasError(
            "emit-chakra: the module is not split",
            remedy="run split-linear or split-individual first",
        )
    if target is None:
        raise HespasError(
            f"emit-chakra: the module has no {Target.NAME}", remedy="run prepare first"
        )
    groups = communicators(module)
    _check_groups(groups, target.devices)
    function = entry(module)
    reader = _Reader(TaskMaker(module, groups, run.input_name), run)
    block = reader.block(function.regions[0].blocks[0])
    trace = Trace(target.devices, groups)
    order: Order[Any] = Linear(trace) if split.strategy == "linear" else DataFlow(trace)
    values = [order.NOTHING] * len(reader.numbers)
    _expand(block, order, values, order.NOTHING)
    return Program(trace, reader.tasks, [loop for loop in reader.assumed if loop.runs])


def _check_groups(groups: dict[int, tuple[int, ...]], devices: int) -> None:
    for number, ranks in groups.items():
        if ranks and not 0 <= min(ranks) <= max(ranks) < devices:
            raise HespasError(
                f"communicator {number} has device {max(ranks)}, and there are {devices} devices"
            )
        if len(ranks) < 2 or len(set(ranks)) < len(ranks):
            raise HespasError(f"communicator {number} needs two distinct devices or more")


@dataclass(slots=True)
class _Reader:
    """Reads blocks once, so that expanding a loop is quick. Values go by number."""

    maker: TaskMaker
    run: Run
    numbers: dict[ir.Value, int] = field(default_factory=dict)
    tasks: list[Task] = field(default_factory=list)
    assumed: list[Task] = field(default_factory=list)

    def block(self, block: ir.Block) -> _Block:
        arguments = self._values(block.arguments)
        items: list[_Item] = []
        results: list[int] = []
        for view in block.operations:
            op = view.operation
            name = op.name
            if name in TERMINATORS:
                results = self._values(op.operands)
            elif is_comm(op):
                items.append(self._item(op, self._task(self.maker.communicate(op))))
            elif name == "stablehlo.optimization_barrier" and WAIT in op.attributes:
                items.append(self._item(op))
            elif name in CONTROL and communicates(op):
                items.append(self._loop(op) if name in LOOPS else self._branch(op))
            else:
                items.append(self._item(op, self._task(self.maker.compute(op, name))))
        return _Block(arguments, items, results)

    def _values(self, values: Sequence[ir.Value]) -> list[int]:
        numbers = self.numbers
        return [numbers.setdefault(value, len(numbers)) for value in values]

    def _task(self, task: Task) -> Task:
        self.tasks.append(task)
        return task

    def _item(self, op: ir.Operation, task: Task | None = None) -> _Item:
        inputs = reads(op) if task is not None and task.comm is None else op.operands
        return _Item(self._values(inputs), self._values(op.results), task)

    def _loop(self, op: ir.Operation) -> _Item:
        trips = trips_of(op)
        if trips is None:
            raise HespasError(
                "the loop holds collectives and its trip count is not known",
                op=op,
                remedy="run prepare, which finds it or takes a default",
            )
        item = self._item(op)
        item.body = [self.block(region.blocks[0]) for region in op.regions]
        item.trips = trips
        if is_assumed(op):
            item.task = Task(op, ())
            self.assumed.append(item.task)
        return item

    def _branch(self, op: ir.Operation) -> _Item:
        branches = [self.block(region.blocks[0]) for region in op.regions]
        number = max(range(len(branches)), key=lambda i: _weight(branches[i]))
        self.run.warn(
            f"{op.name} holds collectives and its branch is chosen at run time: the trace takes "
            f"branch {number}, which communicates most"
        )
        return _Item(self._values(op.operands), self._values(op.results), body=[branches[number]])


def _weight(block: _Block) -> tuple[int, float, int]:
    """What a branch is chosen by, here as for its cost (``estimators.aggregate.dearest``).

    Bytes sent, nanoseconds and operations computed in one run of a block.
    """
    sent, time_ns, flops = 0, 0.0, 0
    for item in block.items:
        if item.task is not None:
            if item.task.comm is not None:
                sent += item.task.comm.sent_bytes
            elif item.task.cost is not None:
                time_ns += item.task.cost.latency_ns
                flops += item.task.cost.flops
        for inner in item.body or ():
            more, longer, harder = _weight(inner)
            times = item.trips if item.trips >= 0 else 1  # a branch runs once
            sent += more * times
            time_ns += longer * times
            flops += harder * times
    return sent, time_ns, flops


def _expand(block: _Block, order: Order[Any], values: list[Any], after: Any) -> None:
    """Add the steps of one run of a block; ``values`` holds what each value comes from.

    In a branch all of them wait for ``after``, what its choice comes from; else that is NOTHING.
    """
    for item in block.items:
        inputs = [values[i] for i in item.reads]
        task = item.task
        if item.body is not None:
            results = _control(item, order, values, inputs, after)
            for i, result in zip(item.makes, results, strict=True):
                values[i] = result
            continue
        value = order.join([*inputs, after] if after else inputs)
        if task is None:
            value = order.wait(value)
        else:
            task.runs += 1
            if task.receives:
                value = order.join([value, order.latest()])
            is_async = task.comm is not None and task.comm.is_async
            for what in task.whats:
                if isinstance(what, Compute):
                    value = order.compute(what, value)
                else:
                    value = order.communicate(what, value, is_async)
        for i in item.makes:
            values[i] = value


def _control(
    item: _Item, order: Order[Any], values: list[Any], inputs: list[Any], after: Any
) -> list[Any]:
    """Run a loop its number of times, or a branch once; what its results come from.

    Each trip of a loop looks at the condition once, as its cost is counted. What comes after does
    not wait for the condition: the number of trips is known.
    """
    assert item.body is not None
    if item.trips < 0:
        (chosen,) = item.body
        after = order.join([*inputs, after])
        _expand(chosen, order, values, after)
        return [order.join([values[i], after]) for i in chosen.results]
    if item.task is not None:
        item.task.runs += 1
    condition, body = item.body
    carried = inputs
    for _ in range(item.trips):
        for block in (condition, body):
            for i, value in zip(block.arguments, carried, strict=True):
                values[i] = value
            _expand(block, order, values, after)
        carried = [values[i] for i in body.results]
    return carried
