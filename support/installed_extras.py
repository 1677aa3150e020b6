"""The optional dependencies of hespas, its extras, and which of them are installed here."""

from __future__ import annotations

import re
import sys
from dataclasses import dataclass
from importlib import metadata

_OF_DEVELOPERS = ("dev", "docs")
_EXTRA = re.compile(r"""extra == ["']([\w-]+)["']""")
_PYTHON = re.compile(r"""python_version (<|>=) ["'](\d+)\.(\d+)["']""")
_PLATFORM = re.compile(r"""sys_platform == ["'](\w+)["']""")


@dataclass(frozen=True)
class ExtraState:
    """The state of an extra.

    Attributes:
        name: Its name.
        missing: Its packages that are not installed.
        needs: The Python or the platform that its packages need, if these are others here: then the
            extra installs nothing of its own. "" if it does.
    """

    name: str
    missing: tuple[str, ...] = ()
    needs: str = ""

    @property
    def problem(self) -> str:
        """Why it cannot be used; "" if it can."""
        if self.needs:
            here = f"Python {sys.version_info[0]}.{sys.version_info[1]} on {sys.platform}"
            return f"hespas[{self.name}] needs {self.needs}, and installs nothing in {here}"
        return f"not installed: {', '.join(self.missing)}" if self.missing else ""

    @property
    def remedy(self) -> str:
        """How to install it; "" if it is installed."""
        command = f"pip install 'hespas[{self.name}]'"
        if self.needs:
            return f"make an environment with {self.needs}, and there {command}"
        return command if self.missing else ""


def examine_extras() -> list[ExtraState]:
    """Examine the extras for users, in alphabetical order."""
    names = {match[1] for text in _read_requirements() if (match := _EXTRA.search(text))}
    return [examine_extra(name) for name in sorted(names.difference(_OF_DEVELOPERS))]


def examine_extra(name: str) -> ExtraState:
    """Find out which packages of an extra are missing, or why it has none here."""
    packages, needs, parts = [], [], []
    for text in _read_requirements():
        extra = _EXTRA.search(text)
        package = re.split(r"[^\w.-]", text, maxsplit=1)[0]
        if extra is None or extra[1] != name:
            continue
        if package == "hespas":
            parts += re.findall(r"[\w-]+", text.partition("[")[2].partition("]")[0])
            continue
        need = _find_unmet_need(text)
        if need:
            needs.append(need)
        else:
            packages.append(package)
    if not packages and needs:
        return ExtraState(name, needs=max(needs))
    packages += [missing for part in parts for missing in examine_extra(part).missing]
    return ExtraState(name, tuple(each for each in packages if not _is_installed(each)))


def _find_unmet_need(requirement: str) -> str:
    """Return the platform or the Python that a requirement is for, if they are others; or ""."""
    platform = _PLATFORM.search(requirement)
    if platform and platform[1] != sys.platform:
        return platform[1]
    for sign, major, minor in _PYTHON.findall(requirement):
        is_newer = sys.version_info[:2] >= (int(major), int(minor))
        if is_newer != (sign == ">="):
            return (
                f"Python {major}.{minor} or later" if sign == ">=" else f"Python < {major}.{minor}"
            )
    return ""


def _read_requirements() -> list[str]:
    return metadata.requires("hespas") or []


def _is_installed(package: str) -> bool:
    try:
        metadata.version(package)
    except metadata.PackageNotFoundError:
        return False
    return True
