"""What to fix first: exposed communication by source line."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from hespas.support.text_tables import format_scaled

_COLUMN = re.compile(r":\d+$")


@dataclass
class ExposedGroup:
    """The trace nodes of one kind and source line that a device waits for.

    One line of a model makes a collective in each layer, and XLA divides or combines them, so that
    single nodes do not show what a change of the line is worth.

    Attributes:
        name: The name of the node with most exposed time.
        others: The number of other nodes.
        needed_by: The compute that waits for that node; "" for the end of the step.
        location: The source position; without its column if there are other nodes.
        operand_bytes: The smallest and the largest operand.
        count: The number of executions.
        exposed_s: The exposed time in seconds.
        waiting_s: The part of it that waits for a slower device.
    """

    name: str
    others: int
    needed_by: str
    location: str
    operand_bytes: tuple[int, int]
    count: int
    exposed_s: float
    waiting_s: float

    @property
    def title(self) -> str:
        return f"{self.name} +{self.others}" if self.others else self.name

    @property
    def operand_text(self) -> str:
        low, high = (format_scaled(size, "B") for size in self.operand_bytes)
        return low if low == high else f"{low} to {high}"


def group_exposed_nodes(rows: Iterable[Mapping[str, Any]]) -> list[ExposedGroup]:
    """Group rows of ``exposed`` of simulation.json by kind and source line, the longest first.

    A node without a source line is a group of its own.
    """
    members: dict[tuple[str, str], list[Mapping[str, Any]]] = {}
    for number, row in enumerate(rows):
        line = _COLUMN.sub("", row["location"] or "")
        members.setdefault((row["kind"], line or f"node {number}"), []).append(row)
    groups = []
    for (_, line), nodes in members.items():
        first = max(nodes, key=lambda row: row["exposed_s"])
        sizes = [row["operand_bytes"] for row in nodes]
        groups.append(
            ExposedGroup(
                first["name"],
                len(nodes) - 1,
                first["needed_by"] or "",
                line if len(nodes) > 1 else first["location"] or "",
                (min(sizes), max(sizes)),
                sum(row["count"] for row in nodes),
                sum(row["exposed_s"] for row in nodes),
                sum(row["waiting_s"] for row in nodes),
            )
        )
    return sorted(groups, key=lambda group: -group.exposed_s)
