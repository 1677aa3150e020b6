"""Making programs: transfers and copies in order, from which threadblocks and waits follow."""

from __future__ import annotations

from dataclasses import dataclass, field

from hespas.simulators.collectives.collective_program import (
    KINDS,
    ChunkRef,
    CollectiveProgram,
    CollectiveStep,
    RankProgram,
    Threadblock,
    resolve_chunk_ref,
)

At = tuple[int, int]  # threadblock, step


@dataclass(slots=True)
class _ChunkAccess:
    """Who wrote a chunk last, and who read it since: threadblock to step."""

    writer: At | None = None
    readers: dict[int, int] = field(default_factory=dict)


class CollectiveBuilder:
    """Takes an algorithm down as if one thing happened after the other.

    What need not happen in that order does not: each connection (peer, channel) of a rank has a
    threadblock of its own for each direction, and local steps have one; a step waits for those
    that wrote what it reads, and for those that use what it overwrites.
    """

    def __init__(
        self, name: str, collective: str, ranks: int, parts: int, *, in_place: bool = True
    ) -> None:
        self._head = CollectiveProgram(
            name, collective, in_place, parts, tuple([RankProgram(0, ())] * ranks)
        )
        self._blocks: list[dict[tuple[str, int, int], list[CollectiveStep]]] = [
            {} for _ in range(ranks)
        ]
        self._ids: list[dict[tuple[str, int, int], int]] = [{} for _ in range(ranks)]
        self._accesses: list[dict[tuple[str, int], _ChunkAccess]] = [{} for _ in range(ranks)]
        self._scratch = [0] * ranks

    def add_transfer(
        self,
        source: int,
        at: ChunkRef,
        target: int,
        to: ChunkRef,
        count: int = 1,
        *,
        reduce: bool = False,
        channel: int = 0,
    ) -> None:
        """Send ``count`` chunks from rank ``source`` to rank ``target``, which stores them, or
        reduces them into what it has there."""
        self._append_step(source, ("send", target, channel), CollectiveStep("s", at, to, count))
        step = CollectiveStep("rrc" if reduce else "r", to if reduce else at, to, count)
        self._append_step(target, ("recv", source, channel), step)

    def add_local_copy(self, rank: int, at: ChunkRef, to: ChunkRef, count: int = 1) -> None:
        """Copy chunks within a rank."""
        self._append_step(rank, ("local", -1, 0), CollectiveStep("cpy", at, to, count))

    def add_local_reduction(self, rank: int, at: ChunkRef, into: ChunkRef, count: int = 1) -> None:
        """Reduce chunks into others of the same rank."""
        self._append_step(rank, ("local", -1, 0), CollectiveStep("re", at, into, count))

    def build_program(self) -> CollectiveProgram:
        """What was taken down."""
        ranks = [
            RankProgram(
                scratch,
                tuple(
                    Threadblock(
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
        return CollectiveProgram(
            head.name, head.collective, head.in_place, head.parts, tuple(ranks)
        )

    def _append_step(self, rank: int, key: tuple[str, int, int], step: CollectiveStep) -> None:
        steps = self._blocks[rank].setdefault(key, [])
        block = self._ids[rank].setdefault(key, len(self._ids[rank]))
        me = (block, len(steps))
        receives, reduces, writes, _ = KINDS[step.kind]
        waits: dict[int, int] = {}

        def wait_for_step(at: At | None) -> None:
            if at is not None and at[0] != block:
                waits[at[0]] = max(waits.get(at[0], 0), at[1])

        if reduces or not receives:
            for place in self._get_chunk_accesses(rank, step.source, step.count):
                wait_for_step(place.writer)
                place.readers[block] = me[1]
        if writes:
            for place in self._get_chunk_accesses(rank, step.target, step.count):
                wait_for_step(place.writer)
                for reader in place.readers.items():
                    wait_for_step(reader)
                place.writer, place.readers = me, {}
        depends = tuple(sorted(waits.items()))
        steps.append(CollectiveStep(step.kind, step.source, step.target, step.count, depends))

    def _get_chunk_accesses(self, rank: int, place: ChunkRef, count: int) -> list[_ChunkAccess]:
        if place.buffer == "s":
            self._scratch[rank] = max(self._scratch[rank], place.offset + count)
        accesses = self._accesses[rank]
        buffer, offset = resolve_chunk_ref(self._head, rank, place)
        return [accesses.setdefault((buffer, offset + k), _ChunkAccess()) for k in range(count)]
