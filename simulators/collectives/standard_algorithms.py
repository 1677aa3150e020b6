"""Generates the standard collective algorithms as programs.

All of them run in place except all-to-all. In a two-level algorithm, ranks are numbered within
hosts first, as in the first dimension of a network: rank ``host * local + k`` is device ``k`` of
its host.
"""

from __future__ import annotations

from collections.abc import Sequence

from hespas.simulators.collectives.collective_program import ChunkRef, CollectiveProgram
from hespas.simulators.collectives.program_builder import CollectiveBuilder
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
