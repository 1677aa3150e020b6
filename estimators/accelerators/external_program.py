"""Finding simulators that are external programs, and running them in temporary folders.

These functions run in worker processes. ``configure_environment`` stores the path of the program in
environment variables, so that payloads, which are keys of the cache, contain no paths.
"""

from __future__ import annotations

import hashlib
import os
import re
import shutil
import signal
import subprocess
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from hespas.estimators.measure.failure import UnsupportedError, describe_exit_code
from hespas.support.errors import HespasError
from hespas.support.supervised_process import open_temporary_folder

LAST_LINES, LAST_CHARACTERS = 3, 300
LIMIT_VARIABLE = "HESPAS_SIMULATOR_LIMIT_S"
TIMESTAMP = re.compile(r"^\[\d{4}-\d\d-\d\d [\d:.]+\] ")  # of spdlog
# Not caused by the product: the program was killed, or a library is missing.
EXTERNAL_EXIT_CODES = (-signal.SIGKILL, -signal.SIGTERM, 127)


@dataclass(frozen=True)
class ExternalProgram:
    """A simulator.

    Attributes:
        name: Its name in messages.
        names: Names of its file on PATH.
        variable: The environment variable with the path of its file.
        source: Where it is published.
    """

    name: str
    names: tuple[str, ...]
    variable: str
    source: str

    def find_executable(self, binary_setting: str = "") -> Path:
        """Return the path of the program.

        It is the setting or the value of the environment variable, each a file or the name of one
        on PATH, or else the usual name on PATH.

        Raises:
            HespasError: The program is not found or not executable.
        """
        remedy = f"build it from {self.source}"
        for origin, named in (
            ("binary", binary_setting),
            (self.variable, os.environ.get(self.variable)),
        ):
            if named:
                path = Path(named).expanduser().absolute()
                on_path = None if path.exists() or os.sep in named else shutil.which(named)
                if on_path:
                    return Path(on_path).absolute()
                if not (path.is_file() and os.access(path, os.X_OK)):
                    reason = f"{origin}: {path} is not an executable program"
                    if os.sep not in named:
                        reason += f", and {named} is not on PATH"
                    raise HespasError(reason, remedy=remedy)
                return path
        for name in self.names:
            executable_path = shutil.which(name)
            if executable_path:
                return Path(executable_path).absolute()
        raise HespasError(
            f"{self.name} is not found: neither binary nor {self.variable} is set, and "
            f"{' or '.join(self.names)} is not on PATH",
            remedy=remedy,
        )

    def configure_environment(self, binary_setting: str, limit_s: float) -> Path:
        """Find the program, and store its path and time limit for ``run_in_folder``."""
        path = self.find_executable(binary_setting)
        os.environ[self.variable] = str(path)
        os.environ[LIMIT_VARIABLE] = str(limit_s)
        return path

    def run_in_folder(
        self, arguments: Sequence[str], folder: Path, variables: Mapping[str, str] | None = None
    ) -> str:
        """Run the program in ``folder`` and return its output.

        Raises:
            UnsupportedError: The program fails, and would fail again.
            HespasError: The program may succeed another time: it was killed, took too long, or
                lacked a library.
        """
        limit_s = float(os.environ[LIMIT_VARIABLE])
        with tempfile.TemporaryFile("w+", errors="replace") as errors:
            try:
                completed = subprocess.run(
                    [str(self.find_executable()), *arguments],
                    cwd=folder, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=errors,
                    timeout=limit_s, text=True, errors="replace",
                    env={**os.environ, **(variables or {})},
                )  # fmt: skip
            except subprocess.TimeoutExpired:
                raise HespasError(
                    f"{self.name} took more than {limit_s:g} s", remedy="allow more with time-limit"
                ) from None
            except OSError as error:
                raise HespasError(f"{self.name} cannot be run: {error.strerror}") from None
            errors.seek(0)
            error_text = errors.read()
        if completed.returncode == 0:
            return completed.stdout
        last_lines = format_last_lines(error_text or completed.stdout)
        text = f"{self.name} {describe_exit_code(completed.returncode)}{last_lines}"
        raise (
            HespasError(text)
            if completed.returncode in EXTERNAL_EXIT_CODES
            else UnsupportedError(text)
        )


@contextmanager
def create_private_folder() -> Iterator[Path]:
    """Create a temporary folder."""
    with open_temporary_folder() as name:
        yield Path(name)


def hash_file_contents(*files: Path) -> str:
    """Return a short hash of the contents of files; raises HespasError."""
    contents_hash = hashlib.sha256()
    for file in files:
        try:
            contents_hash.update(file.read_bytes())
        except OSError as error:
            raise HespasError(f"{file} cannot be read: {error.strerror}") from None
    return contents_hash.hexdigest()[:16]


def format_last_lines(text: str) -> str:
    """Return ``: `` and the last lines of a program's output without timestamps, if any."""
    lines = [TIMESTAMP.sub("", line.strip()) for line in text.splitlines() if line.strip()]
    words = " | ".join(lines[-LAST_LINES:])[-LAST_CHARACTERS:]
    return f": {words}" if words else ""
