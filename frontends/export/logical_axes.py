"""Logical axes: names of the dimensions of arrays, which rules assign to the axes of a mesh.

MaxText and Flax name a dimension by its meaning, such as ``embed``, and keep one table of rules for
all arrays. The rules are read in their order: a rule applies to an array that has its name, if the
name has no axes yet and no other dimension of the array has an axis of the rule.
"""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field
from typing import Any

from hespas.frontends.export.array_text import to_partition_spec
from hespas.support.errors import UsageError
from hespas.support.suggestions import suggest_nearest

AxisName = str | tuple[str, ...] | None  # of a dimension; several are axes of the mesh
VARIABLE_NAMES = ("out_sharding", "sharding_names", "sharding")  # in the metadata of flax.nnx


@dataclass(frozen=True)
class LogicalAxisRule:
    """Divides the dimensions of a name over axes of the mesh, or over none."""

    name: str
    mesh_axes: tuple[str, ...]


@dataclass(frozen=True)
class LogicalAxisRules:
    """Rules in the order in which they are tried.

    Attributes:
        used_names: The names that dimensions of arrays have had.
    """

    rules: tuple[LogicalAxisRule, ...]
    used_names: set[str] = field(default_factory=set, compare=False, repr=False)

    @classmethod
    def from_table(cls, table: Any) -> LogicalAxisRules:
        """Read a table of rules.

        Args:
            table: A mapping of names to mesh axes, or a list of pairs, in which a name may occur
                again. The mesh axes are a name, a list of names, or None.

        Raises:
            ValueError: The table has another form.
        """
        pairs = list(table.items()) if isinstance(table, Mapping) else table
        if not isinstance(pairs, (list, tuple)):
            raise ValueError("rules are a mapping, or a list of pairs")
        return cls(tuple(_read_rule(pair) for pair in pairs))

    def list_mesh_axes(self) -> tuple[str, ...]:
        """List the axes of the mesh in the order in which the rules name them."""
        return tuple(dict.fromkeys(axis for rule in self.rules for axis in rule.mesh_axes))

    def assign_mesh_axes(self, names: Sequence[AxisName]) -> tuple[tuple[str, ...], ...]:
        """Return the mesh axes of each dimension of an array; a dimension without name has none.

        Names without a rule may be those of mesh axes, as in Flax.

        Raises:
            UsageError: A name has no rule and is no axis of the mesh.
        """
        known, mesh_axes = {rule.name for rule in self.rules}, self.list_mesh_axes()
        assigned: dict[AxisName, tuple[str, ...]] = {}
        for name in names:
            parts = () if name in known else _list_parts(name)
            for part in parts:
                if part not in mesh_axes:
                    raise UsageError(
                        f"no rule for the logical axis '{part}'",
                        remedy=f"{suggest_nearest(part, sorted(known))} A rule with null leaves "
                        "its dimensions whole.",
                    )
            if parts:
                assigned[name] = parts
        self.used_names.update(name for name in names if isinstance(name, str))
        for rule in self.rules:
            used = {axis for axes in assigned.values() for axis in axes}
            if rule.name in names and rule.name not in assigned and used.isdisjoint(rule.mesh_axes):
                assigned[rule.name] = rule.mesh_axes
        return tuple(assigned.get(name, ()) for name in names)

    def list_warnings(self) -> list[str]:
        """Describe the rules whose names no dimension of an array has had."""
        names = dict.fromkeys(rule.name for rule in self.rules)
        unused = [f"'{name}'" for name in names if name not in self.used_names]
        if not unused:
            return []
        axes = "axis" if len(unused) == 1 else "axes"
        return [f"rules without effect: no array has the logical {axes} {', '.join(unused)}"]

    def describe_layout(self, mesh: Mapping[str, int]) -> dict[str, str]:
        """Describe over which axes of more than one device the first rule of each name divides."""
        layout: dict[str, str] = {}
        for rule in self.rules:
            split = [f"{axis}={mesh[axis]}" for axis in rule.mesh_axes if mesh.get(axis, 1) > 1]
            layout.setdefault(rule.name, " x ".join(split) or "whole")
        return layout

    def enter_flax_context(self) -> AbstractContextManager[Any]:
        """Make the rules those of Flax's ``with_logical_constraint``, if the program uses Flax."""
        flax: Any = sys.modules.get("flax.core.spmd") or sys.modules.get("flax.linen")
        if not hasattr(flax, "logical_axis_rules"):
            return nullcontext()
        rules = [(_RuleName(rule.name, self.used_names), rule.mesh_axes) for rule in self.rules]
        return flax.logical_axis_rules(rules)


class _RuleName(str):
    """The name of a rule for Flax, which notes that a dimension has it.

    Flax compares it with the names of dimensions, and says nothing about what it has found.
    """

    used_names: set[str]

    def __new__(cls, name: str, used_names: set[str]) -> _RuleName:
        new = super().__new__(cls, name)
        new.used_names = used_names
        return new

    def __eq__(self, other: object) -> bool:
        is_equal = str.__eq__(self, other)
        if is_equal is True and not isinstance(other, _RuleName):
            self.used_names.add(str(self))
        return is_equal

    __hash__ = str.__hash__


def _list_parts(name: AxisName) -> tuple[str, ...]:
    return (name,) if isinstance(name, str) else tuple(name or ())


def _read_rule(pair: Any) -> LogicalAxisRule:
    if not isinstance(pair, (list, tuple)) or len(pair) != 2 or not isinstance(pair[0], str):
        raise ValueError(f"{pair!r} is not a pair of a logical axis and mesh axes")
    name, axes = pair
    listed = tuple(axes) if isinstance(axes, (list, tuple)) else () if axes is None else (axes,)
    if not all(isinstance(axis, str) for axis in listed):
        raise ValueError(f"the mesh axes of '{name}' are no names: {axes!r}")
    return LogicalAxisRule(name, listed)


def make_rule_shardings(names: Any, rules: LogicalAxisRules) -> Any:
    """Make a tree of ``PartitionSpec`` over a mesh from one of names; None stays None.

    Args:
        names: Its leaves are ``PartitionSpec`` of logical axes, as ``get_partition_spec`` of
            ``flax.linen`` and ``flax.nnx`` returns them, or None, where the partitioner chooses.
        rules: The rules.

    Raises:
        UsageError: There is no rule for a name.
    """
    import jax
    from jax.sharding import PartitionSpec

    def make_sharding(spec: Any) -> Any:
        if spec is None:
            return None
        if not isinstance(spec, PartitionSpec):
            raise UsageError(
                f"the logical axes of an array are a {type(spec).__name__}",
                remedy='write them as jax.P("batch", None)',
            )
        return to_partition_spec(rules.assign_mesh_axes(tuple(spec)))

    return jax.tree.map(
        make_sharding, names, is_leaf=lambda leaf: leaf is None or isinstance(leaf, PartitionSpec)
    )


def find_logical_names(tree: Any) -> Any:
    """Find the logical names that Flax keeps with arrays, as a tree of ``PartitionSpec``.

    Linen keeps them in boxes, and NNX in the metadata of its variables.

    Returns:
        The tree, in which arrays without names are whole; None if no array has names.
    """
    import jax
    from jax.sharding import PartitionSpec

    nnx = sys.modules.get("flax.nnx")
    kinds = (getattr(nnx, name, None) for name in ("Variable", "VariableState"))
    variables = tuple(kind for kind in kinds if isinstance(kind, type))

    def is_box(node: Any) -> bool:
        return isinstance(node, variables) or (hasattr(node, "names") and hasattr(node, "unbox"))

    def find_names(node: Any) -> Any:
        return _read_box_names(node) if is_box(node) else None

    if all(find_names(leaf) is None for leaf in jax.tree.leaves(tree, is_leaf=is_box)):
        return None
    return jax.tree.map(lambda leaf: PartitionSpec(*(find_names(leaf) or ())), tree, is_leaf=is_box)


def _read_box_names(box: Any) -> tuple[AxisName, ...] | None:
    """Return the names of the dimensions in a box or variable of Flax; None if it has none."""
    metadata: Mapping[str, Any] = box.get_metadata() if hasattr(box, "get_metadata") else {}
    names = getattr(box, "names", None)
    for key in VARIABLE_NAMES:
        names = names or metadata.get(key)
    names = getattr(names, "sharding", names)  # of a Format
    names = getattr(names, "spec", names)  # of a NamedSharding
    if not names:
        return None
    own_rules = dict(metadata.get("sharding_rules") or getattr(box, "rules", None) or ())
    return tuple(own_rules.get(name, name) for name in names)
