"""Decompression of files, within a limit of the unpacked size."""

from __future__ import annotations

import os

from hespas.support.errors import HespasError, UsageError

LIMIT_FLAG = "--unpacked-limit"  # of the commands
LIMIT_VARIABLE = (
    "HESPAS_UNPACKED_LIMIT_MB"  # for Python programs, and from a command to its workers
)
DEFAULT_LIMIT_MB = 2000.0
XZ_MAGIC, GZIP_MAGIC = b"\xfd7zXZ\x00", b"\x1f\x8b"


def unpack_bytes(data: bytes, where: str) -> bytes:
    """Decompress the contents of an xz or gzip file; return other data as it is.

    Raises:
        HespasError: The data are damaged, or larger than the limit when unpacked.
    """
    if not data.startswith((XZ_MAGIC, GZIP_MAGIC)):
        return data
    import gzip  # these imports are deferred because they slow down every start
    import io
    import lzma
    import zlib

    is_xz = data.startswith(XZ_MAGIC)
    limit_mb = _read_limit_mb()
    limit_bytes = int(1e6 * limit_mb)
    try:
        open_packed = lzma.open if is_xz else gzip.open
        with open_packed(io.BytesIO(data)) as file:
            unpacked = file.read(limit_bytes + 1)
    except (lzma.LZMAError, EOFError, OSError, zlib.error) as error:
        message = f"the {'xz' if is_xz else 'gzip'} file is damaged: {error}"
        raise HespasError(message, where=where) from None
    if len(unpacked) > limit_bytes:
        raise HespasError(
            f"the file has more than {limit_mb:g} MB when unpacked",
            where=where,
            remedy=f"if you trust it, allow more with {LIMIT_FLAG} MB, or with {LIMIT_VARIABLE}",
        )
    return unpacked


def set_unpacked_limit(limit_mb: float) -> None:
    """Set how many megabytes a file may have when it is unpacked, here and in worker processes."""
    os.environ[LIMIT_VARIABLE] = repr(limit_mb)
    _read_limit_mb()


def _read_limit_mb() -> float:
    text = os.environ.get(LIMIT_VARIABLE, "")
    try:
        limit_mb = float(text or DEFAULT_LIMIT_MB)
    except ValueError:
        limit_mb = 0.0
    if not 0 < limit_mb < 1e9:
        raise UsageError(f"{LIMIT_VARIABLE} is {text!r}; it must be a number of megabytes")
    return limit_mb
