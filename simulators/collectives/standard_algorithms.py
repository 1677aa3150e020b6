"""Generates the standard collective algorithms as programs.

All of them run in place except all-to-all. In a two-level algorithm, ranks are numbered within
hosts first, as in the first dimension of a network: rank ``host * local + k`` is device ``k`` of
its host.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace

from hespas.simulators.collectives.collective_program import (
    KINDS,
    At,
    ChunkAccess,
    ChunkRef,
    CollectiveProgram,
    CollectiveStep,
    RankProgram,
    Threadblock,
    resolve_chunk_ref,
)
from hespas.support.errors import HespasError

ALGORITHMS = {
    "ring": ("all_reduce", "all_gather", "reduce_scatter"),
    "recursive": ("all_reduce", "all_gather", "reduce_scatter"),
    "direct": ("all_reduce", "all_gather", "reduce_scatter", "all_to_all"),
    "hierarchical": ("all_reduce", "all_gather", "reduce_scatter", "all_to_all"),
}
ABOUT = {
    "ring": "neighbour to neighbour, n - 1 rounds; any n",
    "recursive": "halving and doubling distances, log2 n rounds; n a power of two",
    "direct": "every rank to every other at once (all-pairs); any n",
    "hierarchical": "two levels: within hosts of --local ranks, then between them",
}
_BlockKey = tuple[str, int, int]  # "send", "recv" or "local"; peer; channel


def generate_program(
    algorithm: str, collective: str, ranks: int, local: int = 0
) -> CollectiveProgram:
    """Generate the program of an algorithm.

    Args:
        algorithm: A key of ALGORITHMS.
        collective: The kind of collective.
        ranks: The number of ranks.
        local: The number of ranks in a host, for the hierarchical algorithm.

    Raises:
        HespasError: The algorithm does not support the collective or the number of ranks.
    """
    if collective not in ALGORITHMS[algorithm]:
        fit = [name for name, kinds in ALGORITHMS.items() if collective in kinds]
        raise HespasError(
            f"the {algorithm} algorithm has no {collective}", remedy=f"use {' or '.join(fit)}"
        )
    if ranks < 2:
        raise HespasError(f"a collective needs two ranks or more, not {ranks}")
    if algorithm == "recursive" and ranks & (ranks - 1):
        raise HespasError(
            f"recursive halving and doubling need a power of two of ranks, not {ranks}",
            remedy="use ring or direct",
        )
    if algorithm != "hierarchical" and local:
        raise HespasError(f"the {algorithm} algorithm has one level and no local ranks")
    if algorithm == "hierarchical" and (not 2 <= local < ranks or ranks % local):
        raise HespasError(
            f"{ranks} ranks do not make two hosts or more of {local} ranks"
            if local
            else "the hierarchical algorithm needs the number of ranks in a host",
            remedy="local must be a divisor of ranks, greater than 1 and less than ranks",
        )
    name = f"{collective}_{algorithm}_{ranks}{f'_{local}' if local else ''}"
    in_place = collective != "all_to_all"
    b = CollectiveBuilder(name, collective, ranks, ranks, in_place=in_place)
    if algorithm == "ring":
        _add_ring_steps(b, collective, ranks)
    elif algorithm == "recursive":
        _add_recursive_steps(b, collective, ranks)
    elif algorithm == "direct":
        _add_direct_steps(b, collective, ranks)
    else:
        _add_two_level_steps(b, collective, ranks, local)
    return b.build_program()


def _add_ring(
    b: CollectiveBuilder,
    members: Sequence[int],
    places: Sequence[ChunkRef],
    count: int,
    *,
    reduce: bool,
) -> None:
    """Add a ring over blocks of chunks.

    Args:
        b: The builder.
        members: The ranks of the ring.
        places: The place of each block, of ``count`` chunks, on every member.
        count: The number of chunks.
        reduce: Whether block k is reduced to the k-th member, or sent from it to all others.
    """
    n = len(members)
    for step in range(n - 1):
        for k in range(n):
            place = places[(k - step - reduce) % n]
            b.add_transfer(members[k], place, members[(k + 1) % n], place, count, reduce=reduce)


def _make_block_refs(buffer: str, blocks: int, count: int, start: int = 0) -> list[ChunkRef]:
    return [ChunkRef(buffer, start + k * count) for k in range(blocks)]


def _add_ring_steps(b: CollectiveBuilder, collective: str, n: int) -> None:
    places = _make_block_refs("o" if collective == "all_gather" else "i", n, 1)
    if collective != "all_gather":
        _add_ring(b, range(n), places, 1, reduce=True)
    if collective != "reduce_scatter":
        _add_ring(b, range(n), places, 1, reduce=False)


def _add_recursive_steps(b: CollectiveBuilder, collective: str, n: int) -> None:
    buffer = "o" if collective == "all_gather" else "i"
    distances = [1 << k for k in range(n.bit_length() - 1)]
    if collective != "all_gather":
        for d in reversed(distances):
            for rank in range(n):
                place = ChunkRef(buffer, (rank ^ d) // d * d)  # the half that the peer keeps
                b.add_transfer(rank, place, rank ^ d, place, d, reduce=True)
    if collective != "reduce_scatter":
        for d in distances:
            for rank in range(n):
                place = ChunkRef(buffer, rank // d * d)
                b.add_transfer(rank, place, rank ^ d, place, d)


def _add_direct_steps(b: CollectiveBuilder, collective: str, n: int) -> None:
    pairs = [(rank, (rank + k) % n) for k in range(1, n) for rank in range(n)]
    if collective in ("all_reduce", "reduce_scatter"):
        for rank, peer in pairs:  # contributions are kept apart in scratch until they are added
            b.add_transfer(rank, ChunkRef("i", peer), peer, ChunkRef("s", rank))
        for rank, peer in pairs:
            b.add_local_reduction(rank, ChunkRef("s", peer), ChunkRef("i", rank))
    if collective == "all_to_all":
        for rank in range(n):
            b.add_local_copy(rank, ChunkRef("i", rank), ChunkRef("o", rank))
        for rank, peer in pairs:
            b.add_transfer(rank, ChunkRef("i", peer), peer, ChunkRef("o", rank))
    elif collective != "reduce_scatter":
        buffer = "o" if collective == "all_gather" else "i"
        for rank, peer in pairs:
            b.add_transfer(rank, ChunkRef(buffer, rank), peer, ChunkRef(buffer, rank))


def _add_two_level_steps(b: CollectiveBuilder, collective: str, ranks: int, local: int) -> None:
    """Add the steps of two levels: within hosts, and between ranks of equal places in their hosts.

    A rank that sends many chunks that are not adjacent arranges them in scratch first, so that they
    are sent as one message: those of equal places in the hosts are adjacent.
    """
    hosts = [list(range(start, start + local)) for start in range(0, ranks, local)]
    columns = [list(range(k, ranks, local)) for k in range(local)]
    count = len(hosts)
    if collective == "all_to_all":
        _add_two_level_exchange(b, hosts, columns)
        return
    buffer = "i" if collective == "all_reduce" else "s"
    blocks = _make_block_refs(buffer, local, count)
    refs = [_make_block_refs(buffer, count, 1, k * count) for k in range(local)]
    sorted_refs = [ChunkRef("s", rank % local * count + rank // local) for rank in range(ranks)]
    if collective != "all_gather":
        if collective == "reduce_scatter":
            for rank in range(ranks):
                for other, place in enumerate(sorted_refs):
                    b.add_local_copy(rank, ChunkRef("i", other), place)
        for host in hosts:
            _add_ring(b, host, blocks, count, reduce=True)
    else:
        for rank, place in enumerate(sorted_refs):
            b.add_local_copy(rank, ChunkRef("o", rank), place)
    for column, places in zip(columns, refs, strict=True):
        if collective != "all_gather":
            _add_ring(b, column, places, 1, reduce=True)
        if collective != "reduce_scatter":
            _add_ring(b, column, places, 1, reduce=False)
    if collective == "reduce_scatter":
        for rank, place in enumerate(sorted_refs):
            b.add_local_copy(rank, place, ChunkRef("i", rank))
        return
    for host in hosts:
        _add_ring(b, host, blocks, count, reduce=False)
    if collective == "all_gather":
        for rank in range(ranks):
            for other, place in enumerate(sorted_refs):
                if other != rank:
                    b.add_local_copy(rank, place, ChunkRef("o", other))


def _add_two_level_exchange(
    b: CollectiveBuilder, hosts: Sequence[Sequence[int]], columns: Sequence[Sequence[int]]
) -> None:
    """Send within hosts to the rank that has the place of the target, then between hosts."""
    count, local = len(hosts), len(columns)
    ranks = count * local
    sent, received, held = 0, ranks, 2 * ranks  # three parts of scratch with different orders
    for rank in range(ranks):
        for other in range(ranks):
            place = ChunkRef("s", sent + other % local * count + other // local)
            b.add_local_copy(rank, ChunkRef("i", other), place)
    for host in hosts:
        for k, rank in enumerate(host):
            own = ChunkRef("s", received + k * count)
            b.add_local_copy(rank, ChunkRef("s", sent + k * count), own, count)
            for step in range(1, local):
                j = (k + step) % local
                b.add_transfer(rank, ChunkRef("s", sent + j * count), host[j], own, count)
    for rank in range(ranks):
        for k in range(local):
            for target in range(count):
                at = ChunkRef("s", received + k * count + target)
                b.add_local_copy(rank, at, ChunkRef("s", held + target * local + k))
    for column in columns:
        for g, rank in enumerate(column):
            for step in range(count):
                target = (g + step) % count
                at, to = ChunkRef("s", held + target * local), ChunkRef("o", g * local)
                if target == g:
                    b.add_local_copy(rank, at, to, local)
                else:
                    b.add_transfer(rank, at, column[target], to, local)


@dataclass(slots=True)
class _BlockUnderConstruction:
    """The id and the steps of a threadblock."""

    id: int
    steps: list[CollectiveStep] = field(default_factory=list)


@dataclass(slots=True)
class _RankUnderConstruction:
    """The threadblocks of a rank, the accesses to its chunks, and its scratch size."""

    blocks: dict[_BlockKey, _BlockUnderConstruction] = field(default_factory=dict)
    accesses: dict[tuple[str, int], ChunkAccess] = field(default_factory=dict)
    scratch: int = 0

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
    ) -> None:
        """Send ``count`` chunks from rank ``source`` to rank ``target``.

        The target stores them at ``to``, or reduces them into the chunks there with ``reduce``.
        """
        self._append_step(source, ("send", target, 0), CollectiveStep("s", at, to, count))
        step = CollectiveStep("rrc" if reduce else "r", to if reduce else at, to, count)
        self._append_step(target, ("recv", source, 0), step)

    def add_local_copy(self, rank: int, at: ChunkRef, to: ChunkRef, count: int = 1) -> None:
        """Copy chunks within a rank."""
        self._append_step(rank, ("local", -1, 0), CollectiveStep("cpy", at, to, count))

    def add_local_reduction(self, rank: int, at: ChunkRef, into: ChunkRef) -> None:
        """Reduce a chunk into another one of the same rank."""
        self._append_step(rank, ("local", -1, 0), CollectiveStep("re", at, into, 1))

    def build_program(self) -> CollectiveProgram:
        """Return the program."""
        return replace(self._head, ranks=tuple(rank.build_program() for rank in self._ranks))

    def _append_step(self, rank: int, key: _BlockKey, step: CollectiveStep) -> None:
        blocks = self._ranks[rank].blocks
        block = blocks.setdefault(key, _BlockUnderConstruction(len(blocks)))
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

    def _get_chunk_accesses(self, rank: int, place: ChunkRef, count: int) -> list[ChunkAccess]:
        building = self._ranks[rank]
        if place.buffer == "s":
            building.scratch = max(building.scratch, place.offset + count)
        accesses = building.accesses
        buffer, offset = resolve_chunk_ref(self._head, rank, place)
        return [accesses.setdefault((buffer, offset + k), ChunkAccess()) for k in range(count)]
