"""The single messages of a schedule, each with what it waits for.

A position sends the messages of a round after its messages of the former round, in both directions,
have ended. The first round of a phase waits for the former phase of its chunk, and for the phase
that the dimension served before.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field

import numpy as np

from hespas.support.errors import HespasError

from ..algorithms import ALGORITHMS
from ..algorithms.message_rounds import MessageRound
from ..link_arrays import Array
from .group_sets import GroupSet, RingChannels
from .phase_forms import MessageForm, PhaseForm
from .schedules import CollectiveSchedule

MOST_MESSAGES = 1_000_000


@dataclass
class MessageSchedule:
    """Messages by number; positions are those of the devices of a group in ascending order.

    Attributes:
        sources: The position of the sender.
        targets: The position of the receiver.
        ties: The direction around a Ring of which both ways are equally long.
        sizes: The bytes.
        delays_ns: The time between what a message waits for and its start, without its latency.
        deps: The messages that it waits for.
        end_delays_ns: The time of each position after its last message.
    """

    sources: list[int] = field(default_factory=list)
    targets: list[int] = field(default_factory=list)
    ties: list[int] = field(default_factory=list)
    sizes: list[float] = field(default_factory=list)
    delays_ns: list[float] = field(default_factory=list)
    deps: list[tuple[int, ...]] = field(default_factory=list)
    end_delays_ns: list[float] = field(default_factory=list)

    def add_message(
        self, source: int, target: int, tie: int, size: float, delay_ns: float, deps: Sequence[int]
    ) -> int:
        """Add a message and return its number; raises HespasError if there are too many."""
        if len(self.sources) >= MOST_MESSAGES:
            raise HespasError(
                f"a collective sends more than {MOST_MESSAGES:,} messages",
                remedy="use --simulator embedded",
            )
        self.sources.append(source)
        self.targets.append(target)
        self.ties.append(tie)
        self.sizes.append(size)
        self.delays_ns.append(delay_ns)
        self.deps.append(tuple(deps))
        return len(self.sources) - 1


@dataclass
class _Progress:
    """What each position waits for before its next round, and the time of its reductions."""

    messages: list[list[int]]
    reductions_ns: list[float]


class MessageExpansion:
    """Expands a schedule into messages."""

    def __init__(
        self, schedule: CollectiveSchedule, groups: GroupSet, endpoint_ns: float, reduce_ns: float
    ) -> None:
        """Prepare an expansion.

        Args:
            schedule: The schedule.
            groups: A set of one group that it was planned for.
            endpoint_ns: The endpoint delay of a message.
            reduce_ns: The time to reduce a byte.
        """
        self._schedule, self._groups = schedule, groups
        self._endpoint_ns, self._reduce_ns = endpoint_ns, reduce_ns
        self._result = MessageSchedule()

    def list_messages(
        self, find_dims: Callable[[PhaseForm], tuple[int, ...] | RingChannels]
    ) -> MessageSchedule:
        """Return the messages; ``find_dims`` returns the dimensions of a form.

        Raises:
            HespasError: There are too many messages, or a switch reduces.
        """
        size, schedule = self._groups.size, self._schedule
        chunks = [_Progress([[] for _ in range(size)], [0.0] * size) for _ in schedule.chunks]
        if schedule.kind == "all_to_all":  # its messages cross all dimensions without a stop
            rounds = ALGORITHMS["direct"].list_rounds("all_to_all", size, False)
            self._run_phase(rounds, np.arange(size)[None, :], schedule.size, chunks[0])
        else:
            servers: dict[int, list[list[int]]] = {}
            for chunk, number in schedule.order:
                phase = schedule.chunks[chunk][number]
                if not isinstance(phase.form, MessageForm):
                    raise HespasError("a reduction in a switch consists of no messages")
                progress = chunks[chunk]
                former = servers.get(phase.server)
                if former is not None:
                    for position, messages in enumerate(former):
                        progress.messages[position] += messages
                lines = np.arange(size)[None, :]
                dims = find_dims(phase.form)
                if dims:
                    grid = self._groups.list_lines(dims)[0]
                    lines = np.searchsorted(self._groups.places[0], grid)
                self._run_phase(phase.form.rounds, lines, phase.size, progress, phase.form.pieces)
                servers[phase.server] = [list(messages) for messages in progress.messages]
        ends = zip(*(progress.reductions_ns for progress in chunks), strict=True)
        self._result.end_delays_ns = [max(reductions) for reductions in ends]
        return self._result

    def _run_phase(
        self,
        rounds: Sequence[MessageRound],
        lines: Array,
        size: float,
        progress: _Progress,
        pieces: int = 1,
    ) -> None:
        for one in rounds:
            for line in lines.tolist():
                if len(one.levels):
                    self._run_pipeline(one, line, size, progress, pieces)
                else:
                    streams = map(one.select_stream, range(one.stream_count))
                    self._run_streams(streams, line, size, progress)

    def _run_streams(
        self, streams: Iterable[MessageRound], line: list[int], size: float, progress: _Progress
    ) -> None:
        """Run streams that do not wait for each other, from one common start on."""
        positions = dict.fromkeys(line)  # channels pass each position several times
        begin = {position: list(progress.messages[position]) for position in positions}
        reductions = {position: progress.reductions_ns[position] for position in positions}
        ended: dict[int, list[int]] = {position: [] for position in positions}
        for one in streams:
            for position in positions:
                progress.messages[position] = list(begin[position])
                progress.reductions_ns[position] = reductions[position]
            self._run_repeats(one, line, size, progress)
            for position in positions:
                ended[position] += progress.messages[position]
        for position in positions:
            progress.messages[position] = ended[position]

    def _run_repeats(
        self, one: MessageRound, line: list[int], size: float, progress: _Progress
    ) -> None:
        pairs = _list_pairs(one, len(line))
        reduce_ns = size * one.reduced_share / one.reducing_repeats * self._reduce_ns
        for repeat in range(one.repeats):
            ended: dict[int, list[int]] = {position: [] for position in line}
            for source, target, tie in pairs:
                sender, receiver = line[source], line[target]
                delay_ns = self._endpoint_ns + progress.reductions_ns[sender]
                number = self._result.add_message(
                    sender, receiver, tie, one.share * size, delay_ns, progress.messages[sender]
                )
                ended[sender].append(number)
                ended[receiver].append(number)
            for position, messages in ended.items():
                progress.messages[position] = messages
                reduces = one.reduced_share and repeat < one.reducing_repeats
                progress.reductions_ns[position] = reduce_ns if reduces else 0.0

    def _run_pipeline(
        self, one: MessageRound, line: list[int], size: float, progress: _Progress, pieces: int
    ) -> None:
        """Send pieces along the levels; a message follows those of its piece to its sender."""
        order = np.argsort(np.array(one.levels), kind="stable").tolist()
        pairs, trees = _list_pairs(one, len(line)), np.array(one.trees).tolist()
        ended: dict[int, list[int]] = {position: [] for position in line}
        former: dict[int, int] = {}
        for _ in range(pieces):
            arrived: dict[tuple[int, int], list[int]] = {}
            for message in order:
                source, target, tie = pairs[message]
                tree = trees[message]
                deps = [*progress.messages[line[source]], *arrived.get((tree, source), ())]
                deps += [former[message]] if message in former else []
                number = self._result.add_message(
                    line[source], line[target], tie, one.share * size / pieces,
                    self._endpoint_ns, deps,
                )  # fmt: skip
                former[message] = number
                arrived.setdefault((tree, target), []).append(number)
                ended[line[source]].append(number)
                ended[line[target]].append(number)
        for position, messages in ended.items():
            progress.messages[position] = messages
            progress.reductions_ns[position] = size * one.reduced_share * self._reduce_ns


def _list_pairs(one: MessageRound, count: int) -> list[tuple[int, int, int]]:
    """Return the source, the target and the direction of the messages of a round."""
    if one.sources is None or one.targets is None:
        pairs = [(i, (i + k) % count) for k in range(1, count) for i in range(count)]
        return [(source, target, 0) for source, target in pairs]
    ties = [one.ties] * len(one.sources) if isinstance(one.ties, int) else one.ties.tolist()
    return list(zip(one.sources.tolist(), one.targets.tolist(), ties, strict=True))
