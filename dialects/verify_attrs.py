"""Verification of the ``hespas`` attributes of a module, in addition to MLIR's own verifier.

The schema (``hespas.dialects.attrs``) checks each attribute by itself. This module checks where
attributes are, and that they agree with the devices and communicators of the module. What other
passes have made untrue is no error: whoever reads costs, regions, collectives and trip counts
updates them first (``passes/annotate/stale_costs.py``).
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import field
from itertools import pairwise

from hespas.dialects.attr_codec import (
    build_unknown_communicator_error,
    read_branch_number,
    read_communicators,
)
from hespas.dialects.attr_schema import AttrRecord, list_attr_fields
from hespas.dialects.attrs import (
    BRANCH,
    BRANCH_FOUND,
    BY_NAME,
    COMMUNICATORS,
    KERNEL_MARKS,
    MODULE,
    PLAIN,
    RECORDS,
    CommAttr,
    Cost,
    KernelCostAttr,
    MemoryAttr,
    SplitAttr,
    TargetAttr,
)
from hespas.dialects.mlir import find_attribute, ir
from hespas.dialects.op_kinds import MAYBE_COLLECTIVE, TERMINATORS, is_collective, name_in_both
from hespas.dialects.program_facts import read_program_facts
from hespas.support.errors import HespasError
from hespas.support.records import record

MODULE_ATTRS = frozenset(
    [
        *(record.NAME for record in RECORDS if record.HOLDERS == "module"),
        *(name for name, attr in PLAIN.items() if attr.holders == (MODULE,)),
    ]
)
MAX_RANKS_SHOWN = 8
PORTABLE_PREFIX = "vhlo."  # the attributes of such ops are in a form of this dialect
HOLDERS = {
    name: name_in_both(" ".join(holder.partition(".")[2] for holder in attr.holders))
    for name, attr in PLAIN.items()
    if attr.holders and name not in MODULE_ATTRS
}
"""The names of the ops that a fact may be on."""


def verify_attributes(module: ir.Module) -> None:
    """Verify all ``hespas`` attributes of a module.

    Checks each record against its schema and holder, communicators, groups and pairs against the
    number of devices, and trip counts.

    Raises:
        HespasError: The first problem; its message counts the other ones.
    """
    problems = collect_attribute_problems(module)
    if problems:
        first, remaining = problems[0], len(problems) - 1
        if remaining:
            noun = "problem" if remaining == 1 else "problems"
            first = HespasError(
                f"{first.message}; and {remaining} more {noun} of hespas attributes",
                where=first.where,
            )
        raise first


def collect_attribute_problems(module: ir.Module) -> list[HespasError]:
    """Return all problems with the ``hespas`` attributes: the module's first, then op by op."""
    checker = _AttributeVerifier(module)
    checker.collect_error(checker.check_module_attributes)
    module.operation.walk(checker.visit_op)
    return checker.problems


@record()
class _AttributeVerifier:
    """Collects problems in one walk over the module.

    The attributes of the module are checked before the walk, because ops refer to its devices and
    communicators.
    """

    module: ir.Module
    problems: list[HespasError] = field(default_factory=list)
    device_count: int | None = None
    ranks_by_communicator: dict[int, tuple[int, ...]] = field(default_factory=dict)
    parsed: dict[tuple[str, ir.Attribute], AttrRecord] = field(default_factory=dict)

    def collect_error(self, check: Callable[[], None]) -> None:
        try:
            check()
        except HespasError as error:
            self.problems.append(error)

    def read_record(self, op: ir.Operation, name: str) -> AttrRecord:
        """Return the record on an op; equal attributes are parsed once, if no op completes them."""
        attr = _read_attribute(op, name)
        if any(declared.is_derived for declared in list_attr_fields(BY_NAME[name])):
            return BY_NAME[name].from_dictionary_attr(attr, op)
        key = (name, attr)
        if key not in self.parsed:
            self.parsed[key] = BY_NAME[name].from_dictionary_attr(attr, op)
        return self.parsed[key]

    def check_module_attributes(self) -> None:
        op = self.module.operation
        for name in op.attributes:
            if name in MODULE_ATTRS:
                _read_attribute(op, name)
        target = TargetAttr.read_from_op(op)
        if target is not None:
            self.device_count = target.devices
        SplitAttr.read_from_op(op)
        MemoryAttr.read_from_op(op)
        read_program_facts(self.module)
        self.ranks_by_communicator = read_communicators(self.module)
        id_by_ranks: dict[tuple[int, ...], int] = {}
        for number, ranks in self.ranks_by_communicator.items():
            label = f"{COMMUNICATORS}: communicator {number}"
            if number < 1:
                raise HespasError(f"{label} is not numbered from 1", op=op)
            if len(ranks) < 2:
                raise HespasError(f"{label} has fewer than two members", op=op)
            if any(a >= b for a, b in pairwise(ranks)):
                raise HespasError(f"{label} is not ascending: {_format_ranks(ranks)}", op=op)
            self.check_device_ids(ranks, label, op)
            if ranks in id_by_ranks:
                raise HespasError(f"{label} has the members of {id_by_ranks[ranks]}", op=op)
            id_by_ranks[ranks] = number

    def check_device_ids(self, ranks: tuple[int, ...], label: str, op: ir.Operation) -> None:
        limit = math.inf if self.device_count is None else self.device_count
        for rank in ranks:
            if not 0 <= rank < limit:
                total = "" if self.device_count is None else f" of {self.device_count}"
                raise HespasError(f"{label} names device {rank}{total}", op=op)

    def visit_op(self, op: ir.Operation) -> ir.WalkResult:
        if op.name.startswith(PORTABLE_PREFIX):
            return ir.WalkResult.ADVANCE
        for attribute in [name for name in op.attributes if name.startswith("hespas.")]:
            self.collect_error(
                lambda attribute=attribute: self.check_attribute(op, op.name, attribute)
            )
        return ir.WalkResult.ADVANCE

    def check_attribute(self, op: ir.Operation, op_name: str, name: str) -> None:
        """Check one attribute against its schema and its holder."""
        if name not in BY_NAME and name not in PLAIN:
            raise HespasError(f"'{name}' is not a hespas attribute", op=op)
        if (name in MODULE_ATTRS) != (op_name == MODULE):
            raise _build_holder_error(name, op)
        if name in PLAIN and op_name == MODULE:
            _check_kind(name, op)
        if name in MODULE_ATTRS:
            return  # the others were checked before the walk
        if name == CommAttr.NAME and op_name not in MAYBE_COLLECTIVE:
            if self.device_count is None:  # prepare removes what another pass has copied
                raise _build_holder_error(name, op)
            return
        if name in KERNEL_MARKS and op_name in TERMINATORS:
            if self.device_count is None:
                raise _build_holder_error(name, op)
            return
        if name in BY_NAME:
            record = self.read_record(op, name)
            if isinstance(record, CommAttr):
                self.check_collective(op, record)
            elif isinstance(record, KernelCostAttr) and op_name.startswith(("func.", "builtin.")):
                raise _build_holder_error(name, op)
            return
        if op_name not in HOLDERS.get(name, (op_name,)):
            if self.device_count is None:
                raise _build_holder_error(name, op)
            return
        _check_kind(name, op)
        if name in (BRANCH, BRANCH_FOUND):
            read_branch_number(op, name)

    def check_collective(self, op: ir.Operation, comm: CommAttr) -> None:
        if is_collective(op):
            return  # prepare derives the attribute from the op
        if Cost.NAME in op.attributes:
            raise HespasError(
                f"a collective has {CommAttr.NAME} and no {Cost.NAME}: "
                "the simulator computes its time",
                op=op,
            )
        for number in comm.groups:
            if number not in self.ranks_by_communicator:
                raise build_unknown_communicator_error(op, number)
        self.check_device_ids(comm.pairs, CommAttr.NAME, op)


def _read_attribute(op: ir.Operation, name: str) -> ir.Attribute:
    """Return an attribute of an op that has it; raises HespasError for a location."""
    attr = find_attribute(op, name)
    if attr is None:
        raise HespasError(f"{name} is a location, no value of hespas", op=op, remedy="remove it")
    return attr


def _check_kind(name: str, op: ir.Operation) -> None:
    """Raise HespasError if an attribute that is no record has another type than its own."""
    attr, kind = _read_attribute(op, name), PLAIN[name].kind
    match kind:
        case "an i64":
            is_right = isinstance(attr, ir.IntegerAttr) and str(attr.type) == "i64"
            is_right = is_right and ir.IntegerAttr(attr).value >= 0
            kind = "an i64 of at least 0"
        case "a string":
            is_right = isinstance(attr, ir.StringAttr)
        case "`true`":
            is_right, kind = isinstance(attr, ir.UnitAttr) or str(attr) == "true", "true"
        case "a dictionary":
            return  # its reader checks it
    if not is_right:
        raise HespasError(f"{name} must be {kind}, not {attr}", op=op, remedy="remove it")


def _build_holder_error(name: str, op: ir.Operation) -> HespasError:
    holder = BY_NAME[name].HOLDERS if name in BY_NAME else PLAIN[name].describe_holders()
    remedy = f"remove it from {op.name}"
    return HespasError(f"{name} is an attribute of: {holder}", op=op, remedy=remedy)


def _format_ranks(ranks: tuple[int, ...]) -> str:
    shown = ", ".join(str(rank) for rank in ranks[:MAX_RANKS_SHOWN])
    return f"{shown}, ..." if len(ranks) > MAX_RANKS_SHOWN else shown
