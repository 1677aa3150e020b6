"""Decompression of files, within a limit of the unpacked size."""

from __future__ import annotations

import os

from hespas.support.errors import HespasError, UsageError

LIMIT_FLAG = "--unpacked-limit"  # of the commands
LIMIT_VARIABLE = (
    "HESPAS_UNPACKED_LIMIT_MB"  # for Python programs, and from a command to its workers
)
DEFAULT_LIMIT_MB = 2000.0
KEPT_BYTES = 1 << 28  # of a file whose unpacked size is not known yet
CHUNK_BYTES = 1 << 20
XZ_MAGIC, GZIP_MAGIC = b"\xfd7zXZ\x00", b"\x1f\x8b"


def unpack_bytes(data: bytes, where: str) -> bytes:
    """Decompress the contents of an xz or gzip file; return other data as it is.

    A file that is too large is refused without being held in memory: what exceeds KEPT_BYTES is
    unpacked twice, first to count its bytes.

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
    limit_bytes = read_limit_bytes()
    try:
        open_packed = lzma.open if is_xz else gzip.open
        with open_packed(io.BytesIO(data)) as file:
            unpacked = file.read(min(limit_bytes, KEPT_BYTES) + 1)
            if len(unpacked) <= min(limit_bytes, KEPT_BYTES):
                return unpacked
            size = len(unpacked)
            del unpacked
            while size <= limit_bytes and (chunk := file.read(CHUNK_BYTES)):
                size += len(chunk)
            if size > limit_bytes:
                raise build_size_error(where, " when unpacked")
            file.seek(0)
            return file.read(size)
    except (lzma.LZMAError, EOFError, OSError, zlib.error) as error:
        message = f"the {'xz' if is_xz else 'gzip'} file is damaged: {error}"
        raise HespasError(message, where=where) from None
    except MemoryError:  # what an xz file says about its dictionary, or its content
        raise HespasError("there is not enough memory to unpack it", where=where) from None


def build_size_error(where: str, state: str = "") -> HespasError:
    """Build the error for a file that is larger than the limit."""
    return HespasError(
        f"the file has more than {read_limit_bytes() / 1e6:g} MB{state}",
        where=where,
        remedy=f"if you trust it, allow more with {LIMIT_FLAG} MB, or with {LIMIT_VARIABLE}",
    )


def set_unpacked_limit(limit_mb: float) -> None:
    """Set how many megabytes a file may have when it is unpacked, here and in worker processes."""
    os.environ[LIMIT_VARIABLE] = repr(limit_mb)
    read_limit_bytes()


def read_limit_bytes() -> int:
    """Read the limit of the size of a file from the environment; raises UsageError."""
    text = os.environ.get(LIMIT_VARIABLE, "")
    try:
        limit_mb = float(text or DEFAULT_LIMIT_MB)
    except ValueError:
        limit_mb = 0.0
    if not 0 < limit_mb < 1e9:
        raise UsageError(f"{LIMIT_VARIABLE} is {text!r}; it must be a number of megabytes")
    return int(1e6 * limit_mb)
