"""A collective algorithm as a program: the steps of each threadblock of each rank.

The form is MSCCL's intermediate representation. A rank has three buffers of equal chunks: input
``i``, output ``o`` and scratch ``s``. A threadblock runs its steps in order, sends to at most one
peer, and receives from at most one. A step may wait for steps of other threadblocks of its rank. A
connection (source, target, channel) delivers messages in order.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

from hespas.support.errors import HespasError

COLLECTIVES = ("all_reduce", "all_gather", "reduce_scatter", "all_to_all")
MAX_CHUNKS = 1 << 20  # of one collective
BUFFERS = ("i", "o", "s")
SHARE = {"all_gather": "i", "reduce_scatter": "o"}  # the buffer that holds one rank's share

# By step type: whether it receives, reduces, writes locally, sends.
KINDS: dict[str, tuple[bool, bool, bool, bool]] = {
    "s": (False, False, False, True),
    "r": (True, False, True, False),
    "rcs": (True, False, True, True),
    "rrc": (True, True, True, False),
    "rrs": (True, True, False, True),
    "rrcs": (True, True, True, True),
    "re": (False, True, True, False),
    "cpy": (False, False, True, False),
    "nop": (False, False, False, False),
}


@dataclass(frozen=True, slots=True)
class ChunkRef:
    """A place in a buffer; ``offset`` is in chunks."""

    buffer: str
    offset: int


At = tuple[int, int]  # threadblock, step


@dataclass(slots=True)
class ChunkAccess:
    """The step that wrote a chunk last, and the steps that read it since, by threadblock."""

    writer: At | None = None
    readers: dict[int, int] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class CollectiveStep:
    """One step on ``count`` chunks.

    Attributes:
        kind: The step type, a key of KINDS.
        source: The chunks that are sent, copied or reduced; unused if the step reads none here.
        target: The chunks that are written; unused if the step writes none here.
        count: The number of chunks.
        depends: The steps of the same rank that it waits for, as (threadblock id, step).
    """

    kind: str
    source: ChunkRef
    target: ChunkRef
    count: int = 1
    depends: tuple[tuple[int, int], ...] = ()


@dataclass(frozen=True, slots=True)
class Threadblock:
    """A threadblock; ``send`` and ``recv`` are the ranks of its peers, -1 for none."""

    id: int
    send: int
    recv: int
    channel: int
    steps: tuple[CollectiveStep, ...]


@dataclass(frozen=True, slots=True)
class RankProgram:
    """One rank: the number of chunks of its scratch buffer, and its threadblocks."""

    scratch: int
    blocks: tuple[Threadblock, ...]


@dataclass(frozen=True, slots=True)
class CollectiveProgram:
    """An algorithm for ``len(ranks)`` ranks.

    Attributes:
        name: The name of the algorithm.
        collective: One of COLLECTIVES, or another name, whose result cannot be verified.
        in_place: Whether input and output share memory. In an all-gather or reduce-scatter, the
            smaller of both is the rank's own part of the larger.
        parts: The number of chunks of the larger of input and output.
        ranks: The program of each rank.
        size_limits: The smallest and the largest bytes that MSCCL runs it for, counted as in
            ``count_buffer_bytes``; 0 for no limit.
    """

    name: str
    collective: str
    in_place: bool
    parts: int
    ranks: tuple[RankProgram, ...]
    size_limits: tuple[int, int] = (0, 0)

    def count_buffer_bytes(self, size: int) -> int:
        """Return the bytes of the larger of input and output, for operands of ``size`` bytes."""
        return size * len(self.ranks) if self.collective == "all_gather" else size

    def iterate_steps(self) -> Iterator[tuple[int, Threadblock, int, CollectiveStep]]:
        """Yield all steps with their rank, threadblock and number."""
        for rank, rank_program in enumerate(self.ranks):
            for block in rank_program.blocks:
                for number, step in enumerate(block.steps):
                    yield rank, block, number, step


def resolve_chunk_ref(program: CollectiveProgram, rank: int, place: ChunkRef) -> tuple[str, int]:
    """Return the buffer and offset of a place; in-place programs have one buffer for both."""
    if place.buffer == "s" or not program.in_place:
        return place.buffer, place.offset
    share = program.parts // len(program.ranks)
    if place.buffer == SHARE.get(program.collective):
        larger_buffer = "o" if place.buffer == "i" else "i"
        return larger_buffer, rank * share + place.offset
    return ("o" if program.collective == "all_gather" else "i"), place.offset


def get_buffer_size(program: CollectiveProgram, rank: int, buffer: str) -> int:
    """Return the number of chunks of a buffer that ``resolve_chunk_ref`` returns."""
    n, parts = len(program.ranks), program.parts
    if buffer == "s":
        return program.ranks[rank].scratch
    return parts // n if buffer == SHARE.get(program.collective) else parts


def check_program(program: CollectiveProgram) -> None:
    """Raise HespasError if the peers, dependencies or places of a program are invalid."""
    n = len(program.ranks)
    if n < 2:
        raise HespasError(f"{program.name}: a collective needs two ranks or more, not {n}")
    if program.parts > MAX_CHUNKS:
        raise HespasError(f"{program.name}: {program.parts} chunks are more than {MAX_CHUNKS}")
    if program.parts < 1:
        raise HespasError(f"{program.name}: neither input nor output has chunks")
    shared = program.collective in COLLECTIVES and program.collective != "all_reduce"
    if shared and program.parts % n:
        raise HespasError(f"{program.name}: {program.parts} chunks do not divide among {n} ranks")
    for rank, rank_program in enumerate(program.ranks):
        _check_rank_program(program, rank, rank_program)


def _check_rank_program(program: CollectiveProgram, rank: int, rank_program: RankProgram) -> None:
    blocks = {block.id: block for block in rank_program.blocks}
    if len(blocks) != len(rank_program.blocks):
        raise _make_program_error(program, rank, None, "has two threadblocks with one id")
    connections: set[tuple[str, int, int]] = set()
    for block in rank_program.blocks:
        for side, peer, used in (("send", block.send, 3), ("recv", block.recv, 0)):
            if not any(KINDS[step.kind][used] for step in block.steps):
                continue
            if peer == rank or not 0 <= peer < len(program.ranks):
                peer_name = "itself" if peer == rank else "no one" if peer == -1 else f"rank {peer}"
                verb = "sends to" if side == "send" else "receives from"
                raise _make_program_error(program, rank, block, f"{verb} {peer_name}")
            if (side, peer, block.channel) in connections:
                text = f"shares the connection with rank {peer}, channel {block.channel}"
                raise _make_program_error(program, rank, block, f"{text}, with another threadblock")
            connections.add((side, peer, block.channel))
        for number, step in enumerate(block.steps):
            where = f"step {number} ({step.kind})"
            if step.count < 1 and step.kind != "nop":
                raise _make_program_error(
                    program, rank, block, f"{where} is on {step.count} chunks"
                )
            for other, at in step.depends:
                if other not in blocks or not 0 <= at < len(blocks[other].steps):
                    text = f"{where} waits for step {at} of threadblock {other}"
                    raise _make_program_error(program, rank, block, f"{text}, which does not exist")
            for place in _list_local_refs(step):
                buffer, offset = resolve_chunk_ref(program, rank, place)
                size = get_buffer_size(program, rank, buffer)
                if offset < 0 or offset + step.count > size:
                    text = f"{place.buffer}[{place.offset}:{place.offset + step.count}]"
                    raise _make_program_error(
                        program, rank, block, f"{where} uses {text}, past a buffer of {size} chunks"
                    )


def _list_local_refs(step: CollectiveStep) -> list[ChunkRef]:
    """Return the local places that a step reads or writes."""
    _, reduces, writes, _ = KINDS[step.kind]
    local_refs = []
    if reduces or step.kind in ("s", "cpy"):
        local_refs.append(step.source)
    if writes:
        local_refs.append(step.target)
    return local_refs


def _make_program_error(
    program: CollectiveProgram, rank: int, block: Threadblock | None, text: str
) -> HespasError:
    place = f"rank {rank}" + (f", threadblock {block.id}" if block is not None else "")
    return HespasError(f"{program.name}: {place}: {text}")
