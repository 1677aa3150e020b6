"""A throw-away copy of the repository, in which a test carries out a change and looks at it.

The copy consists of links. Only the folders and files that are changed are its own.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

from support.paths import ROOT

NOT_COPIED = {".git", ".hypothesis", ".pytest_cache", ".venv", "__pycache__", "build"}
OWN_FILES = ("test/support/paths.py", "test/conftest.py")  # they find the root by their own place


class ThrowAwayTree:
    """A copy of the repository.

    Attributes:
        root: Its folder.
        changed: The files that have been changed, relative to the root, without those added.
    """

    def __init__(self, root: Path) -> None:
        self.root = root
        self.changed: set[str] = set()
        self._link_entries(ROOT, root)
        for path in (*OWN_FILES, ".pkg/hespas/__init__.py"):  # links of .pkg are relative
            self._copy_file(path)

    def replace(self, path: str, old: str, new: str) -> None:
        """Replace a text that a file contains once."""
        file = self._copy_file(path)
        text = file.read_text()
        assert text.count(old) == 1, f"{path} contains {old!r} {text.count(old)} times"
        file.write_text(text.replace(old, new))
        self.changed.add(path)

    def insert(self, path: str, text: str, *, before: str) -> None:
        """Insert lines before a line whose beginning a file contains once."""
        self.replace(path, f"\n{before}", f"\n{text}\n{before}")

    def add(self, path: str, text: str) -> None:
        """Add a file."""
        self._copy_folder(Path(path).parent)
        (self.root / path).parent.mkdir(exist_ok=True)
        (self.root / path).write_text(text)

    def generate(self, path: str) -> str:
        """Generate a page of ``make generate``, and return its text."""
        program = (
            "import sys; from docs.generators.__main__ import render_page; "
            "sys.stdout.write(render_page(sys.argv[1]))"
        )
        text = self.run_python(program, path)
        self._copy_file(path).write_text(text)
        self.changed.add(path)
        return text

    def run_python(self, program: str, *words: str) -> str:
        """Run a program with the packages of the copy; returns what it prints."""
        done = self._run(["-c", program, *words])
        assert done.returncode == 0, done.stderr
        return done.stdout

    def find_failures(self, *tests: str) -> set[str]:
        """Run tests of the copy, and return the names of those that fail."""
        done = self._run(["-m", "pytest", "-p", "no:cacheprovider", "-rfE", "--tb=short", *tests])
        assert done.returncode in (0, 1), done.stdout + done.stderr
        lines = re.findall(r"^(?:FAILED|ERROR) (\S+)", done.stdout, re.MULTILINE)
        assert bool(lines) == bool(done.returncode), done.stdout
        return set(lines)

    def _run(self, words: list[str]) -> subprocess.CompletedProcess[str]:
        paths = os.pathsep.join(str(self.root / name) for name in (".pkg", "test", ""))
        # The working directory is no place of modules: it has a package ``support``, too.
        environment = {**os.environ, "PYTHONPATH": paths, "PYTHONSAFEPATH": "1"}
        environment.pop("PYTEST_CURRENT_TEST", None)
        return subprocess.run(
            [sys.executable, *words], cwd=self.root, env=environment, text=True,
            capture_output=True, timeout=300,
        )  # fmt: skip

    def _copy_file(self, path: str) -> Path:
        self._copy_folder(Path(path).parent)
        file = self.root / path
        if file.is_symlink():
            file.unlink()
            shutil.copy(ROOT / path, file)
        return file

    def _copy_folder(self, path: Path) -> None:
        """Make folders of the copy its own, whose entries are links."""
        for folder in (*reversed(path.parents), path):
            if (self.root / folder).is_symlink():
                (self.root / folder).unlink()
                self._link_entries(ROOT / folder, self.root / folder)

    def _link_entries(self, source: Path, target: Path) -> None:
        target.mkdir(exist_ok=True)
        for entry in source.iterdir():
            if entry.name in NOT_COPIED:
                continue
            link = target / entry.name
            if entry.is_symlink():
                link.symlink_to(os.readlink(entry))
            else:
                link.symlink_to(entry)
