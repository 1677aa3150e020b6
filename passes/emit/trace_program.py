"""Build the steps of a trace from a split module: expand loops and choose branches.

Each block is read once into ``_ProgramBlock``, in which values are numbers. Expanding it then
appends the steps of one execution to the trace. Invariant: ``values[i]`` is the value, in the sense
of ``trace_order``, of the latest definition of number i.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import field

from hespas.chakra.trace_steps import ComputeContent, ProgramTrace
from hespas.dialects.attr_codec import (
    read_communicators,
    read_trip_count,
    require_branch_number,
)
from hespas.dialects.attrs import WAIT, Cost, SplitAttr, TargetAttr
from hespas.dialects.mlir import ir
from hespas.dialects.op_bodies import has_body, list_read_values
from hespas.dialects.op_kinds import (
    BARRIERS,
    CONTROL,
    LOOPS,
    MAYBE_COLLECTIVE,
    TERMINATORS,
    find_entry_function,
    has_marked_collective,
    is_marked_collective,
)
from hespas.passes.base import EntryOps, PassRun
from hespas.passes.emit.trace_order import (
    NOTHING,
    DataFlowOrder,
    LinearOrder,
    TraceOrder,
    Value,
)
from hespas.passes.emit.trace_tasks import TraceTask, TraceTaskBuilder, has_assumed_trips
from hespas.support.errors import HespasError, format_op_place
from hespas.support.records import record

MAX_STEPS = 20_000_000


@record(slots=True)
class TraceProgram:
    """A trace and its ops.

    Attributes:
        trace: The steps that all devices execute.
        tasks: The ops of the trace, with their numbers of executions.
        assumed: Executed loops around collectives whose trip count is assumed.
    """

    trace: ProgramTrace
    tasks: list[TraceTask]
    assumed: list[TraceTask]


@record(slots=True)
class _BlockOp:
    """One op in a block, which reads and defines values.

    Attributes:
        task: The task of the op. None for a wait and a branch.
        body: Condition and body of a loop, or the chosen branch.
        trips: The trip count of a loop; -1 for other ops.
    """

    reads: Sequence[int]
    makes: Sequence[int]
    task: TraceTask | None = None
    body: list[_ProgramBlock] | None = None
    trips: int = -1


@record(slots=True)
class _ProgramBlock:
    arguments: list[int]
    items: list[_BlockOp]
    results: Sequence[int]


def build_trace_program(module: ir.Module, run: PassRun) -> TraceProgram:
    """Build the trace of a split and annotated module, with its costs brought up to date.

    Raises:
        HespasError: A pass is missing, or a stale cost cannot be estimated again.
    """
    split = SplitAttr.read_from_op(module.operation)
    if split is None:
        raise HespasError(
            "emit-chakra: the module is not split",
            op=module.operation,
            remedy="run split-linear or split-individual first",
        )
    if TargetAttr.NAME not in module.operation.attributes:
        raise HespasError(
            f"emit-chakra: the module has no {TargetAttr.NAME}",
            op=module.operation,
            remedy="run prepare first",
        )
    if not run.is_current(Cost.NAME):
        from hespas.passes.annotate.stale_costs import refresh_costs  # slow to import

        refresh_costs(module, run)
    target = TargetAttr.read_from_op(module.operation)  # now, as its devices may have changed
    assert target is not None
    groups = read_communicators(module)
    function = find_entry_function(module)
    tasks = TraceTaskBuilder(module, groups, target.host_link_bytes_per_s)
    reader = _BlockReader(tasks, run)
    trace = ProgramTrace(target.devices, groups)
    order: TraceOrder = LinearOrder(trace) if split.strategy == "linear" else DataFlowOrder(trace)
    if run.entry_ops is not None:
        # Each op is expanded when it is read, and nothing else of it is kept.
        ops = reader.read_known_ops(run.entry_ops)
        _expand_ops(ops, order, [NOTHING] * run.entry_ops.value_count, NOTHING)
        _check_length(len(trace.steps))
    else:
        block = reader.read_block(function.regions[0].blocks[0])
        _check_length(_count_steps(block.items), block.items)
        _expand_ops(block.items, order, [NOTHING] * len(reader.numbers), NOTHING)
    tasks.warn_of_untimed_copies(run)
    return TraceProgram(trace, reader.tasks, [loop for loop in reader.assumed if loop.runs])


def _check_length(steps: int, items: Sequence[_BlockOp] = ()) -> None:
    """Check that a trace can be written; the error is at the item that has most of its steps.

    Loops are checked before they are expanded to their steps.
    """
    if steps > MAX_STEPS:
        longest = max(items, key=lambda item: _count_steps([item]), default=None)
        raise HespasError(
            f"the trace has over {MAX_STEPS:,} nodes per device",
            op=longest.task.op if longest and longest.task else None,
            remedy="merge regions, or reduce the trip counts of loops that contain collectives",
        )


def _count_steps(items: Iterable[_BlockOp]) -> int:
    """Count the steps of one execution of ops."""
    steps = 0
    for item in items:
        if item.body is not None:
            steps += abs(item.trips) * sum(_count_steps(block.items) for block in item.body)
        elif item.task is not None:
            steps += len(item.task.activities)
    return steps


@record(slots=True)
class _BlockReader:
    """Reads each block once and numbers the values."""

    maker: TraceTaskBuilder
    run: PassRun
    numbers: dict[ir.Value, int] = field(default_factory=dict)
    tasks: list[TraceTask] = field(default_factory=list)
    assumed: list[TraceTask] = field(default_factory=list)

    def read_known_ops(self, known: EntryOps) -> Iterator[_BlockOp]:
        """Read the ops of the entry function if their values have numbers: half of the time.

        No block inside them has collectives.
        """
        leaves, build_task, add_task = (
            self.run.op_leaves, self.maker.build_compute_task, self.tasks.append,
        )  # fmt: skip
        rows = zip(known.ops, known.reads, known.makes, known.regions, known.contents, strict=True)
        for op, reads, makes, region, content in rows:
            if region is not None:
                leaf = leaves.get(content) if content is not None else None
                task = build_task(op, op.name if leaf is None else leaf[0], region, leaf)
                add_task(task)
                yield _BlockOp(reads, makes, task)
            elif (name := op.name) not in TERMINATORS:
                yield self._read_op(op, name, (reads, makes))

    def read_block(self, block: ir.Block) -> _ProgramBlock:
        """Read a block, and those inside it that contain collectives."""
        arguments = self._number_values(block.arguments)
        items: list[_BlockOp] = []
        results: Sequence[int] = []
        for view in block.operations:
            op = view.operation
            name = op.name
            if name in TERMINATORS:
                results = self._number_values(op.operands)
            else:
                items.append(self._read_op(op, name))
        return _ProgramBlock(arguments, items, results)

    def _read_op(
        self,
        op: ir.Operation,
        name: str,
        numbers: tuple[Sequence[int], Sequence[int]] | None = None,
    ) -> _BlockOp:
        """Read an op, the numbers of whose values may be known."""
        if name in MAYBE_COLLECTIVE and is_marked_collective(op):
            task = self._record_task(self.maker.build_comm_task(op))
            return self._read_block_op(op, numbers, name, task)
        if name in BARRIERS and WAIT in op.attributes:
            return self._read_block_op(op, numbers, name)
        if name in CONTROL and has_marked_collective(op):
            assert numbers is None
            return self._read_loop_op(op) if name in LOOPS else self._read_branch_op(op)
        task = self._record_task(self.maker.build_compute_task(op, name))
        return self._read_block_op(op, numbers, name, task)

    def _number_values(self, values: Sequence[ir.Value]) -> list[int]:
        numbers = self.numbers
        return [numbers.setdefault(value, len(numbers)) for value in values]

    def _record_task(self, task: TraceTask) -> TraceTask:
        self.tasks.append(task)
        return task

    def _read_block_op(
        self,
        op: ir.Operation,
        numbers: tuple[Sequence[int], Sequence[int]] | None,
        name: str,
        task: TraceTask | None = None,
    ) -> _BlockOp:
        if numbers is not None:
            return _BlockOp(*numbers, task)
        inputs = list_read_values(op, name) if has_body(op, name) else op.operands
        return _BlockOp(self._number_values(inputs), self._number_values(op.results), task)

    def _read_loop_op(self, op: ir.Operation) -> _BlockOp:
        trips = read_trip_count(op)
        assert trips is not None  # whoever starts a pass brings the facts of `prepare` up to date
        task = TraceTask(op, ())
        if has_assumed_trips(op):
            self.assumed.append(task)
        return _BlockOp(
            self._number_values(op.operands),
            self._number_values(op.results),
            task,
            [self.read_block(region.blocks[0]) for region in op.regions],
            trips,
        )

    def _read_branch_op(self, op: ir.Operation) -> _BlockOp:
        from hespas.passes.prepare.choose_branches import is_selected_at_run_time  # few need it

        number = require_branch_number(op)
        if is_selected_at_run_time(op, self.maker.functions):
            self.run.warn(
                f"{format_op_place(op, self.run.input_name)} contains collectives and selects its "
                f"branch at run time: the trace contains branch {number}"
            )
        return _BlockOp(
            self._number_values(op.operands),
            self._number_values(op.results),
            body=[self.read_block(op.regions[number].blocks[0])],
        )


def _expand_ops(
    items: Iterable[_BlockOp], order: TraceOrder, values: list[Value], after: Value
) -> None:
    """Append the steps of one run of the ops of a block.

    Args:
        items: The ops.
        order: The trace, in its order.
        values: What each numbered value depends on; updated.
        after: What all steps of a branch depend on: its selector. NOTHING outside branches.
    """
    for item in items:
        inputs = [values[i] for i in item.reads]
        task = item.task
        if item.body is not None:
            results = _expand_control_flow(item, order, values, inputs, after)
            for i, result in zip(item.makes, results, strict=True):
                values[i] = result
            continue
        value = order.join_values([*inputs, after] if after else inputs)
        if task is None:
            value = order.wait_for_value(value)
        else:
            task.runs += 1
            comm = task.comm
            if comm is not None and task.is_receive:
                value = order.join_values([value, order.get_latest_communication()])
            for activity in task.activities:
                if isinstance(activity, ComputeContent):
                    value = order.add_compute_step(activity, value)
                else:
                    is_async = comm is not None and comm.is_async
                    value = order.add_communication_step(activity, value, is_async)
        for i in item.makes:
            values[i] = value


def _expand_control_flow(
    item: _BlockOp, order: TraceOrder, values: list[Value], inputs: list[Value], after: Value
) -> list[Value]:
    """Expand all trips of a loop, or a branch once, and return what the results depend on.

    Each trip evaluates the condition once, as for the cost. Later ops do not wait for the
    condition, because the number of trips is known.
    """
    assert item.body is not None
    if item.trips < 0:
        (branch,) = item.body
        after = order.join_values([*inputs, after])
        _expand_ops(branch.items, order, values, after)
        return [order.join_values([values[i], after]) for i in branch.results]
    assert item.task is not None
    item.task.runs += 1
    condition, body = item.body
    carried = inputs
    for _ in range(item.trips):
        for block in (condition, body):
            for i, value in zip(block.arguments, carried, strict=True):
                values[i] = value
            _expand_ops(block.items, order, values, after)
        carried = [values[i] for i in body.results]
    return carried
