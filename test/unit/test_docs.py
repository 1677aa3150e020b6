"""The examples in the README and the docs run, and the output they show is what comes out.

Fenced blocks: ``sh`` runs in bash, ``python`` in a process, both in one folder a page; a ``text``
block after one shows (part of) its output, ``...`` standing for anything; ``LANGUAGE=FILE`` writes
the file. ``sh norun`` is not run.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
from support.paths import ROOT

PAGES = sorted([ROOT / "README.md", ROOT / "CONTRIBUTING.md", *ROOT.glob("docs/**/*.md")])
BLOCK = re.compile(r"^```(\w[^\n]*)\n(.*?)^```$", re.MULTILINE | re.DOTALL)


def blocks(page: Path) -> list[tuple[str, str]]:
    return [(match[1].strip(), match[2]) for match in BLOCK.finditer(page.read_text())]


RUNNABLE = [p for p in PAGES if any(kind in ("sh", "python") for kind, _ in blocks(p))]


def matches(expected: str, output: str) -> bool:
    parts = [re.escape(part.strip()) for part in expected.split("...")]
    pattern = r"[\s\S]*?".join(re.sub(r"(\\\s|\\\n)+", r"\\s+", part) for part in parts)
    return re.search(pattern, output) is not None


@pytest.mark.slow
@pytest.mark.parametrize("page", RUNNABLE, ids=lambda p: str(p.relative_to(ROOT)))
def test_examples_run(page, tmp_path):
    (tmp_path / "docs").mkdir()
    (tmp_path / "docs" / "examples").symlink_to(ROOT / "docs" / "examples")
    path = os.pathsep.join([str(Path(sys.executable).parent), os.environ["PATH"]])
    output = ""
    for kind, text in blocks(page):
        if kind in ("sh", "python"):
            command = ["bash", "-euo", "pipefail", "-c"] if kind == "sh" else [sys.executable, "-c"]
            done = subprocess.run(
                [*command, text], cwd=tmp_path, capture_output=True, text=True, timeout=300,
                env={**os.environ, "PATH": path, "COLUMNS": "100"},
            )  # fmt: skip
            output = done.stdout + done.stderr
            assert done.returncode == 0, f"{text}\n{output}"
        elif "=" in kind:
            (tmp_path / kind.split("=")[1]).write_text(text)
        elif kind == "text" and output:
            assert matches(text, output), f"expected\n{text}\nbut\n{output}"


def test_links_point_to_files():
    for page in PAGES:
        for target in re.findall(r"\]\(([^)#:]+)(?:#[^)]*)?\)", page.read_text()):
            assert (page.parent / target).exists(), f"{page.relative_to(ROOT)}: {target}"
