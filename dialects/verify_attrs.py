"""Verification of every ``hespas`` attribute of a module, beyond what MLIR itself checks."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, field
from itertools import pairwise

from hespas.dialects.attrs import (
    BY_NAME,
    COMMUNICATORS,
    FACTS,
    PLAIN,
    TRIPS,
    TRIPS_NOTE,
    WAIT,
    AttrRecord,
    CommAttr,
    Cost,
    MemoryAttr,
    RegionAttr,
    SplitAttr,
    TargetAttr,
    read_communicators,
)
from hespas.dialects.mlir import collect_functions, ir
from hespas.dialects.op_kinds import LOOPS
from hespas.dialects.program_facts import read_program_facts
from hespas.support.errors import HespasError

OF_MODULE = (TargetAttr.NAME, SplitAttr.NAME, MemoryAttr.NAME, COMMUNICATORS, FACTS)
SUMMED = ("flops", "read_bytes", "write_bytes", "latency_ns")
ROUNDING = 1e-9  # relative; sums of float times depend on their order


def verify_attributes(module: ir.Module) -> None:
    """Raise HespasError for the first ``hespas`` attribute that is wrong; it counts the others.

    Checked: every record against its schema and holder, communicators, groups and pairs within the
    devices, trip counts, region ids and digests between functions and calls, and cost sums.
    """
    problems = collect_attribute_problems(module)
    if problems:
        first, others = problems[0], len(problems) - 1
        if others:
            noun = "problem" if others == 1 else "problems"
            first = HespasError(
                f"{first.message}; and {others} more {noun} of hespas attributes", where=first.where
            )
        raise first


def collect_attribute_problems(module: ir.Module) -> list[HespasError]:
    """Everything wrong with the ``hespas`` attributes of a module: the module's, then op by op."""
    checker = _AttributeVerifier(module)
    checker.collect_error(checker.check_module_attributes)
    module.operation.walk(checker.visit_op)
    checker.check_regions()
    return checker.problems


@dataclass
class _AttributeVerifier:
    module: ir.Module
    problems: list[HespasError] = field(default_factory=list)
    devices: int | None = None
    groups: dict[int, tuple[int, ...]] = field(default_factory=dict)
    parsed: dict[tuple[str, ir.Attribute], AttrRecord] = field(default_factory=dict)
    functions: dict[str, ir.Operation] = field(default_factory=dict)
    calls: list[tuple[ir.Operation, RegionAttr | None, Cost | None]] = field(default_factory=list)
    ids: dict[int, str] = field(default_factory=dict)

    def collect_error(self, check: Callable[[], None]) -> None:
        try:
            check()
        except HespasError as error:
            self.problems.append(error)

    def read_record(self, op: ir.Operation, name: str) -> AttrRecord:
        """The record on an op; equal attributes are read once."""
        key = (name, op.attributes[name])
        if key not in self.parsed:
            self.parsed[key] = BY_NAME[name].from_dictionary_attr(key[1], op)
        return self.parsed[key]

    def check_module_attributes(self) -> None:
        op = self.module.operation
        self.functions = collect_functions(self.module)
        target = TargetAttr.read_from_op(op)
        if target is not None:
            self.devices = target.devices
            if target.devices != target.replicas * target.partitions:
                raise HespasError(
                    f"{TargetAttr.NAME}: {target.devices} devices are not {target.replicas} replicas "
                    f"x {target.partitions} partitions",
                    op=op,
                )
        SplitAttr.read_from_op(op)
        self.check_memory_sums(op)
        read_program_facts(self.module)
        self.groups = read_communicators(self.module)
        seen: dict[tuple[int, ...], int] = {}
        for number, ranks in self.groups.items():
            label = f"{COMMUNICATORS}: communicator {number}"
            if number < 1:
                raise HespasError(f"{label} is not numbered from 1", op=op)
            if len(ranks) < 2:
                raise HespasError(f"{label} has fewer than two members", op=op)
            if any(a >= b for a, b in pairwise(ranks)):
                raise HespasError(f"{label} is not ascending: {_format_ranks(ranks)}", op=op)
            self.check_device_ids(ranks, label, op)
            if ranks in seen:
                raise HespasError(f"{label} has the members of {seen[ranks]}", op=op)
            seen[ranks] = number

    def check_memory_sums(self, op: ir.Operation) -> None:
        """The parts of what is live add up, and the timeline has as many points as values."""
        memory = MemoryAttr.read_from_op(op)
        if memory is None:
            return
        parts = ("argument_bytes", "result_bytes", "constant_bytes", "temporary_bytes")
        if sum(getattr(memory, part) for part in parts) != memory.live_bytes:
            raise HespasError(f"{MemoryAttr.NAME}: live_bytes is not the sum of its parts", op=op)
        if memory.peak_bytes < memory.live_bytes:
            raise HespasError(f"{MemoryAttr.NAME}: peak_bytes is less than live_bytes", op=op)
        if len(memory.timeline_points) != len(memory.timeline_bytes):
            raise HespasError(f"{MemoryAttr.NAME}: the timeline's lists differ in length", op=op)

    def check_device_ids(self, ranks: tuple[int, ...], label: str, op: ir.Operation) -> None:
        """Device ids exist on the target."""
        wrong = [r for r in ranks if r < 0 or (self.devices is not None and r >= self.devices)]
        if wrong:
            of = "" if self.devices is None else f" of {self.devices}"
            raise HespasError(f"{label} names device {wrong[0]}{of}", op=op)

    def visit_op(self, op: ir.Operation) -> ir.WalkResult:
        names = [name for name in op.attributes if name.startswith("hespas.")]
        name = op.name
        if names or name == "func.call":
            before = len(self.problems)
            for attribute in names:
                self.collect_error(
                    lambda attribute=attribute: self.check_attribute(op, name, attribute)
                )
            if len(self.problems) == before:
                self.collect_error(lambda: self.check_op_consistency(op, name, names))
        return ir.WalkResult.ADVANCE

    def check_attribute(self, op: ir.Operation, op_name: str, name: str) -> None:
        """One attribute against its schema and its holder."""
        if name not in BY_NAME and name not in PLAIN:
            raise HespasError(f"'{name}' is no attribute of hespas", op=op)
        if (name in OF_MODULE) != (op_name == "builtin.module"):
            holders = BY_NAME[name].HOLDERS if name in BY_NAME else PLAIN[name][0]
            raise HespasError(f"{name} stands on: {holders}", op=op)
        if name in OF_MODULE:
            return  # checked before the walk
        if name in BY_NAME:
            record = self.read_record(op, name)
            if isinstance(record, CommAttr):
                self.check_collective(op, op_name, record)
            return
        attr = op.attributes[name]
        if name in (TRIPS, TRIPS_NOTE) and op_name not in LOOPS:
            raise HespasError(f"{name} stands on: {PLAIN[name][0]}", op=op)
        if name == TRIPS and (
            not isinstance(attr, ir.IntegerAttr) or str(attr.type) != "i64" or attr.value < 0
        ):
            raise HespasError(f"{TRIPS} must be an i64 of at least 0, not {attr}", op=op)
        if name == WAIT and (
            op_name != "stablehlo.optimization_barrier" or not isinstance(attr, ir.UnitAttr)
        ):
            raise HespasError(f"{WAIT} is a unit attribute on: {PLAIN[WAIT][0]}", op=op)

    def check_collective(self, op: ir.Operation, op_name: str, comm: CommAttr) -> None:
        if not op_name.startswith(("stablehlo.", "mhlo.")):
            raise HespasError(f"{CommAttr.NAME} stands on: {CommAttr.HOLDERS}", op=op)
        for number in comm.groups:
            if number not in self.groups:
                raise HespasError(
                    f"{CommAttr.NAME}: communicator {number} is not in {COMMUNICATORS}", op=op
                )
        if comm.operand_bytes < 0 or comm.result_bytes < 0:
            raise HespasError(f"{CommAttr.NAME}: a size is less than 0", op=op)
        if comm.kind == "permute":
            if comm.groups or len(comm.pairs) % 2:
                raise HespasError(f"{CommAttr.NAME}: a permute has pairs and no groups", op=op)
        elif comm.pairs and comm.kind != "broadcast":
            raise HespasError(f"{CommAttr.NAME}: pairs are for a permute or a broadcast", op=op)
        self.check_device_ids(comm.pairs, CommAttr.NAME, op)

    def check_op_consistency(self, op: ir.Operation, op_name: str, names: list[str]) -> None:
        """Attributes of one op against each other, and what ``regions`` needs of it."""
        if CommAttr.NAME in names and Cost.NAME in names:
            raise HespasError(
                f"a collective has {CommAttr.NAME} and no {Cost.NAME}: its time is the simulator's",
                op=op,
            )
        region = self.read_record(op, RegionAttr.NAME) if RegionAttr.NAME in names else None
        cost = self.read_record(op, Cost.NAME) if Cost.NAME in names else None
        assert region is None or isinstance(region, RegionAttr)
        assert cost is None or isinstance(cost, Cost)
        if op_name == "func.call":
            self.calls.append((op, region, cost))
        if region is not None and op_name != "func.func":
            if region.id in self.ids:
                raise HespasError(f"{RegionAttr.NAME}: id {region.id} is used twice", op=op)
            self.ids[region.id] = op_name

    def check_regions(self) -> None:
        """Functions against their calls, and their costs against their bodies."""
        first: dict[str, int] = {}
        for op, region, cost in self.calls:
            self.collect_error(
                lambda op=op, region=region, cost=cost: self.check_region_call(op, region, cost)
            )
            if region is not None:
                callee = op.attributes["callee"].value  # type: ignore[attr-defined]
                first[callee] = min(region.id, first.get(callee, region.id))
        for name, function in self.functions.items():
            if RegionAttr.NAME in function.attributes:
                self.collect_error(
                    lambda n=name, f=function: self.check_region_function(f, first.get(n))
                )

    def check_region_call(
        self, op: ir.Operation, region: RegionAttr | None, cost: Cost | None
    ) -> None:
        function = self.functions.get(op.attributes["callee"].value)  # type: ignore[attr-defined]
        if function is None:
            return  # MLIR's own verifier says so
        outlined = RegionAttr.read_from_op(function)
        if (outlined is None) != (region is None):
            lacking = "the call" if region is None else "the function it calls"
            raise HespasError(f"{lacking} lacks {RegionAttr.NAME}", op=op)
        if outlined and region:
            for name in ("ops", "digest"):
                ours, theirs = getattr(region, name), getattr(outlined, name)
                if ours != theirs:
                    raise HespasError(
                        f"{RegionAttr.NAME}: {name} is {ours}, but {theirs} on the function", op=op
                    )
        function_cost = Cost.read_from_op(function)
        if function_cost is not None and cost is not None:
            self.compare_costs(cost, function_cost, "the function it calls", op)

    def check_region_function(self, function: ir.Operation, first: int | None) -> None:
        region = RegionAttr.read_from_op(function)
        if region is not None and first is not None and region.id != first:
            raise HespasError(
                f"{RegionAttr.NAME}: id is {region.id}, but its first call has {first}", op=function
            )
        function_cost = Cost.read_from_op(function)
        body = [op.operation for op in function.regions[0].blocks[0].operations][:-1]
        if function_cost is None or not body or not all(Cost.NAME in op.attributes for op in body):
            return  # an estimator may know the whole only
        costs = [self.read_record(op, Cost.NAME) for op in body]
        for name in SUMMED:
            total = math.fsum(getattr(cost, name) for cost in costs)
            self.compare_cost_field(
                getattr(function_cost, name), total, name, "the sum over its ops", function
            )

    def compare_costs(self, cost: Cost, other: Cost, whose: str, op: ir.Operation) -> None:
        for name in SUMMED:
            self.compare_cost_field(getattr(cost, name), getattr(other, name), name, whose, op)

    def compare_cost_field(
        self, a: float, b: float, name: str, whose: str, op: ir.Operation
    ) -> None:
        if not math.isclose(a, b, rel_tol=ROUNDING):
            raise HespasError(f"{Cost.NAME}: {name} is {a}, but that of {whose} is {b}", op=op)


def _format_ranks(ranks: tuple[int, ...]) -> str:
    shown = ", ".join(str(rank) for rank in ranks[:8])
    return f"{shown}, ..." if len(ranks) > 8 else shown
