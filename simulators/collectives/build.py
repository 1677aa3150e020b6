"""Making programs: transfers and copies in order, from which threadblocks and waits follow."""

from __future__ import annotations

from dataclasses import dataclass, field

from hespas.simulators.collectives.program import (
    KINDS,
    Block,
    Program,
    Rank,
    Ref,
    Step,
    resolve,
)

At = tuple[int, int]  # threadblock, step


@dataclass(slots=True)
class _Place:
    """Who wrote a chunk last, and who read it since: threadblock to step."""

    writer: At | None = None
    readers: dict[int, int] = field(default_factory=dict)


class Builder:
    """Takes an algorithm down as if one thing happened after the other.

    What need not happen in that order does not: each connection (peer, channel) of a rank has a
    threadblock of its own for each direction, and local steps have one; a step waits for those
    that wrote what it reads, and for those that use what it overwrites.
    """

    def __init__(
        self, name: str, collective: str, ranks: int, parts: int, *, in_place: bool = True
    ) -> None:
        self._head = Program(name, collective, in_place, parts, tuple([Rank(0, ())] * ranks))
        self._blocks: list[dict[tuple[str, int, int], list[Step]]] = [{} for _ in range(ranks)]
        self._ids: list[dict[tuple[str, int, int], int]] = [{} for _ in range(ranks)]
        self._places: list[dict[tuple[str, int], _Place]] = [{} for _ in range(ranks)]
        self._scratch = [0] * ranks

    def transfer(
        self,
        source: int,
        at: Ref,
        target: int,
        to: Ref,
        count: int = 1,
        *,
        reduce: bool = False,
        channel: int = 0,
    ) -> None:
        """Send ``count`` chunks from rank ``source`` to rank ``target``, which stores them, or
        reduces them into what it has there."""
        self._add(source, ("send", target, channel), Step("s", at, to, count))
        step = Step("rrc" if reduce else "r", to if reduce else at, to, count)
        self._add(target, ("recv", source, channel), step)

    def copy(self, rank: int, at: Ref, to: Ref, count: int = 1) -> None:
        """Copy chunks within a rank."""
        self._add(rank, ("local", -1, 0), Step("cpy", at, to, count))

    def reduce(self, rank: int, at: Ref, into: Ref, count: int = 1) -> None:
        """Reduce chunks into others of the same rank."""
        self._add(rank, ("local", -1, 0), Step("re", at, into, count))

    def program(self) -> Program:
        """What was taken down."""
        ranks = [
            Rank(
                scratch,
                tuple(
                    Block(
                        ids[key],
                        key[1] if key[0] == "send" else -1,
                        key[1] if key[0] == "recv" else -1,
                        key[2],
                        tuple(steps),
                    )
                    for key, steps in blocks.items()
                ),
            )
            for scratch, blocks, ids in zip(self._scratch, self._blocks, self._ids, strict=True)
        ]
        head = self._head
        return Program(head.name, head.collective, head.in_place, head.parts, tuple(ranks))

    def _add(self, rank: int, key: tuple[str, int, int], step: Step) -> None:
        steps = self._blocks[rank].setdefault(key, [])
        block = self._ids[rank].setdefault(key, len(self._ids[rank]))
        me = (block, len(steps))
        receives, reduces, writes, _ = KINDS[step.kind]
        waits: dict[int, int] = {}

        def after(at: At | None) -> None:
            if at is not None and at[0] != block:
                waits[at[0]] = max(waits.get(at[0], 0), at[1])

        if reduces or not receives:
            for place in self._cells(rank, step.source, step.count):
                after(place.writer)
                place.readers[block] = me[1]
        if writes:
            for place in self._cells(rank, step.target, step.count):
                after(place.writer)
                for reader in place.readers.items():
                    after(reader)
                place.writer, place.readers = me, {}
        depends = tuple(sorted(waits.items()))
        steps.append(Step(step.kind, step.source, step.target, step.count, depends))

    def _cells(self, rank: int, place: Ref, count: int) -> list[_Place]:
        if place.buffer == "s":
            self._scratch[rank] = max(self._scratch[rank], place.offset + count)
        found = self._places[rank]
        buffer, offset = resolve(self._head, rank, place)
        return [found.setdefault((buffer, offset + k), _Place()) for k in range(count)]
