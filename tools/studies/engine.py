"""Running a study: programs made, each estimated and simulated as a cell of a sweep, one table."""

from __future__ import annotations

import json
import re
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from hespas import configs
from hespas.configs.node import Node
from hespas.dialects.errors import HespasError, UsageError
from hespas.estimators import registry
from hespas.simulators.choose import BY_CURVES
from hespas.tools.commands.render import Table, percent, seconds
from hespas.tools.derived import scaling_efficiency
from hespas.tools.studies import forms, programs
from hespas.tools.studies.study import Column, Given, Study, Workload, said
from hespas.tools.sweep import run as sweep

Row = dict[str, Any]
"""A program on a node: its labels, then its figures; None where something they need is unknown."""

# Our name of a figure, and the column of a sweep that has it.
FIGURES = {
    "step_time_s": "step_time_s",
    "step_time_low_s": "step_time_band_s.0",
    "step_time_high_s": "step_time_band_s.1",
    "compute_s": "compute_s",
    "comm_s": "comm_s",
    "exposed_comm_s": "exposed_comm_s",
    "model_flops": "derived.model_flops",
    "flops_per_device": "flops",
    "mfu": "derived.mfu",
    "hfu": "derived.hfu",
    "tokens_per_s": "derived.tokens_per_s",
    "samples_per_s": "derived.samples_per_s",
    "energy_j": "derived.energy_j",
    "cost_usd": "derived.cost_usd",
    "peak_bytes": "memory.peak_bytes",
    "fits": "memory.fits",
}
TAG = "tags."  # of columns that count what is unsure


@dataclass(frozen=True)
class Options:
    """What a study is run with, beside its axes: see the flags of these names."""

    nodes: Sequence[str]
    systems: Sequence[str] = ()
    form: str = "optimised"
    estimator: str = "calibrated"
    split: str | None = None
    changes: Mapping[str, str] = field(default_factory=dict)
    xla_options: str = ""
    jobs: int = 1
    work_dir: str = ""
    cache: str = ""


@dataclass(frozen=True)
class Found:
    """The rows, in the order of workloads, then nodes; ``notes`` say what they rest on.

    ``labels`` are the names of those of the workloads.
    """

    rows: list[Row]
    notes: list[str]
    labels: list[str]


def find(study: Study, given: Given, options: Options, note: Callable[[str], None]) -> Found:
    """All rows of a study; raises HespasError, before any work where it can be told then."""
    start = time.monotonic()
    plans = [
        (workload, node, forms.system_of(node, workload.devices, options.systems))
        for workload in _workloads(study, given, options.changes)
        for node in options.nodes
    ]
    wanted = [_program(*plan, options) for plan in plans]
    folder = Path(options.work_dir or programs.default_folder())
    made = programs.make(wanted, folder, options.jobs, note)
    cells = [
        {
            "mlir": path,
            "node": node,
            "estimator": options.estimator,
            "fuse": options.form == "fused",
            "by_dimension": True,
            **({"system": system} if system else {}),
            **({"split": options.split} if options.split else {}),
        }
        for path, (_, node, system) in zip(made.paths, plans, strict=True)
    ]
    done = sweep.run(cells, sweep.Options(jobs=options.jobs, cache=options.cache), note)
    for (workload, node, _), row in zip(plans, done.rows, strict=True):
        if row["error"] is not None:
            message = re.sub(r"^(?:\S+: )?error: ", "", row["error"])
            raise HespasError(message, where=f"{programs.told(workload)}, {node}")
    rows = [
        {**_row(*plan, row), "form": options.form, "estimator": row["estimator"],
         "program": Path(path).name}
        for plan, path, row in zip(plans, made.paths, done.rows, strict=True)
    ]  # fmt: skip
    _add_efficiency(rows, [workload for workload, *_ in plans])
    count = len({*made.paths})
    told = [
        f"form {options.form}: {forms.FORMS[options.form]}"
        + (f"; xla-optimize: {options.xla_options}" if options.xla_options else ""),
        *_recipes([workload for workload, *_ in plans], options.changes),
        *_notes(study, done.rows, registry.get(options.estimator).measured_network),
        f"{count} programs, {count - made.kept} made now, in {folder}; {len(cells)} cells, "
        f"{done.computed} computed now; {seconds(time.monotonic() - start)}",
    ]
    return Found(rows, told, list(plans[0][0].labels))


def _workloads(study: Study, given: Given, changes: Mapping[str, str]) -> Iterator[Workload]:
    """The study's programs with the options that were changed; raises UsageError."""
    for one in study.workloads(given):
        for key in changes:
            if key.replace("-", "_") in one.options:
                raise UsageError(f"--set {key}: the study has a flag for it")
        yield replace(one, options={**one.defaults, **one.options, **changes})


def _program(
    workload: Workload, node: str, system: str | None, options: Options
) -> programs.Program:
    per_node = configs.system(system).npus_count[0] if system else 1
    target = forms.target_of(options.form, node)
    if options.xla_options and not target:
        raise UsageError(f"--xla-optimize has no use for --form {options.form}")
    return programs.Program(workload, options.form, target, per_node, options.xla_options)


def _row(workload: Workload, node: str, system: str | None, cell: Mapping[str, Any]) -> Row:
    """The figures of a cell. One device alone does not communicate: its step is its compute."""
    figures = {name: cell.get(column) for name, column in FIGURES.items()}
    if system is None:
        ends = [cell.get(f"compute_band_s.{i}") for i in (0, 1)]
        figures |= {"step_time_s": figures["compute_s"], "comm_s": 0.0, "exposed_comm_s": 0.0}
        figures |= {"step_time_low_s": ends[0], "step_time_high_s": ends[1]}
    step_s, flops, tokens = (
        figures[name] for name in ("step_time_s", "model_flops", "tokens_per_s")
    )
    rate = flops / step_s / workload.devices if flops and step_s else None
    cost = figures["cost_usd"]
    per_million = 1e6 * cost / (tokens * step_s) if cost and tokens else None
    return {
        **workload.labels,
        "node": node,
        "devices": workload.devices,
        "mesh": workload.mesh_text,
        "system": system,
        **figures,
        "flops_per_s_per_device": rate,
        "usd_per_million_tokens": per_million,
    }


def _add_efficiency(rows: Sequence[Row], workloads: Sequence[Workload]) -> None:
    """Work per device and second, over that on the fewest devices of the same labels and node.

    Work is the model's operations, so that it is strong scaling where these stay the same, and
    weak scaling where they grow with the devices.
    """
    groups: dict[tuple[Any, ...], list[Row]] = {}
    for row, workload in zip(rows, workloads, strict=True):
        groups.setdefault((row["node"], *workload.labels.items()), []).append(row)
    for group in groups.values():
        known = all(row["model_flops"] and row["step_time_s"] for row in group)
        ranked = sorted(group, key=lambda row: row["devices"])
        lists = [[row[n] for row in ranked] for n in ("devices", "step_time_s", "model_flops")]
        shares = scaling_efficiency(*lists) if known else [None] * len(ranked)
        for row, share in zip(ranked, shares, strict=True):
            row["efficiency"] = share


def _notes(study: Study, cells: Sequence[Mapping[str, Any]], measured: bool) -> list[str]:
    """What the figures rest on: the estimator, a line for each node, each warning once."""
    found = [f"estimator {cell['estimator']}, split {cell['split']}" for cell in cells]
    for node in dict.fromkeys(cell["node"] for cell in cells):
        mine = [cell for cell in cells if cell["node"] == node]
        found.append(f"{node}: {'; '.join(_basis(study, mine, configs.node(node), measured))}")
    for cell in cells:
        found += [
            f"warning: {cell['node']}: {_shortened(warning, cell['program'])}"
            for warning in json.loads(cell["warnings"])
        ]
    return list(dict.fromkeys(found))


def _basis(
    study: Study, cells: Sequence[Mapping[str, Any]], node: Node, measured: bool
) -> Iterator[str]:
    """What the figures of one node rest on; ``measured`` is of collectives, by default."""
    yield " / ".join(dict.fromkeys(cell["constants"].partition("; ")[0] for cell in cells))
    tags = {name for cell in cells for name in cell if name.startswith(TAG) and cell[name]}
    if tags:
        yield f"some kernels {', '.join(sorted(name.removeprefix(TAG) for name in tags))}"
    if measured and node.collectives and any(cell.get("simulator") for cell in cells):
        yield f"collectives in a node as measured ({node.collectives}), else modelled"
    if measured and node.overlap_slowdown and any(cell.get("overlap_s") for cell in cells):
        yield f"compute beside communication takes {percent(node.overlap_slowdown)} longer"
    if any(column.name == "energy_j" for column in study.columns):
        models = dict.fromkeys(cell.get("derived.energy_model") for cell in cells)
        yield from (f"energy {model}" for model in models if model)


def _recipes(workloads: Sequence[Workload], changes: Mapping[str, str]) -> Iterator[str]:
    """Each recipe with the options that the study's flags do not tell."""
    for recipe in dict.fromkeys(one.recipe for one in workloads):
        mine = [one for one in workloads if one.recipe == recipe]
        names = dict.fromkeys(name for one in mine for name in (*one.defaults, *changes))
        values = {name: dict.fromkeys(one.options[name] for one in mine) for name in names}
        if values:
            texts = [f"{name}={','.join(found)}" for name, found in values.items()]
            yield f"recipe {recipe}: {' '.join(texts)}"


def _shortened(warning: str, program: str) -> str:
    """A warning without the file, which a study names itself, and without counts of collectives."""
    if warning.startswith(BY_CURVES):
        return re.sub(r"\b\d+ (?=[a-z])", "", warning)
    return warning.replace(f"{program}: ", "").replace(program, "the program")


def table(study: Study, found: Found) -> Table:
    """The study's columns, after what tells rows apart; what is equal in all is in the title."""
    rows = found.rows
    names = [*found.labels, "node", "devices", "system"]
    varied = [name for name in names if len({row[name] for row in rows}) > 1]
    fixed = [said(name, rows[0][name]) for name in names if name not in varied]
    columns = [c for c in study.columns if any(row.get(c.name) is not None for row in rows)]
    lines = [
        [*(str(row[name] or "-") for name in varied), *(_shown(row, column) for column in columns)]
        for row in rows
    ]
    title = ", ".join([study.title, *(text for text in fixed if text)])
    return Table(title, lines, [*varied, *(c.header for c in columns)], len(varied))


def _shown(row: Row, column: Column) -> str:
    value = row[column.name]
    return "-" if value is None else column.text(value)
