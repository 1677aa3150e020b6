"""Reading the text files that a user names."""

from __future__ import annotations

from pathlib import Path

from hespas.support.errors import HespasError


def read_text_file(path: str | Path) -> str:
    """The text of a file in UTF-8, with or without its mark; raises HespasError with the file."""
    try:
        return Path(path).read_text("utf-8-sig")
    except OSError as error:
        raise HespasError(f"{error.strerror or error}", where=str(path)) from None
    except UnicodeDecodeError:
        raise HespasError("is not UTF-8 text", where=str(path)) from None
    except ValueError:  # a null byte, half a character
        raise HespasError(f"{str(path)!r} is not a file name") from None
