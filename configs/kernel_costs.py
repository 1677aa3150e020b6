"""The costs that a user declares for kernels which only their authors can count."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from hespas.configs import read_json
from hespas.support.errors import HespasError, UsageError

_FORM = "write NAME=FLOPS,BYTES, or name a JSON file; ';' separates several"
_FILE_FORM = 'write {"NAME": {"flops": 1e12, "bytes": 1e9}}'
_MAX_NUMBER = 2**63 - 1  # the numbers end up in i64 attributes


@dataclass(frozen=True, slots=True)
class KernelCost:
    """The work of one call of a kernel on one device.

    Attributes:
        flops: The number of operations.
        bytes: The bytes that it reads from and writes to device memory.
    """

    flops: int
    bytes: int


def parse_kernel_costs(text: str) -> dict[str, KernelCost]:
    """Parse items ``NAME=FLOPS,BYTES`` and names of JSON files, separated by ``;``.

    Raises:
        UsageError: An item has another form, or a name has two costs.
        HespasError: A file cannot be read, or has another form.
    """
    costs: dict[str, KernelCost] = {}
    for item in filter(None, (part.strip() for part in text.split(";"))):
        added = [_parse_item(item)] if "=" in item else _read_cost_file(item)
        for name, cost in added:
            if name in costs:
                raise UsageError(f"kernel-cost: '{name}' has two costs")
            costs[name] = cost
    return costs


def format_kernel_costs(costs: dict[str, KernelCost]) -> str:
    """Format costs as ``parse_kernel_costs`` reads them."""
    return ";".join(f"{name}={cost.flops},{cost.bytes}" for name, cost in costs.items())


def _parse_item(item: str) -> tuple[str, KernelCost]:
    name, _, numbers = item.rpartition("=")
    parts = numbers.split(",")
    counts = [count for part in parts if (count := _to_count(part)) is not None]
    if not name or len(parts) != 2 or len(counts) != 2:
        raise UsageError(f"kernel-cost: '{item}' is not NAME=FLOPS,BYTES", remedy=_FORM)
    return name, KernelCost(*counts)


def _read_cost_file(path: str) -> list[tuple[str, KernelCost]]:
    try:
        entries = read_json(path)
    except HespasError as error:
        error.remedy = error.remedy or _FORM
        raise
    return convert_cost_mapping(entries, path)


def convert_cost_mapping(entries: Mapping[Any, Any], where: str) -> list[tuple[str, KernelCost]]:
    """Convert ``{NAME: {"flops": F, "bytes": B}}`` to costs; F and B may also be a pair.

    Raises:
        HespasError: A name or an entry is wrong; the message names ``where``.
    """
    costs: list[tuple[str, KernelCost]] = []
    for name, entry in entries.items():
        if not isinstance(name, str) or ";" in name or '"' in name:
            raise HespasError(f"{name!r} is not the name of a kernel", where=where)
        values: Sequence[Any] = ()
        if isinstance(entry, KernelCost):
            values = (entry.flops, entry.bytes)
        elif isinstance(entry, Mapping) and entry.keys() == {"flops", "bytes"}:
            values = (entry["flops"], entry["bytes"])
        elif isinstance(entry, tuple | list):
            values = entry
        counts = [count for value in values if (count := _to_count(value)) is not None]
        if len(values) != 2 or len(counts) != 2:
            message = f"'{name}' is not an object of flops and bytes, numbers of at least 0"
            raise HespasError(message, where=where, remedy=_FILE_FORM)
        costs.append((name, KernelCost(*counts)))
    return costs


def _to_count(value: Any) -> int | None:
    """Return a number of at least 0, rounded to a whole one; None for anything else."""
    if isinstance(value, bool) or not isinstance(value, (str, int, float)):
        return None
    try:
        number = float(value)
    except ValueError:
        return None
    if not math.isfinite(number) or not 0 <= number <= _MAX_NUMBER:
        return None
    return round(number)
