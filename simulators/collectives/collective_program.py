"""A collective algorithm as a program: what each threadblock of each rank does, step by step.

The form is that of MSCCL's intermediate representation. A rank has three buffers of equal chunks,
input ``i``, output ``o`` and scratch ``s``; a threadblock runs its steps in order, sends to one
peer at most and receives from one at most; a step may wait for steps of other threadblocks of its
rank. A connection (source, target, channel) hands messages over in order.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from hespas.support.errors import HespasError

COLLECTIVES = ("all_reduce", "all_gather", "reduce_scatter", "all_to_all")
MAX_CHUNKS = 1 << 20  # chunks of one collective
BUFFERS = ("i", "o", "s")
SHARE = {"all_gather": "i", "reduce_scatter": "o"}  # the side that is one rank's share

# step type to (receives, reduces, writes locally, sends)
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
    """A place in a buffer, ``offset`` in chunks."""

    buffer: str
    offset: int


@dataclass(frozen=True, slots=True)
class CollectiveStep:
    """One step on ``count`` chunks; ``depends`` names (threadblock id, step) of the same rank.

    ``source`` is what is sent, copied or reduced with, ``target`` what is written here; where a
    step has no such side, the field says what the peer does, and is not used.
    """

    kind: str
    source: ChunkRef
    target: ChunkRef
    count: int = 1
    depends: tuple[tuple[int, int], ...] = ()


@dataclass(frozen=True, slots=True)
class Threadblock:
    """A threadblock: peers are ranks, -1 for none."""

    id: int
    send: int
    recv: int
    channel: int
    steps: tuple[CollectiveStep, ...]


@dataclass(frozen=True, slots=True)
class RankProgram:
    """One rank: the chunks of its scratch buffer, its threadblocks."""

    scratch: int
    blocks: tuple[Threadblock, ...]


@dataclass(frozen=True, slots=True)
class CollectiveProgram:
    """An algorithm over ``len(ranks)`` ranks.

    ``collective`` is one of COLLECTIVES, or another name, of which nothing can be proved.
    ``parts``: into how many chunks the larger of input and output is cut. ``in_place``: input and
    output are the same memory (of all-gather and reduce-scatter, the smaller is the rank's own
    part of the larger).
    """

    name: str
    collective: str
    in_place: bool
    parts: int
    ranks: tuple[RankProgram, ...]

    def iterate_steps(self) -> Iterator[tuple[int, Threadblock, int, CollectiveStep]]:
        """All steps, with their rank, threadblock and number."""
        for rank, rank_program in enumerate(self.ranks):
            for block in rank_program.blocks:
                for number, step in enumerate(block.steps):
                    yield rank, block, number, step


def resolve_chunk_ref(program: CollectiveProgram, rank: int, place: ChunkRef) -> tuple[str, int]:
    """The memory that a place is: of a program in place, input and output are one buffer."""
    if place.buffer == "s" or not program.in_place:
        return place.buffer, place.offset
    share = program.parts // len(program.ranks)
    if place.buffer == SHARE.get(program.collective):
        larger_buffer = "o" if place.buffer == "i" else "i"
        return larger_buffer, rank * share + place.offset
    return ("o" if program.collective == "all_gather" else "i"), place.offset


def get_buffer_size(program: CollectiveProgram, rank: int, buffer: str) -> int:
    """How many chunks a buffer of ``resolve`` holds."""
    n, parts = len(program.ranks), program.parts
    if buffer == "s":
        return program.ranks[rank].scratch
    return parts // n if buffer == SHARE.get(program.collective) else parts


def compute_chunk_bytes(program: CollectiveProgram, size_bytes: int) -> int:
    """The bytes of a chunk where each rank's operand has ``size_bytes``, rounded up."""
    total = size_bytes * (len(program.ranks) if program.collective == "all_gather" else 1)
    return -(-total // program.parts)


def check_program(program: CollectiveProgram) -> None:
    """Raise HespasError where a program is not well-formed: peers, dependencies, places."""
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
        raise _make_program_error(program, rank, None, "has two threadblocks of one id")
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
    """The local places that a step reads or writes."""
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
