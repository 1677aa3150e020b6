"""The algorithms of collectives, one module each."""

from __future__ import annotations

from .base import CollectiveAlgorithm
from .direct import DirectAlgorithm
from .double_binary_tree import DoubleBinaryTreeAlgorithm
from .halving_doubling import HalvingDoublingAlgorithm
from .ring import RingAlgorithm

ALGORITHMS: dict[str, CollectiveAlgorithm] = {
    algorithm.name: algorithm
    for algorithm in (
        RingAlgorithm(),
        DirectAlgorithm(),
        HalvingDoublingAlgorithm(),
        DoubleBinaryTreeAlgorithm(),
    )
}
"""The algorithms by name; ``configs.collective_algorithms`` declares their limits."""

__all__ = ["ALGORITHMS", "CollectiveAlgorithm"]
