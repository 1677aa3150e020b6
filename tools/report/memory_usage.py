"""The memory of a run, for pages and plots."""

from __future__ import annotations

from dataclasses import dataclass

from hespas.workflows.run_results import RunResult

PARTS = {  # of the live bytes: keys of run.json, and titles
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
    """The memory of one device, in bytes.

    Attributes:
        peak: The memory that all buffers need, placed.
        live: The largest sum of live bytes at one point of the program.
        parts: Title and size of the parts of ``live``.
        points: Points of the program with the bytes that are live from there on; may be empty.
        capacity: The memory of the node; None if it is unknown.
    """

    peak: int
    live: int
    parts: list[tuple[str, int]]
    points: list[tuple[int, int]]
    capacity: int | None

    @property
    def fits_capacity(self) -> bool | None:
        """Whether the peak fits the memory of the node; None if that is unknown."""
        return None if self.capacity is None else self.peak <= self.capacity


def read_memory_usage(result: RunResult) -> RunMemory | None:
    """Read the memory of a run; None if it was not computed. Raises HespasError."""
    memory_figures = result.get_figure("memory")
    if not memory_figures:
        return None
    parts = [(text, memory_figures[key]) for key, text in PARTS.items() if memory_figures.get(key)]
    timeline = result.memory_timeline
    points = [*zip(timeline.points, timeline.live_bytes, strict=True)] if timeline else []
    return RunMemory(
        memory_figures["peak_bytes"],
        memory_figures["live_bytes"],
        parts,
        points,
        memory_figures["node_bytes"],
    )
