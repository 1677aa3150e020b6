"""The memory of a run over its step, as a page and a plot need it."""

from __future__ import annotations

from dataclasses import dataclass

from hespas.tools.results import Result

PARTS = {  # of the live bytes, each followed by what is told apart in it
    "argument_bytes": "arguments",
    "parameter_bytes": "of them parameters",
    "optimizer_bytes": "of them optimizer state",
    "result_bytes": "results",
    "constant_bytes": "constants",
    "temporary_bytes": "temporaries",
    "activation_bytes": "of them activations",
}


@dataclass(frozen=True)
class Memory:
    """Bytes on one device: ``peak`` with a place for each buffer, the most that are ``live`` at one
    point, what these are, and ``points`` of the program with the bytes live there.

    ``capacity`` is that of the node, None where it is not known.
    """

    peak: int
    live: int
    parts: list[tuple[str, int]]
    points: list[tuple[int, int]]
    capacity: int | None

    @property
    def fits(self) -> bool | None:
        """None where the capacity is not known."""
        return None if self.capacity is None else self.peak <= self.capacity


def memory(result: Result) -> Memory | None:
    """What run.json says of it; None where it says nothing."""
    found = result.figure("memory")
    if not found:
        return None
    parts = [(text, found[key]) for key, text in PARTS.items() if found.get(key)]
    points = [(at, size) for at, size in found["timeline"]]
    return Memory(found["peak_bytes"], found["live_bytes"], parts, points, found["node_bytes"])
