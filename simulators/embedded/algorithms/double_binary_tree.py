"""Double binary tree: reduction up to a root and distribution down again, in two trees."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any, ClassVar

from ..chunk_phases import ChunkPhase
from .base import CollectiveAlgorithm
from .phase_messages import AlgorithmPort, PhasePlace

if TYPE_CHECKING:
    from .message_rounds import Array, MessageRound


class DoubleBinaryTreeAlgorithm(CollectiveAlgorithm):
    """Half of the data takes each of two trees, in pieces that follow each other.

    The leaves of one tree are the inner nodes of the other, so that all devices send about as much.
    A broadcast or reduction takes one tree, whose root is position 0.
    """

    name: ClassVar[str] = "doubleBinaryTree"
    has_two_trees: ClassVar[bool] = True

    def find_problem(self, kind: str, count: int) -> str:
        return super().find_problem(kind, 1)  # ASTRA-sim's trees need a power of two, ours do not

    def list_rounds(self, kind: str, count: int, both_ways: bool) -> Sequence[MessageRound]:
        import numpy as np

        from .message_rounds import MessageRound

        children = np.arange(1, count)
        parents = _find_parents(children, count)
        heights = (children & -children).astype(float)
        up_levels = np.log2(heights).astype(int)
        depth = int(np.ceil(np.log2(count)))
        down_levels = 2 * depth - 1 - up_levels
        ups, downs = (children, parents, up_levels), (parents, children, down_levels)
        if kind == "reduce":
            edges = [ups]
        elif kind == "broadcast":
            edges = [(parents, children, down_levels - depth)]
        else:
            second = [
                (_place_second_tree(a, count), _place_second_tree(b, count), levels)
                for a, b, levels in (ups, downs)
            ]
            edges = [ups, downs, *second]
        sources, targets, levels = (np.concatenate(parts) for parts in zip(*edges, strict=True))
        trees = np.arange(len(sources)) >= 2 * len(children)
        has_two = len(edges) > 2
        return [
            MessageRound(
                sources, targets, 0.5 if has_two else 1.0,
                reduced_share=float(kind != "broadcast"), levels=levels, trees=trees.astype(int),
            )
        ]  # fmt: skip

    def find_astra_problem(self, kind: str, count: int, *, part: bool, window: int) -> str:
        if part:
            return "doubleBinaryTree does not work on a communicator of some devices"
        return super().find_problem(kind, count)

    def compute_smallest_message(self, kind: str, size: int, count: int) -> int:
        return size

    def start_phase(self, port: AlgorithmPort, place: PhasePlace) -> None:
        _TreePhase(port, place).start_phase()

    def list_messages(self, phase: ChunkPhase, count: int) -> Iterator[tuple[int, int, int]]:
        for position in range(count):
            parent, _, _ = _find_neighbours(position, count, bool(phase.tree))
            if parent >= 0:
                yield position, parent, phase.size
                yield parent, position, phase.size


def _find_parents(nodes: Array, count: int) -> Array:
    """Return the parents of nodes 1 to ``count`` - 1 in a tree that is numbered in order.

    Node 0 is the root, with one child. A node whose lowest bit is b is halfway between two nodes
    whose lowest bit is 2 b or more; its parent is the one of them whose lowest bit is 2 b.
    """
    import numpy as np

    low = nodes & -nodes
    parents = (nodes ^ low) | (low << 1)
    return np.where(parents < count, parents, nodes ^ low)


def _place_second_tree(nodes: Array, count: int) -> Array:
    """Return the positions of the nodes of the second tree, in which leaves and others change."""
    return (count - 1 - nodes) if count % 2 == 0 else (nodes + 1) % count


def _find_neighbours(position: int, count: int, least: bool) -> tuple[int, int, int]:
    """Return the parent, left child and right child of a position in a tree; -1 if it has none.

    The root has one child. It is the first of the ``count`` positions if ``least``, else the last;
    the other positions form a full binary tree numbered in order.
    """
    shift = 1 if least else 0
    root = 0 if least else count - 1
    number = position - shift + 1  # 1 .. count - 1 inside the full tree
    top = count // 2
    if position == root:
        child = top - 1 + shift
        return -1, -1 if least else child, child if least else -1
    low = number & -number  # 2**height
    parent = root if number == top else (number - low | low << 1) - 1 + shift
    if low == 1:
        return parent, -1, -1
    return parent, number - low // 2 - 1 + shift, number + low // 2 - 1 + shift


class _TreePhase:
    """All-reduce along a binary tree: up to the root and down again."""

    __slots__ = ("children", "parent", "port", "reductions", "size", "state")

    def __init__(self, port: AlgorithmPort, place: PhasePlace) -> None:
        ring = place.ring
        self.port, self.size = port, place.phase.size
        parent, left, right = _find_neighbours(place.index, len(ring), bool(place.phase.tree))
        self.parent = ring[parent] if parent >= 0 else -1
        self.children = [ring[child] for child in (left, right) if child >= 0]
        self.state = "begin"
        self.reductions = 0

    def start_phase(self) -> None:
        if not self.children:
            self.port.schedule_packet(self, self.size, False)
            self.state = "up"
            return
        self.state = "two" if self.parent >= 0 else "one"
        for child in self.children:
            self.port.await_message(self, child, self.size)

    def accept_message(self, _: Any = None) -> None:
        if not self.children:  # from its parent
            self.state = "end"
            self.port.schedule_packet(self, self.size, False)
            return
        self.state = {"two": "one", "one": "up" if self.parent >= 0 else "down"}.get(
            self.state, "down"
        )
        self.port.schedule_packet(self, self.size, True)

    def release_packet(self, _: Any = None) -> None:
        inner = self.parent >= 0 and bool(self.children)
        if self.state == "end":
            self.port.finish_phase()
        elif inner and self.reductions < 1:
            self.reductions += 1
        elif self.state == "up":
            self.state = "wait"
            self.port.send_message(self.parent, self.size)
            self.port.await_message(self, self.parent, self.size)
        elif self.state == "down":
            for child in self.children:
                self.port.send_message(child, self.size)
            self.port.finish_phase()
