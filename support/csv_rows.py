"""Reading CSV files that must have certain columns."""

from __future__ import annotations

import csv
import io
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from hespas.support.data_files import read_file_text
from hespas.support.errors import HespasError


def read_csv_columns(path: str | Path) -> list[str]:
    """Read the names of the columns, without surrounding spaces; raises HespasError."""
    with _open_csv(path) as reader:
        return list(reader.fieldnames or ())


def read_csv_rows(
    path: str | Path, required: Sequence[str], remedy: str = ""
) -> list[tuple[int, dict[str, str]]]:
    """Read the rows of a CSV file.

    Args:
        path: The file.
        required: The columns that it must have.
        remedy: What to do if one is missing; "" to list the required columns.

    Returns:
        The line of each row, and its cells by column. A cell that the row lacks is None.

    Raises:
        HespasError: The file cannot be read, or a column is missing.
    """
    with _open_csv(path) as reader:
        missing = [name for name in required if name not in (reader.fieldnames or ())]
        if missing:
            raise HespasError(
                f"there is no column {', '.join(missing)}",
                where=f"{path}:1",
                remedy=remedy or f"the columns are {','.join(required)}",
            )
        return [(reader.line_num, row) for row in reader]


@contextmanager
def _open_csv(path: str | Path) -> Iterator[csv.DictReader[str]]:
    """Open a CSV file, which may begin with a byte order mark; raises HespasError."""
    try:
        reader = csv.DictReader(io.StringIO(read_file_text(path), newline=""))
        reader.fieldnames = [name.strip() for name in reader.fieldnames or ()]
        yield reader
    except csv.Error as error:
        raise HespasError(f"it is not a CSV file: {error}", where=str(path)) from None
