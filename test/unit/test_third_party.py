"""THIRD_PARTY_NOTICES names every project whose figures or formulas are in the repository."""

from __future__ import annotations

import csv
import re
from collections.abc import Iterator
from pathlib import Path

from support.paths import ROOT

from benchmarks.calibration import board_comparisons

NOTICES = (ROOT / "THIRD_PARTY_NOTICES").read_text("utf-8")
FORMULAS, MEASURED, UNLICENSED, TEXTS = re.split(r"^\d\. .*\n-+$", NOTICES, flags=re.MULTILINE)[1:]
REPOSITORY = re.compile(
    r"(?:github\.com/)?\b([A-Za-z][\w-]+/[A-Za-z][\w.-]+?)(?:@| at | )"
    r"(?:[0-9a-f]{7,12}\b|\((?:MIT|Apache|BSD|no licence))"
)
OWN_TABLES = ("xla-kernels-h200.csv",)  # measured by the project itself
LICENCES = ("Apache-2.0", "MIT", "BSD-3")


def list_table_rows() -> Iterator[tuple[str, str]]:
    """Yield the name of each table of the documentation with each of its sources."""
    for path in sorted((ROOT / "docs" / "data").glob("*.csv")):
        if path.name in OWN_TABLES:
            continue
        with path.open(encoding="utf-8", newline="") as file:
            rows = csv.DictReader(line for line in file if not line.startswith("#"))
            yield from ((path.name, row["source"]) for row in rows)


def list_presets() -> Iterator[tuple[str, str]]:
    for path in (ROOT / "configs").rglob("*.json"):
        if path.parent.name != "schemas":
            yield path.name, path.read_text("utf-8")


def test_every_source_of_a_table_is_named() -> None:
    missing = set()
    for name, source in list_table_rows():
        source = board_comparisons.SOURCES.get(source, source)
        repository = re.search(r"\b[\w-]+/[\w.-]*\w", source)
        if not repository or repository[0] not in NOTICES:
            missing.add((name, source))
    assert not missing


def test_every_repository_of_a_preset_is_named_with_its_licence() -> None:
    count = 0
    for name, text in list_presets():
        for match in REPOSITORY.finditer(text):
            repository = match[1].removeprefix("github.com/")
            if repository.startswith("specs/"):  # a file in a repository that is named before it
                continue
            count += 1
            entry = re.search(rf"^{re.escape(repository)}\b.*", NOTICES, re.MULTILINE)
            assert entry, f"{name}: {repository}"
            for licence in LICENCES:
                if match[0].endswith(f"({licence}"[:8]):
                    assert licence in entry[0], f"{name}: {match[0]}"
    assert count > 50


def test_the_notices_that_licences_ask_for_are_there() -> None:
    assert "Copyright (c) Meta Platforms, Inc. and affiliates." in TEXTS
    assert "list of conditions and the following disclaimer" in TEXTS
    entries = re.findall(r"^\S+/\S+ +(.*(?:\n {20,}.*)*)", FORMULAS + MEASURED, re.MULTILINE)
    licensed_by_notice = [entry for entry in entries if entry.startswith("MIT ")]
    assert len(licensed_by_notice) >= 8
    assert all("[2]" in entry and "Copyright (c)" in entry for entry in licensed_by_notice)


def test_rows_without_a_licence_are_counted() -> None:
    tables: dict[str, list[str]] = {}
    for name, source in list_table_rows():
        tables.setdefault(name, []).append(board_comparisons.SOURCES.get(source, source))
    repository = ""
    for line in UNLICENSED.splitlines():
        head = re.match(r"(\S+/\S+)", line)
        repository = head[1] if head else repository
        for name, count, total in re.findall(r"docs/data/([\w.-]+): (\d+) of (\d+) rows", line):
            sources = tables[name]
            assert len(sources) == int(total)
            assert sum(source.startswith(repository) for source in sources) == int(count), line
    unlicensed = [s for s in board_comparisons.SOURCES.values() if "no licence file" in s]
    rows = tables["device-spread.csv"]
    text = " ".join((ROOT / "docs/reference/calibrated.md").read_text("utf-8").split())
    assert f"{sum(row in unlicensed for row in rows)} of the {len(rows)} rows come" in text
    assert Path(ROOT / "pyproject.toml").read_text("utf-8").count('"THIRD_PARTY_NOTICES"') == 1
