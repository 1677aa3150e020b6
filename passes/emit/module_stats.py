"""``module_stats.json``: the cost of a program by op kind, dtype, region and communicator.

docs/reference/module-stats.md describes the schema. If the meaning of a key changes, increase the
version in ``SCHEMA``.
"""

from __future__ import annotations

import contextlib
import json
import math
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

from hespas.chakra.trace_steps import FS_PER_NS, HostCopyContent
from hespas.configs.kernel_families import find_kernel_family
from hespas.configs.node_overrides import load_target_node
from hespas.configs.node_spec import NodeSpec
from hespas.dialects.attrs import (
    ASSUMED,
    COUNTS,
    HOST_LINK,
    OTHER_AMOUNTS,
    CommAttr,
    Cost,
    SplitAttr,
    TargetAttr,
)
from hespas.dialects.executions import LEAF, LOOP, Execution, ExecutionWalk
from hespas.dialects.mlir import collect_functions, ir
from hespas.dialects.op_kinds import CALLEE, CONTROL
from hespas.estimators.aggregate import (
    find_main_bound,
    find_main_dtype,
    find_maxima,
    sum_amounts,
)
from hespas.estimators.base import FREE_COST
from hespas.passes.annotate.cost_walk import is_estimated_whole
from hespas.passes.emit.trace_program import TraceProgram
from hespas.passes.emit.trace_tasks import TraceTask, has_assumed_trips
from hespas.support.errors import HespasError

SCHEMA = "hespas.module_stats/1"
NO_CLASS = "other"  # kernels of estimators without classes
COMPOSED = CONTROL | CALLEE.keys()  # ops whose leaves are elsewhere

LeafCost = tuple[str, ir.Attribute]  # an op's name and its cost
CommTask = tuple[TraceTask, CommAttr]
ExecutedOp = tuple[str, Cost, int]  # the name of a leaf op, its cost and its executions
StatsRow = dict[str, Any]


def collect_stats(
    module: ir.Module,
    program: TraceProgram,
    known_leaves: Mapping[str, Counter[LeafCost]] | None = None,
) -> StatsRow:
    """Collect the statistics of an emitted program.

    Args:
        module: An annotated module.
        program: Its trace.
        known_leaves: The leaf ops of functions, as far as they are known (``PassRun.leaves``).
    """
    target = TargetAttr.read_from_op(module.operation)
    split = SplitAttr.read_from_op(module.operation)
    assert target is not None and split is not None
    executed = [task for task in program.tasks if task.runs]
    communication = [(task, task.comm) for task in executed if task.comm and task.activities]
    messages = {
        "comm_ops": sum(task.runs for task, _ in communication),
        "comm_operand_bytes": sum(task.runs * comm.operand_bytes for task, comm in communication),
    }
    leaves = LeafCounter(module, known_leaves)
    ops = list_executed_ops(leaves, program)
    return {
        "schema": SCHEMA,
        "program": {
            "devices": target.devices,
            "replicas": target.replicas,
            "partitions": target.partitions,
            "split": split.strategy,
            "merge": split.merge,
            "block_limit": split.block_limit,
            **_describe_estimates(target),
        },
        **_summarise_costs(_merge_equal_costs(ops), target, messages),
        "regions": _collect_regions(executed, leaves),
        "reuse": _compute_region_reuse(executed),
        "communicators": _collect_communicators(program, communication),
        "transfers": _count_transfers(communication),
        **_sum_host_copies(program, communication),
    }


def replace_costs(statistics: StatsRow, ops: Iterable[ExecutedOp], target: TargetAttr) -> StatsRow:
    """Return the statistics of a program with other costs of its ops, without rows of regions.

    Args:
        statistics: The statistics with the former costs.
        ops: What ``list_executed_ops`` returns, with the new costs.
        target: What the new costs were estimated for.
    """
    messages = {name: statistics["totals"][name] for name in ("comm_ops", "comm_operand_bytes")}
    return {
        **statistics,
        "program": {**statistics["program"], **_describe_estimates(target)},
        **_summarise_costs(_merge_equal_costs(ops), target, messages),
        "regions": [],
    }


def list_executed_ops(leaves: LeafCounter, program: TraceProgram) -> list[ExecutedOp]:
    """Return the distinct leaf ops that run, with their costs and executions."""
    counts: Counter[LeafCost] = Counter()
    # Hashing an attribute calls the bindings, and the leaves of equal ops are one object.
    runs: dict[int, int] = {}
    by_id: dict[int, LeafCost] = {}
    for task in program.tasks:
        leaf = task.leaf
        if not task.runs:
            continue
        if leaf is not None and leaf[0] not in COMPOSED:
            if id(leaf) not in runs:
                by_id[id(leaf)] = leaf
                counts[leaf] += 0  # this is its place
            runs[id(leaf)] = runs.get(id(leaf), 0) + task.runs
        elif task.cost is not None:
            leaves.add_leaves(task.op, task.runs, counts)
    for number, count in runs.items():
        counts[by_id[number]] += count
    for loop in program.assumed:
        counts[_make_gap_leaf(loop.op)] += loop.runs
    return [(name, leaves.read_cost_attr(attr), count) for (name, attr), count in counts.items()]


def _merge_equal_costs(ops: Iterable[ExecutedOp]) -> list[ExecutedOp]:
    """Count ops of equal name and cost together; their digests do not matter."""
    counts: Counter[tuple[str, Cost]] = Counter()
    for name, cost, count in ops:
        counts[name, cost] += count
    return [(name, cost, count) for (name, cost), count in counts.items()]


def _describe_estimates(target: TargetAttr) -> StatsRow:
    return {
        "node": target.node,
        "node_overrides": target.node_overrides,
        "estimator": target.estimator,
        "constants": target.constants,
        "area_mm2": target.area_mm2,
        "leakage_w": target.leakage_w,
        "link_pj_per_byte": target.link_pj_per_byte,
    }


def _summarise_costs(ops: list[ExecutedOp], target: TargetAttr, messages: StatsRow) -> StatsRow:
    """Sum the costs of all ops, and by each of their properties."""
    costs = [(cost, count) for _, cost, count in ops]
    return {
        "totals": {
            **_sum_costs(costs),
            **messages,
            **sum_amounts(costs, OTHER_AMOUNTS),
            **find_maxima(costs),
            "assumed_loops": sum(count for _, cost, count in ops if cost.gap == ASSUMED),
            **_compute_time_band(ops),
            "gaps": sum(count for _, cost, count in ops if cost.gap),
        },
        "utilisation": _compute_utilisation(ops, _load_node(target)),
        "kinds": _group_costs(ops, lambda name, cost: name),
        "dtypes": _group_by_dtype(ops),
        "bounds": _group_costs(ops, lambda name, cost: cost.bound),
        "classes": _group_costs(ops, lambda name, cost: cost.kernel_class or NO_CLASS),
    }


def render_stats(statistics: StatsRow) -> str:
    """Render the statistics as JSON in a fixed order, with one table row per line."""
    parts = []
    for key, value in statistics.items():
        if key in ("kinds", "dtypes", "bounds", "classes", "communicators") and value:
            rows = [f"{json.dumps(k)}: {json.dumps(v)}" for k, v in value.items()]
            text = "{\n  " + ",\n  ".join(rows) + "\n }"
        elif isinstance(value, list) and value:
            text = "[\n  " + ",\n  ".join(json.dumps(row) for row in value) + "\n ]"
        else:
            text = json.dumps(value)
        parts.append(f" {json.dumps(key)}: {text}")
    return "{\n" + ",\n".join(parts) + "\n}\n"


class LeafCounter:
    """Counts the leaf ops that one execution of an op runs: in callees, and once per loop trip.

    Each function is counted once.

    Args:
        module: An annotated module.
        known: The leaf ops of functions, as far as they are known (``PassRun.leaves``).
    """

    def __init__(
        self, module: ir.Module, known: Mapping[str, Counter[LeafCost]] | None = None
    ) -> None:
        self._walk = ExecutionWalk(collect_functions(module), is_estimated_whole)
        self._called = dict(known or {})
        self._costs: dict[ir.Attribute, Cost] = {}
        self._free_cost = FREE_COST.to_dictionary_attr(module.context)

    def read_cost_attr(self, attr: ir.Attribute) -> Cost:
        """Read a cost; equal attributes are read once."""
        if attr not in self._costs:
            self._costs[attr] = Cost.from_dictionary_attr(attr)
        return self._costs[attr]

    def add_leaves(self, op: ir.Operation, runs: int, leaves: Counter[LeafCost]) -> None:
        """Add the leaf ops that ``runs`` executions of ``op`` run to their counts."""
        name = op.name
        if name in COMPOSED:
            self._add_executions(self._walk.read_op(op), runs, leaves)
        else:
            self._add_leaf(op, name, runs, leaves)

    def _add_leaf(self, op: ir.Operation, name: str, runs: int, leaves: Counter[LeafCost]) -> None:
        # An op without a cost is free: `refresh_costs` has looked at all others.
        leaves[name, op.attributes.get(Cost.NAME) or self._free_cost] += runs

    def _add_executions(
        self, executions: Iterable[Execution], runs: int, leaves: Counter[LeafCost]
    ) -> None:
        for op, count, kind, callee in executions:
            if callee:
                for leaf, times in self._count_callee(callee).items():
                    leaves[leaf] += times * count * runs
            elif kind == LEAF:
                self._add_leaf(op, op.name, count * runs, leaves)
            elif kind == LOOP and has_assumed_trips(op):
                leaves[_make_gap_leaf(op)] += count * runs

    def _count_callee(self, name: str) -> Counter[LeafCost]:
        if name not in self._called:
            leaves: Counter[LeafCost] = Counter()
            if self._walk.is_whole_function(name):
                leaves["func.call", self._walk.functions[name].attributes[Cost.NAME]] = 1
            else:
                self._add_executions(self._walk.read_function(name), 1, leaves)
            self._called[name] = leaves
        return self._called[name]


def _make_gap_leaf(loop: ir.Operation) -> LeafCost:
    """Build a zero cost with the gap of a loop, whose body is counted by its ops."""
    zero_cost = Cost("", 0, 0, 0, 0.0, "unknown", "none", gap=ASSUMED)
    return loop.name, zero_cost.to_dictionary_attr(loop.context)


def _sum_costs(costs: Sequence[tuple[Cost, int]]) -> StatsRow:
    """Sum what each row has: executions, time, and the amounts that every cost has."""
    return {
        "count": sum(count for _, count in costs),
        "time_ns": math.fsum(cost.time_ns * count for cost, count in costs),
        **{name: sum(getattr(cost, name) * count for cost, count in costs) for name in COUNTS},
    }


def _group_costs(ops: list[ExecutedOp], key: Callable[[str, Cost], str]) -> dict[str, StatsRow]:
    """Sum the costs by key, most time first."""
    groups: dict[str, list[tuple[Cost, int]]] = {}
    for name, cost, count in ops:
        groups.setdefault(key(name, cost), []).append((cost, count))
    rows = {name: _sum_costs(costs) for name, costs in groups.items()}
    return dict(sorted(rows.items(), key=lambda item: (-item[1]["time_ns"], item[0])))


def _group_by_dtype(ops: list[ExecutedOp]) -> dict[str, StatsRow]:
    """Sum the costs by element type, with the operations that utilisation counts."""
    executed: Counter[str] = Counter()
    for _, cost, count in ops:
        executed[cost.dtype] += cost.executed_flops * count
    rows = _group_costs(ops, lambda name, cost: cost.dtype)
    return {dtype: row | {"executed_flops": executed[dtype]} for dtype, row in rows.items()}


def _compute_time_band(ops: list[ExecutedOp]) -> StatsRow:
    """Combine the bands of all ops, None without one, and count ops by tag."""
    tags: Counter[str] = Counter()
    for _, cost, count in ops:
        for tag in (cost.tag or "").split():
            tags[tag] += count
    low_ns, high_ns = combine_bands((cost, count) for _, cost, count in ops) or (None, None)
    return {"low_ns": low_ns, "high_ns": high_ns, "tags": dict(sorted(tags.items()))}


def _load_node(target: TargetAttr) -> NodeSpec | None:
    """Rebuild the node of the annotation; None if its file cannot be read any more."""
    with contextlib.suppress(HespasError):
        return load_target_node(target)
    return None


def _compute_utilisation(ops: list[ExecutedOp], node: NodeSpec | None) -> StatsRow | None:
    """Compute the shares of the compute time that the work would take at the peak rates.

    The operations of an op count at the peak rate of its element type.
    """
    time_ns = math.fsum(cost.time_ns * count for _, cost, count in ops)
    if node is None or not time_ns:
        return None
    busy_ns, bytes_moved = [], 0
    for _, cost, count in ops:
        rates = [0.0]
        for unit in ("matrix", "vector"):
            with contextlib.suppress(HespasError):
                rates.append(node.find_peak_rate(unit, cost.dtype).flops_per_s)
        if max(rates):
            # A fusion of several types has only one here; it is busy for its own time at most.
            busy_ns.append(min(cost.flops / max(rates) * 1e9, cost.time_ns) * count)
        bytes_moved += (cost.read_bytes + cost.write_bytes) * count
    memory_ns = bytes_moved / node.memory_bandwidth_bytes_per_s * 1e9
    return {"flops": math.fsum(busy_ns) / time_ns, "bandwidth": min(1.0, memory_ns / time_ns)}


def _collect_regions(executed: list[TraceTask], counter: LeafCounter) -> list[StatsRow]:
    """Build one row for each distinct region, in order of first appearance."""
    rows: dict[str, StatsRow] = {}
    for task in executed:
        region, cost = task.region, task.cost
        if region is None or cost is None:
            continue
        if region.digest not in rows:
            counts: Counter[LeafCost] = Counter()
            counter.add_leaves(task.op, 1, counts)
            leaves = [(counter.read_cost_attr(attr), count) for (_, attr), count in counts.items()]
            rows[region.digest] = {
                "id": region.id,
                "digest": region.digest,
                "name": task.callee or task.op.name,
                "ops": region.ops,
                "regions": 0,
                "runs": 0,
                "time_ns": cost.time_ns,
                **{name: getattr(cost, name) for name in COUNTS},
                "bound": find_main_bound(leaves),
                "dtype": find_main_dtype(leaves),
                "gap": cost.gap,
            }
        row = rows[region.digest]
        row["regions"] += 1
        row["runs"] += task.runs
    return list(rows.values())


def _compute_region_reuse(executed: list[TraceTask]) -> StatsRow:
    """Compute the shares of regions, and of their ops, that repeat an earlier region."""
    regions = [task.region for task in executed if task.region is not None]
    distinct = {region.digest: region.ops for region in regions}
    ops, distinct_ops = sum(region.ops for region in regions), sum(distinct.values())
    return {
        "regions": len(regions),
        "distinct_regions": len(distinct),
        "basic_block_reuse_rate": 1 - len(distinct) / len(regions) if regions else 0.0,
        "ops": ops,
        "distinct_ops": distinct_ops,
        "operator_reuse_factor": 1 - distinct_ops / ops if ops else 0.0,
    }


def _collect_communicators(
    program: TraceProgram, communication: list[CommTask]
) -> dict[str, StatsRow]:
    """List the ranks of each communicator, and its collectives with one device's operand bytes."""
    used: dict[int, dict[str, StatsRow]] = {}
    for task, comm in communication:
        for group in comm.groups:
            rows = used.setdefault(group, {})
            row = rows.setdefault(comm.kind, {"count": 0, "operand_bytes": 0})
            row["count"] += task.runs
            row["operand_bytes"] += task.runs * comm.operand_bytes
    return {
        str(number): {
            "ranks": list(ranks),
            "collectives": dict(sorted(used.get(number, {}).items())),
        }
        for number, ranks in sorted(program.trace.groups.items())
    }


def _sum_host_copies(program: TraceProgram, communication: list[CommTask]) -> StatsRow:
    """Sum the copies to and from the host, and time the device if it does nothing else.

    The time of such a step is null if devices exchange data, which takes a network. Programs
    without copies have no sums.
    """
    copies = [(task, comm) for task, comm in communication if comm.network == HOST_LINK]
    if not copies:
        return {}
    lone_fs = program.trace.compute_lone_time_fs() if len(copies) == len(communication) else None
    sums = {
        "count": sum(task.runs for task, _ in copies),
        "operand_bytes": sum(task.runs * comm.operand_bytes for task, comm in copies),
        "time_ns": sum(
            task.runs * content.latency_us * 1000
            for task, _ in copies
            for content in task.activities
            if isinstance(content, HostCopyContent)
        ),
        "step_ns": None if lone_fs is None else lone_fs / FS_PER_NS,
    }
    return {"host_copies": sums}


def _count_transfers(communication: list[CommTask]) -> StatsRow:
    """Count the permutes, their messages, and the bytes of all messages."""
    counts = {"count": 0, "messages": 0, "message_bytes": 0}
    for task, comm in communication:
        if comm.kind == "permute" and comm.network != HOST_LINK:
            messages = len(comm.list_transfers())
            counts["count"] += task.runs
            counts["messages"] += task.runs * messages
            counts["message_bytes"] += task.runs * messages * comm.operand_bytes
    return counts


def combine_bands(costs: Iterable[tuple[Cost, int]]) -> tuple[float, float] | None:
    """Return the low and the high end in nanoseconds, or None if no cost has a band.

    Kernels of one family share an error, such as that of the board, so their shared errors are
    added. Errors of different families, and errors of single kernels, are independent: the roots
    of their squares are added. A kernel that runs several times has the same error each time.

    Args:
        costs: The costs of distinct kernels, and how often each runs. A cost without a band is
            exact; the whole band of one without a class is shared with those of its estimator.
    """
    counted = [(cost, count) for cost, count in costs if count]
    if all(cost.low_ns is None for cost, _ in counted):
        return None
    total_ns = math.fsum(cost.time_ns * count for cost, count in counted)
    below, above = (_combine_deviations(counted, side) for side in ("low", "high"))
    return max(total_ns - below, 0.0), total_ns + above


def _combine_deviations(costs: Iterable[tuple[Cost, int]], side: str) -> float:
    """Return how far the sum may be below (``low``) or above (``high``) its estimate."""
    shared_ns: defaultdict[str, float] = defaultdict(float)
    own_squares = 0.0
    for cost, count in costs:
        end_ns = getattr(cost, f"{side}_ns")
        if end_ns is None or not cost.time_ns:
            continue
        shared_end_ns = getattr(cost, f"shared_{side}_ns")
        if cost.kernel_class is None or shared_end_ns is None:
            shared_ns[cost.estimator] += count * abs(end_ns - cost.time_ns)
            continue
        family = find_kernel_family(cost.kernel_class)
        shared_ns[family] += count * abs(shared_end_ns - cost.time_ns)
        own_squares += (count * _find_own_deviation(cost.time_ns, end_ns, shared_end_ns)) ** 2
    return math.sqrt(math.fsum(value**2 for value in shared_ns.values()) + own_squares)


def _find_own_deviation(time_ns: float, end_ns: float, shared_end_ns: float) -> float:
    """Return the deviation in nanoseconds without the shared error, which is independent of it."""
    if not (end_ns > 0 and shared_end_ns > 0):
        return abs(end_ns - time_ns)
    whole, shared = math.log(end_ns / time_ns), math.log(shared_end_ns / time_ns)
    own = math.sqrt(max(whole**2 - shared**2, 0.0))
    return abs(time_ns * math.expm1(math.copysign(own, whole)))
