"""``hespas validate``: predicted step times against measured ones."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from hespas.tools.commands.parser import Parser, not_negative

if TYPE_CHECKING:
    from hespas.tools.commands.render import Table
    from hespas.tools.validation.cells import Cell
    from hespas.tools.validation.scores import Prediction, Score

DESCRIPTION = """\
Predict every step time in a CSV file of measured ones, and print how far off the predictions are:
per cell, mean absolute error (MAPE), bias, order, and the share of cells inside the 80 % band;
beside the pure roofline, and the trivial baseline that scales one node's measurement by the ratio
of memory bandwidths. Columns: workload, devices, node, system, measured_s, uncertainty_s, source.

A cell's program is WORKLOAD.mlir or WORKLOAD_N_devices.mlir (.xz, .gz) in a folder of --programs;
optimised for a GPU, that name with -opt-cudnn-a100 or -opt-a100.

  hespas validate measured.csv --programs workloads --max-mape 8
"""


def arguments() -> Parser:
    parser = Parser("hespas validate", DESCRIPTION)
    add = parser.add_argument
    add("cells", metavar="CSV", help="the measured step times")
    add(
        "--programs", action="append", required=True, metavar="DIR",
        help="folder with the programs, searched with those below it; may be repeated",
    )  # fmt: skip
    add("--estimator", default="calibrated", help="the estimator to validate (calibrated)")
    add(
        "--start", choices=("optimised", "unoptimised", "both"), default="both",
        help="estimate programs that XLA optimised, or others after --fuse, or both (default)",
    )  # fmt: skip
    add(
        "--at-least",
        type=not_negative,
        default=0.1,
        metavar="S",
        help="cells that the scores count (0.1)",
    )
    add(
        "--max-mape", type=not_negative, metavar="PERCENT", help="exit with 1 where a MAPE is above"
    )
    add(
        "--max-bias",
        type=not_negative,
        metavar="PERCENT",
        help="exit with 1 where a bias is beyond",
    )
    add("--no-baselines", dest="baselines", action="store_false", help="leave the baselines out")
    add("--plot", metavar="FILE", help="predicted against measured, as .png, .svg or .pdf")
    add("--markdown", metavar="FILE", help="write the tables as Markdown")
    add("--json", action="store_true", help="print one JSON object instead of tables")
    return parser


def main(argv: Sequence[str]) -> int:
    """Run the command; returns its exit code, raises HespasError."""
    given = arguments().parse_args(argv)

    from hespas.passes.emit.file import check, write_whole
    from hespas.tools.commands import flow, render
    from hespas.tools.plotting import check_plot
    from hespas.tools.validation import plot
    from hespas.tools.validation.cells import STARTS, read_cells
    from hespas.tools.validation.predict import RATIO, Flow
    from hespas.tools.validation.scores import score

    if given.plot:
        check_plot(given.plot)
    for path in filter(None, (given.plot, given.markdown)):
        check(path)
    cells = read_cells(given.cells)
    starts = STARTS if given.start == "both" else (given.start,)
    flows = [Flow(given.estimator, start) for start in starts]
    baselines = [Flow("roofline", starts[0])] if given.baselines else []
    with flow.progress() as before:
        by_flow = _predict_all(cells, given.programs, [*flows, *baselines], given.cells, before)
    if given.baselines:
        by_flow[RATIO] = _ratios(cells)
    scores = {
        name: found
        for name, predictions in by_flow.items()
        if (found := score(predictions, at_least_s=given.at_least)) is not None
    }
    tables = _tables(by_flow, scores, given.at_least)
    if given.plot:
        plot.draw(given.plot, {name: by_flow[name] for name in by_flow if by_flow[name]})
    if given.markdown:
        text = "\n\n".join(render.markdown(table) for table in tables)
        write_whole(given.markdown, (text + "\n").encode())
    if given.json:
        print(json.dumps(_as_json(by_flow, scores, given.at_least), indent=1))
    else:
        render.show(tables)
    return _verdict({f.name: scores.get(f.name) for f in flows}, given.max_mape, given.max_bias)


def _predict_all(
    cells: Sequence[Cell], folders: Sequence[str], flows: Sequence[Any], where: str, before: Any
) -> dict[str, list[Prediction]]:
    """Predictions by flow; every program is found before the first is estimated."""
    from hespas.dialects.errors import HespasError
    from hespas.tools.commands import flow
    from hespas.tools.validation.cells import program_of, programs
    from hespas.tools.validation.predict import predict

    found = programs(folders)
    work = []
    for chosen in flows:
        for cell in cells:
            program = program_of(cell, chosen.start, found)
            if program is None:
                raise HespasError(
                    f"there is no {chosen.start} program of {cell.workload} for {cell.node}",
                    where=f"{where}:{cell.line}",
                    remedy=f"put it in {', '.join(folders)}: see hespas validate --help",
                )
            work.append((chosen, cell, program))
    said: set[str] = set()

    def note(text: str) -> None:
        if text not in said:
            said.add(text)
            flow.to_stderr(text)

    by_flow: dict[str, list[Prediction]] = {chosen.name: [] for chosen in flows}
    for i, (chosen, cell, program) in enumerate(work):
        before(f"{i + 1} of {len(work)}: {cell.workload} on {cell.node}, {chosen.name}")
        by_flow[chosen.name].append(predict(cell, program, chosen, note))
    return by_flow


def _ratios(cells: Sequence[Cell]) -> list[Prediction]:
    from hespas import configs
    from hespas.tools.validation.predict import by_bandwidth

    return by_bandwidth(cells, lambda name: configs.node(name).memory_bandwidth_bytes_per_s)


def _tables(
    by_flow: dict[str, list[Prediction]], scores: dict[str, Score], at_least_s: float
) -> list[Table]:
    from hespas.tools.commands.render import Table

    header = ("workload", "devices", "node", "measured", "predicted", "band", "error", "in band")
    tables = [
        Table(name, [_row(p) for p in found], header, left=3)
        for name, found in by_flow.items()
        if found
    ]
    rows = [
        (
            name,
            str(found.cells),
            f"{100 * found.mape:.1f} %",
            f"{100 * found.bias:+.1f} %",
            f"{100 * found.worst:+.1f} %",
            f"{found.order:.2f}",
            "-" if found.inside is None else f"{100 * found.inside:.0f} %",
        )
        for name, found in scores.items()
    ]
    shown = ("flow", "cells", "MAPE", "bias", "worst", "order", "in band")
    tables.append(Table(f"cells of {1e3 * at_least_s:g} ms and more", rows, shown))
    return tables


def _row(p: Prediction) -> tuple[str, ...]:
    band = "-"
    if p.low_s is not None and p.high_s is not None:
        band = f"{1e3 * p.low_s:.1f} to {1e3 * p.high_s:.1f} ms"
    inside = {True: "yes", False: "no", None: "-"}[p.inside]
    measured = f"{1e3 * p.cell.measured_s:.1f} ± {1e3 * p.cell.uncertainty_s:.1f} ms"
    return (
        p.cell.workload,
        str(p.cell.devices),
        p.cell.node,
        measured,
        f"{1e3 * p.step_s:.1f} ms",
        band,
        f"{100 * p.error:+.1f} %",
        inside,
    )


def _as_json(
    by_flow: dict[str, list[Prediction]], scores: dict[str, Score], at_least_s: float
) -> dict[str, Any]:
    from dataclasses import asdict

    return {
        "at_least_s": at_least_s,
        "flows": {
            name: {
                "score": asdict(scores[name]) if name in scores else None,
                "cells": [
                    {
                        **asdict(p.cell),
                        "predicted_s": p.step_s,
                        "low_s": p.low_s,
                        "high_s": p.high_s,
                        "compute_s": None if p.compute_s != p.compute_s else p.compute_s,
                        "exposed_comm_s": None if p.exposed_s != p.exposed_s else p.exposed_s,
                        "error": p.error,
                        "inside": p.inside,
                        "program": p.program,
                    }
                    for p in found
                ],
            }
            for name, found in by_flow.items()
        },
    }


def _verdict(
    scores: dict[str, Score | None], max_mape: float | None, max_bias: float | None
) -> int:
    """1 where a flow misses a limit, given in percent, or has no cell to be judged by; else 0."""
    from hespas.tools.commands.flow import to_stderr

    code = 0
    for name, found in scores.items():
        if max_mape is not None and (found is None or 100 * found.mape > max_mape):
            told = "no cell is counted" if found is None else f"MAPE {100 * found.mape:.1f} %"
            to_stderr(f"error: {name}: {told}, the limit is {max_mape:g} %")
            code = 1
        if max_bias is not None and (found is None or 100 * abs(found.bias) > max_bias):
            told = "no cell is counted" if found is None else f"bias {100 * found.bias:+.1f} %"
            to_stderr(f"error: {name}: {told}, the limit is {max_bias:g} %")
            code = 1
    return code
