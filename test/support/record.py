"""The record: one committed file with every figure that documentation and examples show.

``make record`` compares it, and ``make record-write`` writes what is predicted now. A commit that
changes a figure changes the record, and says why. Only a process with the recorded versions
compares it, because other versions of XLA make other programs.
"""

from __future__ import annotations

import difflib
import functools
import json
import os
import re
import sys
from collections.abc import Iterator, Mapping
from importlib.metadata import version
from typing import Any

import pytest

from support.paths import ROOT

RECORD = ROOT / "test" / "record.json"
FRAGMENTS = ROOT / "build" / "record"  # what tests of several processes have found, to be merged
DIGITS = 12  # the last ones may depend on the library of mathematical functions
FOLDERS = re.compile(r"(?<![\w.])/(?:[^\s/\"'(),]+/)+")  # those of an absolute path
LINES = re.compile(r"(\w+\.py):\d+:\d+")  # positions in Python, which any edit moves
HEADS = ("---", "+++", "@@")  # lines of a difference that are none of an output
SHOWN = 12  # differences in a message
WRITES = os.environ.get("HESPAS_RECORD") == "write"

Figures = Mapping[str, Any]


def read_versions() -> dict[str, str]:
    """Return the versions that programs and figures depend on."""
    return {"python": f"{sys.version_info[0]}.{sys.version_info[1]}", "jaxlib": version("jaxlib")}


@functools.cache
def read_record() -> dict[str, dict[str, Figures]]:
    """Read the figures by section and key."""
    return json.loads(RECORD.read_text())


def check_record(section: str, key: str, figures: Figures) -> None:
    """Compare figures with those of the record, or keep them for the record that is written."""
    figures = round_figures(figures)
    if WRITES:
        FRAGMENTS.mkdir(parents=True, exist_ok=True)
        name = f"{section} {key}".replace("/", " ")
        (FRAGMENTS / f"{name}.json").write_text(json.dumps([section, key, figures]))
        return
    record = read_record()
    if record["versions"] != read_versions():
        pytest.skip(f"the record is of {record['versions']}")
    different = list(list_differences(record[section].get(key, {}), figures))
    message = "\n".join(different[:SHOWN])
    if len(different) > SHOWN:
        message += f"\nand {len(different) - SHOWN} more"
    assert not different, (
        f"{len(different)} figures of {section}, {key} are not those of test/record.json; "
        f"if the change is right, run make record-write and say why in the commit:\n{message}"
    )


def round_figures(value: Any) -> Any:
    """Round numbers to the digits that all machines agree on, and hide places of this one."""
    if isinstance(value, Mapping):
        return {key: round_figures(inner) for key, inner in value.items()}
    if isinstance(value, list | tuple):
        return [round_figures(inner) for inner in value]
    if isinstance(value, str):
        return hide_places(value)
    return float(f"{value:.{DIGITS}g}") if isinstance(value, float) else value


def hide_places(text: str) -> str:
    """Remove folders from absolute paths, and positions in Python files."""
    return FOLDERS.sub("", LINES.sub(r"\1", text))


def list_differences(recorded: Figures, figures: Figures) -> Iterator[str]:
    """List the figures that differ, with both values."""
    for name in dict.fromkeys((*recorded, *figures)):
        old, new = recorded.get(name), figures.get(name)
        if isinstance(old, list) and isinstance(new, list):
            lines = difflib.unified_diff(old, new, lineterm="", n=0)
            yield from (f"  {name}: {line}" for line in lines if not line.startswith(HEADS))
        elif old != new:
            yield f"  {name}: {old} in the record, {new} now"


def write_record() -> None:
    """Merge the fragments into the record; sections of which nothing ran stay as they are."""
    record: dict[str, Any] = json.loads(RECORD.read_text()) if RECORD.exists() else {}
    record["versions"] = read_versions()
    for path in sorted(FRAGMENTS.glob("*.json")):
        section, key, figures = json.loads(path.read_text())
        record.setdefault(section, {})[key] = figures
        path.unlink()
    ordered = {section: dict(sorted(record[section].items())) for section in sorted(record)}
    RECORD.write_text(json.dumps(ordered, indent=1) + "\n")


if __name__ == "__main__":
    write_record()
