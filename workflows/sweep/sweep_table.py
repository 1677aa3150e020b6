"""The table of a sweep: writing and reading rows of scalars as CSV, JSON or Parquet."""

from __future__ import annotations

import csv
import io
import json
import math
import os
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from hespas.support.csv_cells import quote_formula, unquote_formula
from hespas.support.data_files import read_file_text
from hespas.support.errors import HespasError, UsageError
from hespas.support.output_file import check_writable_file, write_atomically
from hespas.support.packed_data import build_size_error, read_limit_bytes
from hespas.workflows.figures import PEAK_DTYPE, ROW_COLUMNS
from hespas.workflows.result_models import check_run_figures

SweepRow = dict[str, Any]
"""Values by column; None and an absent column both mean that there is no value."""

CELL, ORIGIN = "cell.", "provenance."
FORMATS = (".csv", ".json", ".parquet")
DEPTH = {"compute_s_by": 3}  # number of keys in a column's name; the last one may contain dots
LISTS = ("collectives", "rematerialised", "warnings")  # columns of JSON, of varying length
EXTRA = "pip install 'hespas[parquet]'"
MAX_INT = 2**63 - 1
NO_TABLE = "it is not the table of a sweep or of a study"
STUDY_START = re.compile(rb'\s*\{\s*"study"')  # of what ``hespas study --json`` prints
SHARED = ("node", "devices", "system", "estimator", "error")  # named alike in a study and a sweep
PROGRAM_STUDY = {"node", "devices", "mesh", "system", "form", "program", "compute_s"}
OPERATOR_STUDY = {"node", "estimator", "m", "k", "n", "dtype", "time_s", "reason"}


def flatten_figures(figures: Mapping[str, Any]) -> SweepRow:
    """Flatten the object of run.json into scalars, named by the path of keys joined with dots.

    A list of numbers becomes a column for each element; the lists in ``LISTS`` become JSON.
    """
    row: SweepRow = {}
    for key, value in figures.items():
        _flatten_value(key, value, row)
    return row


def _flatten_value(name: str, value: Any, row: SweepRow) -> None:
    if name in LISTS:
        row[name] = json.dumps(value)
    elif isinstance(value, dict):
        for key, inner in value.items():
            _flatten_value(f"{name}.{key}", inner, row)
    elif isinstance(value, list):
        for i, inner in enumerate(value):
            row[f"{name}.{i}"] = inner
    else:
        row[name] = value


def unflatten_figures(row: SweepRow) -> dict[str, Any]:
    """Restore the object of run.json from a row, without empty values.

    Flattening it again gives the row without the columns that the sweep has added.
    """
    figures: dict[str, Any] = {}
    for name, value in row.items():
        if name.startswith((CELL, ORIGIN)) or name == "error" or value is None:
            continue
        if name in LISTS:
            figures[name] = json.loads(value)
            continue
        keys = name.split(".", DEPTH.get(name.partition(".")[0], 2) - 1)
        place = figures
        for key in keys[:-1]:
            place = place.setdefault(key, {})
        place[keys[-1]] = value
    return {key: _restore_list(value) for key, value in figures.items()}


def _restore_list(value: Any) -> Any:
    """Restore a list from a dictionary whose keys are the indices."""
    if isinstance(value, dict) and list(value) == [str(i) for i in range(len(value))]:
        return list(value.values())
    return value


def collect_columns(rows: Iterable[SweepRow]) -> list[str]:
    """Collect all columns: keys of cells, error, figures grouped by first key, provenance."""
    seen: dict[str, bool] = {}  # column -> whether any row has a value in it
    for row in rows:
        for name, value in row.items():
            seen[name] = seen.get(name, False) or value is not None
    order: dict[str, int] = {}
    for name in seen:
        order.setdefault(_get_first_key(name), len(order))
    groups = {CELL: -2, "error": -1, ORIGIN: len(order)}
    parents = {
        name.rpartition(".")[0] for name in seen
    }  # no column for an object whose members have columns
    shown_columns = [name for name, filled in seen.items() if filled or name not in parents]
    return sorted(
        shown_columns,
        key=lambda name: groups.get(_get_first_key(name), order[_get_first_key(name)]),
    )


def _get_first_key(name: str) -> str:
    head, dot, _ = name.partition(".")
    return f"{head}." if f"{head}{dot}" in (CELL, ORIGIN) else head


def check_table_file(path: str) -> None:
    """Raise HespasError if a table cannot be written, before the work for it is done."""
    if Path(path).suffix not in FORMATS:
        known = ", ".join(FORMATS)
        raise UsageError(
            f"--output: {path} ends in none of {known}", remedy="the suffix selects the format"
        )
    if Path(path).suffix == ".parquet":
        _import_pyarrow()
    check_writable_file(path)


def write_table(path: str, rows: Sequence[SweepRow], about: Mapping[str, str]) -> None:
    """Write a table atomically; raises HespasError. ``about`` is metadata of a Parquet file."""
    names = collect_columns(rows)
    forms: dict[str, Callable[[], bytes]] = {
        ".csv": lambda: _format_as_csv(rows, names),
        ".json": lambda: format_as_json(rows).encode(),
        ".parquet": lambda: _format_as_parquet(rows, names, about),
    }
    write_atomically(path, forms[Path(path).suffix]())


def format_as_json(rows: Sequence[SweepRow]) -> str:
    """Format rows as a JSON list of objects that all have the same keys."""
    names = collect_columns(rows)
    lines = [json.dumps({name: row.get(name) for name in names}) for row in rows]
    return "[\n" + ",\n".join(lines) + "\n]\n"


def _format_as_csv(rows: Sequence[SweepRow], names: Sequence[str]) -> bytes:
    text = io.StringIO(newline="")
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow([quote_formula(name) for name in names])
    writer.writerows([[_format_csv_value(row.get(name)) for name in names] for row in rows])
    return text.getvalue().encode()


def _format_csv_value(value: Any) -> str:
    """Format a value as JSON; unambiguous strings stay as they are."""
    if value is None:
        return ""
    if not isinstance(value, str) or "\r" in value:  # Python's writer does not quote \r
        return json.dumps(value)
    return quote_formula(value) if _parse_csv_value(value) == value else json.dumps(value)


def _parse_csv_value(text: str) -> Any:
    if not text:
        return None
    if text[0] in '-0123456789"' or text in ("true", "false", "NaN", "Infinity", "null"):
        try:
            return json.loads(text)
        except ValueError:
            return text
    return text


def _format_as_parquet(
    rows: Sequence[SweepRow], names: Sequence[str], about: Mapping[str, str]
) -> bytes:
    arrow, parquet = _import_pyarrow()
    data = {name: _unify_types([row.get(name) for row in rows]) for name in names}
    table = arrow.table({name: arrow.array(values) for name, values in data.items()})
    buffer = io.BytesIO()
    parquet.write_table(table.replace_schema_metadata(dict(about)), buffer)
    return buffer.getvalue()


def _unify_types(values: list[Any]) -> list[Any]:
    """Convert values to one type: floats if any number is one, text if types are mixed."""
    kinds = {type(value) for value in values if value is not None}
    if kinds <= {int, float}:
        large = any(isinstance(value, int) and abs(value) > MAX_INT for value in values)
        as_float = large or float in kinds
        return [None if v is None else float(v) for v in values] if as_float else values
    if len(kinds) > 1:
        return [None if value is None else _format_csv_value(value) for value in values]
    return values


def _import_pyarrow() -> tuple[Any, Any]:
    """Import pyarrow and pyarrow.parquet; raises HespasError if they are not installed."""
    try:
        import pyarrow
        from pyarrow import parquet
    except ImportError:
        raise HespasError("Parquet needs the package 'pyarrow'", remedy=EXTRA) from None
    return pyarrow, parquet


def read_table(path: str) -> list[SweepRow]:
    """Read the rows of a table, without values that are None; raises HespasError.

    The rows of a study are converted to those of a sweep.
    """
    try:
        rows = _read_rows(path)
    except OSError as error:
        raise HespasError(f"cannot read it: {error.strerror or error}", where=path) from None
    except (ValueError, RecursionError, csv.Error) as error:
        first = str(error).split("\n", 1)[0]
        raise HespasError(f"{NO_TABLE}: {first}", where=path) from None
    rows = [convert_study_row(row) or row for row in rows]
    if not rows or not all(any(name.startswith(CELL) for name in row) for row in rows):
        raise HespasError(NO_TABLE, where=path)
    return [
        {name: value for name, value in row.items() if not _is_missing_value(value)} for row in rows
    ]


def read_split_results(path: str) -> tuple[list[SweepRow], list[SweepRow]]:
    """Read the rows of a table with a result, and those with an error.

    Raises:
        HespasError: The file is not a table, or no row has a result.
    """
    rows = read_table(path)
    failed = [row for row in rows if "error" in row]
    done = []
    for number, row in enumerate(rows, 1):
        if "error" not in row and "compute_s" in row:
            _check_row(row, f"{path}, row {number}")
            done.append(row)
    if not done:
        first = f"the first error: {failed[0]['error']}" if failed else "it has no times"
        raise HespasError(f"no cell has a result; {first}", where=path)
    return done, failed


def extract_error_message(row: Mapping[str, Any]) -> str:
    """Return the error of a row without the place and the word before its message."""
    return re.sub(r"^(?:\S+: )?error: ", "", row["error"])


def _check_row(row: SweepRow, where: str) -> None:
    """Raise HespasError if a figure of a row has another type than in run.json."""
    try:
        figures = unflatten_figures(row)
    # a value in the place of an object, or no list
    except (AttributeError, TypeError, ValueError, RecursionError):
        raise HespasError(NO_TABLE, where=where) from None
    check_run_figures(figures, where)


def is_table_file(path: str) -> bool:
    """Return whether a file is a table: a JSON list, or the object of a study."""
    if path.endswith((".csv", ".parquet")):
        return True
    if not path.endswith(".json") or not os.path.isfile(path):
        return False
    with open(path, "rb") as file:
        start = file.read(64)
    return start.lstrip().startswith(b"[") or STUDY_START.match(start) is not None


def _read_rows(path: str) -> list[SweepRow]:
    suffix = Path(path).suffix
    if suffix not in FORMATS:
        raise ValueError(f"its name ends in none of {', '.join(FORMATS)}")
    if suffix == ".parquet":
        rows: Any = _read_parquet_rows(path)
    elif suffix == ".json":
        rows = json.loads(read_file_text(path))
        rows = rows.get("rows") if isinstance(rows, dict) else rows
        if not isinstance(rows, list) or not all(isinstance(row, dict) for row in rows):
            raise ValueError("it is not a list of objects")
    else:
        names, *lines = csv.reader(io.StringIO(read_file_text(path), newline=""))
        names = [unquote_formula(name) for name in names]
        rows = [dict(zip(names, map(_parse_csv_value, line), strict=True)) for line in lines]
    return rows


def _read_parquet_rows(path: str) -> list[SweepRow]:
    """Read a Parquet file; raises HespasError if its cells would take more than the limit."""
    _, parquet = _import_pyarrow()
    file = parquet.ParquetFile(path)
    about = file.metadata
    packed = [about.row_group(group) for group in range(about.num_row_groups)]
    cell_bytes = 8 * about.num_rows * about.num_columns  # which dictionaries and runs stand for
    if max(cell_bytes, sum(group.total_byte_size for group in packed)) > read_limit_bytes():
        raise build_size_error(path, " when unpacked")
    return file.read().to_pylist()


def _is_missing_value(value: Any) -> bool:
    return value is None or (isinstance(value, float) and math.isnan(value))


def convert_study_row(row: Mapping[str, Any]) -> dict[str, Any] | None:
    """Convert a row of a study to that of a sweep; None if it is not the row of a study.

    The cell of a program consists of its labels, which are the columns before ``node``, of node and
    system, and of a description that has the number of devices too. The cell of a product consists
    of its sizes, node and estimator.
    """
    if row.keys() >= PROGRAM_STUDY:
        return _convert_program_row(row)
    return _convert_operator_row(row) if row.keys() >= OPERATOR_STUDY else None


def _convert_program_row(row: Mapping[str, Any]) -> dict[str, Any]:
    names = list(row)
    labels = {name: row[name] for name in names[: names.index("node")]}
    axes = {**labels, "node": row["node"], "system": row["system"]}
    words = [*(f"{name} {value}" for name, value in labels.items()), f"devices {row['devices']}"]
    return {
        "cell.mlir": ", ".join(words),
        **{f"cell.{name}": value for name, value in axes.items()},
        "program": row["program"] or ", ".join(words),
        **{name: row[name] for name in SHARED if name in row},
        **{column: row.get(name) for name, column in ROW_COLUMNS.items()},
        PEAK_DTYPE: row.get("peak_dtype"),
        "efficiency": row.get("efficiency"),
        "provenance.form": row["form"],
    }


def _convert_operator_row(row: Mapping[str, Any]) -> dict[str, Any]:
    product = f"{row['m']}x{row['k']}x{row['n']} {row['dtype']}"
    return {
        "cell.mlir": product,
        "cell.node": row["node"],
        "cell.estimator": row["estimator"],
        "program": product,
        "node": row["node"],
        "devices": 1,
        "estimator": row["estimator"],
        "compute_s": row["time_s"],
        "flops": row.get("flops"),
        "error": row["reason"],
    }
