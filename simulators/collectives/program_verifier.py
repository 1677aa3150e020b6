"""Verifies that a program computes its collective under any timing.

The program runs symbolically: each chunk of each rank's input is one bit, and a chunk of a buffer
holds the set of inputs that were reduced into it. Each threadblock runs as far as it can; messages
wait in their connections. This proves the result of one schedule. All schedules have the same
result if the program has no races: any two steps that access a place, at least one of them writing,
must be ordered by threadblocks, dependencies or messages. Vector clocks check that.

Invariant: the clock of a threadblock holds, for every threadblock, how many of its steps precede
the next step in every schedule.
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, field

from hespas.simulators.collectives.collective_program import (
    COLLECTIVES,
    KINDS,
    ChunkAccess,
    ChunkRef,
    CollectiveProgram,
    CollectiveStep,
    Threadblock,
    check_program,
    get_buffer_size,
    resolve_chunk_ref,
)
from hespas.support.errors import HespasError

Clock = dict[int, int]  # by thread: how many of its steps came before
Cell = tuple[str, int]


@dataclass(slots=True)
class _RunningThreadblock:
    """A threadblock under execution; ``next`` is the number of its next step."""

    number: int
    rank: int
    block: Threadblock
    next: int = 0
    clock: Clock = field(default_factory=dict)


def verify_program(program: CollectiveProgram) -> None:
    """Verify that a program ends without races in the result of its collective.

    If the collective is not one of COLLECTIVES, the result is not checked.

    Raises:
        HespasError: The program is invalid, deadlocks, races or has a wrong result.
    """
    check_program(program)
    state = _SymbolicRun(program)
    state.run_threadblocks()
    if program.collective in COLLECTIVES:
        _check_result(program, state.memory)


class _SymbolicRun:
    def __init__(self, program: CollectiveProgram) -> None:
        self.program = program
        ranks = range(len(program.ranks))
        self.memory: list[dict[Cell, int]] = [self._make_initial_memory(rank) for rank in ranks]
        self.accesses: list[dict[Cell, ChunkAccess]] = [{} for _ in ranks]
        blocks = [(rank, block) for rank, r in enumerate(program.ranks) for block in r.blocks]
        self.threads = [
            _RunningThreadblock(k, rank, block) for k, (rank, block) in enumerate(blocks)
        ]
        self.threads_by_id = {(t.rank, t.block.id): t for t in self.threads}
        self.messages: dict[tuple[int, int, int], deque[tuple[list[int], Clock]]] = {}
        # If each rank has one threadblock, its steps are ordered and no clocks are needed.
        self.ordered = all(len(rank.blocks) <= 1 for rank in program.ranks)
        self.wanted = {
            (rank, *at) for rank, _, _, step in program.iterate_steps() for at in step.depends
        }
        self.clocks: dict[tuple[int, int, int], Clock] = {}

    def _make_initial_memory(self, rank: int) -> dict[Cell, int]:
        """Return the input of a rank, with bit ``rank * inputs + chunk`` set in each chunk."""
        inputs = get_buffer_size(self.program, rank, "i")
        return {
            resolve_chunk_ref(self.program, rank, ChunkRef("i", c)): 1 << (rank * inputs + c)
            for c in range(inputs)
        }

    def run_threadblocks(self) -> None:
        waiting: dict[object, list[_RunningThreadblock]] = {}  # by the awaited event
        ready = deque(self.threads)
        done = 0
        while ready:
            thread = ready.popleft()
            steps = thread.block.steps
            while thread.next < len(steps):
                missing = self._find_missing_event(thread, steps[thread.next])
                if missing is not None:
                    waiting.setdefault(missing, []).append(thread)
                    break
                for event in self._run_step(thread, steps[thread.next]):
                    ready.extend(waiting.pop(event, ()))
            else:
                done += 1
        if done < len(self.threads):
            self._raise_deadlock()
        for (source, target, channel), queue in self.messages.items():
            if queue:
                raise self._make_program_error(
                    f"{len(queue)} messages from rank {source} to rank {target} on channel "
                    f"{channel} are never received"
                )

    def _find_missing_event(
        self, thread: _RunningThreadblock, step: CollectiveStep
    ) -> object | None:
        """Return the step or message that a step still waits for; None if it can run."""
        for block, at in step.depends:
            if self.threads_by_id[thread.rank, block].next <= at:
                return (thread.rank, block, at)
        if KINDS[step.kind][0]:
            key = (thread.block.recv, thread.rank, thread.block.channel)
            if not self.messages.get(key):
                return (*key, "message")
        return None

    def _raise_deadlock(self) -> None:
        thread = next(t for t in self.threads if t.next < len(t.block.steps))
        step = thread.block.steps[thread.next]
        missing = self._find_missing_event(thread, step)
        awaited_event = (
            f"a message from rank {thread.block.recv} on channel {thread.block.channel}"
            if isinstance(missing, tuple) and missing[-1] == "message"
            else f"step {missing[2]} of threadblock {missing[1]}"  # type: ignore[index]
        )
        raise self._make_program_error(
            f"rank {thread.rank}, threadblock {thread.block.id}, step {thread.next} "
            f"({step.kind}) waits for {awaited_event}, which never happens"
        )

    def _run_step(self, thread: _RunningThreadblock, step: CollectiveStep) -> list[object]:
        """Run one step; return the events that other steps may wait for."""
        receives, reduces, writes, sends = KINDS[step.kind]
        rank, block = thread.rank, thread.block
        clock = thread.clock
        values: list[int] = []
        if not self.ordered:
            for other, at in step.depends:
                _join_vector_clocks(clock, self.clocks[rank, other, at])
        if receives:
            values, sent = self.messages[block.recv, rank, block.channel].popleft()
            if len(values) != step.count:
                raise self._make_program_error(
                    f"{self._describe_position(thread)} receives {step.count} chunks of a message "
                    f"of {len(values)} from rank {block.recv}"
                )
            if not self.ordered:
                _join_vector_clocks(clock, sent)
        if step.kind in ("s", "cpy"):
            values = self._read_chunks(thread, step.source, step.count)
        elif reduces:
            local = self._read_chunks(thread, step.source, step.count)
            if step.kind == "re":
                values = self._read_chunks(thread, step.target, step.count)
            values = [self._reduce_chunk(thread, a, b) for a, b in zip(values, local, strict=True)]
        if writes:
            self._write_chunks(thread, step.target, values)
        thread.next += 1
        events: list[object] = []
        at = (rank, block.id, thread.next - 1)
        if not self.ordered:
            clock[thread.number] = thread.next
            if at in self.wanted:
                self.clocks[at] = dict(clock)
        if at in self.wanted:
            events.append(at)
        if sends:
            key = (rank, block.send, block.channel)
            message = (values, {} if self.ordered else dict(clock))
            self.messages.setdefault(key, deque()).append(message)
            events.append((*key, "message"))
        return events

    def _reduce_chunk(self, thread: _RunningThreadblock, a: int, b: int) -> int:
        if a & b:
            raise self._make_program_error(
                f"{self._describe_position(thread)} reduces a chunk in twice"
            )
        return a | b

    def _read_chunks(self, thread: _RunningThreadblock, place: ChunkRef, count: int) -> list[int]:
        memory, values = self.memory[thread.rank], []
        for k in range(count):
            cell = resolve_chunk_ref(
                self.program, thread.rank, ChunkRef(place.buffer, place.offset + k)
            )
            if cell not in memory:
                text = f"{place.buffer}[{place.offset + k}]"
                raise self._make_program_error(
                    f"{self._describe_position(thread)} reads {text}, which holds nothing yet"
                )
            values.append(memory[cell])
            if not self.ordered:
                access = self.accesses[thread.rank].setdefault(cell, ChunkAccess())
                if access.writer is not None:
                    self._check_step_order(thread, access.writer, place)
                access.readers[thread.number] = thread.next
        return values

    def _write_chunks(
        self, thread: _RunningThreadblock, place: ChunkRef, values: list[int]
    ) -> None:
        for k, value in enumerate(values):
            cell = resolve_chunk_ref(
                self.program, thread.rank, ChunkRef(place.buffer, place.offset + k)
            )
            self.memory[thread.rank][cell] = value
            if not self.ordered:
                access = self.accesses[thread.rank].setdefault(cell, ChunkAccess())
                if access.writer is not None:
                    self._check_step_order(thread, access.writer, place)
                for reader in access.readers.items():
                    self._check_step_order(thread, reader, place)
                access.writer, access.readers = (thread.number, thread.next), {}

    def _check_step_order(
        self, thread: _RunningThreadblock, other: tuple[int, int], place: ChunkRef
    ) -> None:
        """Raise HespasError unless the next step of ``thread`` always follows ``other``."""
        number, step = other
        if number == thread.number or thread.clock.get(number, 0) > step:
            return
        block = self.threads[number].block
        raise self._make_program_error(
            f"{self._describe_position(thread)} and threadblock {block.id}, step {step} "
            f"({block.steps[step].kind}) race for {place.buffer}[{place.offset}]"
        )

    def _describe_position(self, thread: _RunningThreadblock) -> str:
        kind = thread.block.steps[thread.next].kind
        return f"rank {thread.rank}, threadblock {thread.block.id}, step {thread.next} ({kind})"

    def _make_program_error(self, text: str) -> HespasError:
        return HespasError(f"{self.program.name}: {text}")


def _join_vector_clocks(clock: Clock, other: Clock) -> None:
    for thread, steps in other.items():
        if clock.get(thread, 0) < steps:
            clock[thread] = steps


def _check_result(program: CollectiveProgram, memory: list[dict[Cell, int]]) -> None:
    """Compare the output of each rank with the result of the collective."""
    n, kind = len(program.ranks), program.collective
    share, inputs = program.parts // n, get_buffer_size(program, 0, "i")
    everyone = sum(1 << (rank * inputs) for rank in range(n))
    for rank in range(n):
        for chunk in range(get_buffer_size(program, rank, "o")):
            if kind == "all_reduce":
                expected = everyone << chunk
            elif kind == "reduce_scatter":
                expected = everyone << (rank * share + chunk)
            elif kind == "all_gather":
                expected = 1 << chunk
            else:
                source, k = divmod(chunk, share)
                expected = 1 << (source * inputs + rank * share + k)
            actual = memory[rank].get(resolve_chunk_ref(program, rank, ChunkRef("o", chunk)))
            if actual != expected:
                raise HespasError(
                    f"{program.name}: rank {rank} ends with {_format_inputs(actual, inputs)} in "
                    f"o[{chunk}], where the {kind} has {_format_inputs(expected, inputs)}"
                )


def _format_inputs(value: int | None, inputs: int) -> str:
    """Format a set of inputs, such as ``rank 0 i[3] + rank 1 i[3]``."""
    if not value:
        return "nothing"
    bits = [k for k in range(value.bit_length()) if value >> k & 1]
    names = [f"rank {k // inputs} i[{k % inputs}]" for k in bits[:4]]
    more = f" + {len(bits) - 4} more" if len(bits) > 4 else ""
    return " + ".join(names) + more
