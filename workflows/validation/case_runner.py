"""Predicting training cases: make, compile, estimate and simulate the program of each row.

Programs are kept as files named by their inputs, and results in the cache of sweeps, so that an
interrupted run continues and a second run computes nothing. A row that cannot be predicted stays in
the result with its reasons.
"""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from hespas import configs
from hespas.estimators.calibrated.attention_library import CUDNN
from hespas.estimators.calibrated.calibrated_estimator import CalibratedEstimator
from hespas.estimators.measure.measurement_cache import MeasurementCache
from hespas.passes.compile.compiler_process import describe_exceeded_size
from hespas.support.errors import HespasError
from hespas.support.text_tables import format_count
from hespas.workflows.cells import PoolOptions
from hespas.workflows.figures import ROW_COLUMNS
from hespas.workflows.followed_flags import select_followed_flags
from hespas.workflows.pipelines.pipeline_cells import (
    PipelineCell,
    estimate_pipelines,
)
from hespas.workflows.pipelines.pipeline_estimate import Figures
from hespas.workflows.pipelines.schedules import FORWARD
from hespas.workflows.pipelines.stage_estimates import StagePart
from hespas.workflows.run_config import RunConfig
from hespas.workflows.step_facts import add_network_error
from hespas.workflows.studies import program_forms, study_runner
from hespas.workflows.studies.study_definition import StudyWorkload
from hespas.workflows.studies.study_programs import (
    StudyProgram,
    count_host_devices,
    make_node_program,
)
from hespas.workflows.studies.study_runner import StudyCell
from hespas.workflows.sweep.sweep_table import extract_error_message
from hespas.workflows.validation.case_kernels import choose_attention_library, divide_logits
from hespas.workflows.validation.case_layers import (
    extend_row,
    plan_oversized_extension,
    plan_unrolled_extension,
)
from hespas.workflows.validation.case_programs import plan_case_program
from hespas.workflows.validation.case_systems import (
    choose_case_system,
    count_xla_devices,
    describe_inferred_limit,
    find_node,
    write_case_system,
)
from hespas.workflows.validation.prediction_scores import MeasuredCell, StepPrediction
from hespas.workflows.validation.training_cases import CaseOptions, CaseOutcome, TrainingCase


def predict_cases(
    cases: Sequence[TrainingCase], options: CaseOptions, note: Callable[[str], None]
) -> list[CaseOutcome]:
    """Predict the step time of each case, in order.

    Raises:
        HespasError: The estimator is unknown, the folder or the cache cannot be used, or JAX is
            missing.
    """
    program_forms.check_run_options(options.run, options.form or program_forms.SCHEDULED)
    with MeasurementCache(options.cache):
        pass  # a damaged cache is an error before hours of compilation, not after
    outcomes = [_plan_case_or_report(case, options) for case in cases]
    _make_programs(outcomes, options, note)
    for replace_oversized in (divide_oversized_logits, extend_oversized_programs):
        _make_programs(replace_oversized(outcomes, note), options, note)
    if options.form is None:
        _make_programs(_fuse_uncompiled_programs(cases, outcomes, options), options, note)
        fused = [o.case.id for o in outcomes if o.form == program_forms.FUSED and not o.reasons]
        if fused:
            note(
                f"validate: {format_count(len(fused), 'row')} in the form fused, because XLA "
                f"cannot compile (--form scheduled refuses instead): {', '.join(fused)}"
            )
    staged = [o for o in outcomes if not o.reasons and o.schedule is not None]
    runnable = [o for o in outcomes if not o.reasons and o.schedule is None]
    computed = _predict_pipelines(staged, options, note)
    computed += _run_programs(runnable, options, note)
    predicted = [o for o in outcomes if o.prediction is not None]
    extended = sum(o.extension is not None for o in predicted)
    remark = f" ({extended} from programs with fewer layers)" if extended else ""
    note(
        f"{len(predicted)} of {len(outcomes)} rows predicted{remark}, {computed} computed now; "
        f"programs are in {options.program_folder}"
    )
    return outcomes


def _run_programs(
    outcomes: Sequence[CaseOutcome], options: CaseOptions, note: Callable[[str], None]
) -> int:
    """Estimate and simulate the programs of cases; returns how many were not in the cache."""
    for outcome in outcomes:
        config = _make_run_config(outcome, options, system=_write_system(outcome, options) or None)
        for cell in outcome.cells:
            cell.config = config
    cells = [cell for outcome in outcomes for cell in outcome.cells]
    computed = study_runner.run_programs(cells, options, note) if cells else 0
    for outcome in outcomes:
        _add_program_figures(outcome, [cell.answer for cell in outcome.cells])
    return computed


def _write_system(outcome: CaseOutcome, options: CaseOptions) -> str:
    """Return the system of a case, whose files are written if it is no preset."""
    assert outcome.system is not None
    return write_case_system(outcome.system, outcome.node, options.program_folder / "systems")


def _add_program_figures(outcome: CaseOutcome, rows: Sequence[dict[str, Any]]) -> None:
    """Add the figures of the program of a case, or those extended from two smaller ones."""
    path = outcome.cells[-1].path
    if outcome.extension is None:
        _add_figures(outcome, rows[0], path)
        return
    try:
        figures = extend_row(rows[0], rows[1], outcome.extension.counts)
    except Exception as error:
        outcome.reasons["run"] = _describe_exception(error)
        return
    if outcome.extension.exceeded_limit:
        figures["memory.fits"] = False
    _add_figures(outcome, figures, path)


def _plan_case_or_report(case: TrainingCase, options: CaseOptions) -> CaseOutcome:
    """Plan a case; what raises is its reason."""
    try:
        return _plan_case(case, options)
    except Exception as error:
        return CaseOutcome(case, {"internal": _describe_exception(error)})


def _describe_exception(error: Exception) -> str:
    """Describe what a row raises, even if it is a defect of hespas: the other rows go on."""
    if isinstance(error, HespasError):
        return error.message
    return f"internal error: {type(error).__name__}: {error}"


def _plan_case(case: TrainingCase, options: CaseOptions) -> CaseOutcome:
    """Choose the program, node and network of a case, or state the reasons against it."""
    hardware, hardware_reason = case.get_text("hardware"), ""
    node = find_node(hardware, case.get_text("source"))
    devices = count_xla_devices(case, node)
    chips, case = case.devices, dataclasses.replace(case, devices=devices)
    form, without_xla = options.form or program_forms.SCHEDULED, ""
    if not node:
        hardware_reason = f"no node preset for '{hardware}'"
    else:
        try:
            form, without_xla = program_forms.choose_form(options.form, node)
        except HespasError as error:
            hardware_reason = error.message
    compiler = program_forms.find_compiler(node)
    is_compiled = form in program_forms.BY_XLA
    outcome = plan_case_program(case, options.changes, compiler=compiler, is_compiled=is_compiled)
    outcome.node, outcome.form = node, form
    if without_xla:
        outcome.assumptions.append(f"{without_xla}: hespas fuses the program")
    if devices != chips:
        outcome.assumptions.append(f"{chips} chips are {devices} devices")
    if hardware_reason:
        outcome.reasons["hardware"] = hardware_reason
        return outcome
    try:
        outcome.system = choose_case_system(node, devices, case.describe_network())
    except HespasError as error:
        outcome.reasons["network"] = error.message
    if outcome.reasons or outcome.workload is None or outcome.system is None:
        return outcome
    outcome.assumptions += filter(None, (describe_inferred_limit(node), outcome.system.assumption))
    is_fused = outcome.workload.options.get("attention") == program_forms.FUSED_ATTENTION["gpu"]
    if is_fused and compiler is None:
        outcome.assumptions.append(program_forms.STAND_IN.format(node=node))
    has_libraries = compiler == "gpu" or configs.load_node(node).vendor == "AMD"
    if is_fused and has_libraries and options.run.estimator == CalibratedEstimator.name:
        outcome.attention = choose_attention_library(outcome, node)
    if outcome.schedule is None:
        outcome.program = _make_program(outcome, options, outcome.workload)
        extension = None if options.all_layers else plan_unrolled_extension(outcome.program)
        if extension is not None:
            outcome.extend_layers(extension)
    return outcome


def _make_program(
    outcome: CaseOutcome, options: CaseOptions, workload: StudyWorkload
) -> StudyProgram:
    """Make a program of a case whose network is known."""
    system = outcome.system
    assert system is not None
    sides = system.dimensions
    per_host = sides[0].devices if sides else count_host_devices(system.name)
    return make_node_program(
        workload, outcome.form, outcome.node, per_host, options.run, outcome.xla_options,
        dcn={} if outcome.schedule else outcome.dcn,
    )  # fmt: skip


def _make_programs(
    outcomes: Sequence[CaseOutcome], options: PoolOptions, note: Callable[[str], None]
) -> None:
    """Make the programs that do not exist; one that cannot be made is a reason."""
    for outcome in outcomes:
        outcome.cells = [
            StudyCell({}, outcome.case.devices, outcome.node, program.workload, program=program)
            for program in outcome.compiled_programs
        ]
    cells = [cell for outcome in outcomes for cell in outcome.cells]
    if not cells:
        return
    study_runner.make_programs(cells, options, note)
    for outcome in outcomes:
        times_s = [cell.elapsed_s for cell in outcome.cells if cell.elapsed_s is not None]
        outcome.compile_s = sum(times_s) if times_s else None
        if errors := [cell.error for cell in outcome.cells if cell.error is not None]:
            limit = outcome.extension.exceeded_limit if outcome.extension else ""
            outcome.reasons["compile"] = "; ".join(filter(None, (limit, errors[0].message)))


def divide_oversized_logits(
    outcomes: Sequence[CaseOutcome], note: Callable[[str], None]
) -> list[CaseOutcome]:
    """Let cases whose program XLA finds too large have logits in parts; returns those that can.

    Their framework must be able to compute them so.
    """
    divided = []
    for outcome, program, message in _generate_failures(outcomes):
        limit = describe_exceeded_size(message)
        workload = divide_logits(outcome.case, program.workload) if limit else None
        if workload is None:
            continue
        outcome.program = dataclasses.replace(program, workload=workload)
        parts = f"logits in {workload.options['vocab_tiles']} parts"
        outcome.assumptions.append(f"{parts}, because with all at once {limit}")
        _plan_again(outcome, f"{limit}: now with {parts}", note)
        divided.append(outcome)
    return divided


def extend_oversized_programs(
    outcomes: Sequence[CaseOutcome], note: Callable[[str], None]
) -> list[CaseOutcome]:
    """Let cases whose program XLA did not compile be predicted from smaller ones; returns these."""
    extended = []
    for outcome, program, message in _generate_failures(outcomes):
        extension = plan_oversized_extension(program, message)
        if extension is None:
            continue
        outcome.extend_layers(extension)
        counts = f"{extension.counts.short} and {extension.counts.long} layers"
        _plan_again(outcome, f"{extension.exceeded_limit}: now with {counts}", note)
        extended.append(outcome)
    return extended


def _fuse_uncompiled_programs(
    cases: Sequence[TrainingCase], outcomes: list[CaseOutcome], options: CaseOptions
) -> list[CaseOutcome]:
    """Plan cases whose program XLA did not compile in the form fused; returns these.

    One that XLA finds too large stays refused: it is not the program that was measured.
    """
    fused = []
    for index, outcome in enumerate(outcomes):
        message = outcome.reasons.get("compile", "")
        if message and outcome.extension is None and not describe_exceeded_size(message):
            instead = dataclasses.replace(options, form=program_forms.FUSED)
            outcomes[index] = _plan_case_or_report(cases[index], instead)
            why = f"XLA did not compile it ({message})"
            outcomes[index].assumptions.append(f"{why}: hespas fuses the program")
            fused.append(outcomes[index])
    return [outcome for outcome in fused if not outcome.reasons]


def _generate_failures(
    outcomes: Sequence[CaseOutcome],
) -> Iterator[tuple[CaseOutcome, StudyProgram, str]]:
    """Yield the cases whose whole program was not compiled, with the program and the reason."""
    for outcome in outcomes:
        message = outcome.reasons.get("compile", "")
        if outcome.program is not None and outcome.extension is None and message:
            yield outcome, outcome.program, message


def _plan_again(outcome: CaseOutcome, change: str, note: Callable[[str], None]) -> None:
    """Forget why a program was not compiled, and say what replaces it."""
    del outcome.reasons["compile"]
    note(f"validate: {outcome.case.id}: {change}")


def _predict_pipelines(
    outcomes: Sequence[CaseOutcome], options: CaseOptions, note: Callable[[str], None]
) -> int:
    """Make the programs of stages, and predict the steps; returns how many were not in the cache.

    An error is a reason.
    """
    cells: list[tuple[CaseOutcome, PipelineCell]] = []
    for outcome in outcomes:
        assert outcome.schedule is not None
        try:
            system, config = _write_system(outcome, options), _make_run_config(outcome, options)
            programs: list[Mapping[StagePart, StudyProgram]] = [
                {part: _make_program(outcome, options, workload) for part, workload in one.items()}
                for one in outcome.stage_workloads
            ]
            cell = PipelineCell(
                config,
                outcome.schedule,
                (),
                system,
                overlap_updates=outcome.case.framework.overlaps_updates,
                programs=programs,
            )
            cells.append((outcome, cell))
        except Exception as error:
            outcome.reasons["run"] = _describe_exception(error)
    if not cells:
        return 0
    computed = estimate_pipelines([cell for _, cell in cells], options, note)
    for outcome, cell in cells:
        if cell.error is not None:
            outcome.reasons["run"] = cell.error.message
        else:
            _add_figures(outcome, _make_pipeline_row(cell.figures), cell.files[0][FORWARD])
    return computed


def _make_pipeline_row(figures: Figures) -> dict[str, Any]:
    """Return the figures of a pipeline under the names of a sweep's row."""
    row = {ROW_COLUMNS[name]: value for name, value in figures.items() if name in ROW_COLUMNS}
    return {
        **row,
        "error": None,
        "exposed_comm_s": max(figures["step_time_s"] - figures["compute_s"], 0.0),
        "bubble_share": figures["bubble_share"],
        "warnings": json.dumps(figures["warnings"]),
    }


def _make_run_config(outcome: CaseOutcome, options: CaseOptions, **inputs: Any) -> RunConfig:
    """Make the run of a case, with the library of its attention unless a setting names one."""
    setting = dict(options.run.setting)
    if outcome.attention != CUDNN:
        setting = {"attention": outcome.attention, **setting}
    more: dict[str, Any] = {"setting": setting} if setting else {}
    if outcome.form == program_forms.FUSED and outcome.xla_options:
        texts = (select_followed_flags(outcome.xla_options), options.run.xla_optimize)
        more["xla_optimize"] = ",".join(filter(None, texts)) or None
    return program_forms.make_run_config(
        options.run, outcome.form, node=outcome.node, split="linear", **more, **inputs
    )


def _add_figures(outcome: CaseOutcome, row: Mapping[str, Any], path: str) -> None:
    """Add the figures of a run of a program; its error is a reason.

    The step of one device is its compute.
    """
    if row["error"] is not None:
        outcome.reasons["run"] = extract_error_message(row)
        return
    assert outcome.system is not None
    outcome.figures = row
    step = ("step_time_s", "step_time_band_s") if row.get("step_time_s") else (
        "compute_s", "compute_band_s"
    )  # fmt: skip
    case, exposed_s = outcome.case, row.get("exposed_comm_s") or 0.0
    low_s, high_s = row.get(f"{step[1]}.0"), row.get(f"{step[1]}.1")
    error = outcome.system.network_error
    if error is not None and low_s is not None and high_s is not None:
        low_s, high_s = add_network_error(row[step[0]], (low_s, high_s), exposed_s, error)
    outcome.prediction = StepPrediction(
        MeasuredCell(
            case.get_text("model"), case.devices, outcome.node, outcome.system.title,
            case.measured_s, 0.0, case.get_text("source"), case.line,
        ),
        row[step[0]],
        low_s,
        high_s,
        compute_s=row["compute_s"],
        exposed_s=exposed_s,
        program=Path(path).name,
    )  # fmt: skip
