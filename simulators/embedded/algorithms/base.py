"""What a collective algorithm is: its limits, its messages, and its closed forms.

The flow-level model and SimGrid take its messages in rounds. ASTRA-sim's models take its messages
as ASTRA-sim sends them, and its recurrences if it has any.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence, Set
from typing import TYPE_CHECKING, ClassVar

from hespas.configs.collective_algorithms import find_limit_problem

from ..chunk_phases import ChunkPhase, PhaseCosts

if TYPE_CHECKING:
    from ..link_arrays import Array
    from ..link_table import LinkTable
    from .message_rounds import MessageRound
    from .phase_messages import AlgorithmPort, PhasePlace

REDUCING = ("all_reduce", "reduce_scatter")
EXCHANGES = ("all_to_all", "gather", "scatter")
"""The kinds whose blocks differ for each pair of devices, so that nothing is gained by passing
them on."""
LINKED_PAIRS = frozenset({"FullyConnected", "Dragonfly"})
"""The topologies in which each pair of positions has a link."""


class CollectiveAlgorithm(ABC):
    """An algorithm of collectives.

    Attributes:
        name: The name in system.json; ``configs.collective_algorithms`` declares its limits.
        has_two_trees: Whether ASTRA-sim's phases take two trees in turn.
    """

    name: ClassVar[str]
    has_two_trees: ClassVar[bool] = False

    def find_problem(self, kind: str, count: int) -> str:
        """Describe why it cannot run a kind of collective on ``count`` devices; "" if it can."""
        return find_limit_problem(self.name, kind, count)

    def suits(self, kind: str, topologies: Set[str]) -> bool:
        """Return whether it is one of the algorithms of which the fastest is chosen by size.

        Args:
            kind: The kind of collective.
            topologies: The topologies of the dimensions that the collective runs in; none if it
                runs between all devices of a communicator at once.
        """
        return kind not in EXCHANGES and topologies != {"FullyConnected"}

    @abstractmethod
    def list_rounds(self, kind: str, count: int, both_ways: bool) -> Sequence[MessageRound]:
        """List the rounds of messages.

        Args:
            kind: The kind of collective, which the algorithm can run.
            count: The number of positions, 2 at least.
            both_ways: Whether half of the data takes the opposite direction, so that both
                directions of links that form rings are used.
        """

    # ASTRA-sim's form. An algorithm that ASTRA-sim lacks has none of it.

    def find_astra_problem(self, kind: str, count: int, *, part: bool, window: int) -> str:
        """Describe why ASTRA-sim cannot run a kind of collective with it; "" if it can.

        Args:
            kind: The kind of collective.
            count: The number of devices.
            part: Whether the collective is one ring over some of the devices.
            window: The number of peers that a device sends to at once; -1 for all.
        """
        if type(self).start_phase is CollectiveAlgorithm.start_phase:
            return f"ASTRA-sim has no {self.name}, which needs --network-model flows"
        return self.find_problem(kind, count)

    def compute_smallest_message(self, kind: str, size: int, count: int) -> int:
        """Compute the bytes of the smallest message of a phase of ``size`` bytes."""
        return size if kind == "all_gather" else size // count

    def start_phase(self, port: AlgorithmPort, place: PhasePlace) -> None:
        """Start a phase of a chunk on the device whose services are ``port``."""
        raise NotImplementedError(f"start_phase of {self.name}")

    def list_messages(self, phase: ChunkPhase, count: int) -> Iterator[tuple[int, int, int]]:
        """Yield the positions of sender and receiver, and the bytes between them in a phase."""
        raise NotImplementedError(f"list_messages of {self.name}")

    def has_recurrence(self, phase: ChunkPhase) -> bool:
        """Return whether the times of a phase follow from a recurrence."""
        return False

    def solve_symmetric(
        self, costs: PhaseCosts, table: LinkTable, phase: ChunkPhase
    ) -> tuple[int, int] | None:
        """Time a phase of positions that look alike and start together.

        Returns:
            The duration and the duration of its last wait, in nanoseconds; None if positions
            differ.
        """
        return None

    def solve_few_positions(
        self, costs: PhaseCosts, table: LinkTable, phase: ChunkPhase, starts: Sequence[int]
    ) -> tuple[list[int], int] | None:
        """Time a phase for all of a few positions, for which arrays take longer; None if it cannot.

        Returns:
            When each position ends, and the duration of the last wait, in nanoseconds.
        """
        return None

    def solve_positions(
        self, costs: PhaseCosts, table: LinkTable, phase: ChunkPhase, starts: Array
    ) -> tuple[Array, int] | None:
        """Time a phase for all positions.

        Returns:
            When each position ends, with the shape of ``starts``, and the duration of the last
            wait; None if messages overtake each other, in which case the recurrence does not hold.
        """
        return None
