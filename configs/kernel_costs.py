"""The costs that a user declares for ops which hespas cannot count.

They are constants, or rules in a Python file, which compute them from the shapes
(``passes.annotate.kernel_costs``).
"""

from __future__ import annotations

import hashlib
import math
import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from hespas.configs import read_json
from hespas.support.errors import HespasError, UsageError
from hespas.support.records import record

_FORM = "write NAME=FLOPS:BYTES, or name a JSON file, or a Python file with RULES, separated by ';'"
_FILE_FORM = 'write {"NAME": {"flops": 1e12, "bytes": 1e9}}'
RULE_FILE = re.compile(r"[^=;]+\.py(#[0-9a-f]+)?")
_MAX_NUMBER = 2**63 - 1  # the numbers end up in i64 attributes


@record(frozen=True, slots=True)
class KernelCost:
    """The work of one call of a kernel on one device.

    Attributes:
        flops: The number of operations.
        bytes: The bytes that it reads from and writes to device memory.
    """

    flops: int
    bytes: int


@record(frozen=True, slots=True)
class DeclaredCosts:
    """What the option ``kernel-cost`` declares.

    Attributes:
        constants: The work of one call, by the name of a kernel, the target of a custom call, or
            the name of an op.
        rule_files: Python files with cost rules, each with the hash of its contents: ``FILE#HASH``.
    """

    constants: dict[str, KernelCost]
    rule_files: tuple[str, ...] = ()

    def to_text(self) -> str:
        """Format the costs as ``parse_kernel_costs`` reads them."""
        items = [f"{name}={cost.flops}:{cost.bytes}" for name, cost in self.constants.items()]
        return ";".join([*items, *self.rule_files])


def parse_kernel_costs(text: str) -> DeclaredCosts:
    """Parse items ``NAME=FLOPS:BYTES`` and names of JSON and Python files, separated by ``;``.

    A comma may stand for the colon, where the text is not itself a part of a list.

    Raises:
        UsageError: An item has another form, or a name has two costs.
        HespasError: A file cannot be read, or has another form.
    """
    costs: dict[str, KernelCost] = {}
    rule_files: list[str] = []
    for item in filter(None, (part.strip() for part in text.split(";"))):
        if RULE_FILE.fullmatch(item):
            rule_files.append(_identify_rule_file(item))
            continue
        added = [_parse_item(item)] if "=" in item else _read_cost_file(item)
        for name, cost in added:
            if name in costs:
                raise UsageError(f"kernel-cost: '{name}' has two costs")
            costs[name] = cost
    return DeclaredCosts(costs, tuple(rule_files))


def list_named_files(text: str) -> list[str]:
    """List the files that a text of costs names, without their hashes."""
    items = filter(None, (part.strip() for part in text.split(";")))
    return [item.partition("#")[0] for item in items if "=" not in item]


def _identify_rule_file(item: str) -> str:
    """Add the hash of its contents to the name of a file, or check the one that it has."""
    path, _, known = item.partition("#")
    try:
        digest = hashlib.sha256(Path(path).read_bytes()).hexdigest()[:8]
    except OSError as error:
        raise HespasError(f"cannot read it: {error.strerror}", where=path, remedy=_FORM) from None
    if known and known != digest:
        raise HespasError(
            "the cost rules have changed since the costs were estimated",
            where=path,
            remedy=f"run the annotate pass again with kernel-cost={path}",
        )
    return f"{path}#{digest}"


def _parse_item(item: str) -> tuple[str, KernelCost]:
    name, _, numbers = item.rpartition("=")
    parts = numbers.split(":" if ":" in numbers else ",")
    counts = [count for part in parts if (count := _to_count(part)) is not None]
    is_list = re.search(r"=[\d.eE+]+[:,][\d.eE+]+\s*,", name)  # of items that ';' should separate
    if is_list or not name or len(parts) != 2 or len(counts) != 2:
        raise UsageError(f"kernel-cost: '{item}' is not NAME=FLOPS:BYTES", remedy=_FORM)
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
