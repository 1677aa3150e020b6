"""The messages of a collective algorithm in rounds, for any size and any network.

Positions number the devices of a communicator, or of a line of it. Sizes are shares of the operand
of one device: of the shard in an all-gather, else of the whole input.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import numpy.typing as npt

Array = npt.NDArray[Any]


@dataclass(frozen=True, eq=False)
class MessageRound:
    """Messages of equal size that are sent at the same time.

    Attributes:
        sources: The position of the sender of each message; None if every position sends to every
            other one.
        targets: The position of each receiver.
        share: The bytes of a message over those of the operand.
        repeats: How often the round follows itself, each time after its messages have arrived.
        reduced_share: The bytes that a device reduces in all repeats, over those of the operand.
        reducing_repeats: The number of repeats, from the first, that reduce.
        ties: The directions of the messages around a Ring of which both ways are equally long.
        levels: For each message of a pipeline, the number of messages that it follows; () if the
            messages of a round do not wait for each other. The data of a pipeline is sent in
            pieces, each after the one before it.
        trees: For each message of a pipeline, the tree that it belongs to.
        streams: For each message, the stream that it belongs to; () if there is one. Streams do not
            wait for each other.
    """

    sources: Array | None
    targets: Array | None
    share: float
    repeats: int = 1
    reduced_share: float = 0.0
    reducing_repeats: int = 1
    ties: Array | int = 0
    levels: Array | tuple[()] = ()
    trees: Array | tuple[()] = ()
    streams: Array | tuple[()] = ()

    @property
    def stream_count(self) -> int:
        """The number of streams."""
        return int(np.max(self.streams)) + 1 if len(self.streams) else 1

    def select_stream(self, stream: int) -> MessageRound:
        """Return the messages of a stream."""
        if not len(self.streams):
            return self
        assert self.sources is not None and self.targets is not None
        chosen = np.flatnonzero(np.equal(self.streams, stream))
        ties = self.ties if isinstance(self.ties, int) else self.ties[chosen]
        sources, targets = self.sources[chosen], self.targets[chosen]
        return replace(self, sources=sources, targets=targets, ties=ties, streams=())

    @property
    def steps(self) -> int:
        """The number of messages that follow each other in one repeat."""
        return int(np.max(self.levels)) + 1 if len(self.levels) else 1


def join_both_ways(forward: MessageRound) -> MessageRound:
    """Return a round in which half of each message goes the same way around backwards."""
    assert forward.sources is not None and forward.targets is not None
    count = len(forward.sources)
    return MessageRound(
        np.concatenate((forward.sources, forward.targets)),
        np.concatenate((forward.targets, forward.sources)),
        forward.share / 2,
        forward.repeats,
        forward.reduced_share,
        forward.reducing_repeats,
        np.repeat((1, -1), count),
        streams=np.repeat((0, 1), count),
    )
