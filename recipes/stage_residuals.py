"""What the backward program of a pipeline stage reads from the forward program.

A function that ``jax.vjp`` returns is a tree whose leaves are the values it needs. Tracing the
forward pass again gives the same leaves in the same order, so that those which the forward program
kept can take their places.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import jax


@dataclass(frozen=True)
class StageResiduals:
    """What the gradients of a stage need.

    Attributes:
        leaves: The leaves of the function that ``jax.vjp`` returned.
        tree: Their tree.
        is_argument: Whether each leaf is an argument of the stage.
    """

    leaves: Sequence[Any]
    tree: Any
    is_argument: Sequence[bool]

    @classmethod
    def collect(cls, pull_back: Any, arguments: Sequence[Any]) -> StageResiduals:
        """Collect the leaves of a function that ``jax.vjp`` returned."""
        leaves, tree = jax.tree.flatten(pull_back)
        known = {id(argument) for argument in arguments}
        return cls(leaves, tree, [id(leaf) in known for leaf in leaves])

    def list_kept(self) -> list[Any]:
        """List the leaves that are no arguments, each once."""
        return list({id(leaf): leaf for leaf in self._list_other_leaves()}.values())

    def replace_kept(self, values: Sequence[Any]) -> Callable[..., Any]:
        """Return the function with other values for ``list_kept``."""
        order = {id(leaf): number for number, leaf in enumerate(self.list_kept())}
        leaves = [
            leaf if is_argument else values[order[id(leaf)]]
            for leaf, is_argument in zip(self.leaves, self.is_argument, strict=True)
        ]
        return jax.tree.unflatten(self.tree, leaves)

    def _list_other_leaves(self) -> list[Any]:
        pairs = zip(self.leaves, self.is_argument, strict=True)
        return [leaf for leaf, is_argument in pairs if not is_argument]
