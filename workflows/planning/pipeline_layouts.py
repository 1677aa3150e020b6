"""Layouts with pipeline parallelism: the axis ``pipeline`` of recipes whose models have stages.

A layout of this kind has the programs of its stages in place of one program. Its lower bound is its
schedule with the bound of each task in place of its time, and with the time of each message on an
idle network. Every task and every message of the simulation takes at least as long and waits for
the same others, so that no bound is above the estimate.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace

from hespas.chakra.trace_steps import ProgramTrace
from hespas.configs.system_spec import SystemSpec
from hespas.frontends.export.program_source import DECODERS
from hespas.simulators.embedded.network import AnalyticalNetwork
from hespas.simulators.simulation_options import ASTRA, SimulationOptions
from hespas.support.errors import HespasError, UsageError
from hespas.workflows.pipelines.pipeline_cells import PipelineCell
from hespas.workflows.pipelines.pipeline_study import PipelineRequest, divide_global_batch
from hespas.workflows.pipelines.schedules import (
    FORWARD,
    INTERLEAVED,
    PipelineSchedule,
    StageTask,
    build_schedule,
    count_runs,
    time_schedule,
)
from hespas.workflows.pipelines.stage_estimates import (
    UPDATE,
    StageEstimate,
    StagePart,
    StageProgramEstimate,
    compute_rank_memory,
)
from hespas.workflows.pipelines.stage_workloads import (
    RECIPE,
    place_on_rank,
    plan_stage_workloads,
)
from hespas.workflows.planning import layout_space
from hespas.workflows.planning import program_sketch as sketch
from hespas.workflows.planning.layout_bounds import LayoutBounds, StepBound
from hespas.workflows.planning.layout_programs import LayoutRuns
from hespas.workflows.planning.layout_space import (
    ACCUMULATE,
    BATCH,
    SEQUENCE,
    LayoutCandidate,
    LayoutRequest,
    ProgramInterface,
)
from hespas.workflows.planning.program_sketch import SketchOp
from hespas.workflows.run_config import list_flag_words, list_run_options
from hespas.workflows.studies import program_forms
from hespas.workflows.studies.study_definition import StudyWorkload

PIPELINE, SCHEDULE, STAGES_PER_RANK = "pipeline", "schedule", "stages_per_rank"
PIPELINE_OPTIONS = (SCHEDULE, STAGES_PER_RANK)  # which are no options of the recipe
OPEN_SCHEDULES = ("1f1b",)  # tried unless the request names others
MOST_MICROBATCHES = 4  # for each rank, unless the request names their numbers
# Options that change no size of a sketch, so that layouts with other values share it.
UPDATE_INDEPENDENT = ("remat", "attention", BATCH, ACCUMULATE)
TASK_INDEPENDENT = ("zero1",)

_ProgramKey = tuple[tuple[tuple[str, int], ...], tuple[tuple[str, str], ...]]


def is_pipeline(candidate: LayoutCandidate) -> bool:
    """Return whether a layout has programs of stages."""
    return SCHEDULE in candidate.options


def select_rank_counts(request: LayoutRequest, interface: ProgramInterface) -> list[int]:
    """Select the sizes of the axis ``pipeline``; [1] if the request does not name it.

    Raises:
        UsageError: The program has no stages, or a size is wrong.
    """
    if PIPELINE in interface.axes:
        return [1]  # an axis of the program's own mesh
    sizes = list(dict.fromkeys(request.axes.get(PIPELINE, (1,))))
    for name in PIPELINE_OPTIONS:
        if name in request.options and PIPELINE not in request.axes:
            raise UsageError(
                f"option '{name}' needs the axis pipeline", remedy="give --mesh pipeline=2"
            )
    if sizes == [1]:
        return sizes
    if request.program not in DECODERS:
        raise UsageError(
            f"'{request.program}' has no programs of stages, which the axis {PIPELINE} needs",
            remedy=f"leave the axis out, or plan one of the recipes {', '.join(DECODERS)}",
        )
    if not sizes or min(sizes) < 1:
        raise UsageError(f"mesh axis '{PIPELINE}' has no sizes, or one below 1")
    return sizes


def drop_pipeline_options(request: LayoutRequest) -> LayoutRequest:
    """Return the request of the layouts without pipeline parallelism."""
    axes = {name: sizes for name, sizes in request.axes.items() if name != PIPELINE}
    options = {n: tried for n, tried in request.options.items() if n not in PIPELINE_OPTIONS}
    return replace(request, axes=axes, options=options)


def list_pipeline_candidates(
    request: LayoutRequest, interface: ProgramInterface, ranks: int
) -> list[LayoutCandidate]:
    """List the layouts with so many ranks, or one that says why there is none.

    Raises:
        UsageError: An option is wrong.
    """
    plain = drop_pipeline_options(request)
    rank_devices, rest = divmod(request.devices, ranks)
    if rest:
        error = f"{request.devices} devices are not divisible by {ranks} ranks"
        return [_make_impossible(ranks, error)]
    plain = replace(plain, devices=rank_devices)
    axes = layout_space.select_axis_sizes(plain, interface)
    values = layout_space.select_option_values(plain, interface)
    try:
        meshes = layout_space.enumerate_meshes(axes, rank_devices)
    except UsageError as error:
        return [_make_impossible(ranks, error.message)]
    defaults = {"model": interface.defaults["model"]} if "model" in interface.defaults else {}
    distinct: dict[str, LayoutCandidate] = {}
    for mesh in meshes:
        for chosen in layout_space.list_option_choices(values):
            for candidate in _list_schedules(request, ranks, mesh, {**defaults, **chosen}):
                # fsdp divides the state only: several divisions of a mesh are one layout.
                model = _make_rank_model(candidate)
                schedule = [candidate.options[name] for name in PIPELINE_OPTIONS]
                distinct.setdefault(repr((model, schedule)), candidate)
    if distinct:
        return list(distinct.values())
    return [_make_impossible(ranks, "no number of microbatches divides the global batch")]


def _make_impossible(ranks: int, error: str) -> LayoutCandidate:
    return LayoutCandidate({PIPELINE: ranks}, {SCHEDULE: OPEN_SCHEDULES[0]}, error=error)


def _list_schedules(
    request: LayoutRequest, ranks: int, mesh: Mapping[str, int], options: Mapping[str, str]
) -> Iterator[LayoutCandidate]:
    """Yield the layouts of a mesh and options: each schedule with each number of microbatches."""
    samples = request.count_samples(options.get(SEQUENCE))
    for schedule in request.options.get(SCHEDULE, OPEN_SCHEDULES):
        per_rank = request.options.get(STAGES_PER_RANK, ("2",)) if schedule == INTERLEAVED else ()
        for stages in per_rank or ("1",):
            for count in _list_microbatches(request, ranks, samples):
                own = {**options, SCHEDULE: schedule, STAGES_PER_RANK: stages}
                own[ACCUMULATE] = str(count)
                if schedule == "zb-h1" and "scan" not in request.options:
                    own["scan"] = "false"  # the gradients of a loop cannot be divided
                try:
                    build_schedule(schedule, ranks, count, int(stages))
                    own[BATCH] = str(divide_global_batch(samples, mesh, count))
                except UsageError:
                    continue
                if own[BATCH] in request.options.get(BATCH, (own[BATCH],)):
                    yield LayoutCandidate({PIPELINE: ranks, **mesh}, own)


def _list_microbatches(request: LayoutRequest, ranks: int, samples: int) -> list[int]:
    """List the numbers of microbatches to try: as requested, or from the ranks up."""
    if ACCUMULATE in request.options:
        return [int(count) for count in request.options[ACCUMULATE]]
    counts = range(ranks, min(MOST_MICROBATCHES * ranks, samples) + 1)
    return [count for count in counts if samples % count == 0]


def _make_rank_model(candidate: LayoutCandidate) -> StudyWorkload:
    """Make the model of a layout on the mesh of a rank, without axes of one device."""
    mesh = {axis: size for axis, size in candidate.mesh.items() if axis != PIPELINE and size > 1}
    return _place_model(candidate, mesh)


def _place_model(candidate: LayoutCandidate, mesh: Mapping[str, int]) -> StudyWorkload:
    options = {n: v for n, v in candidate.options.items() if n not in PIPELINE_OPTIONS}
    return place_on_rank(StudyWorkload(RECIPE, options, mesh, {}))


def build_layout_schedule(candidate: LayoutCandidate) -> PipelineSchedule:
    """Build the schedule of a layout; raises UsageError if it cannot run."""
    options = candidate.options
    return build_schedule(
        options[SCHEDULE],
        candidate.mesh[PIPELINE],
        int(options[ACCUMULATE]),
        int(options[STAGES_PER_RANK]),
    )


def plan_pipeline(candidate: LayoutCandidate, runs: LayoutRuns, form: str) -> PipelineCell:
    """Plan the pipeline of a layout in a form; one that has no programs has an error."""
    assert runs.system is not None  # only a single device has none
    cell = PipelineCell(runs.make_config(form), build_layout_schedule(candidate), (), runs.system)
    try:
        stages = plan_stage_workloads(_make_rank_model(candidate), cell.schedule)
        cell.make_programs(stages, form, runs.options)
    except HespasError as error:
        cell.error = error
    return cell


def list_study_words(runs: LayoutRuns, candidate: LayoutCandidate, form: str) -> list[str]:
    """List the words of the command that studies the pipeline of a layout in a form."""
    options, mesh = candidate.options, candidate.mesh
    sizes = [f"{n}={size}" for n, size in mesh.items() if n != PIPELINE and size > 1]
    words = ["hespas", "study", "pipeline", "--ranks", str(mesh[PIPELINE])]
    words += ["--mesh", ",".join(sizes)] if sizes else []
    words += ["--schedules", options[SCHEDULE], "--microbatches", options[ACCUMULATE]]
    words += ["--node", runs.node]
    words += ["--system", runs.system] if runs.system else []
    words += ["--form", form] if form != PipelineRequest.form else []
    if options[SCHEDULE] == INTERLEAVED:
        words += ["--stages-per-rank", options[STAGES_PER_RANK]]
    left = (*PIPELINE_OPTIONS, ACCUMULATE)
    for name, value in options.items():
        if name not in left:
            words += ["--set", f"{name}={value}"]
    names = set(list_run_options("hespas study pipeline"))
    if form not in program_forms.BY_XLA:
        names.discard("xla_optimize")
    return words + list_flag_words(runs.select_options(form), names)


def bound_layouts(
    bounds: LayoutBounds, candidates: Sequence[LayoutCandidate], system: SystemSpec | None
) -> list[StepBound | None]:
    """Bound layouts with and without stages; None for those whose sketches do not follow."""
    single = [i for i, one in enumerate(candidates) if not is_pipeline(one)]
    staged = [i for i, one in enumerate(candidates) if is_pipeline(one)]
    step_bounds: dict[int, StepBound | None] = dict.fromkeys(range(len(candidates)))
    step_bounds |= zip(
        single, bounds.bound_candidates([candidates[i] for i in single]), strict=True
    )
    if staged and system is not None:
        time_message_ns = _find_message_times(system, bounds.comm.options)
        pipelines = PipelineBounds(bounds, system.device_count, time_message_ns)
        answers = pipelines.bound_pipelines([candidates[i] for i in staged])
        step_bounds |= zip(staged, answers, strict=True)
    return [step_bounds[i] for i in range(len(candidates))]


def _find_message_times(
    system: SystemSpec, options: SimulationOptions
) -> Callable[[int, int, int], int]:
    """Return what times messages on a network without other traffic, by its network model."""
    if options.find_network_model(system) == ASTRA:
        return AnalyticalNetwork.from_system(system).compute_transfer_ns
    from hespas.simulators.embedded.flows.flow_engine import FlowNetwork

    return FlowNetwork.from_system(system, options).compute_transfer_ns


@dataclass(frozen=True)
class StageProgramBound:
    """Bounds of one program of a stage.

    Attributes:
        compute_s: Of its compute time.
        comm_s: Of the time of its collectives.
        argument_bytes: The bytes of its arguments.
        result_bytes: The bytes of each result.
    """

    compute_s: float
    comm_s: float
    argument_bytes: int
    result_bytes: tuple[int, ...]

    @property
    def time_s(self) -> float:
        return self.compute_s + self.comm_s


@dataclass
class PipelineBounds:
    """Computes bounds of layouts, and of schedules whose programs have bounds.

    Attributes:
        bounds: Derives and bounds the sketches of programs.
        device_count: The devices of all ranks.
        time_message_ns: Times a message on an idle network, by its source, its target and its
            bytes.
    """

    bounds: LayoutBounds
    device_count: int
    time_message_ns: Callable[[int, int, int], int]
    _messages_s: dict[tuple[int, int, int, int], float] = field(default_factory=dict)

    def bound_pipelines(self, candidates: Sequence[LayoutCandidate]) -> list[StepBound | None]:
        """Bound the step of each layout.

        A bound is None if a sketch of the stages does not follow, or if the layers cannot fill
        them, which the estimate of the layout reports.
        """
        layouts = [_plan_sketches(candidate) for candidate in candidates]
        programs = {
            _make_program_key(program): program
            for _, stages in layouts
            for stage in stages
            for program in stage.values()
        }
        recipe = replace(self.bounds, programs=self.bounds.programs.select_recipe(RECIPE))
        sketches = recipe.derive_sketches([*programs.values()])
        known = {
            key: self.bound_program(ops, program)
            for (key, program), ops in zip(programs.items(), sketches, strict=True)
            if ops is not None
        }
        bounds: list[StepBound | None] = []
        for schedule, stages in layouts:
            try:
                bounded: list[dict[StagePart, StageProgramBound]] = [
                    {part: known[_make_program_key(one)] for part, one in stage.items()}
                    for stage in stages
                ]
            except KeyError:  # of a program without a bound
                bounded = []
            bounds.append(self.bound_schedule(schedule, bounded) if bounded else None)
        return bounds

    def bound_program(self, ops: list[SketchOp], program: LayoutCandidate) -> StageProgramBound:
        """Bound a program of a stage by its sketch.

        Only the optimiser certainly reads what it writes.
        """
        is_update = program.options["part"] == UPDATE
        computed = [op for op in ops if is_update or op.kind != sketch.RESULT]
        sizes = {
            kind: [op.sizes[0] for op in ops if op.kind == kind]
            for kind in (sketch.ARGUMENT, sketch.RESULT)
        }
        return StageProgramBound(
            self.bounds.compute.bound_compute_s(computed),
            self.bounds.comm.bound_comm_s(ops, program.mesh),
            sum(sizes[sketch.ARGUMENT]),
            tuple(sizes[sketch.RESULT]),
        )

    def bound_schedule(
        self,
        schedule: PipelineSchedule,
        stages: Sequence[Mapping[StagePart, StageProgramBound]],
    ) -> StepBound:
        """Bound a step. Its time without compute is the bubble with collectives and messages."""
        step_s = self._bound_step_s(schedule, stages)
        compute_s = max(_sum_compute_s(schedule, stages, rank) for rank in range(schedule.ranks))
        return StepBound(compute_s, step_s - compute_s, _bound_memory(schedule, stages))

    def _bound_step_s(
        self,
        schedule: PipelineSchedule,
        stages: Sequence[Mapping[StagePart, StageProgramBound]],
    ) -> float:
        """Bound the end of the rank that ends last: its tasks, then its optimisers."""

        def find_delay(source: StageTask, target: StageTask) -> float:
            size = stages[source.stage][source.kind].result_bytes[0]
            ranks = schedule.find_rank(source.stage), schedule.find_rank(target.stage)
            devices = self.device_count // schedule.ranks
            return self._time_message_s(size, ranks[0] * devices, ranks[1] * devices, devices)

        spans = time_schedule(schedule, lambda t: stages[t.stage][t.kind].time_s, find_delay)
        ends_s = [0.0] * schedule.ranks
        for task, (_, end_s) in spans.items():
            rank = schedule.find_rank(task.stage)
            ends_s[rank] = max(ends_s[rank], end_s)
        for stage, programs in enumerate(stages):
            ends_s[schedule.find_rank(stage)] += programs[UPDATE].time_s
        return max(ends_s)

    def _time_message_s(self, size: int, source: int, target: int, devices: int) -> float:
        """Time the fastest of the messages between the devices of two ranks, by their first."""
        # Ranks of few devices may begin where ranks of many do, so that their number is in the key.
        key = (size, source, target, devices)
        if key not in self._messages_s:
            times_ns = (self.time_message_ns(source + i, target + i, size) for i in range(devices))
            self._messages_s[key] = 1e-9 * min(times_ns)
        return self._messages_s[key]


def _plan_sketches(
    candidate: LayoutCandidate,
) -> tuple[PipelineSchedule, list[dict[StagePart, LayoutCandidate]]]:
    """Plan the programs of the stages of a layout; none if its layers cannot fill them."""
    schedule = build_layout_schedule(candidate)
    mesh = {axis: size for axis, size in candidate.mesh.items() if axis != PIPELINE}
    try:
        workloads = plan_stage_workloads(_place_model(candidate, mesh), schedule)
    except HespasError:
        return schedule, []
    return schedule, [
        {part: _make_sketch_candidate(part, one) for part, one in stage.items()}
        for stage in workloads
    ]


def _make_sketch_candidate(part: StagePart, workload: StudyWorkload) -> LayoutCandidate:
    """Make the layout of a program without the options that its sketch does not depend on."""
    independent = UPDATE_INDEPENDENT if part == UPDATE else TASK_INDEPENDENT
    options = {n: value for n, value in workload.options.items() if n not in independent}
    return LayoutCandidate(workload.mesh, options)


def _make_program_key(program: LayoutCandidate) -> _ProgramKey:
    return tuple(sorted(program.mesh.items())), tuple(sorted(program.options.items()))


def _sum_compute_s(
    schedule: PipelineSchedule,
    stages: Sequence[Mapping[StagePart, StageProgramBound]],
    rank: int,
) -> float:
    """Sum the compute of a rank: its tasks and its optimisers."""
    runs = count_runs(schedule.tasks[rank]).items()
    tasks_s = sum(count * stages[stage][kind].compute_s for (stage, kind), count in runs)
    return tasks_s + sum(stages[stage][UPDATE].compute_s for stage in schedule.list_stages(rank))


def _bound_memory(
    schedule: PipelineSchedule, stages: Sequence[Mapping[StagePart, StageProgramBound]]
) -> int:
    """Bound the memory of the rank that needs most, as of programs without temporary values."""
    programs = [
        StageEstimate(
            number, {part: _make_smallest_program(part, one) for part, one in stage.items()}
        )
        for number, stage in enumerate(stages)
    ]
    return max(compute_rank_memory(schedule, programs, rank) or 0 for rank in range(schedule.ranks))


def _make_smallest_program(part: StagePart, bound: StageProgramBound) -> StageProgramEstimate:
    """Make a program that uses no temporary memory; results of forward programs are all kept."""
    kept_count = len(bound.result_bytes) if part == FORWARD else 0
    return StageProgramEstimate(
        trace=ProgramTrace(0),
        compute_ns=1e9 * bound.compute_s,
        band_ns=None,
        argument_bytes=bound.argument_bytes,
        result_bytes=bound.result_bytes,
        new_results=frozenset(range(kept_count)),
        peak_bytes=0,
    )
