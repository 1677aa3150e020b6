"""Logical axes: names of the dimensions of arrays, which rules assign to the axes of a mesh.

MaxText and Flax name a dimension by its meaning, such as ``embed``, and keep one table of rules for
all arrays. The rules are read in their order: a rule applies to an array that has its name, if the
name has no axes yet and no other dimension of the array has an axis of the rule.
"""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from typing import Any

from hespas.frontends.export.array_text import to_partition_spec
from hespas.support.errors import UsageError
from hespas.support.suggestions import suggest_nearest


@dataclass(frozen=True)
class LogicalAxisRule:
    """Divides the dimensions of a name over axes of the mesh, or over none."""

    name: str
    mesh_axes: tuple[str, ...]


@dataclass(frozen=True)
class LogicalAxisRules:
    """Rules in the order in which they are tried."""

    rules: tuple[LogicalAxisRule, ...]

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

    def assign_mesh_axes(self, names: Sequence[str | None]) -> tuple[tuple[str, ...], ...]:
        """Return the mesh axes of each dimension of an array; a dimension without name has none.

        Raises:
            UsageError: There is no rule for a name.
        """
        assigned: dict[str, tuple[str, ...]] = {}
        for rule in self.rules:
            used = {axis for axes in assigned.values() for axis in axes}
            if rule.name in names and rule.name not in assigned and used.isdisjoint(rule.mesh_axes):
                assigned[rule.name] = rule.mesh_axes
        known = {rule.name for rule in self.rules}
        for name in names:
            if name is not None and name not in known:
                raise UsageError(
                    f"no rule for the logical axis '{name}'",
                    remedy=f"{suggest_nearest(name, sorted(known))} A rule with null leaves its "
                    "dimensions whole.",
                )
        return tuple(assigned.get(name, ()) if name else () for name in names)

    def describe_layout(self, mesh: Mapping[str, int]) -> dict[str, str]:
        """Describe over which axes of more than one device the first rule of each name divides."""
        layout: dict[str, str] = {}
        for rule in self.rules:
            split = [f"{axis}={mesh[axis]}" for axis in rule.mesh_axes if mesh.get(axis, 1) > 1]
            layout.setdefault(rule.name, " x ".join(split) or "whole")
        return layout

    def enter_flax_context(self) -> AbstractContextManager[Any]:
        """Make the rules those of Flax's ``with_logical_constraint``, if the program uses Flax."""
        if "flax.linen" not in sys.modules:
            return nullcontext()
        linen: Any = sys.modules["flax.linen"]
        return linen.logical_axis_rules([(rule.name, rule.mesh_axes) for rule in self.rules])


def _read_rule(pair: Any) -> LogicalAxisRule:
    if not isinstance(pair, (list, tuple)) or len(pair) != 2 or not isinstance(pair[0], str):
        raise ValueError(f"{pair!r} is not a pair of a logical axis and mesh axes")
    name, axes = pair
    listed = (axes,) if isinstance(axes, str) else tuple(axes or ())
    if not all(isinstance(axis, str) for axis in listed):
        raise ValueError(f"the mesh axes of '{name}' are no names: {axes!r}")
    return LogicalAxisRule(name, listed)


def make_rule_shardings(names: Any, rules: LogicalAxisRules) -> Any:
    """Make a tree of ``PartitionSpec`` over a mesh from one of names; None stays None.

    Args:
        names: Its leaves are ``PartitionSpec`` of logical axes, as ``flax.linen.
            get_partition_spec`` returns them, or None, where the partitioner chooses.
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
    """Find the logical names that boxes of Flax carry, as a tree of ``PartitionSpec``.

    Returns:
        The tree, in which leaves without a box are whole; None if no leaf has a box.
    """
    import jax
    from jax.sharding import PartitionSpec

    def is_box(node: Any) -> bool:
        return hasattr(node, "names") and hasattr(node, "unbox")

    leaves = jax.tree.leaves(tree, is_leaf=is_box)
    if not any(map(is_box, leaves)):
        return None
    return jax.tree.map(
        lambda leaf: PartitionSpec(*leaf.names) if is_box(leaf) else PartitionSpec(),
        tree,
        is_leaf=is_box,
    )
