"""The memory of a run over its step, as a page and a plot need it."""

from __future__ import annotations

from dataclasses import dataclass

from hespas.workflows.run_results import RunResult

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
class RunMemory:
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
    def fits_capacity(self) -> bool | None:
        """None where the capacity is not known."""
        return None if self.capacity is None else self.peak <= self.capacity


def read_memory_usage(result: RunResult) -> RunMemory | None:
    """What run.json says of it; None where it says nothing."""
    memory_figures = result.get_figure("memory")
    if not memory_figures:
        return None
    parts = [(text, memory_figures[key]) for key, text in PARTS.items() if memory_figures.get(key)]
    points = [(at, size) for at, size in memory_figures["timeline"]]
    return RunMemory(
        memory_figures["peak_bytes"],
        memory_figures["live_bytes"],
        parts,
        points,
        memory_figures["node_bytes"],
    )
