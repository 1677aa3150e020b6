"""Generates the standard collective algorithms as programs.

All of them run in place except all-to-all. In a two-level algorithm, ranks are numbered within
hosts first, as in the first dimension of a network: rank ``host * local + k`` is device ``k`` of
its host.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

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
    if algorithm != "hierarchical":
        if local:
            raise HespasError(f"the {algorithm} algorithm has one level and no local ranks")
        return _FLAT[algorithm, collective](ranks)
    if not 2 <= local < ranks or ranks % local:
        raise HespasError(
            f"{ranks} ranks do not make two hosts or more of {local} ranks"
            if local
            else "the hierarchical algorithm needs the number of ranks in a host",
            remedy="local must be a divisor of ranks, greater than 1 and less than ranks",
        )
    return _TWO_LEVEL[collective](ranks, local)


# Rings over blocks of chunks: ``members[k]`` is the k-th rank of the ring, and ``places[j]`` is the
# place of block j, of ``count`` chunks, on every member.


def _add_ring_scatter(
    b: CollectiveBuilder, members: Sequence[int], places: Sequence[ChunkRef], count: int
) -> None:
    """Reduce block k to the k-th member of the ring."""
    n = len(members)
    for step in range(n - 1):
        for k in range(n):
            place = places[(k - step - 1) % n]
            b.add_transfer(members[k], place, members[(k + 1) % n], place, count, reduce=True)


def _add_ring_gather(
    b: CollectiveBuilder, members: Sequence[int], places: Sequence[ChunkRef], count: int
) -> None:
    """Send block k from the k-th member to all others."""
    n = len(members)
    for step in range(n - 1):
        for k in range(n):
            place = places[(k - step) % n]
            b.add_transfer(members[k], place, members[(k + 1) % n], place, count)


def _make_block_refs(buffer: str, blocks: int, count: int, start: int = 0) -> list[ChunkRef]:
    return [ChunkRef(buffer, start + k * count) for k in range(blocks)]


def _make_ring_builder(collective: str) -> Callable[[int], CollectiveProgram]:
    def build_ring(n: int) -> CollectiveProgram:
        b = CollectiveBuilder(f"{collective}_ring_{n}", collective, n, n)
        places = _make_block_refs("o" if collective == "all_gather" else "i", n, 1)
        if collective != "all_gather":
            _add_ring_scatter(b, range(n), places, 1)
        if collective != "reduce_scatter":
            _add_ring_gather(b, range(n), places, 1)
        return b.build_program()

    return build_ring


def _make_recursive_builder(collective: str) -> Callable[[int], CollectiveProgram]:
    def build_recursive(n: int) -> CollectiveProgram:
        b = CollectiveBuilder(f"{collective}_recursive_{n}", collective, n, n)
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
        return b.build_program()

    return build_recursive


def _make_direct_builder(collective: str) -> Callable[[int], CollectiveProgram]:
    def build_direct(n: int) -> CollectiveProgram:
        in_place = collective != "all_to_all"
        b = CollectiveBuilder(f"{collective}_direct_{n}", collective, n, n, in_place=in_place)
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
        return b.build_program()

    return build_direct


_FLAT: dict[tuple[str, str], Callable[[int], CollectiveProgram]] = {
    (name, collective): make(collective)
    for name, make in (
        ("ring", _make_ring_builder),
        ("recursive", _make_recursive_builder),
        ("direct", _make_direct_builder),
    )
    for collective in ALGORITHMS[name]
}


# Two levels. A rank that sends many chunks that are not adjacent arranges them in scratch first, so
# that they are sent as one message.


def _split_into_levels(ranks: int, local: int) -> tuple[list[list[int]], list[list[int]]]:
    """Return the ranks of each host, and the ranks that have equal places in their hosts."""
    hosts = [list(range(start, start + local)) for start in range(0, ranks, local)]
    return hosts, [list(range(k, ranks, local)) for k in range(local)]


def _index_by_place(rank: int, local: int, count: int) -> int:
    """Return the place of a rank's chunk if chunks of equal places in the hosts are adjacent."""
    return rank % local * count + rank // local


def _build_two_level_reduce(ranks: int, local: int) -> CollectiveProgram:
    b = CollectiveBuilder(f"all_reduce_hierarchical_{ranks}_{local}", "all_reduce", ranks, ranks)
    hosts, columns = _split_into_levels(ranks, local)
    share = len(hosts)
    blocks = _make_block_refs("i", local, share)
    for host in hosts:
        _add_ring_scatter(b, host, blocks, share)
    for k, column in enumerate(columns):
        places = _make_block_refs("i", share, 1, k * share)
        _add_ring_scatter(b, column, places, 1)
        _add_ring_gather(b, column, places, 1)
    for host in hosts:
        _add_ring_gather(b, host, blocks, share)
    return b.build_program()


def _build_two_level_gather(ranks: int, local: int) -> CollectiveProgram:
    b = CollectiveBuilder(f"all_gather_hierarchical_{ranks}_{local}", "all_gather", ranks, ranks)
    hosts, columns = _split_into_levels(ranks, local)
    count = len(hosts)
    for rank in range(ranks):
        b.add_local_copy(
            rank, ChunkRef("o", rank), ChunkRef("s", _index_by_place(rank, local, count))
        )
    for k, column in enumerate(columns):
        _add_ring_gather(b, column, _make_block_refs("s", count, 1, k * count), 1)
    for host in hosts:
        _add_ring_gather(b, host, _make_block_refs("s", local, count), count)
    for rank in range(ranks):
        for other in range(ranks):
            if other != rank:
                b.add_local_copy(
                    rank, ChunkRef("s", _index_by_place(other, local, count)), ChunkRef("o", other)
                )
    return b.build_program()


def _build_two_level_scatter(ranks: int, local: int) -> CollectiveProgram:
    b = CollectiveBuilder(
        f"reduce_scatter_hierarchical_{ranks}_{local}", "reduce_scatter", ranks, ranks
    )
    hosts, columns = _split_into_levels(ranks, local)
    count = len(hosts)
    for rank in range(ranks):
        for other in range(ranks):
            b.add_local_copy(
                rank, ChunkRef("i", other), ChunkRef("s", _index_by_place(other, local, count))
            )
    for host in hosts:
        _add_ring_scatter(b, host, _make_block_refs("s", local, count), count)
    for k, column in enumerate(columns):
        _add_ring_scatter(b, column, _make_block_refs("s", count, 1, k * count), 1)
    for rank in range(ranks):
        b.add_local_copy(
            rank, ChunkRef("s", _index_by_place(rank, local, count)), ChunkRef("i", rank)
        )
    return b.build_program()


def _build_two_level_exchange(ranks: int, local: int) -> CollectiveProgram:
    """Send within hosts to the rank that has the place of the target, then between hosts."""
    name = f"all_to_all_hierarchical_{ranks}_{local}"
    b = CollectiveBuilder(name, "all_to_all", ranks, ranks, in_place=False)
    hosts, columns = _split_into_levels(ranks, local)
    count = len(hosts)
    sent, received, held = 0, ranks, 2 * ranks  # three parts of scratch with different orders
    for rank in range(ranks):
        for other in range(ranks):
            place = ChunkRef("s", sent + _index_by_place(other, local, count))
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
    return b.build_program()


_TWO_LEVEL: dict[str, Callable[[int, int], CollectiveProgram]] = {
    "all_reduce": _build_two_level_reduce,
    "all_gather": _build_two_level_gather,
    "reduce_scatter": _build_two_level_scatter,
    "all_to_all": _build_two_level_exchange,
}
