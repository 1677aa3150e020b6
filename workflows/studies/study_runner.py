"""Running a study: make its programs, run them as the cells of a sweep, and tabulate."""

from __future__ import annotations

import json
import re
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from hespas import configs
from hespas.configs.node_spec import NodeSpec
from hespas.estimators import registry
from hespas.simulators.simulation_result import BY_CURVES
from hespas.support.errors import HespasError, UsageError
from hespas.support.text_tables import TextTable, format_percent, format_seconds
from hespas.workflows.derived_figures import compute_scaling_efficiency
from hespas.workflows.studies import program_forms, study_plot, study_programs
from hespas.workflows.studies.study_definition import (
    AxisValues,
    Study,
    StudyColumn,
    StudyWorkload,
    describe_label,
)
from hespas.workflows.studies.study_output import StudyOutput
from hespas.workflows.sweep import sweep_runner as sweep

Row = dict[str, Any]
"""A program on a node: its labels, then its figures; None if an input is unknown."""

# The names of figures, and the columns of a sweep that have them.
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
TAG = "tags."  # prefix of the columns that count kernels with uncertain constants


@dataclass(frozen=True)
class StudyOptions:
    """The options of a study besides its axes.

    Attributes:
        nodes: The nodes to run each program on.
        systems: System presets, patterns or folders to choose from; empty for the node's presets.
        form: One of ``program_forms.FORMS``.
        estimator: The name of the estimator.
        split: The split strategy; None for the one that suits the estimator.
        changes: Other options of the recipe.
        xla_options: More options of the pass xla-optimize.
        jobs: The number of worker processes.
        work_dir: The folder that keeps programs; "" for the default one.
        cache: The file that keeps cells; "" for the default one, "none" for none.
    """

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
class StudyResult:
    """The result of a study.

    Attributes:
        rows: The rows, in the order of workloads, then nodes.
        notes: What the figures are based on, one line each.
        labels: The names of the labels of workloads.
    """

    rows: list[Row]
    notes: list[str]
    labels: list[str]


def run_study(
    study: Study, axis_values: AxisValues, options: StudyOptions, note: Callable[[str], None]
) -> StudyResult:
    """Run a study.

    Args:
        study: The study.
        axis_values: The values of each axis.
        options: Everything else.
        note: Receives notes and progress, one line each.

    Raises:
        HespasError: An option is wrong, or a program cannot be made or estimated.
    """
    start = time.monotonic()
    plans = [
        (workload, node, program_forms.choose_system(node, workload.devices, options.systems))
        for workload in _collect_workloads(study, axis_values, options.changes)
        for node in options.nodes
    ]
    programs = [_make_program(*plan, options) for plan in plans]
    folder = Path(options.work_dir or study_programs.get_default_folder())
    program_files = study_programs.make_program_files(programs, folder, options.jobs, note)
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
        for path, (_, node, system) in zip(program_files.paths, plans, strict=True)
    ]
    done = sweep.run_sweep(cells, sweep.SweepOptions(jobs=options.jobs, cache=options.cache), note)
    for (workload, node, _), row in zip(plans, done.rows, strict=True):
        if row["error"] is not None:
            message = re.sub(r"^(?:\S+: )?error: ", "", row["error"])
            raise HespasError(
                message, where=f"{study_programs.describe_workload(workload)}, {node}"
            )
    rows = [
        {**_make_figure_row(*plan, row), "form": options.form, "estimator": row["estimator"],
         "program": Path(path).name}
        for plan, path, row in zip(plans, program_files.paths, done.rows, strict=True)
    ]  # fmt: skip
    _add_efficiency(rows, [workload for workload, *_ in plans])
    count = len({*program_files.paths})
    notes = [
        f"form {options.form}: {program_forms.FORMS[options.form]}"
        + (f"; xla-optimize: {options.xla_options}" if options.xla_options else ""),
        *_describe_recipes([workload for workload, *_ in plans], options.changes),
        *_collect_notes(
            study, done.rows, registry.load_estimator_class(options.estimator).measured_network
        ),
        f"{count} programs, {count - program_files.existing_count} made now, in {folder}; "
        f"{len(cells)} cells, "
        f"{done.computed} computed now; {format_seconds(time.monotonic() - start)}",
    ]
    return StudyResult(rows, notes, list(plans[0][0].labels))


def _collect_workloads(
    study: Study, axis_values: AxisValues, changes: Mapping[str, str]
) -> Iterator[StudyWorkload]:
    """Yield the programs of a study with changed options; raises UsageError."""
    for workload in study.workloads(axis_values):
        for key in changes:
            if key.replace("-", "_") in workload.options:
                raise UsageError(f"--set {key}: the study has a flag for it")
        yield replace(workload, options={**workload.defaults, **workload.options, **changes})


def _make_program(
    workload: StudyWorkload, node: str, system: str | None, options: StudyOptions
) -> study_programs.StudyProgram:
    per_node = configs.load_system(system).npus_count[0] if system else 1
    target = program_forms.choose_xla_target(options.form, node)
    if options.xla_options and not target:
        raise UsageError(f"--xla-optimize has no use for --form {options.form}")
    return study_programs.StudyProgram(
        workload, options.form, target, per_node, options.xla_options
    )


def _make_figure_row(
    workload: StudyWorkload, node: str, system: str | None, cell: Mapping[str, Any]
) -> Row:
    """Make the row of a cell. The step time of a single device is its compute time."""
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


def _add_efficiency(rows: Sequence[Row], workloads: Sequence[StudyWorkload]) -> None:
    """Add the work per device and second relative to the row with the fewest devices.

    Rows are compared within the same labels and node. Work is the operations of the model, so that
    this is strong scaling if they are constant and weak scaling if they grow with the devices.
    """
    groups: dict[tuple[Any, ...], list[Row]] = {}
    for row, workload in zip(rows, workloads, strict=True):
        groups.setdefault((row["node"], *workload.labels.items()), []).append(row)
    for group in groups.values():
        known = all(row["model_flops"] and row["step_time_s"] for row in group)
        ranked = sorted(group, key=lambda row: row["devices"])
        lists = [[row[n] for row in ranked] for n in ("devices", "step_time_s", "model_flops")]
        shares = compute_scaling_efficiency(*lists) if known else [None] * len(ranked)
        for row, share in zip(ranked, shares, strict=True):
            row["efficiency"] = share


def _collect_notes(study: Study, cells: Sequence[Mapping[str, Any]], measured: bool) -> list[str]:
    """Describe what figures are based on: the estimator, each node, and each warning once."""
    notes = [f"estimator {cell['estimator']}, split {cell['split']}" for cell in cells]
    for node in dict.fromkeys(cell["node"] for cell in cells):
        node_cells = [cell for cell in cells if cell["node"] == node]
        notes.append(
            f"{node}: "
            f"{'; '.join(_describe_basis(study, node_cells, configs.load_node(node), measured))}"
        )
    for cell in cells:
        notes += [
            f"warning: {cell['node']}: {_shorten_warning(warning, cell['program'])}"
            for warning in json.loads(cell["warnings"])
        ]
    return list(dict.fromkeys(notes))


def _describe_basis(
    study: Study, cells: Sequence[Mapping[str, Any]], node: NodeSpec, measured: bool
) -> Iterator[str]:
    """Describe what the figures of one node are based on.

    Args:
        study: The study.
        cells: The rows of the node.
        node: The node.
        measured: Whether measured collectives are used by default.
    """
    yield " / ".join(dict.fromkeys(cell["constants"].partition("; ")[0] for cell in cells))
    tags = {name for cell in cells for name in cell if name.startswith(TAG) and cell[name]}
    if tags:
        yield f"some kernels {', '.join(sorted(name.removeprefix(TAG) for name in tags))}"
    if measured and node.collectives and any(cell.get("simulator") for cell in cells):
        yield f"collectives in a node as measured ({node.collectives}), else modelled"
    if measured and node.overlap_slowdown and any(cell.get("overlap_s") for cell in cells):
        slowdown = format_percent(node.overlap_slowdown)
        yield f"compute alongside communication takes {slowdown} longer"
    if any(column.name == "energy_j" for column in study.columns):
        models = dict.fromkeys(cell.get("derived.energy_model") for cell in cells)
        yield from (f"energy {model}" for model in models if model)


def _describe_recipes(
    workloads: Sequence[StudyWorkload], changes: Mapping[str, str]
) -> Iterator[str]:
    """Describe each recipe by the options that are not flags of the study."""
    for recipe in dict.fromkeys(workload.recipe for workload in workloads):
        recipe_workloads = [workload for workload in workloads if workload.recipe == recipe]
        names = dict.fromkeys(
            name for workload in recipe_workloads for name in (*workload.defaults, *changes)
        )
        values = {
            name: dict.fromkeys(workload.options[name] for workload in recipe_workloads)
            for name in names
        }
        if values:
            texts = [f"{name}={','.join(option_values)}" for name, option_values in values.items()]
            yield f"recipe {recipe}: {' '.join(texts)}"


def _shorten_warning(warning: str, program: str) -> str:
    """Remove the file and the counts of collectives from a warning, to merge equal warnings."""
    if warning.startswith(BY_CURVES):
        return re.sub(r"\b\d+ (?=[a-z])", "", warning)
    return warning.replace(f"{program}: ", "").replace(program, "the program")


def check_study_options(options: StudyOptions) -> None:
    """Raise HespasError if a node or the estimator does not exist."""
    for name in options.nodes:
        configs.load_node(name)
    registry.load_estimator_class(options.estimator)


def build_study_output(study: Study, result: StudyResult) -> StudyOutput:
    """Build the table, the data and the plot of a study."""
    return StudyOutput(
        rows=result.rows,
        data={"study": study.name, "notes": result.notes, "rows": result.rows},
        tables=[make_study_table(study, result)],
        notes=result.notes,
        draw=lambda figure: study_plot.draw_study(figure, study, result.rows),
        size=study_plot.compute_figure_size(study, result.rows),
    )


def make_study_table(study: Study, result: StudyResult) -> TextTable:
    """Make the table of a study: labels that differ, then figures."""
    rows = result.rows
    names = [*result.labels, "node", "devices", "system"]
    varied = [name for name in names if len({row[name] for row in rows}) > 1]
    fixed = [describe_label(name, rows[0][name]) for name in names if name not in varied]
    columns = [c for c in study.columns if any(row.get(c.name) is not None for row in rows)]
    lines = [
        [
            *(str(row[name] or "-") for name in varied),
            *(_format_figure(row, column) for column in columns),
        ]
        for row in rows
    ]
    title = ", ".join([study.title, *(text for text in fixed if text)])
    return TextTable(title, lines, [*varied, *(c.header for c in columns)], len(varied))


def _format_figure(row: Row, column: StudyColumn) -> str:
    value = row[column.name]
    return "-" if value is None else column.text(value)
