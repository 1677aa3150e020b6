"""Builds programs from transfers and copies, deriving threadblocks and dependencies."""

from __future__ import annotations

from dataclasses import dataclass, field, replace

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
_BlockKey = tuple[str, int, int]  # "send", "recv" or "local"; peer; channel


@dataclass(slots=True)
class _ChunkAccess:
    """The last step that wrote a chunk, and the steps that read it since, by threadblock."""

    writer: At | None = None
    readers: dict[int, int] = field(default_factory=dict)


@dataclass(slots=True)
class _BlockUnderConstruction:
    """The id and the steps of a threadblock."""

    id: int
    steps: list[CollectiveStep] = field(default_factory=list)


@dataclass(slots=True)
class _RankUnderConstruction:
    """The threadblocks of a rank, the accesses to its chunks, and its scratch size."""

    blocks: dict[_BlockKey, _BlockUnderConstruction] = field(default_factory=dict)
    accesses: dict[tuple[str, int], _ChunkAccess] = field(default_factory=dict)
    scratch: int = 0

    def get_block(self, key: _BlockKey) -> _BlockUnderConstruction:
        """Return a threadblock, which is empty at first."""
        return self.blocks.setdefault(key, _BlockUnderConstruction(len(self.blocks)))

    def build_program(self) -> RankProgram:
        """Return the finished rank."""
        blocks = [
            Threadblock(
                block.id,
                peer if direction == "send" else -1,
                peer if direction == "recv" else -1,
                channel,
                tuple(block.steps),
            )
            for (direction, peer, channel), block in self.blocks.items()
        ]
        return RankProgram(self.scratch, tuple(blocks))


class CollectiveBuilder:
    """Builds a program from operations that are added as if they happened one after the other.

    Invariant: the program has the result of that order, but keeps only the order that is needed.
    Each connection (peer, channel) of a rank has one threadblock for each direction, and local
    steps have one. A step waits for the steps that wrote what it reads or that use what it
    overwrites.
    """

    def __init__(
        self, name: str, collective: str, ranks: int, parts: int, *, in_place: bool = True
    ) -> None:
        self._head = CollectiveProgram(
            name, collective, in_place, parts, tuple([RankProgram(0, ())] * ranks)
        )
        self._ranks = [_RankUnderConstruction() for _ in range(ranks)]

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
        """Send ``count`` chunks from rank ``source`` to rank ``target``.

        The target stores them at ``to``, or reduces them into the chunks there with ``reduce``.
        """
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
        """Return the program."""
        return replace(self._head, ranks=tuple(rank.build_program() for rank in self._ranks))

    def _append_step(self, rank: int, key: _BlockKey, step: CollectiveStep) -> None:
        block = self._ranks[rank].get_block(key)
        number = len(block.steps)
        receives, reduces, writes, _ = KINDS[step.kind]
        waits: dict[int, int] = {}

        def wait_for_step(at: At | None) -> None:
            if at is not None and at[0] != block.id:
                waits[at[0]] = max(waits.get(at[0], 0), at[1])

        if reduces or not receives:
            for place in self._get_chunk_accesses(rank, step.source, step.count):
                wait_for_step(place.writer)
                place.readers[block.id] = number
        if writes:
            for place in self._get_chunk_accesses(rank, step.target, step.count):
                wait_for_step(place.writer)
                for reader in place.readers.items():
                    wait_for_step(reader)
                place.writer, place.readers = (block.id, number), {}
        depends = tuple(sorted(waits.items()))
        block.steps.append(replace(step, depends=depends))

    def _get_chunk_accesses(self, rank: int, place: ChunkRef, count: int) -> list[_ChunkAccess]:
        building = self._ranks[rank]
        if place.buffer == "s":
            building.scratch = max(building.scratch, place.offset + count)
        accesses = building.accesses
        buffer, offset = resolve_chunk_ref(self._head, rank, place)
        return [accesses.setdefault((buffer, offset + k), _ChunkAccess()) for k in range(count)]
