"""The memory timeline of a run, in a file of its own beside run.json."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

from pydantic import BaseModel, Field, ValidationError, model_validator

from hespas import configs
from hespas.dialects.attrs import MemoryAttr
from hespas.support.data_files import check_link
from hespas.support.errors import HespasError

MEMORY_TIMELINE = "memory_timeline.json"


class MemoryTimeline(BaseModel):
    """The bytes that are live at some points of the program, on one device."""

    points: list[int] = Field(description="a sample of the points of the program, ascending")
    live_bytes: list[int] = Field(
        description="bytes live at each sampled point: the maximum over the points that it "
        "stands for"
    )

    @model_validator(mode="after")
    def _check_lengths(self) -> MemoryTimeline:
        if len(self.points) != len(self.live_bytes):
            raise ValueError("points and live_bytes differ in length")
        return self


def to_timeline_json(memory: MemoryAttr | None) -> dict[str, Any] | None:
    """Convert the timeline of the memory of a program to the object of its file."""
    if memory is None:
        return None
    return {"points": list(memory.timeline_points), "live_bytes": list(memory.timeline_bytes)}


def read_memory_timeline(folder: str) -> MemoryTimeline | None:
    """Read the memory timeline of an output folder; None if there is none. Raises HespasError."""
    path = os.path.join(folder, MEMORY_TIMELINE)
    if not os.path.exists(path):
        return None
    check_link(Path(path))
    try:
        return MemoryTimeline.model_validate(configs.read_json(path))
    except ValidationError as error:
        message = f"is not a memory timeline: {error.errors()[0]['msg']}"
        raise HespasError(message, where=path, remedy="run hespas run again") from None
