"""A collective algorithm as a program: what each threadblock of each rank does, step by step.

The form is that of MSCCL's intermediate representation. A rank has three buffers of equal chunks,
input ``i``, output ``o`` and scratch ``s``; a threadblock runs its steps in order, sends to one
peer at most and receives from one at most; a step may wait for steps of other threadblocks of its
rank. A connection (source, target, channel) hands messages over in order.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from hespas.dialects.errors import HespasError

COLLECTIVES = ("all_reduce", "all_gather", "reduce_scatter", "all_to_all")
MOST = 1 << 20  # chunks of one collective
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
class Ref:
    """A place in a buffer, ``offset`` in chunks."""

    buffer: str
    offset: int


@dataclass(frozen=True, slots=True)
class Step:
    """One step on ``count`` chunks; ``depends`` names (threadblock id, step) of the same rank.

    ``source`` is what is sent, copied or reduced with, ``target`` what is written here; where a
    step has no such side, the field says what the peer does, and is not used.
    """

    kind: str
    source: Ref
    target: Ref
    count: int = 1
    depends: tuple[tuple[int, int], ...] = ()


@dataclass(frozen=True, slots=True)
class Block:
    """A threadblock: peers are ranks, -1 for none."""

    id: int
    send: int
    recv: int
    channel: int
    steps: tuple[Step, ...]


@dataclass(frozen=True, slots=True)
class Rank:
    """One rank: the chunks of its scratch buffer, its threadblocks."""

    scratch: int
    blocks: tuple[Block, ...]


@dataclass(frozen=True, slots=True)
class Program:
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
    ranks: tuple[Rank, ...]

    def steps(self) -> Iterator[tuple[int, Block, int, Step]]:
        """All steps, with their rank, threadblock and number."""
        for rank, found in enumerate(self.ranks):
            for block in found.blocks:
                for number, step in enumerate(block.steps):
                    yield rank, block, number, step


def resolve(program: Program, rank: int, place: Ref) -> tuple[str, int]:
    """The memory that a place is: of a program in place, input and output are one buffer."""
    if place.buffer == "s" or not program.in_place:
        return place.buffer, place.offset
    share = program.parts // len(program.ranks)
    if place.buffer == SHARE.get(program.collective):
        whole = "o" if place.buffer == "i" else "i"
        return whole, rank * share + place.offset
    return ("o" if program.collective == "all_gather" else "i"), place.offset


def size_in(program: Program, rank: int, buffer: str) -> int:
    """How many chunks a buffer of ``resolve`` holds."""
    n, parts = len(program.ranks), program.parts
    if buffer == "s":
        return program.ranks[rank].scratch
    return parts // n if buffer == SHARE.get(program.collective) else parts


def chunk_bytes(program: Program, size_bytes: int) -> int:
    """The bytes of a chunk where each rank's operand has ``size_bytes``, rounded up."""
    total = size_bytes * (len(program.ranks) if program.collective == "all_gather" else 1)
    return -(-total // program.parts)


def check(program: Program) -> None:
    """Raise HespasError where a program is not well-formed: peers, dependencies, places."""
    n = len(program.ranks)
    if n < 2:
        raise HespasError(f"{program.name}: a collective needs two ranks or more, not {n}")
    if program.parts > MOST:
        raise HespasError(f"{program.name}: {program.parts} chunks are more than {MOST}")
    if program.parts < 1:
        raise HespasError(f"{program.name}: neither input nor output has chunks")
    shared = program.collective in COLLECTIVES and program.collective != "all_reduce"
    if shared and program.parts % n:
        raise HespasError(f"{program.name}: {program.parts} chunks do not divide among {n} ranks")
    for rank, found in enumerate(program.ranks):
        _check_rank(program, rank, found)


def _check_rank(program: Program, rank: int, found: Rank) -> None:
    blocks = {block.id: block for block in found.blocks}
    if len(blocks) != len(found.blocks):
        raise _wrong(program, rank, None, "has two threadblocks of one id")
    connections: set[tuple[str, int, int]] = set()
    for block in found.blocks:
        for side, peer, used in (("send", block.send, 3), ("recv", block.recv, 0)):
            if not any(KINDS[step.kind][used] for step in block.steps):
                continue
            if peer == rank or not 0 <= peer < len(program.ranks):
                what = "itself" if peer == rank else "no one" if peer == -1 else f"rank {peer}"
                verb = "sends to" if side == "send" else "receives from"
                raise _wrong(program, rank, block, f"{verb} {what}")
            if (side, peer, block.channel) in connections:
                text = f"shares the connection with rank {peer}, channel {block.channel}"
                raise _wrong(program, rank, block, f"{text}, with another threadblock")
            connections.add((side, peer, block.channel))
        for number, step in enumerate(block.steps):
            where = f"step {number} ({step.kind})"
            if step.count < 1 and step.kind != "nop":
                raise _wrong(program, rank, block, f"{where} is on {step.count} chunks")
            for other, at in step.depends:
                if other not in blocks or not 0 <= at < len(blocks[other].steps):
                    text = f"{where} waits for step {at} of threadblock {other}"
                    raise _wrong(program, rank, block, f"{text}, which does not exist")
            for place in places(step):
                buffer, offset = resolve(program, rank, place)
                size = size_in(program, rank, buffer)
                if offset < 0 or offset + step.count > size:
                    text = f"{place.buffer}[{place.offset}:{place.offset + step.count}]"
                    raise _wrong(
                        program, rank, block, f"{where} uses {text}, past a buffer of {size} chunks"
                    )


def places(step: Step) -> list[Ref]:
    """The local places that a step reads or writes."""
    _, reduces, writes, _ = KINDS[step.kind]
    found = []
    if reduces or step.kind in ("s", "cpy"):
        found.append(step.source)
    if writes:
        found.append(step.target)
    return found


def _wrong(program: Program, rank: int, block: Block | None, text: str) -> HespasError:
    place = f"rank {rank}" + (f", threadblock {block.id}" if block is not None else "")
    return HespasError(f"{program.name}: {place}: {text}")
