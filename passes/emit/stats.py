"""``module_stats.json``: what a program costs, by op kind, dtype, region and communicator.

The schema is described in docs/reference/module-stats.md; a change of meaning raises ``SCHEMA``.
"""

from __future__ import annotations

import contextlib
import json
import math
from collections import Counter
from collections.abc import Callable, Iterable
from typing import Any

from hespas.configs.node import Node
from hespas.dialects.attrs import ASSUMED, Cost, Region, Split, Target, trips_of
from hespas.dialects.errors import HespasError
from hespas.dialects.mlir import attribute, functions, ir
from hespas.dialects.ops import BRANCHES, CALLEE, CONTROL, LOOPS, TERMINATORS
from hespas.passes.emit.program import Program
from hespas.passes.emit.tasks import Task, is_assumed

SCHEMA = "hespas.module_stats/1"

Leaf = tuple[str, ir.Attribute]  # an op's name and its cost
Row = dict[str, Any]


def collect(module: ir.Module, program: Program, node: Node | None = None) -> Row:
    """The statistics of an emitted program; ``node`` is the accelerator it was annotated for."""
    target, split = Target.of(module.operation), Split.of(module.operation)
    assert target is not None and split is not None
    leaves = _Leaves(module)
    executed = [task for task in program.tasks if task.runs]
    counts: Counter[Leaf] = Counter()
    for task in executed:
        if task.cost is not None:
            for leaf, count in leaves.of(task.op).items():
                counts[leaf] += count * task.runs
    for loop in program.assumed:
        counts[leaves.gap(loop.op)] += loop.runs
    ops = [(name, leaves.cost(attr), count) for (name, attr), count in counts.items()]
    return {
        "schema": SCHEMA,
        "program": {
            "devices": target.devices,
            "replicas": target.replicas,
            "partitions": target.partitions,
            "split": split.strategy,
            "merge": split.merge,
            "block_limit": split.block_limit,
            "node": target.node,
            "estimator": target.estimator,
            "constants": target.constants,
        },
        "totals": {
            **_sums((cost, count) for _, cost, count in ops),
            "comm_ops": sum(t.runs for t in executed if t.comm and t.whats),
            "comm_operand_bytes": sum(
                t.runs * t.comm.operand_bytes for t in executed if t.comm and t.whats
            ),
            "energy_nj": _energy(ops),
            **_band(ops),
            "gaps": sum(count for _, cost, count in ops if cost.gap),
        },
        "utilisation": _utilisation(ops, node or _node_of(target)),
        "kinds": _grouped(ops, lambda name, cost: name),
        "dtypes": _grouped(ops, lambda name, cost: cost.dtype),
        "bounds": _grouped(ops, lambda name, cost: cost.bound),
        "regions": _regions(executed),
        "reuse": _reuse(executed),
        "communicators": _communicators(program, executed),
        "transfers": _transfers(executed),
    }


def render(found: Row) -> str:
    """The statistics as JSON, in a fixed order, rows of a table one a line."""
    parts = []
    for key, value in found.items():
        if key in ("kinds", "dtypes", "bounds", "communicators") and value:
            rows = [f"{json.dumps(k)}: {json.dumps(v)}" for k, v in value.items()]
            text = "{\n  " + ",\n  ".join(rows) + "\n }"
        elif isinstance(value, list) and value:
            text = "[\n  " + ",\n  ".join(json.dumps(row) for row in value) + "\n ]"
        else:
            text = json.dumps(value)
        parts.append(f" {json.dumps(key)}: {text}")
    return "{\n" + ",\n".join(parts) + "\n}\n"


class _Leaves:
    """The ops that one execution of an op runs: calls followed, loops multiplied, each once."""

    def __init__(self, module: ir.Module) -> None:
        self._functions = functions(module)
        self._called: dict[str, Counter[Leaf]] = {}
        self._costs: dict[ir.Attribute, Cost] = {}

    def cost(self, attr: ir.Attribute) -> Cost:
        if attr not in self._costs:
            self._costs[attr] = Cost.from_attr(attr)
        return self._costs[attr]

    def of(self, op: ir.Operation) -> Counter[Leaf]:
        name = op.name
        if name in CONTROL and Region.NAME in op.attributes and is_estimated_whole(op):
            return Counter({(name, op.attributes[Cost.NAME]): 1})
        if name in CALLEE:
            return self._callee(attribute(op, CALLEE[name]).value)
        if name in LOOPS:
            return self._loop(op)
        if name in BRANCHES:
            return self._branch(op)
        attributes = op.attributes
        return Counter({(name, attributes[Cost.NAME]): 1} if Cost.NAME in attributes else {})

    def _loop(self, loop: ir.Operation) -> Counter[Leaf]:
        trips = trips_of(loop)
        found: Counter[Leaf] = Counter()
        if trips != 0:
            for leaf, count in self._blocks(loop.regions).items():
                found[leaf] = count * (trips or 1)
        if trips is None or is_assumed(loop):
            found[self.gap(loop)] += 1
        return found

    def _branch(self, op: ir.Operation) -> Counter[Leaf]:
        """The dearest branch, and the gap of another where it has none itself."""
        chosen = max((self._blocks([region]) for region in op.regions), key=self._time_ns)
        attributes = op.attributes
        missing = Cost.NAME in attributes and self.cost(attributes[Cost.NAME]).gap
        if missing and not any(self.cost(attr).gap for _, attr in chosen):
            chosen[self.gap(op)] += 1
        return chosen

    def gap(self, op: ir.Operation) -> Leaf:
        """A cost of nothing, for the gap of control flow itself: its body is counted in ops."""
        attributes = op.attributes
        estimator, reason = "", None
        if Cost.NAME in attributes:
            cost = self.cost(attributes[Cost.NAME])
            estimator, reason = cost.estimator, cost.gap
        nothing = Cost(estimator, 0, 0, 0, 0.0, "unknown", "none", gap=reason or ASSUMED)
        return op.name, nothing.to_attr(op.context)

    def _callee(self, name: str) -> Counter[Leaf]:
        if name not in self._called:
            function = self._functions[name]
            if is_estimated_whole(function):
                self._called[name] = Counter({("func.call", function.attributes[Cost.NAME]): 1})
            else:
                self._called[name] = self._blocks(function.regions)
        return self._called[name]

    def _blocks(self, regions: Iterable[ir.Region]) -> Counter[Leaf]:
        found: Counter[Leaf] = Counter()
        for region in regions:
            for block in region.blocks:
                for view in block.operations:
                    found.update(self.of(view.operation))
        return found

    def _time_ns(self, leaves: Counter[Leaf]) -> tuple[float, int]:
        costs = [(self.cost(attr), count) for (_, attr), count in leaves.items()]
        time_ns = math.fsum(cost.latency_ns * count for cost, count in costs)
        return time_ns, sum(cost.flops * count for cost, count in costs)


def is_estimated_whole(op: ir.Operation) -> bool:
    """Whether a function, a loop or a branch has a cost and the ops in it have none."""
    inside = [view.operation for region in op.regions for view in region.blocks[0].operations]
    costs = [Cost.NAME in inner.attributes for inner in inside if inner.name not in TERMINATORS]
    return Cost.NAME in op.attributes and bool(costs) and not any(costs)


def _sums(costs: Iterable[tuple[Cost, int]]) -> Row:
    costs = list(costs)
    return {
        "count": sum(count for _, count in costs),
        "time_ns": math.fsum(cost.latency_ns * count for cost, count in costs),
        "flops": sum(cost.flops * count for cost, count in costs),
        "read_bytes": sum(cost.read_bytes * count for cost, count in costs),
        "write_bytes": sum(cost.write_bytes * count for cost, count in costs),
    }


def _grouped(ops: list[tuple[str, Cost, int]], key: Callable[[str, Cost], str]) -> dict[str, Row]:
    """Sums by key, most time first."""
    groups: dict[str, list[tuple[Cost, int]]] = {}
    for name, cost, count in ops:
        groups.setdefault(key(name, cost), []).append((cost, count))
    rows = {name: _sums(costs) for name, costs in groups.items()}
    return dict(sorted(rows.items(), key=lambda item: (-item[1]["time_ns"], item[0])))


def _energy(ops: list[tuple[str, Cost, int]]) -> float | None:
    energies = [c.energy_nj * count for _, c, count in ops if c.energy_nj is not None]
    return math.fsum(energies) if energies else None


def _band(ops: list[tuple[str, Cost, int]]) -> Row:
    """The ends of the band of the time, null without one, and how many ops have which tag."""
    tags: Counter[str] = Counter()
    for _, cost, count in ops:
        for tag in (cost.tag or "").split():
            tags[tag] += count
    known = any(cost.low_ns is not None for _, cost, _ in ops)
    ends = {
        name: math.fsum(
            count * (cost.latency_ns if getattr(cost, name) is None else getattr(cost, name))
            for _, cost, count in ops
        )
        if known
        else None
        for name in ("low_ns", "high_ns")
    }
    return {**ends, "tags": dict(sorted(tags.items()))}


def _node_of(target: Target) -> Node | None:
    from hespas import configs

    if target.node:
        with contextlib.suppress(HespasError):
            return configs.node(target.node)
    return None


def _utilisation(ops: list[tuple[str, Cost, int]], node: Node | None) -> Row | None:
    """Shares of the node's peak rates over the compute time, each op at its type's peak."""
    time_ns = math.fsum(cost.latency_ns * count for _, cost, count in ops)
    if node is None or not time_ns:
        return None
    busy_ns, bytes_moved = [], 0
    for _, cost, count in ops:
        rates = [0.0]
        for unit in ("matrix", "vector"):
            with contextlib.suppress(HespasError):
                rates.append(node.peak(unit, cost.dtype).flops_per_s)
        if cost.flops and max(rates):
            # A fusion of several types has one here: its own time is the most it can be busy.
            busy_ns.append(min(cost.flops / max(rates) * 1e9, cost.latency_ns) * count)
        bytes_moved += (cost.read_bytes + cost.write_bytes) * count
    memory_ns = bytes_moved / node.memory_bandwidth_bytes_per_s * 1e9
    return {"flops": math.fsum(busy_ns) / time_ns, "bandwidth": min(1.0, memory_ns / time_ns)}


def _regions(executed: list[Task]) -> list[Row]:
    """One row for each distinct region, in order of first appearance."""
    rows: dict[str, Row] = {}
    for task in executed:
        region, cost = task.region, task.cost
        if region is None or cost is None:
            continue
        row = rows.get(region.digest)
        if row is None:
            row = rows[region.digest] = {
                "id": region.id,
                "digest": region.digest,
                "name": task.callee or task.op.name,
                "ops": region.ops,
                "regions": 0,
                "runs": 0,
                "time_ns": cost.latency_ns,
                "flops": cost.flops,
                "read_bytes": cost.read_bytes,
                "write_bytes": cost.write_bytes,
                "bound": cost.bound,
                "dtype": cost.dtype,
                "gap": cost.gap,
            }
        row["regions"] += 1
        row["runs"] += task.runs
    return list(rows.values())


def _reuse(executed: list[Task]) -> Row:
    """Shares of regions, and of their ops, whose equal was there before: as if profiled once."""
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


def _communicators(program: Program, executed: list[Task]) -> dict[str, Row]:
    """By communicator: its ranks, and collectives by kind with one device's operand bytes."""
    used: dict[int, dict[str, Row]] = {}
    for task in executed:
        if task.comm is not None and task.whats:
            for group in task.comm.groups:
                row = used.setdefault(group, {}).setdefault(
                    task.comm.kind, {"count": 0, "operand_bytes": 0}
                )
                row["count"] += task.runs
                row["operand_bytes"] += task.runs * task.comm.operand_bytes
    return {
        str(number): {
            "ranks": list(ranks),
            "collectives": dict(sorted(used.get(number, {}).items())),
        }
        for number, ranks in sorted(program.trace.groups.items())
    }


def _transfers(executed: list[Task]) -> Row:
    """Permutes: how many, their messages, and the bytes of all messages together."""
    found = {"count": 0, "messages": 0, "message_bytes": 0}
    for task in executed:
        if task.comm is not None and task.comm.kind == "permute" and task.whats:
            pairs = task.comm.pairs
            messages = sum(s != t for s, t in zip(pairs[::2], pairs[1::2], strict=True))
            found["count"] += task.runs
            found["messages"] += task.runs * messages
            found["message_bytes"] += task.runs * messages * task.comm.operand_bytes
    return found
