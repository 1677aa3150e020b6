"""Training cases that are predicted from programs with fewer layers.

Two kinds of programs are: those that XLA finds too large or does not compile in its time, and those
whose layers are unrolled, which XLA compiles in a time that grows faster than their number.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from dataclasses import dataclass

from hespas.passes.compile.compiler_process import describe_exceeded_limit
from hespas.workflows.studies.layer_extension import (
    LayerCounts,
    choose_layer_counts,
    replace_layers,
)
from hespas.workflows.studies.study_programs import StudyProgram


@dataclass(frozen=True)
class LayerExtension:
    """Two smaller programs from which a program is predicted.

    Attributes:
        counts: The layers of the programs.
        programs: The program with fewer layers, and the one with more.
        exceeded_limit: The limit that the whole program exceeds; "" if it was not compiled.
    """

    counts: LayerCounts
    programs: Sequence[StudyProgram]
    exceeded_limit: str = ""

    def describe(self) -> str:
        """Describe the extension and its cause, as an assumption of the row."""
        return "; ".join(filter(None, (self.exceeded_limit, self.counts.describe())))


def plan_unrolled_extension(program: StudyProgram) -> LayerExtension | None:
    """Plan the smaller programs of one with unrolled layers; None if it is not worth it."""
    options = program.workload.options
    is_unrolled = options.get("scan") == "false"
    if not (program.target and is_unrolled and options.get("eager") == "true"):
        return None
    extension = _plan_extension(program)
    if extension is None or extension.counts.short + extension.counts.long >= extension.counts.full:
        return None
    return extension


def plan_oversized_extension(program: StudyProgram, message: str) -> LayerExtension | None:
    """Plan the smaller programs of one that XLA did not compile.

    Args:
        program: The program.
        message: Why XLA did not compile it.

    Returns:
        None if it exceeds no limit, or has too few layers.
    """
    exceeded_limit = describe_exceeded_limit(message)
    return _plan_extension(program, exceeded_limit) if exceeded_limit else None


def _plan_extension(program: StudyProgram, exceeded_limit: str = "") -> LayerExtension | None:
    counts = choose_layer_counts(program.workload)
    if counts is None:
        return None
    programs = [
        dataclasses.replace(program, workload=replace_layers(program.workload, layers))
        for layers in (counts.short, counts.long)
    ]
    return LayerExtension(counts, programs, exceeded_limit)
