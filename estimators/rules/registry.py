"""The table of cost rules: looking up a rule, and computing the work of an op with it.

Importing ``hespas.estimators.work`` fills the table with the rules that hespas ships. The families
import this module and not the reverse, so that a rule can compute the work of the ops in the bodies
of its op.

Rules of other packages are loaded when an op or custom call is met that hespas has no rule for; a
program of known ops never searches the installed packages. A package adds its rules by the entry
point group ``hespas.cost_rules``. The value names a ``CostRule`` or a list of them, and the name of
the entry point is free. In ``pyproject.toml``::

    [project.entry-points."hespas.cost_rules"]
    my_kernels = "my_package.costs:RULES"

and in ``my_package/costs.py``::

    from hespas.plugin import CostRule, OpWork, WorkPart, count_read_bytes, count_written_bytes

    def compute_my_kernel_work(op):
        elements = ...
        flops = (WorkPart("matrix", "bf16", 2 * elements),)
        return OpWork("custom", count_read_bytes(op), count_written_bytes(op), flops)

    RULES = [CostRule(compute_my_kernel_work, call_targets=("my_kernel",))]
"""

from __future__ import annotations

import functools
import re
from collections.abc import Iterable, Mapping
from dataclasses import field, replace
from numbers import Integral

from hespas.dialects.attrs import KERNEL_KINDS, KernelCostAttr
from hespas.dialects.mlir import ir
from hespas.dialects.op_kinds import CUSTOM_CALLS
from hespas.estimators.rules.base import (
    REFINE,
    CostRule,
    DynamicShape,
    NotALeaf,
    OpWork,
    UnknownCost,
    WorkPart,
    build_matrix_parts,
    count_written_bytes,
    explain_declaration,
    to_buffer_size,
)
from hespas.support.entry_points import CORRECTION, load_import_path, report_raised_errors
from hespas.support.errors import HespasError, UsageError
from hespas.support.records import record

STABLEHLO_DIALECTS = ("stablehlo.", "chlo.", "mhlo.", "sdy.", "func.", "shape.")
_ENTRY_POINT_GROUP = "hespas.cost_rules"
_rules_by_op: dict[str, CostRule] = {}
_own_call_patterns: set[str] = set()  # each matches a whole target
# The rules of files that the latest annotate pass has named, by path, and the files that any has.
_file_rules: dict[str, PackageRules] = {}
_named_files: set[str] = set()


@record(slots=True)
class PackageRules:
    """The cost rules of installed packages, or of a file."""

    by_op: dict[str, CostRule] = field(default_factory=dict)
    by_call_target: dict[str, CostRule] = field(default_factory=dict)


def compute_op_work(op: ir.Operation) -> OpWork:
    """Compute the work of one execution of a leaf op or an ``mhlo.fusion``.

    The work depends on nothing but ``render_op_text(op)``. As in XLA's HloCostAnalysis, an op
    that uses one value twice reads it twice.

    Raises:
        UnknownCost: The op has no cost rule, or its rule cannot count it.
        HespasError: A shape is dynamic, or somebody has declared the work of an op that has a rule.
        NotALeaf: The op is control flow or a collective.
    """
    name = op.name
    rule = _rules_by_op.get(name)
    if rule is None:
        declared = KernelCostAttr.read_from_op(op)
        if declared is not None:
            return build_declared_work(op, declared, count_written_bytes(op))
        rule = find_cost_rule(name)
    elif KernelCostAttr.NAME in op.attributes and name not in CUSTOM_CALLS:
        raise HespasError(
            f"{KernelCostAttr.NAME} is an attribute of: {KernelCostAttr.HOLDERS}",
            op=op,
            remedy=f"remove it from {name}",
        )
    if rule is None:
        lower = "" if name.startswith(STABLEHLO_DIALECTS) else "lower it to StableHLO, or "
        remedy = f"{lower}{explain_declaration(name)}"
        raise UnknownCost("there is no cost rule for this op", op=op, remedy=remedy)
    try:
        return rule.work(op)
    except DynamicShape as error:
        raise HespasError(f"the size of {error} is not static", op=op, remedy=REFINE) from None


def find_cost_rule(name: str) -> CostRule | None:
    """Return the rule for ops of this name, or None."""
    rule = _rules_by_op.get(name) or _find_file_rule(name, "by_op")
    return rule or load_package_rules().by_op.get(name)


def find_call_rule(target: str) -> CostRule | None:
    """Return the rule of a file or package for custom calls of this target, or None."""
    rule = _find_file_rule(target, "by_call_target")
    return rule or load_package_rules().by_call_target.get(target)


def has_installed_rule(name: str) -> bool:
    """Return whether hespas or a package has a rule for ops of this name."""
    return name in _rules_by_op or name in load_package_rules().by_op


def _find_file_rule(name: str, table: str) -> CostRule | None:
    for rules in _file_rules.values():
        rule = getattr(rules, table).get(name)
        if rule is not None:
            return rule
    return None


def is_file_loaded(path: str) -> bool:
    """Return whether somebody has named a file of rules in this process."""
    return path in _named_files


def forget_file_rules() -> None:
    """Forget the rules of all files: those of one program do not hold for another."""
    _file_rules.clear()


def replace_file_rules(path: str, rules: Iterable[CostRule]) -> None:
    """Use the rules of a file, in place of those that the file had before.

    Raises:
        HespasError: An op or custom call has a rule already.
    """
    new = PackageRules()
    _file_rules.pop(path, None)
    for rule in rules:
        for kind, names, find, table in (
            ("op", rule.ops, find_cost_rule, new.by_op),
            ("custom call", rule.call_targets, find_call_rule, new.by_call_target),
        ):
            for name in names:
                if name in table or is_own_rule(kind, name) or find(name) is not None:
                    raise HespasError(
                        f"the {kind} {name} has a cost rule already",
                        where=path,
                        remedy="leave it out here, or where a package or another file has one",
                    )
                table[name] = rule
    _file_rules[path] = new
    _named_files.add(path)


def build_declared_work(op: ir.Operation, cost: KernelCostAttr, output_bytes: int) -> OpWork:
    """Build the work that the user declared.

    The operations count at the matrix rate, so that the time is a lower bound.
    """
    write = min(output_bytes, cost.bytes)
    parts = build_matrix_parts(get_first_operand_key(op), cost.flops)
    return OpWork("custom", cost.bytes - write, write, parts)


def get_first_operand_key(op: ir.Operation) -> str:
    """Return the key of the first operand's type, by which declared operations are rated."""
    return to_buffer_size(op.operands[0].type).key if len(op.operands) else "f32"


def add_cost_rules(rules: Iterable[CostRule]) -> None:
    """Add rules that hespas ships to the table; each op has exactly one rule."""
    for rule in rules:
        for name in rule.ops:
            assert name not in _rules_by_op, f"two rules for {name}"
            _rules_by_op[name] = rule


def add_call_patterns(patterns: Iterable[str]) -> None:
    """Add the targets of custom calls that hespas has rules for, as regular expressions."""
    _own_call_patterns.update(patterns)


def is_own_rule(kind: str, name: str) -> bool:
    """Return whether hespas itself has a rule for an ``op`` or a ``custom call`` of this name."""
    if kind == "op":
        return name in _rules_by_op
    return any(re.fullmatch(pattern, name) for pattern in _own_call_patterns)


def get_cost_rules() -> Mapping[str, CostRule]:
    """Return the rules that hespas ships, by op name."""
    return _rules_by_op


@functools.cache
def load_package_rules() -> PackageRules:
    """Load the cost rules of all installed packages.

    Raises:
        UsageError: An entry point does not name cost rules or cannot be imported, two packages
            define the cost of the same op or call, or a package defines the cost of one that
            hespas defines.
    """
    from importlib.metadata import entry_points

    rules = PackageRules()
    owners: dict[tuple[str, str], str] = {}  # (word for the kind of name, name) to entry point
    for value in sorted({point.value for point in entry_points(group=_ENTRY_POINT_GROUP)}):
        for rule in _load_entry_point(value):
            for kind, names, table in (
                ("op", rule.ops, rules.by_op),
                ("custom call", rule.call_targets, rules.by_call_target),
            ):
                for name in names:
                    if is_own_rule(kind, name):
                        raise UsageError(
                            f"{value} defines the cost of {name}, which hespas defines"
                        )
                    if name in table:
                        owner = owners[kind, name]
                        if owner == value:
                            raise UsageError(
                                f"{value} defines the cost of the {kind} {name} twice",
                                remedy=CORRECTION,
                            )
                        raise UsageError(
                            f"{owner} and {value} define the cost of the {kind} {name}",
                            remedy="uninstall one of the two packages",
                        )
                    table[name], owners[kind, name] = rule, value
    return rules


def _load_entry_point(value: str) -> list[CostRule]:
    loaded = load_import_path(value, "list of cost rules")
    try:
        rules = check_rules(loaded)
    except ValueError as error:
        raise UsageError(f"{value}: {error}", remedy=CORRECTION) from None
    if rules is None:
        raise UsageError(f"{value} is not a CostRule or a list of them", remedy=CORRECTION)
    return rules


def check_rules(rules: object) -> list[CostRule] | None:
    """Return the rules of a package or file, with their work verified; None if they are not rules.

    Raises:
        ValueError: A field of a rule has the wrong type, or it is for no ops.
    """
    listed = [rules] if isinstance(rules, CostRule) else rules
    if not isinstance(listed, (list, tuple)):
        return None
    checked = []
    for rule in listed:
        if not isinstance(rule, CostRule):
            return None
        for name in ("ops", "call_targets", "discardable_attributes"):
            names = getattr(rule, name)
            if isinstance(names, str) or not all(isinstance(one, str) for one in names):
                raise ValueError(f"{name} of a CostRule is {names!r}, not a tuple of names")
        if not (rule.ops or rule.call_targets):
            raise ValueError("a CostRule has neither ops nor call_targets")
        if not callable(rule.work):
            raise ValueError(f"work of a CostRule is {rule.work!r}, not a function")
        checked.append(replace(rule, work=functools.partial(_compute_verified_work, rule)))
    return checked


def _compute_verified_work(rule: CostRule, op: ir.Operation) -> OpWork:
    """Compute the work of an op by a rule of a package or file. Raises HespasError."""
    remedy = "correct the rule"
    with report_raised_errors(
        "its cost rule", rule.work, op=op, remedy=remedy, passes_on=(DynamicShape, NotALeaf)
    ):
        work = rule.work(op)
    if _is_erased(op):
        raise HespasError("its cost rule has erased the op", remedy=remedy)
    violation = _find_work_violation(work)
    if violation:
        raise HespasError(f"its cost rule returned {violation}", op=op, remedy=remedy)
    return work


def _is_erased(op: ir.Operation) -> bool:
    try:
        return not op.name
    except RuntimeError:  # the bindings know
        return True


def _find_work_violation(work: object) -> str:
    """Say what is wrong with what a rule returned, or ""."""
    if not isinstance(work, OpWork):
        return f"{type(work).__name__}, not OpWork"
    if work.kind not in KERNEL_KINDS:
        return f"the kind {work.kind!r}, not one of {', '.join(KERNEL_KINDS)}"
    if not (work.gap is None or isinstance(work.gap, str)):
        return f"gap={work.gap!r}, not a text or None"
    counts = {
        name: getattr(work, name)
        for name in ("read_bytes", "write_bytes", "transcendentals", "trips")
    }
    if not isinstance(work.parts, tuple) or not all(isinstance(p, WorkPart) for p in work.parts):
        return f"parts={work.parts!r}, not a tuple of WorkPart"
    for part in work.parts:
        if part.unit not in ("matrix", "vector"):
            return f"a part on the unit '{part.unit}', not on matrix or vector"
        counts[f"flops of the {part.unit} unit"] = part.flops
    for name, count in counts.items():
        if not isinstance(count, Integral) or count < 0:
            return f"{count!r} as {name}, not a whole number of at least 0"
    return ""
