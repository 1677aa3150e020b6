"""Running a study: make its programs, run them as the cells of a sweep, and tabulate."""

from __future__ import annotations

import json
import math
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Annotated, Any

from pydantic import Field
from pydantic.dataclasses import dataclass as options_record

from hespas import configs
from hespas.configs.node_spec import NodeSpec
from hespas.configs.overlap_slowdown import list_slowdown_shares
from hespas.estimators import registry
from hespas.support.errors import HespasError, UsageError
from hespas.support.text_tables import TextTable, format_percent, format_seconds
from hespas.workflows.figures import ROW_COLUMNS
from hespas.workflows.plot_files import COLOURS, MARKS, make_logarithmic
from hespas.workflows.run_config import (
    STRICT,
    Flag,
    PoolOptions,
    RunConfig,
    RunOptions,
    Systems,
)
from hespas.workflows.step_facts import compute_scaling_efficiency
from hespas.workflows.studies import program_forms, study_programs
from hespas.workflows.studies.program_forms import FORM_HELP, Form
from hespas.workflows.studies.study_definition import (
    ENERGY,
    AxisValues,
    ImpossibleWorkload,
    Study,
    StudyPanel,
    StudyWorkload,
    describe_label,
    make_labelled_table,
)
from hespas.workflows.studies.study_output import StudyOutput
from hespas.workflows.studies.study_programs import StudyProgram
from hespas.workflows.sweep import sweep_grid
from hespas.workflows.sweep import sweep_runner as sweep
from hespas.workflows.sweep.sweep_grid import SweepCell
from hespas.workflows.sweep.sweep_table import extract_error_message

Row = dict[str, Any]
"""A program on a node: its labels, then its figures; None if an input is unknown."""
TAG = "tags."  # prefix of the columns that count kernels with uncertain constants

STYLES = ("-", "--", ":")
WIDE, HIGH = 4.6, 3.8  # size of a panel in inches


@options_record(frozen=True, config=STRICT)
class StudyOptions(PoolOptions):
    """The options of a study besides its axes.

    Attributes:
        nodes: The nodes to run each program on.
        run: The options of each estimate.
    """

    nodes: Sequence[str]
    systems: Systems = ()
    form: Form = Field(default="optimised", description=FORM_HELP)
    run: RunOptions = field(default_factory=RunOptions)
    changes: Annotated[Mapping[str, str], Flag(name="set")] = Field(
        default_factory=dict, description="another option of the recipe, as of hespas export"
    )


@dataclass
class StudyCell:
    """A program on a node. ``error`` says why it has no figures, if it has none.

    Attributes:
        labels: The labels of the workload.
        devices: The number of devices.
        node: The node.
        workload: The workload; None if the axis values make none.
        system: The system; None for a single device.
        config: The run that estimates the program, without it.
        program: The workload in the form of the study.
        path: The file of the program.
        elapsed_s: The seconds to make it now; None if it existed before.
        answer: The row of the sweep.
    """

    labels: Mapping[str, Any]
    devices: int
    node: str
    workload: StudyWorkload | None = None
    system: str | None = None
    config: RunConfig = field(default_factory=RunConfig)
    program: StudyProgram | None = None
    path: str = ""
    elapsed_s: float | None = None
    answer: dict[str, Any] = field(default_factory=dict)
    error: HespasError | None = None


def run_study(
    study: Study, axis_values: AxisValues, options: StudyOptions, note: Callable[[str], None]
) -> StudyOutput:
    """Run a study. A program that cannot be made or estimated is a row with the reason.

    Args:
        study: The study.
        axis_values: The values of each axis.
        options: Everything else.
        note: Receives notes and progress, one line each.

    Raises:
        HespasError: An option is wrong, or no program at all can be made and estimated.
    """
    start = time.monotonic()
    cells = [
        _plan_cell(workload, node, options)
        for workload in _collect_workloads(study, axis_values, options.changes)
        for node in options.nodes
    ]
    existing_count, computed_count = estimate_cells(cells, options, note)
    errors = [cell.error for cell in cells if cell.error is not None]
    if len(errors) == len(cells):
        raise errors[0]
    rows = [make_figure_row(cell, options.form) for cell in cells]
    _add_efficiency(rows, cells)
    runnable = [cell for cell in cells if cell.answer]
    workloads = [cell.workload for cell in runnable if cell.workload is not None]
    count = len({cell.path for cell in runnable})
    compile_options = program_forms.format_compile_options(options.run)
    notes = [
        f"form {options.form}: {program_forms.FORMS[options.form]}"
        + (f"; xla-optimize: {compile_options}" if compile_options else ""),
        *describe_recipes(workloads, options.changes),
        *collect_notes(
            study,
            [cell.answer for cell in runnable if cell.error is None],
            registry.load_estimator_class(options.run.estimator).measured_network,
        ),
        f"{count} programs, {count - existing_count} made now, in "
        f"{options.program_folder}; {len(runnable)} cells, {computed_count} computed now; "
        f"{format_seconds(time.monotonic() - start)}",
    ]
    labels = list(cells[0].labels)
    good = [row for row in rows if row["error"] is None]
    return StudyOutput(
        rows=rows,
        data={"study": study.name, "notes": notes, "rows": rows},
        tables=[make_study_table(study, rows, labels), *_tabulate_errors(rows, labels)],
        notes=notes,
        draw=lambda figure: draw_study(figure, study, good),
        size=compute_figure_size(study, good),
        failed=len(rows) - len(good),
    )


def estimate_cells(
    cells: Sequence[StudyCell], options: PoolOptions, note: Callable[[str], None]
) -> tuple[int, int]:
    """Make the programs of cells and run them; each cell gets its answer or its error.

    Returns:
        How many programs existed before, and how many cells have been computed now.

    Raises:
        HespasError: An option is wrong.
    """
    existing_count = make_programs(cells, options, note)
    return existing_count, run_programs(cells, options, note)


def run_programs(
    cells: Sequence[StudyCell], options: PoolOptions, note: Callable[[str], None]
) -> int:
    """Run the cells whose programs have been made, and return how many have been computed now."""
    runnable = [cell for cell in cells if cell.error is None]
    outcome = sweep.run_sweep([_make_sweep_cell(cell) for cell in runnable], options, note)
    for cell, row in zip(runnable, outcome.rows, strict=True):
        cell.answer = row
        if row["error"] is not None:
            assert cell.workload is not None
            where = f"{study_programs.describe_workload(cell.workload)}, {cell.node}"
            cell.error = HespasError(extract_error_message(row), where=where)
    return outcome.computed


def _plan_cell(
    workload: StudyWorkload | ImpossibleWorkload, node: str, options: StudyOptions
) -> StudyCell:
    """Choose the system and the form of a workload on a node."""
    cell = StudyCell(workload.labels, workload.devices, node)
    if isinstance(workload, ImpossibleWorkload):
        cell.error = UsageError(workload.reason)
        return cell
    cell.workload = workload
    try:
        cell.system = program_forms.choose_system(node, workload.devices, options.systems)
        cell.config = program_forms.make_run_config(
            options.run, options.form, node=node, system=cell.system
        )
        cell.program = study_programs.make_node_program(
            workload, options.form, node, study_programs.count_host_devices(cell.system),
            options.run,
        )  # fmt: skip
    except HespasError as error:
        cell.error = error
    return cell


def make_programs(
    cells: Sequence[StudyCell], options: PoolOptions, note: Callable[[str], None]
) -> int:
    """Make the files of the programs, and return how many existed before."""
    planned = [(cell, cell.program) for cell in cells if cell.program is not None]
    files = study_programs.make_program_files([program for _, program in planned], options, note)
    for (cell, _), path in zip(planned, files.paths, strict=True):
        cell.path, cell.error = path, files.errors.get(path)
        cell.elapsed_s = files.elapsed_s.get(path)
    return files.existing_count


def _make_sweep_cell(cell: StudyCell) -> SweepCell:
    return {**cell.config.model_dump(exclude_unset=True), "mlir": cell.path}


def _collect_workloads(
    study: Study, axis_values: AxisValues, changes: Mapping[str, str]
) -> Iterator[StudyWorkload | ImpossibleWorkload]:
    """Yield the programs of a study with changed options; raises UsageError."""
    for workload in study.workloads(axis_values):
        if isinstance(workload, ImpossibleWorkload):
            yield workload
            continue
        for key in changes:
            if key.replace("-", "_") in workload.options:
                raise UsageError(f"--set {key}: the study has a flag for it")
        yield replace(workload, options={**workload.defaults, **workload.options, **changes})


def make_figure_row(cell: StudyCell, form: str) -> Row:
    """Make the row of a cell. The step time of a single device is its compute time.

    A cell with an error has no figures.
    """
    answer = cell.answer
    figures = {name: answer.get(column) for name, column in ROW_COLUMNS.items()}
    if cell.system is None and cell.error is None:
        ends = [answer.get(f"compute_band_s.{i}") for i in (0, 1)]
        figures |= {"step_time_s": figures["compute_s"], "comm_s": 0.0, "exposed_comm_s": 0.0}
        figures |= {"step_time_low_s": ends[0], "step_time_high_s": ends[1]}
    error = cell.error
    return {
        **cell.labels,
        "node": cell.node,
        "devices": cell.devices,
        "mesh": cell.workload.mesh_text if cell.workload else None,
        "system": cell.system,
        "error": error and error.reason,
        **figures,
        "peak_dtype": answer.get("derived.peak_dtype"),
        "form": form,
        "estimator": answer.get("estimator"),
        "program": Path(cell.path).name or None,
    }


def _add_efficiency(rows: Sequence[Row], cells: Sequence[StudyCell]) -> None:
    """Add the work per device and second relative to the row with the fewest devices.

    Rows are compared within the same labels and node. Work is the operations of the model, so that
    this is strong scaling if they are constant and weak scaling if they grow with the devices.
    """
    groups: dict[tuple[Any, ...], list[Row]] = {}
    for row, cell in zip(rows, cells, strict=True):
        row["efficiency"] = None
        if cell.error is None:
            groups.setdefault((cell.node, *cell.labels.items()), []).append(row)
    for group in groups.values():
        known = all(row["model_flops"] and row["step_time_s"] for row in group)
        ranked = sorted(group, key=lambda row: row["devices"])
        lists = [[row[n] for row in ranked] for n in ("devices", "step_time_s", "model_flops")]
        shares = compute_scaling_efficiency(*lists) if known else [None] * len(ranked)
        for row, share in zip(ranked, shares, strict=True):
            row["efficiency"] = share


def check_study_options(options: StudyOptions) -> None:
    """Raise HespasError if a node, a system or an option of an estimate is wrong."""
    for name in options.nodes:
        configs.load_node(name)
    for name in options.systems:
        for system in sweep_grid.find_systems(name) if sweep_grid.is_pattern(name) else [name]:
            configs.load_system(system)
    registry.load_estimator_class(options.run.estimator)


def _tabulate_errors(rows: Sequence[Row], labels: Sequence[str]) -> Iterator[TextTable]:
    """Yield the table of the rows without figures, if there are any."""
    failed = [row for row in rows if row["error"] is not None]
    if failed:
        names = [*labels, "node", "devices"]
        lines = [[*(str(row[name]) for name in names), row["error"]] for row in failed]
        yield TextTable("Errors", lines, [*names, "error"], len(names) + 1)


def make_study_table(study: Study, rows: Sequence[Row], labels: Sequence[str]) -> TextTable:
    """Make the table of a study: labels that differ, then figures."""
    return make_labelled_table(
        study.title, rows, [*labels, "node", "devices", "system"], study.columns
    )


def collect_notes(study: Study, cells: Sequence[Mapping[str, Any]], measured: bool) -> list[str]:
    """Describe what figures are based on: the estimator, each node, and each warning once."""
    notes = [f"estimator {cell['estimator']}, split {cell['split']}" for cell in cells]
    for node in dict.fromkeys(cell["node"] for cell in cells):
        node_cells = [cell for cell in cells if cell["node"] == node]
        notes.append(
            f"{node}: "
            f"{'; '.join(_describe_basis(study, node_cells, configs.load_node(node), measured))}"
        )
    for cell in cells:
        notes += [f"warning: {cell['node']}: {text}" for text in json.loads(cell["warnings"])]
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
        yield f"collectives within a host as measured ({node.collectives}), else modelled"
    if measured and node.overlap_slowdown and any(cell.get("overlap_s") for cell in cells):
        shares = list_slowdown_shares(node.overlap_slowdown)
        slowdown = ", ".join(f"{format_percent(share)} ({kind})" for kind, share in shares.items())
        yield f"compute alongside communication takes longer by {slowdown}"
    if ENERGY in study.columns:
        models = dict.fromkeys(cell.get("derived.energy_model") for cell in cells)
        yield from (f"energy {model}" for model in models if model)


def describe_recipes(
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


def compute_figure_size(study: Study, rows: Sequence[Mapping[str, Any]]) -> tuple[float, float]:
    """Return width and height of the plot in inches."""
    high, wide = _arrange_panels(study, _list_facets(study, rows))
    return (0.6 + WIDE * wide, 0.9 + HIGH * high)


def draw_study(figure: Any, study: Study, rows: Sequence[Mapping[str, Any]]) -> None:
    """Draw all panels into a figure, with one legend above them."""
    facets = _list_facets(study, rows)
    grid = figure.subplots(*_arrange_panels(study, facets), squeeze=False).flat
    series = _label_series(study, rows)
    places = list(dict.fromkeys(row[study.across] for row in rows))
    if all(isinstance(place, int | float) for place in places):
        places.sort()
    for facet in facets:
        facet_rows = [row for row in rows if facet is None or row[study.facet] == facet]
        for panel in study.panels:
            axes = next(grid)
            _draw_panel(axes, study, panel, facet_rows, series, places)
            if facet is not None:
                axes.set_title(f"{study.facet} {facet}", fontsize=9)
    handles, labels = figure.axes[0].get_legend_handles_labels()
    if labels:
        figure.legend(handles, labels, loc="outside upper center", ncols=6, fontsize=8,
                      frameon=False)  # fmt: skip


def _arrange_panels(study: Study, facets: Sequence[Any]) -> tuple[int, int]:
    """Return the rows and columns of panels; the facets of a single panel are side by side."""
    if len(study.panels) == 1:
        return 1, len(facets)
    return len(facets), len(study.panels)


def _list_facets(study: Study, rows: Sequence[Mapping[str, Any]]) -> list[Any]:
    """List the values with separate panels; [None] if all share the panels."""
    facet_values = list(dict.fromkeys(row[study.facet] for row in rows)) if study.facet else [None]
    return facet_values if len(facet_values) > 1 or len(study.panels) == 1 else [None]


def _label_series(study: Study, rows: Sequence[Mapping[str, Any]]) -> dict[tuple[Any, ...], str]:
    """Map the key of each line to its name in the legend."""
    names = list(study.series)
    if study.facet != "node" and "node" not in names and study.across != "node":
        names.append("node")
    varied = [name for name in names if len({row[name] for row in rows}) > 1]
    series_labels: dict[tuple[Any, ...], str] = {}
    for row in rows:
        texts = [describe_label(name, row[name]) for name in varied]
        series_labels.setdefault(_get_series_key(study, row), ", ".join(texts))
    return series_labels


def _get_series_key(study: Study, row: Mapping[str, Any]) -> tuple[Any, ...]:
    return (*(row[name] for name in study.series), row["node"] if study.facet != "node" else None)


def _format_place(place: Any) -> str:
    if isinstance(place, float):
        return f"{place:.3g}"
    return f"{place:,}" if isinstance(place, int) else str(place)


def _draw_panel(
    axes: Any,
    study: Study,
    panel: StudyPanel,
    rows: Sequence[Mapping[str, Any]],
    series: Mapping[tuple[Any, ...], str],
    places: Sequence[Any],
) -> None:
    """Draw the lines of one panel; the horizontal axis is ordinal, or log2 of the devices."""
    numeric = study.across == "devices"
    for number, (key, label) in enumerate(series.items()):
        series_rows = [row for row in rows if _get_series_key(study, row) == key]
        for column, style in zip(panel.columns, STYLES, strict=False):
            points = sorted(
                (math.log2(row[study.across]) if numeric else places.index(row[study.across]),
                 row[column.name], row["devices"])
                for row in series_rows
                if row.get(column.name) is not None
            )  # fmt: skip
            if not points:
                continue
            at, values, devices = zip(*points, strict=True)
            colour, mark = COLOURS[number % len(COLOURS)], MARKS[number % len(MARKS)]
            axes.plot(
                at, values, style, color=colour, marker=mark, ms=4, lw=1.2,
                label=label if style == "-" else None,
            )  # fmt: skip
            if panel.ideal:
                ideal = [values[0] * n / devices[0] for n in devices]
                axes.plot(at, ideal, "--", color=colour, lw=0.8, alpha=0.6)
    ticks = [math.log2(place) for place in places] if numeric else range(len(places))
    texts = [_format_place(place) for place in places]
    axes.set_xticks(ticks, texts, rotation=45 if len(places) > 6 else 0, fontsize=8)
    axes.set(xlabel=study.across, ylabel=panel.label)
    if panel.log:
        make_logarithmic(axes.yaxis, *axes.dataLim.intervaly)
    else:
        axes.set_ylim(bottom=0)
    if panel.share:
        axes.yaxis.set_major_formatter(lambda share, _: f"{100 * share:g} %")
    axes.grid(alpha=0.3)
