"""Finds ASTRA-sim by a path, by the environment or on PATH, or another front end by its name."""

from __future__ import annotations

import os
import shlex
import shutil
from dataclasses import dataclass
from pathlib import Path

from hespas.support.errors import HespasError

TESTED_VERSION = "518bd51"  # whose times the embedded simulator equals
ENVIRONMENT = "HESPAS_ASTRA_SIM"
UNAWARE = "AstraSim_Analytical_Congestion_Unaware"
AWARE = "AstraSim_Analytical_Congestion_Aware"

_BUILT = (
    "",
    "bin",
    "build/astra_analytical/build/bin",
)  # folders that ASTRA-sim's scripts build into


@dataclass(frozen=True, slots=True)
class AstraProgram:
    """An executable with ASTRA-sim's command line, and further arguments for it."""

    path: Path
    arguments: tuple[str, ...] = ()

    @property
    def backend(self) -> str:
        """The network backend: congestion-unaware, congestion-aware, or the name of a front end."""
        names = {UNAWARE: "congestion-unaware", AWARE: "congestion-aware"}
        return names.get(self.path.name, self.path.name)

    @property
    def network_model(self) -> str:
        """The network model, by the name that the embedded simulator has for it."""
        names = {UNAWARE: "astra", AWARE: "astra, congestion"}
        return names.get(self.path.name, self.backend)


def find_astra_sim(
    named: str | os.PathLike[str] | None = None, *, congestion: bool = False
) -> AstraProgram | None:
    """Return the program to run; None if it is neither named nor on PATH.

    Args:
        named: A file, a folder with ASTRA-sim's analytical programs, a checkout in which they were
            built, or a command with arguments. None uses the environment variable HESPAS_ASTRA_SIM.
        congestion: Whether to use the congestion-aware one of the analytical programs.

    Raises:
        HespasError: What is named does not exist or cannot be executed.
    """
    default_name = AWARE if congestion else UNAWARE
    location = os.fspath(named) if named is not None else os.environ.get(ENVIRONMENT, "")
    where = "--astra-sim" if named is not None else ENVIRONMENT
    if not location:
        on_path = shutil.which(default_name)
        return AstraProgram(Path(on_path).absolute()) if on_path else None
    path = Path(location).expanduser()
    if path.is_dir():
        for below in _BUILT:
            candidate = path / below / default_name
            if candidate.is_file():
                return AstraProgram(_check_executable(candidate))
        raise HespasError(f"there is no {default_name} in {location}", where=where)
    arguments: list[str] = []
    if not path.is_file():
        path, arguments = _parse_command(location, where)
    if path.name in (AWARE, UNAWARE) and path.name != default_name:
        path = path.with_name(default_name)
        if not path.is_file():
            kind = "aware" if congestion else "unaware"
            raise HespasError(f"there is no congestion-{kind} program at {path}", where=where)
    return AstraProgram(_check_executable(path), tuple(arguments))


def _parse_command(text: str, where: str) -> tuple[Path, list[str]]:
    try:
        first, *arguments = shlex.split(text)
    except ValueError as error:
        raise HespasError(f"{text!r} is not a command: {error}", where=where) from None
    executable = shutil.which(os.path.expanduser(first))
    if executable is None:
        raise HespasError(
            f"there is no program {first}",
            where=where,
            remedy=f"give the path of {UNAWARE}, or of its folder",
        )
    return Path(executable), arguments


def _check_executable(path: Path) -> Path:
    if not os.access(path, os.X_OK):
        raise HespasError("is not executable", where=str(path), remedy=f"chmod +x {path}")
    return path.absolute()
