"""A study of programs as data: what is exported, what is told of each, what is drawn.

``engine.py`` runs it, ``draw.py`` draws it; ``command.py`` is its command line.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from hespas.support.errors import UsageError
from hespas.support.text_tables import format_percent, format_scaled, format_seconds
from hespas.workflows.studies.study_output import parse_value_list

AxisValues = Mapping[str, Sequence[Any]]
"""The values of each axis, by its name."""


@dataclass(frozen=True)
class StudyAxis:
    """A flag with a list of values: ``--name A,B,...``."""

    name: str
    default: str
    help: str
    read: Callable[[str], Any] = str

    def parse_values(self, text: str) -> list[Any]:
        """Parse ``A,B,...`` into distinct values; raises UsageError."""
        return parse_value_list(text, self.read, f"--{self.name}")


@dataclass(frozen=True)
class StudyWorkload:
    """A program: a recipe with its options over a mesh; ``labels`` tell it from the others.

    ``defaults`` are options that --set may change.
    """

    recipe: str
    options: Mapping[str, str]
    mesh: Mapping[str, int]
    labels: Mapping[str, Any]
    defaults: Mapping[str, str] = field(default_factory=dict)

    @property
    def devices(self) -> int:
        return math.prod(self.mesh.values())

    @property
    def mesh_text(self) -> str:
        """The mesh as ``AXIS=SIZE,...``."""
        return ",".join(f"{axis}={size}" for axis, size in self.mesh.items())


@dataclass(frozen=True)
class StudyColumn:
    """A figure of a row, as the table shows it."""

    name: str
    header: str
    text: Callable[[Any], str] = str


@dataclass(frozen=True)
class StudyPanel:
    """Figures across the study's ``across``: the first a full line, the next dashed.

    ``ideal`` adds what the first point would give if it grew with the devices.
    """

    names: tuple[str, ...]
    label: str
    log: bool = False
    share: bool = False
    ideal: bool = False


@dataclass(frozen=True)
class Study:
    """``series`` names the labels that have a line of their own, ``facet`` the one with a panel."""

    name: str
    title: str
    description: str
    nodes: tuple[str, ...]
    axes: tuple[StudyAxis, ...]
    workloads: Callable[[AxisValues], Iterable[StudyWorkload]]
    columns: tuple[StudyColumn, ...]
    panels: tuple[StudyPanel, ...]
    across: str
    series: tuple[str, ...]
    facet: str = ""


def parse_positive_count(text: str) -> int:
    """An axis' value that is a whole number from 1; raises UsageError."""
    if not text.isdecimal() or int(text) < 1:
        raise UsageError(f"'{text}' is not a whole number from 1")
    return int(text)


def make_choice_reader(*known: str) -> Callable[[str], str]:
    """An axis' values that are words; raises UsageError that suggests the near one."""

    def read_choice(text: str) -> str:
        if text not in known:
            from hespas.support.suggestions import suggest_nearest

            raise UsageError(
                f"there is no '{text}' here: {', '.join(known)}",
                remedy=suggest_nearest(text, [*known]),
            )
        return text

    return read_choice


def describe_label(name: str, value: Any) -> str:
    """What tells a row from others, in words: names speak for themselves, numbers do not."""
    if name == "devices":
        return f"{value} device{'' if value == 1 else 's'}"
    return str(value or "") if isinstance(value, str | None) else f"{name} {value}"


def _format_grouped(value: float) -> str:
    """``12,345``, with three digits at least."""
    return f"{value:,.0f}" if value >= 100 else f"{value:.3g}"


STEP = StudyColumn("step_time_s", "step", format_seconds)
COMPUTE = StudyColumn("compute_s", "compute", format_seconds)
EXPOSED = StudyColumn("exposed_comm_s", "exposed", format_seconds)
RATE = StudyColumn(
    "flops_per_s_per_device", "of a device", lambda value: format_scaled(value, "FLOP/s")
)
MFU = StudyColumn("mfu", "MFU", format_percent)
PEAK_SHARE = StudyColumn("mfu", "of peak", format_percent)
TOKENS = StudyColumn("tokens_per_s", "tokens/s", _format_grouped)
IMAGES = StudyColumn("samples_per_s", "images/s", _format_grouped)
EFFICIENCY = StudyColumn("efficiency", "efficiency", format_percent)
MEMORY = StudyColumn("peak_bytes", "memory", lambda value: format_scaled(value, "B"))
FITS = StudyColumn("fits", "fits", lambda value: "yes" if value else "no")
ENERGY = StudyColumn("energy_j", "energy", lambda value: format_scaled(value, "J"))
COST = StudyColumn("usd_per_million_tokens", "$/Mtoken", lambda value: f"{value:.3f}")
