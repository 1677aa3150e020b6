"""Reading of text files that users name."""

from __future__ import annotations

from pathlib import Path

from hespas.support.errors import HespasError


def read_text_file(path: str | Path) -> str:
    """Read a UTF-8 text file, with or without a byte order mark.

    Raises:
        HespasError: The file cannot be read.
    """
    try:
        return Path(path).read_text("utf-8-sig")
    except OSError as error:
        raise HespasError(f"cannot read it: {error.strerror or error}", where=str(path)) from None
    except UnicodeDecodeError:
        raise HespasError("is not UTF-8 text", where=str(path)) from None
    except ValueError:  # a null byte or a lone surrogate
        raise HespasError(f"{str(path)!r} is not a file name") from None
