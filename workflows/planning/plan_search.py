"""The search for the best layouts: bounds of all, estimates of the promising, compiles of the best.

Invariant: layouts are estimated in the order of their bounds, and no bound is above the estimate of
its layout. So when the lowest bound that is left exceeds the N-th best step time, the N best
layouts are known, and the others are pruned.

XLA hides communication behind compute, which the estimates of fused programs do not. So layouts are
compiled until no other could win: the best compiled step is at most that of each other layout
without its exposed communication, and with as much less compute as XLA has made of a compiled one.

At last, a plan says why its winner wins, and how to build it.
"""

from __future__ import annotations

import heapq
import math
import shlex
import time
from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from hespas import configs
from hespas.configs.kernel_families import find_kernel_family
from hespas.configs.node_spec import NodeSpec
from hespas.configs.system_spec import SystemSpec
from hespas.frontends.export.export_spec import read_export_spec
from hespas.frontends.export.program_source import DECODERS
from hespas.frontends.export.slice_mesh import is_in_device_order
from hespas.support.errors import HespasError, UsageError
from hespas.support.text_tables import (
    format_count,
    format_percent,
    format_scaled,
    format_seconds,
)
from hespas.workflows.pipelines.pipeline_cells import estimate_pipelines
from hespas.workflows.pipelines.pipeline_estimate import Figures
from hespas.workflows.planning import layout_space, pipeline_layouts
from hespas.workflows.planning.layout_bounds import (
    CommBounds,
    ComputeBounds,
    LayoutBounds,
    StepBound,
)
from hespas.workflows.planning.layout_programs import (
    FunctionPrograms,
    LayoutPrograms,
    LayoutRuns,
)
from hespas.workflows.planning.layout_space import (
    ACCUMULATE,
    ATTENTION,
    LOGITS,
    MAXTEXT_LOGITS,
    PLAIN_ATTENTION,
    PRODUCTS,
    SEQUENCE,
    LayoutCandidate,
    LayoutRequest,
    LayoutSpace,
    PlanOptions,
    ProgramInterface,
)
from hespas.workflows.planning.pipeline_layouts import bound_layouts, is_pipeline, list_study_words
from hespas.workflows.planning.plan_result import (
    LayoutDifference,
    LayoutFigures,
    LayoutPlan,
    LayoutRow,
    find_compute_share,
    list_compiled,
    list_contenders,
    rank_rows,
)
from hespas.workflows.run_config import COMPILE_OPTIONS
from hespas.workflows.run_plan import select_network_settings
from hespas.workflows.studies import program_forms, study_programs, study_runner
from hespas.workflows.studies.study_definition import StudyWorkload
from hespas.workflows.studies.study_runner import StudyCell

if TYPE_CHECKING:
    from hespas.workflows.planning.layout_builders import LayoutBuilder

Note = Callable[[str], None]

LEAST_COMPILED = 2  # so that the explanation of the winner compares compiled programs
REFUSED = "XLA does not compile it"
MAX_FAILURES = 8  # layouts that XLA refuses, none compiled, after which no other is tried
FIRST_BATCH = 4  # layouts of each worker that are estimated before the bounds are consulted again
FAMILY_PARTS = {"product": "matrix products", "attention": "attention"}
OTHER_KERNELS = "fusions and other kernels"
WAITING = "exposed communication and bubbles"
OVERLAP = "communication alongside compute"  # counted in both, so that it is negative
DEVICE = 0  # whose collectives are timed; all devices run the same program
MIN_DIFFERENCE = 1e-3  # share of the winner's step below which a part is not listed
MAXTEXT_KEYS = {
    "remat": "remat_policy", "scan": "scan_layers", ACCUMULATE: "gradient_accumulation_steps",
    SEQUENCE: "max_target_length",
}  # fmt: skip
# MaxText's key "attention", whose default leaves the kernel to MaxText, see docs/how-to/maxtext.md.
MAXTEXT_ATTENTION = {PLAIN_ATTENTION: "dot_product", "cudnn": "cudnn_flash_jax", "splash": "flash"}
MAXTEXT_CHOICE = "autoselected"  # that default
# MaxText's keys of products in 8 bits, see recipes.quantised_products. MaxText has none
# of a scale for an array or for each row from the values themselves.
MAXTEXT_PRODUCTS: Mapping[str, Sequence[str]] = {
    "none": (),
    "int8": ("quantization=int8",),
    "fp8_delayed": ("quantization=fp8",),
    "fp8_static": (
        "quantization=fp8_full", "use_qwix_quantization=true",
        "weight_quantization_calibration_method=fixed,-224,224",
        "act_quantization_calibration_method=fixed,-224,224",
    ),
}  # fmt: skip


def plan_layouts(
    request: LayoutRequest,
    options: PlanOptions,
    note: Note,
    *,
    builder: LayoutBuilder | None = None,
    explain: bool = True,
) -> LayoutPlan:
    """Find the best layouts of a program on a machine.

    Args:
        request: The program, the machine, and what is searched.
        options: Everything else.
        note: Receives notes and progress, one line each.
        builder: Builds the program in this process, if it is a function of it.
        explain: Whether to explain the winner, for which the two best are estimated again.

    Raises:
        HespasError: An option is wrong, or JAX is not installed.
    """
    check_compile_options(options)
    node = configs.load_node(request.node)
    system = program_forms.choose_system(request.node, request.devices, options.systems)
    program_forms.check_run_options(options.run, program_forms.SCHEDULED, request.node, system)
    compile_count = count_compiles(options, request.node, note)
    compiler = program_forms.find_compiler(request.node)
    if not request.attention:
        request = replace(request, attention=program_forms.FUSED_ATTENTION[compiler])
    request = replace(request, slices=configs.load_system(system).slice_count if system else 1)
    options.program_folder.mkdir(parents=True, exist_ok=True)
    platform = study_programs.PLATFORMS[compiler]
    places = (request.program, platform, options.program_folder, options.jobs, note)
    spec = read_export_spec(request.spec_file) if request.spec_file else None
    source = (
        LayoutPrograms(*places, spec)
        if builder is None
        else FunctionPrograms(*places, builder=builder)
    )
    with source as programs:
        space = explore_space(request, programs, note)
        note(space.describe_size())
        fused = program_forms.FUSED_ATTENTION[None]
        if compiler is None and fused in space.options.get(ATTENTION, ()):
            note(f"note: {program_forms.STAND_IN.format(node=request.node)}")
        search = LayoutSearch(request, options, node, system, programs, note)
        unbounded = search.runs.list_unbounded_options()
        if unbounded and not options.exhaustive:
            names = ", ".join(unbounded)
            note(f"note: every layout is estimated, because there are no bounds with: {names}")
        rows = search.bound_layouts(space)
        search.estimate_best(rows)
        search.compile_best(rows, compile_count)
        warnings = [*programs.list_warnings(), *search.warnings]
        for warning in warnings:
            note(f"warning: {warning}")
        plan = LayoutPlan(
            request.node, system, request.devices, rank_rows(rows), node.memory_bytes,
            warnings=warnings, verdict=search.judge_rest(rows),
        )  # fmt: skip
        if explain:
            plan = explain_plan(plan, request, search.runs, programs)
        return plan


def check_compile_options(options: PlanOptions) -> None:
    """Raise UsageError for options of a compilation that is not wanted."""
    for name in COMPILE_OPTIONS:
        if getattr(options.run, name) and options.compile_count == 0:
            raise UsageError(f"--{name.replace('_', '-')} has no use for --compile 0")


def explore_space(request: LayoutRequest, programs: LayoutPrograms, note: Note) -> LayoutSpace:
    """Enumerate the layouts of a request; raises HespasError if an option is wrong.

    A program that has no layout with the node's fused attention is searched with its own attention.
    """
    interface = programs.read_interface()
    rank_counts = pipeline_layouts.select_rank_counts(request, interface)
    space = _explore_single_programs(request, interface, programs, note, rank_counts)
    candidates = [
        candidate
        for ranks in rank_counts
        if ranks > 1
        for candidate in pipeline_layouts.list_pipeline_candidates(request, interface, ranks)
    ]
    if not candidates:
        return space
    axes = {pipeline_layouts.PIPELINE: tuple(rank_counts), **space.axes}
    return LayoutSpace(axes, {**space.options, **request.options}, [*space.candidates, *candidates])


def _explore_single_programs(
    request: LayoutRequest,
    interface: ProgramInterface,
    programs: LayoutPrograms,
    note: Note,
    rank_counts: Sequence[int],
) -> LayoutSpace:
    """Enumerate the layouts without pipeline parallelism, if they are requested."""
    if 1 not in rank_counts:
        return LayoutSpace({}, {}, [])
    if pipeline_layouts.PIPELINE not in interface.axes:
        request = pipeline_layouts.drop_pipeline_options(request)
    space = _enumerate_layouts(request, interface, programs)
    errors = [candidate.error for candidate in space.candidates]
    if request.attention and ATTENTION not in request.options and all(errors):
        plain = _enumerate_layouts(replace(request, attention=""), interface, programs)
        if any(not candidate.error for candidate in plain.candidates):
            note(f"note: without {ATTENTION}={request.attention}: {errors[0]}")
            return plain
    return space


def _enumerate_layouts(
    request: LayoutRequest, interface: ProgramInterface, programs: LayoutPrograms
) -> LayoutSpace:
    axes = layout_space.select_axis_sizes(request, interface)
    meshes = layout_space.enumerate_meshes(axes, request.devices)
    values = layout_space.select_option_values(request, interface)
    first = {name: tried[0] for name, tried in values.items()}
    if not interface.divides_itself:
        facts = programs.describe_meshes(meshes, first, interface)
        return layout_space.build_layout_space(request, interface, meshes, facts)
    samples = request.count_samples(first.get(layout_space.SEQUENCE))
    own = {**first, **interface.select_own_batch(samples)}
    facts = [
        replace(one, error=f"a step has {one.samples} samples, and not the {samples} of the plan")
        if not one.error and one.samples != samples
        else one
        for one in programs.describe_meshes(meshes, own, interface)
    ]
    return layout_space.build_layout_space(request, interface, meshes, facts)


def count_compiles(options: PlanOptions, node: str, note: Note) -> int | None:
    """Return how many layouts XLA compiles; None for as many as tell which one wins.

    Raises:
        HespasError: The number is requested, and XLA cannot compile for the node.
    """
    if options.compile_count == 0:
        return 0
    try:
        program_forms.choose_xla_target(program_forms.SCHEDULED, node)
    except HespasError as error:
        if options.compile_count is not None:
            raise HespasError(error.message, remedy="leave --compile out") from None
        note(f"note: no layout is compiled: {error.message}")
        return 0
    return options.compile_count


@dataclass
class LayoutSearch:
    """The stages of a search; each changes the rows in place."""

    request: LayoutRequest
    options: PlanOptions
    node: NodeSpec
    system: str | None
    programs: LayoutPrograms
    note: Note
    warnings: list[str] = field(default_factory=list)
    _has_ended: bool = False  # whether the time for compiling has

    @property
    def runs(self) -> LayoutRuns:
        """The runs that estimate layouts."""
        return LayoutRuns(self.request.node, self.system, self.options.run)

    def bound_layouts(self, space: LayoutSpace) -> list[LayoutRow]:
        """Bound the step and the memory of each layout, and return the rows."""
        possible = [candidate for candidate in space.candidates if not candidate.error]
        bounds: Sequence[StepBound | None] = [None] * len(possible)
        if not self.options.exhaustive and not self.runs.list_unbounded_options():
            system = configs.load_system(self.system) if self.system else None
            bounds = bound_layouts(self._make_bounds(system), possible, system)
        rows = [
            LayoutRow(candidate, "impossible", candidate.error)
            for candidate in space.candidates
            if candidate.error
        ]
        for candidate, bound in zip(possible, bounds, strict=True):
            needed_bytes = max(candidate.argument_bytes, bound.resident_bytes if bound else 0)
            row = LayoutRow(candidate, "pruned", bound=bound)
            if self.node.memory_bytes and needed_bytes > self.node.memory_bytes:
                row.status, row.reason = (
                    "too large",
                    self._describe_memory(needed_bytes, "at least "),
                )
            rows.append(row)
        counts = {
            status: sum(row.status == status for row in rows) for status in ("too large", "pruned")
        }
        self.note(
            f"{format_count(counts['pruned'], 'layout')} to estimate at most; "
            f"{counts['too large']} need more memory than the node has"
        )
        return rows

    def _make_bounds(self, system: SystemSpec | None) -> LayoutBounds:
        config = self.runs.make_config(program_forms.FUSED)
        network = select_network_settings(config).build_simulator_choice()
        return LayoutBounds(
            self.programs,
            ComputeBounds(
                self.node,
                config.estimator == "calibrated",
                max(system.list_device_speeds()) if system else 1.0,
            ),
            CommBounds(system, network.options),
            self.note,
        )

    def estimate_best(self, rows: Sequence[LayoutRow]) -> None:
        """Estimate layouts by rising bound, until no bound is below the N-th best step time."""
        left = [row for row in rows if row.status == "pruned"]
        left.sort(key=lambda row: row.bound_s, reverse=True)
        size = FIRST_BATCH * self.options.jobs
        while left:
            limit_s = self._find_limit_s(rows)
            batch = [
                left.pop() for _ in range(min(size, len(left))) if _may_beat(left[-1], limit_s)
            ]
            if not batch:
                break
            self.estimate_rows(batch, program_forms.FUSED)
            # A batch ends with its slowest layout, while other workers are idle: few batches are
            # faster. The first is small, because its times are the first to prune any layout.
            size *= 2
        limit_s = self._find_limit_s(rows)
        which = "best" if self.options.top == 1 else f"{self.options.top} best"
        for row in left:
            assert row.bound is not None
            row.reason = (
                f"bound {format_seconds(row.bound.step_time_s)} is above "
                f"{format_seconds(limit_s)}, the slowest of the {which}"
            )

    def _find_limit_s(self, rows: Sequence[LayoutRow]) -> float:
        """Return the N-th best step time that was estimated; infinity if there are fewer."""
        times_s = [row.fused.step_time_s for row in rows if row.status == "estimated" and row.fused]
        if len(times_s) < self.options.top or self.options.exhaustive:
            return math.inf
        return heapq.nsmallest(self.options.top, times_s)[-1]

    def compile_best(self, rows: Sequence[LayoutRow], count: int | None) -> None:
        """Compile the best layouts by XLA, and estimate what it makes of them.

        Args:
            rows: The layouts after ``estimate_best``.
            count: How many layouts; None for all that may win, until the time for it has passed.
        """
        if count == 0:
            return
        if count is None:
            limit = f"{self.options.compile_minutes:g} minutes"
            self.note(f"XLA compiles layouts until no other could win, or {limit} have passed")
        else:
            self.note(f"XLA compiles the {format_count(count, 'best layout')}")
        end_s = time.monotonic() + 60 * self.options.compile_minutes
        while batch := self._select_next(rows, count):
            if count is None and time.monotonic() >= end_s:
                self._has_ended = True
                break
            form = program_forms.FUSED if batch[0].fused is None else program_forms.SCHEDULED
            self.estimate_rows(batch, form)
            share = find_compute_share(rows)
            for row in rows:
                row.compute_share = share
        self._readmit_refused(rows)

    def _select_next(self, rows: Sequence[LayoutRow], count: int | None) -> list[LayoutRow]:
        """Select the layouts to estimate or to compile next: the fastest that are of interest."""
        compiled_count = len(list_compiled(rows))
        if not _has_compiled(rows) and len(_list_refused(rows)) >= MAX_FAILURES:
            return []
        size = self.options.jobs
        if count is None and compiled_count >= LEAST_COMPILED:
            left = list_contenders(rows)
        else:
            left = [row for row in rows if row.status == "estimated" and row.compiled is None]
            left = left or [row for row in rows if row.status == "pruned"]
        if count is not None:
            size = min(size, count - compiled_count)
        left.sort(key=lambda row: row.fused.step_time_s if row.fused else row.bound_s)
        # A bound may be far below its estimate, and XLA takes far longer than an estimate.
        if left and left[0].fused is None:
            return [row for row in left if row.fused is None][: FIRST_BATCH * size]
        return [row for row in left if row.fused is not None][:size]

    def _readmit_refused(self, rows: Sequence[LayoutRow]) -> None:
        """Rank layouts that XLA refused as fused programs, if it refused all that it tried."""
        refused = _list_refused(rows)
        if not refused or _has_compiled(rows):
            return
        self.warnings.append(
            f"XLA compiled none of the {format_count(len(refused), 'layout')} that it tried, so "
            f"that ranks are those of fused programs; {refused[0].reason}"
        )
        for row in refused:
            row.status, row.reason = "estimated", ""

    def judge_rest(self, rows: Sequence[LayoutRow]) -> str:
        """Give each layout that is not compiled its reason; returns whether one of them may win.

        Returns:
            A sentence; "" if no layout was to be compiled, or XLA compiles none.
        """
        compiled = list_compiled(rows)
        minutes = f"the {self.options.compile_minutes:g} minutes for compiling have passed"
        resume = "The same command with more --compile-minutes continues."
        if not compiled:
            if not self._has_ended:
                return ""
            return (
                f"No layout that fits is compiled yet, and the order of all is unknown: {minutes}. "
                f"{resume}"
            )
        best_s = min(row.best_case_s for row in compiled)
        contenders = list_contenders(rows)
        for row in rows:
            if row.status in ("estimated", "pruned") and row.compiled is None:
                row.reason = self._describe_best_case(row, best_s)
        if not contenders:
            return (
                "Rank 1 is the fastest: no other layout that fits takes less than "
                f"{format_seconds(best_s)}, even if compute hid all of its communication"
                f"{_describe_share(find_compute_share(rows))}."
            )
        could = f"{format_count(len(contenders), 'other')} could still be faster"
        if self._has_ended:
            return (
                "Rank 1 is the fastest that is compiled, and the order of the rest is unknown: "
                f"{could}, because {minutes}. {resume}"
            )
        return (
            f"Rank 1 is the fastest that is compiled: {could}, because only a stated number of "
            "layouts is compiled."
        )

    def _describe_best_case(self, row: LayoutRow, best_s: float) -> str:
        """Describe what a layout that is not compiled may take at best."""
        lacking = "not compiled" if row.fused else "not estimated"
        may_win = row.best_case_s < best_s
        relation = "less than" if may_win else "not less than"
        return (
            f"{lacking}; at best {format_seconds(row.best_case_s)}, without exposed "
            f"communication, {relation} the {format_seconds(best_s)} of rank 1"
        )

    def estimate_rows(self, rows: Sequence[LayoutRow], form: str) -> None:
        """Estimate layouts in a form, and set their status."""
        single = [row for row in rows if not pipeline_layouts.is_pipeline(row.candidate)]
        staged = [row for row in rows if pipeline_layouts.is_pipeline(row.candidate)]
        if staged:
            self._estimate_pipelines(staged, form)
        if single:
            self._estimate_single_programs(single, form)

    def _estimate_pipelines(self, rows: Sequence[LayoutRow], form: str) -> None:
        """Estimate layouts with pipeline parallelism, and set their status."""
        cells = [pipeline_layouts.plan_pipeline(row.candidate, self.runs, form) for row in rows]
        estimate_pipelines(cells, self.options, self.note)
        for row, cell in zip(rows, cells, strict=True):
            if cell.error is not None:
                self._record_failure(row, cell.error, form)
            else:
                figures = _read_pipeline_figures(cell.figures, form)
                self._record_figures(row, figures, fits=cell.figures["fits"])

    def _estimate_single_programs(self, rows: Sequence[LayoutRow], form: str) -> None:
        cells = [self._make_cell(row.candidate, form) for row in rows]
        study_runner.estimate_cells(cells, self.options, self.note)
        for row, cell in zip(rows, cells, strict=True):
            if cell.error is not None:
                self._record_failure(row, cell.error, form)
            else:
                figure_row = study_runner.make_figure_row(cell, form)
                figures = LayoutFigures.from_row(form, figure_row, cell.path)
                self._record_figures(row, figures, fits=cell.answer.get("memory.fits"))

    def _record_failure(self, row: LayoutRow, error: HespasError, form: str) -> None:
        row.status = "failed"
        row.reason = error.reason if form == program_forms.FUSED else f"{REFUSED}: {error.reason}"

    def _record_figures(self, row: LayoutRow, figures: LayoutFigures, *, fits: bool | None) -> None:
        form = "as XLA compiles it, "
        if figures.form == program_forms.FUSED:
            row.fused, form = figures, ""
        else:
            row.compiled = figures
        row.status, row.reason = "estimated", ""
        if fits is False:
            row.status = "too large"
            row.reason = form + self._describe_memory(figures.get("peak_bytes") or 0)

    def _make_cell(self, candidate: LayoutCandidate, form: str) -> StudyCell:
        request, config = self.request, self.runs.make_config(form)
        workload = StudyWorkload(request.program, candidate.options, candidate.mesh, {})
        cell = StudyCell({}, request.devices, request.node, workload, self.system, config)
        try:
            cell.program = self.programs.make_study_program(candidate, form, self.runs)
        except HespasError as error:
            cell.error = error
        return cell

    def _describe_memory(self, needed_bytes: float, least: str = "") -> str:
        available_bytes = self.node.memory_bytes or 0
        return (
            f"needs {least}{format_scaled(needed_bytes, 'B')} of memory on each device, and "
            f"{self.node.name} has {format_scaled(available_bytes, 'B')}"
        )


def _describe_share(share: float) -> str:
    """Describe what XLA may gain beside communication; "" for nothing."""
    gain = format_percent(1 - share)
    return (
        f", and XLA made its compute {gain} shorter, as that of a compiled one" if share < 1 else ""
    )


def _may_beat(row: LayoutRow, limit_s: float) -> bool:
    """Return whether a layout may be faster than a step time."""
    return row.bound is None or row.bound.step_time_s < limit_s


def _list_refused(rows: Sequence[LayoutRow]) -> list[LayoutRow]:
    """List the layouts that have an estimate, and that XLA could not compile."""
    return [row for row in rows if row.status == "failed" and row.fused is not None]


def _has_compiled(rows: Sequence[LayoutRow]) -> bool:
    """Return whether XLA has compiled a layout, even if it does not fit the memory."""
    return any(row.compiled is not None for row in rows)


def _read_pipeline_figures(answer: Figures, form: str) -> LayoutFigures:
    """Read the figures of a pipeline; the time of a device without compute includes its bubble."""
    step_s, compute_s = answer["step_time_s"], answer["compute_s"]
    # Without communication in its tasks, the whole schedule is shorter in this proportion.
    overlapped_s = step_s * compute_s / (compute_s + answer["exposed_comm_s"])
    exposed_s = step_s - compute_s
    row = {**answer, "exposed_comm_s": exposed_s}
    return LayoutFigures.from_row(form, row, bubble_s=overlapped_s - compute_s)


def explain_plan(
    plan: LayoutPlan,
    request: LayoutRequest,
    runs: LayoutRuns,
    programs: LayoutPrograms,
) -> LayoutPlan:
    """Add to a plan why its winner wins, and how to build it.

    Args:
        plan: The plan.
        request: What it searched.
        runs: The runs of its layouts.
        programs: The programs of the layouts.

    Raises:
        HespasError: The program of a layout cannot be estimated again.
    """
    is_in_process = isinstance(programs, FunctionPrograms)  # which no command can import
    winner = plan.winner
    if winner is None:
        return plan
    second = next((row for row in plan.rows[1:] if row.rank == 2), None)
    differences = _compare_rows(winner, second, runs) if second else ()
    if is_pipeline(winner.candidate):
        assert winner.figures is not None
        words = list_study_words(runs, winner.candidate, winner.figures.form)
        return replace(plan, differences=differences, export_command=shlex.join(words))
    return replace(
        plan,
        differences=differences,
        export_command="" if is_in_process else format_export_command(request, winner),
        hybrid_mesh=format_hybrid_mesh(winner.candidate),
        maxtext_flags=list_maxtext_flags(request, winner),
        partition_specs=programs.list_partition_specs(winner.candidate),
        logical_axes=programs.rules.describe_layout(winner.candidate.mesh)
        if programs.rules
        else {},
    )


def format_export_command(request: LayoutRequest, row: LayoutRow) -> str:
    """Format the command that exports the program of a layout."""
    mesh = ",".join(f"{axis}={size}" for axis, size in row.candidate.mesh.items())
    words = ["hespas", "export", request.program, "--mesh", mesh]
    flag = "--static" if request.spec_file else "--set"
    if request.spec_file:
        words += ["--spec", request.spec_file]
    if not is_in_device_order(row.candidate.mesh, row.candidate.dcn):
        parts = [f"{axis}={part}" for axis, part in row.candidate.dcn.items() if part > 1]
        words += ["--dcn", ",".join(parts)]
    for name, value in row.candidate.options.items():
        words += [flag, f"{name}={value}"]
    return shlex.join(words)


def list_maxtext_flags(request: LayoutRequest, row: LayoutRow) -> list[str]:
    """List the keys of MaxText that make the layout of a row; none for programs it does not have.

    MaxText states the sizes of axes within a slice (ici) and between slices (dcn).
    """
    options = row.candidate.options
    kernel = options.get(ATTENTION, PLAIN_ATTENTION)
    is_fixed = kernel == PLAIN_ATTENTION or program_forms.find_compiler(request.node) is not None
    attention = MAXTEXT_ATTENTION.get(kernel) if is_fixed else MAXTEXT_CHOICE
    products = MAXTEXT_PRODUCTS.get(options.get(PRODUCTS, "none"))
    if request.program not in DECODERS or options.get(LOGITS) != MAXTEXT_LOGITS:
        return []
    if attention is None or products is None:
        return []
    flags = []  # MaxText's own default gives fsdp the devices that are left
    parts = divide_axes(row.candidate, request.devices // request.slices)
    for axis, (inside, between) in parts.items():  # which MaxText calls alike
        if inside > 1 or axis == "fsdp":
            flags.append(f"ici_{axis}_parallelism={inside}")
        if between > 1:
            flags.append(f"dcn_{axis}_parallelism={between}")
    step_samples = request.count_samples(options.get(SEQUENCE))
    samples = step_samples / request.devices / int(options.get(ACCUMULATE, "1"))
    flags.append(f"per_device_batch_size={samples:g}")
    flags += [f"{key}={options[n]}" for n, key in MAXTEXT_KEYS.items() if n in options]
    return [*flags, f"attention={attention}", *products]


def divide_axes(candidate: LayoutCandidate, slice_devices: int) -> dict[str, tuple[int, int]]:
    """Divide each axis of a layout into its sizes within slices and between them.

    Where the layout states no parts, the last axes lie within slices. One that does not divide
    evenly lies between them as a whole.
    """
    mesh, dcn = candidate.mesh, candidate.dcn
    if dcn:
        return {axis: (size // dcn.get(axis, 1), dcn.get(axis, 1)) for axis, size in mesh.items()}
    parts, left = {}, slice_devices
    for axis, size in reversed(list(mesh.items())):
        inside = size if left % size == 0 else left if size % left == 0 else 1
        parts[axis] = (inside, size // inside)
        left //= inside
    return dict(reversed(parts.items()))


def format_hybrid_mesh(candidate: LayoutCandidate) -> str:
    """Format the call of JAX that makes the mesh of a layout; "" for devices in order."""
    mesh, dcn = candidate.mesh, candidate.dcn
    if is_in_device_order(mesh, dcn):
        return ""
    within = tuple(size // dcn.get(axis, 1) for axis, size in mesh.items())
    between = tuple(dcn.get(axis, 1) for axis in mesh)
    devices = f"jax.experimental.mesh_utils.create_hybrid_device_mesh({within}, {between})"
    return f"jax.sharding.Mesh({devices}, {tuple(mesh)})"


def _compare_rows(winner: LayoutRow, second: LayoutRow, runs: LayoutRuns) -> list[LayoutDifference]:
    """Compare the parts of the steps of two layouts with ranks, which have figures of one form."""
    has_pipeline = is_pipeline(winner.candidate) or is_pipeline(second.candidate)
    first_parts, second_parts = (
        _time_coarse_parts(figures) if has_pipeline else _time_step_parts(figures, runs)
        for figures in (winner.figures, second.figures)
        if figures is not None
    )
    differences = [
        LayoutDifference(part, first_parts.get(part, 0.0), second_parts.get(part, 0.0))
        for part in first_parts | second_parts
    ]
    step_s = winner.figures.step_time_s if winner.figures else 0.0
    differences = [d for d in differences if abs(d.next_s - d.winner_s) > MIN_DIFFERENCE * step_s]
    return sorted(differences, key=lambda d: -abs(d.next_s - d.winner_s))


def _time_coarse_parts(figures: LayoutFigures) -> dict[str, float]:
    """Time the parts of a step that layouts with and without stages both have."""
    compute_s = figures.get("compute_s") or 0.0
    return {"compute": compute_s, WAITING: figures.step_time_s - compute_s}


def _time_step_parts(figures: LayoutFigures, runs: LayoutRuns) -> dict[str, float]:
    """Time the parts of a step: kernels of each kind, and the collectives of each kind.

    A fusion of XLA may be a product, so that the class of a kernel tells its part. Estimators
    without classes tell what limits a kernel.
    """
    from hespas.workflows import api

    options = runs.make_config(figures.form).model_dump(exclude_unset=True)
    estimate = api.estimate(figures.program, **options, memory=False)
    parts: defaultdict[str, float] = defaultdict(float)
    classes = estimate.summary.list_time_shares("class")
    for name, time_ns in classes:
        parts[FAMILY_PARTS.get(find_kernel_family(name), OTHER_KERNELS)] += time_ns * 1e-9
    if not classes:
        for limit, time_s in estimate.breakdown.bounds.items():
            parts[f"kernels bound by {limit}"] += time_s
    simulation = estimate.summary.simulation
    for record in simulation.result.comms if simulation else ():
        if DEVICE in record.ranks:
            time_ns = record.finish_ns - record.ready_ns
            parts[f"{record.kind} of {len(record.ranks)}"] += time_ns * 1e-9
    parts[OVERLAP] = figures.step_time_s - sum(parts.values())
    return parts
