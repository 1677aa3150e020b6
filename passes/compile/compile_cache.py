"""What XLA has compiled, kept by content: the module, the settings and the compiler's version.

The cache holds XLA's HLO, not the module that it is converted to, so that a change of the
conversion is no reason to compile again.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import zlib
from dataclasses import dataclass, field
from importlib.metadata import version
from pathlib import Path
from typing import Any

from hespas.support.errors import HespasError
from hespas.support.output_file import write_atomically

LEAST_S = 0.5  # faster compilations are not kept
MAX_BYTES = 4 * 2**30  # the files that were not used for longest are removed
_SAMPLE_BYTES = 2**20  # at the end of a library: with its size, they identify it


@dataclass(frozen=True)
class CompiledHlo:
    """The result of a compilation.

    Attributes:
        hlo: A serialised HloModuleProto.
        memory_plan: The bytes of each part of XLA's memory plan; empty if it is not known.
    """

    hlo: bytes
    memory_plan: dict[str, int] = field(default_factory=dict)


def compute_compile_key(bytecode: bytes, settings: dict[str, Any], library: str | None) -> str:
    """Return a hash of everything that the result of a compilation depends on."""
    parts = [version("jaxlib"), _identify_library(library), settings]
    digest = hashlib.sha256(json.dumps(parts, sort_keys=True).encode())
    digest.update(bytecode)
    return digest.hexdigest()


def _identify_library(library: str | None) -> str:
    if library is None:
        return ""
    size = os.path.getsize(library)
    with open(library, "rb") as file:
        file.seek(max(size - _SAMPLE_BYTES, 0))
        return f"{size} {hashlib.sha256(file.read()).hexdigest()}"


def find_cached_compile(key: str) -> CompiledHlo | None:
    """Return the result that is kept under a key, or None. A damaged file counts as missing."""
    try:
        path = _locate_file(key)
        header, _, hlo = zlib.decompress(path.read_bytes()).partition(b"\n")
        result = CompiledHlo(hlo, json.loads(header))
        os.utime(path)
    except (OSError, zlib.error, ValueError, HespasError):
        return None
    return result


def store_compile(key: str, result: CompiledHlo) -> None:
    """Keep a result. If this fails, the next compilation takes its time again."""
    data = json.dumps(result.memory_plan).encode() + b"\n" + result.hlo
    with contextlib.suppress(OSError, HespasError):
        path = _locate_file(key)
        path.parent.mkdir(parents=True, exist_ok=True)
        write_atomically(str(path), zlib.compress(data, 1))
        _remove_oldest_files(path.parent)


def find_size_failure(key: str) -> str:
    """Return why XLA found the program of a key too large; "" if that is not known."""
    try:
        return _locate_file(key, "too-large").read_text("utf-8")
    except (OSError, ValueError, HespasError):
        return ""


def store_size_failure(key: str, message: str) -> None:
    """Keep why XLA found a program too large, which it says after a whole compilation."""
    with contextlib.suppress(OSError, HespasError):
        path = _locate_file(key, "too-large")
        path.parent.mkdir(parents=True, exist_ok=True)
        write_atomically(str(path), message.encode())


def _locate_file(key: str, suffix: str = "hlo.z") -> Path:
    from hespas.estimators.measure.measurement_cache import locate_default_file  # imports sqlite3

    return locate_default_file().parent / "compiles" / f"{key}.{suffix}"


def _remove_oldest_files(folder: Path) -> None:
    files = sorted(
        ((stat.st_mtime, stat.st_size, path) for path in folder.iterdir() if (stat := path.stat())),
        reverse=True,
    )
    total = 0
    for _, size, path in files:
        total += size
        if total > MAX_BYTES:
            path.unlink(missing_ok=True)
