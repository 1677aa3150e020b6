"""The page of published training runs: how far predictions are from measured step times.

``python -m docs.generators.training_runs RESULT.csv`` reads what ``hespas validate --csv`` has
written of all rows or of some. It puts them with the columns below in the place of the rows of the
same names in ``docs/data/training-runs.csv``, and draws the plot. ``make generate`` then writes the
page, and a test compares its summary with the README.
"""

from __future__ import annotations

import csv
import json
import re
import sys
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from datetime import date
from pathlib import Path

from benchmarks import DATA, ROOT
from hespas.support.csv_rows import read_csv_rows
from hespas.support.errors import HespasError
from hespas.support.text_tables import TextTable, format_markdown_tables, format_seconds
from hespas.workflows.plot_files import save_figure
from hespas.workflows.validation.case_frameworks import find_framework
from hespas.workflows.validation.prediction_scores import (
    SCORE_TITLES,
    MeasuredCell,
    StepPrediction,
    count_ordered_pairs,
    draw_scatter,
    score_predictions,
)
from hespas.workflows.validation.training_cases import read_training_cases

CASES = DATA / "training-cases.csv"
RUNS = DATA / "training-runs.csv"
PLOT = ROOT / "docs" / "images" / "training-runs.svg"
RECORD = ROOT / "test" / "record.json"
COLUMNS = (
    "date", "id", "source", "model", "hardware", "node", "devices", "precision", "framework",
    "tier", "seq_len", "global_batch", "parallelism", "remat", "measured_s", "predicted_s",
    "low_s", "high_s", "compute_s", "product_s",
    "attention_s", "stream_s", "exposed_comm_s", "overlapped_comm_s", "reason_kinds",
    "extended_from_layers", "exceeded_limit",
)  # fmt: skip
_OPTIONAL = ("date", "extended_from_layers", "exceeded_limit")
"""Columns that results lack, or older ones do."""
WORST_COUNT = 10
LAYOUT_DIFFERENCE = 0.05
"""Pairs of layouts whose measured times per token differ by less do not count."""
_SHARE_COLUMNS = {
    "products": "product_s", "attention": "attention_s", "streams": "stream_s",
    "exposed": "exposed_comm_s",
}  # fmt: skip
_SCORE_HEADER = ("rows", *SCORE_TITLES)

RunRow = Mapping[str, str]

_INTRODUCTION = """\
# Published training runs

This page compares predictions with published step times of training runs, all of them made
without a GPU or TPU and without fitting anything to a step time. [`hespas
validate`](../how-to/validate.md) makes the program of each row from its model, sizes, mesh and
rematerialisation, compiles it with XLA, estimates and simulates it:

```sh norun
hespas validate docs/data/training-cases.csv --csv result.csv
python -m docs.generators.training_runs result.csv && make generate
```

{predicted} of {rows} rows were predicted on {dates}, and the reasons of the others are at the end.
*Tier A* is JAX and XLA with the run's own flags; *tier B* is another framework, for which a program
of XLA stands. *In band* is the share of measurements in the
[80 % band](calibrated.md#band-and-tags). Errors are predicted over measured time, less one.
`docs/data/training-cases.csv` holds the rows with their sources, as the command reads them
(`--rows t0831,t0847` takes a minute, all rows about an hour on two cores), and
`docs/data/training-runs.csv` the predictions.

The rows are open: their errors showed which terms the predictions lacked. Nothing was fitted to
them, but runs that guided nothing may have larger errors.

![Predicted against measured step times, with bands](../images/training-runs.svg)

"""

_FUSED_TEXT = """
With `--form fused`, hespas makes the kernels that XLA would make, follows the flags about
collectives that a row or its framework has, and does not compile: all rows take some minutes, as do
those of nodes that XLA has no target for. The record of the tests holds these predictions of the
same runs.

"""

_SHARE_TEXT = """
The last columns are the mean shares of the predicted step: products, attention, streams (kernels
that read and write each value once), communication that no kernel hides, and the rest, such as
convolutions, launches and waiting. Pipelines have no such shares.

"""

_LAYOUT_TEXT = """
Which of two layouts is faster: pairs of runs of one model, framework, kind of device and length of
sequence, which differ in mesh, number of devices, batch, precision or rematerialisation. They are
compared by the time of one device for one token. Pairs whose measurements differ by less than
{percent:.0f} % do not count.

"""

_WORST_TEXT = """
Where the predicted time of the worst rows goes, as shares of the measured step. *Unexplained* is
what the measured step took beyond the prediction; below zero, the prediction is too long.

"""


def read_runs(path: Path = RUNS) -> list[RunRow]:
    """Read the rows of a result; raises HespasError if a column is missing."""
    required = [name for name in COLUMNS if name not in _OPTIONAL]
    rows = read_csv_rows(path, required, remedy="write it with hespas validate --csv")
    return [{**dict.fromkeys(_OPTIONAL[1:], ""), **row} for _, row in rows]


def list_fused_rows(rows: Sequence[RunRow]) -> list[RunRow]:
    """List the rows that the form ``fused`` predicts, with the figures of the record."""
    record = json.loads(RECORD.read_text(encoding="utf-8"))["training runs"]
    return [
        {**row, **{name: str(figure) for name, figure in record[row["id"]].items()}}
        for row in rows
        if "predicted_s" in record.get(row["id"], {})
    ]


def to_prediction(row: RunRow) -> StepPrediction:
    """Convert a predicted row."""
    cell = MeasuredCell(
        row["model"], int(row["devices"]), row["node"], "", float(row["measured_s"]), 0.0,
        row["source"], 0,
    )  # fmt: skip
    return StepPrediction(
        cell, float(row["predicted_s"]), float(row["low_s"]), float(row["high_s"]),
        compute_s=float(row["compute_s"]), exposed_s=float(row["exposed_comm_s"] or 0),
    )  # fmt: skip


def find_vendor(row: RunRow) -> str:
    """Return whether a row ran on TPUs or on GPUs."""
    return "TPU" if row["node"].startswith("TPU") else "NVIDIA"


def name_tier_group(row: RunRow) -> str:
    """Return the group of the summary."""
    return f"tier {row['tier']}, {find_vendor(row)}"


_GROUPS: Mapping[str, Callable[[RunRow], str]] = {
    "hardware": lambda row: row["hardware"],
    "framework": lambda row: row["framework"].partition(" (")[0],
    "precision": lambda row: row["precision"],
    "devices": lambda row: _name_device_range(int(row["devices"])),
}


def _name_device_range(devices: int) -> str:
    ranges = ((8, "1 to 8"), (64, "9 to 64"), (512, "65 to 512"))
    return next((name for most, name in ranges if devices <= most), "513 and more")


def _score_lines(
    rows: Sequence[RunRow], get_value: Callable[[RunRow], str]
) -> Iterator[tuple[str, ...]]:
    groups: dict[str, list[StepPrediction]] = {}
    for row in rows:
        groups.setdefault(get_value(row), []).append(to_prediction(row))
    for value, predictions in sorted(groups.items(), key=lambda item: make_sort_key(item[0])):
        score = score_predictions(predictions)
        assert score is not None
        yield (value, *score.format_figures())


def make_sort_key(value: str) -> tuple[int, str]:
    """Return a key that sorts ranges by their first number, before other names."""
    number = re.match(r"\d+", value)
    return (int(number[0]) if number else sys.maxsize, value)


def name_framework(row: RunRow) -> str:
    """Return the framework of a row, or what the row calls it if it is not known."""
    return find_framework(row["framework"]).name or row["framework"].partition(" (")[0]


def name_program_group(row: RunRow) -> str:
    """Return the kind of program: framework, family of models, class of number, and node."""
    family = re.split(r"[-_]", row["model"])[0]
    number = next((name for name in ("fp8", "int8", "tf32", "fp16") if name in row["precision"]),
                  "bf16")  # fmt: skip
    return f"{name_framework(row)}, {family}, {number}, {row['node']}"


def _build_share_table(rows: Sequence[RunRow]) -> TextTable:
    """Tabulate the mean shares of the predicted steps by kind of program.

    *Other* is the compute of kernels that are neither products, attention nor streams. Pipelines
    have no times by class of kernels, and do not count in the shares.
    """
    groups: dict[str, list[RunRow]] = {}
    for row in rows:
        groups.setdefault(name_program_group(row), []).append(row)
    header = ("program", "rows", "MAPE", "bias", "in band", *_SHARE_COLUMNS, "other")
    lines = []
    for name, members in sorted(groups.items()):
        score = score_predictions([to_prediction(row) for row in members])
        assert score is not None
        figures = dict(zip(SCORE_TITLES, score.format_figures()[1:], strict=True))
        timed = [row for row in members if row["product_s"]]
        shares = [
            sum(float(row[column] or 0) / float(row["predicted_s"]) for row in timed) / len(timed)
            for column in _SHARE_COLUMNS.values()
            if timed
        ]
        texts = [f"{round(100 * share)} %" for share in [*shares, 1 - sum(shares)]]
        lines.append(
            (
                name, str(len(members)), figures["MAPE"], figures["bias"], figures["in band"],
                *(texts if timed else ["-"] * (len(_SHARE_COLUMNS) + 1)),
            )
        )  # fmt: skip
    return TextTable("", lines, header, left=1)


def count_ordered_layouts(rows: Sequence[RunRow]) -> tuple[int, int]:
    """Return how many pairs of rows are in the right order, and how many count.

    The rows are ordered by the seconds of one device for one token.
    """

    def is_apart(a: StepPrediction, b: StepPrediction) -> bool:
        times_s = a.cell.measured_s, b.cell.measured_s
        return max(times_s) - min(times_s) >= LAYOUT_DIFFERENCE * min(times_s)

    return count_ordered_pairs([_scale_to_token(row) for row in rows], is_apart)


def _scale_to_token(row: RunRow) -> StepPrediction:
    """Convert a row to the times of one device for one token."""
    share = int(row["devices"]) / (int(row["seq_len"]) * int(row["global_batch"]))
    prediction = to_prediction(row)
    cell = replace(prediction.cell, measured_s=prediction.cell.measured_s * share)
    return StepPrediction(cell, prediction.step_s * share)


def _build_layout_table(rows: Sequence[RunRow]) -> TextTable:
    """Tabulate how many pairs of layouts of one model are in the right order."""
    groups: dict[tuple[str, ...], list[RunRow]] = {}
    for row in rows:
        if row["seq_len"].isdecimal() and row["global_batch"]:  # no images, no two lengths
            key = (name_framework(row), row["model"], row["node"], row["seq_len"])
            groups.setdefault(key, []).append(row)
    lines, total_right, total_count = [], 0, 0
    for key, members in sorted(groups.items()):
        right, count = count_ordered_layouts(members)
        if count:
            share = f"{100 * right / count:.0f} %"
            lines.append((*key, str(len(members)), str(count), str(right), share))
        total_right, total_count = total_right + right, total_count + count
    share = f"{100 * total_right / total_count:.1f} %" if total_count else "-"
    lines.append(("all", "", "", "", "", str(total_count), str(total_right), share))
    header = ("framework", "model", "node", "tokens", "rows", "pairs", "right", "share")
    return TextTable("", lines, header, left=3)


def build_summary_table(rows: Sequence[RunRow]) -> TextTable:
    """Tabulate the scores by tier and vendor, and by vendor."""
    lines = [*_score_lines(rows, name_tier_group), *_score_lines(rows, find_vendor)]
    return TextTable("", lines, ("group", *_SCORE_HEADER), left=1)


def render_summary() -> str:
    """Return the summary as a Markdown table, which the README shows too."""
    return _render_table(build_summary_table(_select_predicted(read_runs())))


def _select_predicted(rows: Sequence[RunRow]) -> list[RunRow]:
    return [row for row in rows if row["predicted_s"]]


def _render_table(table: TextTable) -> str:
    return format_markdown_tables([table]).rstrip("\n")


def _build_worst_table(rows: Sequence[RunRow]) -> TextTable:
    """Tabulate the parts of the worst predictions as shares of the measured step."""
    ordered = sorted(rows, key=lambda row: -abs(to_prediction(row).relative_error))
    header = ("row", "model", "node", "devices", "measured", "error", *_SHARE_COLUMNS,
              "unexplained")  # fmt: skip
    lines = []
    for row in ordered[:WORST_COUNT]:
        prediction = to_prediction(row)
        measured_s = prediction.cell.measured_s
        parts = [float(row[name] or 0) / measured_s for name in
                 _SHARE_COLUMNS.values()]  # fmt: skip
        lines.append(
            (
                row["id"], row["model"], row["node"], row["devices"], format_seconds(measured_s),
                f"{100 * prediction.relative_error:+.1f} %",
                *(f"{100 * part:.0f} %" for part in parts),
                f"{-100 * prediction.relative_error:+.0f} %",
            )
        )  # fmt: skip
    return TextTable("", lines, header, left=3)


def _build_row_table(rows: Sequence[RunRow]) -> TextTable:
    header = ("row", "model", "node", "framework", "devices", "measured", "predicted", "error",
              "in band")  # fmt: skip
    lines = []
    for row in sorted(rows, key=lambda row: (find_vendor(row), row["tier"], row["id"])):
        prediction = to_prediction(row)
        lines.append(
            (
                row["id"], row["model"], row["node"], row["framework"].partition(" (")[0],
                row["devices"], format_seconds(prediction.cell.measured_s),
                format_seconds(prediction.step_s), f"{100 * prediction.relative_error:+.1f} %",
                "yes" if prediction.is_inside_band else "no",
            )
        )  # fmt: skip
    return TextTable("", lines, header, left=4)


def _describe_extensions(rows: Sequence[RunRow]) -> str:
    """Describe the rows that are predicted from programs with fewer layers; "" without any."""
    extended = sum(bool(row["extended_from_layers"]) for row in rows)
    if not extended:
        return ""
    limited = [f"{row['id']}: {row['exceeded_limit']}" for row in rows if row["exceeded_limit"]]
    reasons = f" Of these, XLA did not compile the whole: {'; '.join(limited)}." if limited else ""
    return (
        f"\n{extended} rows are predicted from [programs with fewer "
        f"layers](training-cases.md#programs-with-fewer-layers).{reasons}\n"
    )


def _build_reason_table(rows: Sequence[RunRow]) -> TextTable:
    """Tabulate the kinds of reasons of rows without a prediction; a row may have several."""
    kinds = Counter(kind for row in rows for kind in row["reason_kinds"].split())
    lines = [(kind, str(count)) for kind, count in kinds.most_common()]
    return TextTable("", lines, ("reason", "rows"), left=1)


def render_page() -> str:
    """Render the page from ``docs/data/training-runs.csv``."""
    rows = read_runs()
    predicted = _select_predicted(rows)
    dates = [row["date"] for row in rows]
    parts = [
        _INTRODUCTION.format(
            predicted=len(predicted), rows=len(rows),
            dates=" to ".join(sorted({min(dates), max(dates)})),
        ),
        _render_table(build_summary_table(predicted)),
    ]  # fmt: skip
    fused_table = _render_table(build_summary_table(list_fused_rows(rows)))
    parts.append(f"\n\n## Without compiling\n{_FUSED_TEXT}{fused_table}")
    for name, get_value in _GROUPS.items():
        table = TextTable(
            "", list(_score_lines(predicted, get_value)), (name, *_SCORE_HEADER), left=1
        )
        parts.append(f"\n\n## By {name}\n\n{_render_table(table)}")
    share_table = _render_table(_build_share_table(predicted))
    parts.append(f"\n\n## By kind of program\n{_SHARE_TEXT}{share_table}")
    layout_text = _LAYOUT_TEXT.format(percent=100 * LAYOUT_DIFFERENCE)
    layout_table = _render_table(_build_layout_table(predicted))
    parts.append(f"\n\n## Order of layouts\n{layout_text}{layout_table}")
    parts.append(
        f"\n\n## The worst ten\n{_WORST_TEXT}{_render_table(_build_worst_table(predicted))}"
    )
    row_table = _render_table(_build_row_table(predicted))
    reason_table = _render_table(_build_reason_table(rows))
    parts.append(f"\n\n## All predicted rows\n{_describe_extensions(predicted)}\n{row_table}")
    parts.append(f"\n\n## Rows without a prediction\n\n{reason_table}\n")
    return "".join(parts)


def main(argv: Sequence[str]) -> None:
    """Keep the rows of a result beside those that it lacks, and draw the plot."""
    from matplotlib.figure import Figure

    (path,) = map(Path, argv)
    kept = {row["id"]: row for row in (read_runs(RUNS) if RUNS.exists() else ())}
    kept |= {row["id"]: row for row in read_runs(path)}
    rows = [kept[case.id] for case in read_training_cases(str(CASES)) if case.id in kept]
    with RUNS.open("w", encoding="utf-8", newline="") as file:
        writer = csv.writer(file, lineterminator="\n")
        writer.writerow(COLUMNS)
        for row in rows:
            dated = {"date": date.today().isoformat(), **row}
            writer.writerow(dated[name] for name in COLUMNS)
    groups: dict[str, list[StepPrediction]] = {}
    for row in sorted(_select_predicted(rows), key=name_tier_group):
        groups.setdefault(name_tier_group(row), []).append(to_prediction(row))
    figure = Figure(figsize=(6.4, 6.0), layout="constrained")
    draw_scatter(figure.add_subplot(), groups)
    save_figure(figure, str(PLOT))


if __name__ == "__main__":
    try:
        main(sys.argv[1:])
    except HespasError as error:
        sys.exit(str(error))
