"""The columns of a study's rows, and the rows of a written study as those of a sweep."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from hespas.workflows.figures import PEAK_DTYPE, ROW_FIGURES

# The names of figures in rows of studies, and the columns of a sweep that have them.
FIGURES = {
    name: f"{figure.name}.{end}" if len(figure.row_names) > 1 else figure.name
    for figure in ROW_FIGURES
    for end, name in enumerate(figure.row_names)
}
SHARED = ("node", "devices", "system", "estimator", "error")  # named alike in a study and a sweep
PROGRAM_STUDY = {"node", "devices", "mesh", "system", "form", "program", "compute_s"}
OPERATOR_STUDY = {"node", "estimator", "m", "k", "n", "dtype", "time_s", "reason"}


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
        **{column: row.get(name) for name, column in FIGURES.items()},
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
