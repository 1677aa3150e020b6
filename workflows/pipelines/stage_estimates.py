"""Estimates of the programs of stages: StableHLO modules of one rank's devices.

The first result of a forward program is the activation for the next stage, or the loss in the last
one; its other results are what the backward pass reads. The first result of a backward program, or
of one of the gradient of its input, is that gradient; the first stage has none. The program of the
optimiser takes its state and the sums of the gradients.

Between tasks, a rank keeps the state and the sums of gradients of its stages, which are the
arguments of their optimisers; and for each microbatch in flight, the received activation and what
the forward program keeps for the gradients.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

from hespas.chakra.trace_steps import ProgramTrace
from hespas.dialects.attrs import MemoryAttr
from hespas.dialects.mlir import ir
from hespas.dialects.op_bodies import get_terminator
from hespas.dialects.op_kinds import find_entry_function
from hespas.dialects.program_facts import read_current_facts
from hespas.estimators.registry import JOB_DEVICES, convert_settings, load_estimator_class
from hespas.estimators.rules.base import to_buffer_size
from hespas.passes.emit.emit_chakra import EmittedTraces
from hespas.passes.memory.value_roles import find_replaced_arguments
from hespas.support.errors import HespasError, UsageError
from hespas.support.settings import list_settings
from hespas.workflows import run_flow
from hespas.workflows.pipelines.schedules import (
    BACKWARD,
    FORWARD,
    INPUT_GRADIENT,
    WEIGHT_GRADIENT,
    PipelineSchedule,
    StageTask,
    TaskKind,
)
from hespas.workflows.run_config import RunConfig
from hespas.workflows.run_plan import build_run_plan
from hespas.workflows.run_warnings import warn_of_stale_figures

StagePart = TaskKind | Literal["update"]
UPDATE: StagePart = "update"
TASK_KINDS: Sequence[TaskKind] = (FORWARD, BACKWARD, INPUT_GRADIENT, WEIGHT_GRADIENT)
SPLIT = "linear"  # the kernels of a task run one after the other
PARTS: Sequence[StagePart] = (*TASK_KINDS, UPDATE)
StageFiles = Mapping[StagePart, str]
"""The files of the programs of a stage."""


@dataclass(frozen=True)
class StageProgramEstimate:
    """The estimate of one program of a stage.

    Attributes:
        trace: Its trace on the devices of a rank.
        compute_ns: The compute time of a device.
        band_ns: Its 80 % band; None if the estimator does not know how far off it is.
        argument_bytes: The bytes of all arguments.
        result_bytes: The bytes of each result.
        new_results: The numbers of the results that do not replace arguments.
        peak_bytes: The peak memory.
        warnings: What makes the estimate less certain.
        facts: What the exporter wrote about the program: tokens and FLOPs of the model.
        dtype_flops: The operations of a device that utilisation counts, by element type.
        energy_nj: The energy of the compute of a device; None if it is unknown.
    """

    trace: ProgramTrace
    compute_ns: float
    band_ns: tuple[float, float] | None
    argument_bytes: int
    result_bytes: tuple[int, ...]
    new_results: frozenset[int]
    peak_bytes: int
    warnings: tuple[str, ...] = ()
    facts: Mapping[str, Any] = field(default_factory=dict)
    dtype_flops: Mapping[str, int] = field(default_factory=dict)
    energy_nj: float | None = None

    @property
    def temporary_bytes(self) -> int:
        """The memory that is used while the program runs, besides arguments and new results."""
        new_bytes = sum(self.result_bytes[i] for i in self.new_results)
        return max(self.peak_bytes - self.argument_bytes - new_bytes, 0)

    def sum_kept_bytes(self, first: int) -> int:
        """Sum the new results from number ``first`` on."""
        return sum(self.result_bytes[i] for i in self.new_results if i >= first)


@dataclass(frozen=True)
class StageEstimate:
    """The number of a stage, and the estimates of its programs by their parts."""

    number: int
    programs: Mapping[StagePart, StageProgramEstimate]

    def get_program(self, part: StagePart) -> StageProgramEstimate:
        """Return the estimate of a part; raises HespasError if the stage has no such program."""
        if part not in self.programs:
            raise HespasError(
                f"stage {self.number} has no {part.replace('_', ' ')} program",
                remedy="add its file, or choose another schedule",
            )
        return self.programs[part]

    def get_message_bytes(self, kind: TaskKind) -> int:
        """Return the bytes of the first result; raises HespasError if nothing can be sent."""
        program = self.get_program(kind)
        if not program.result_bytes or not program.result_bytes[0]:
            raise HespasError(
                f"the {kind.replace('_', ' ')} program of stage {self.number} returns nothing to "
                "send",
                remedy="return the activation, or its gradient, first",
            )
        return program.result_bytes[0]


def add_job_devices(config: RunConfig, devices: int) -> RunConfig:
    """Return the run for a job of several ranks, whose programs have fewer devices.

    A setting that is there stays, unless it is 0.
    """
    known = list_settings(load_estimator_class(config.estimator).Config)
    if JOB_DEVICES not in {setting.name for setting in known}:
        return config
    settings = convert_settings(config.estimator, config.setting)
    setting = {**settings, JOB_DEVICES: settings.get(JOB_DEVICES) or devices}
    return config.model_copy(update={"setting": setting})


def estimate_stages(
    stages: Sequence[StageFiles],
    config: RunConfig,
    known: dict[str, StageProgramEstimate] | None = None,
) -> list[StageEstimate]:
    """Estimate the programs of all stages; equal files are estimated once.

    Args:
        stages: The files of each stage.
        config: The run that estimates each of them, without the program.
        known: By file, the estimates by this run that exist; those of other files are added.

    Raises:
        HespasError: A program cannot be read or estimated, or ranks have unlike devices.
    """
    estimates = {} if known is None else known
    paths = list(dict.fromkeys(path for files in stages for path in files.values()))
    for path in paths:
        if path not in estimates:
            estimates[path] = estimate_stage_program(path, config)
    counts = {path: estimates[path].trace.devices for path in paths}
    if len(set(counts.values())) > 1:
        fewest, most = (choose(counts, key=counts.__getitem__) for choose in (min, max))
        raise HespasError(
            f"it runs on {counts[most]} devices, and {fewest} on {counts[fewest]}",
            where=most,
            remedy="give all stages equal meshes",
        )
    return [
        StageEstimate(number, {part: estimates[path] for part, path in files.items()})
        for number, files in enumerate(stages)
    ]


def estimate_stage_program(path: str, config: RunConfig) -> StageProgramEstimate:
    """Estimate one program as ``hespas run`` does; raises HespasError."""
    config = config.model_copy(update={"mlir": path, "system": None, "split": SPLIT})
    outcome = run_flow.execute_plan(run_flow.place_traces(build_run_plan(config)))
    emitted, memory = outcome.run.get_artefact(EmittedTraces), outcome.run.get_artefact(MemoryAttr)
    totals = emitted.stats["totals"]
    warn_of_stale_figures(outcome.module, outcome.run, {})
    arguments, results, replaced = _read_signature(outcome.module)
    return StageProgramEstimate(
        trace=emitted.trace,
        compute_ns=totals["time_ns"],
        band_ns=None if totals["low_ns"] is None else (totals["low_ns"], totals["high_ns"]),
        argument_bytes=sum(arguments),
        result_bytes=tuple(results),
        new_results=frozenset(range(len(results))) - replaced,
        peak_bytes=memory.peak_bytes,
        warnings=tuple(outcome.run.warnings),
        facts=read_current_facts(outcome.module),
        dtype_flops={name: row["executed_flops"] for name, row in emitted.stats["dtypes"].items()},
        energy_nj=totals["energy_nj"],
    )


def _read_signature(module: ir.Module) -> tuple[list[int], list[int], frozenset[int]]:
    """Read the bytes of arguments and results, and the results that replace arguments."""
    entry = find_entry_function(module)
    block = entry.regions[0].blocks[0]
    terminator = get_terminator(block)
    arguments = [to_buffer_size(value.type).bytes for value in block.arguments]
    results = [to_buffer_size(value.type).bytes for value in terminator.operands]
    replaced = find_replaced_arguments(module, entry, len(results))
    return arguments, results, frozenset(replaced.values())


def list_task_kinds(has_split_backward: bool) -> tuple[TaskKind, ...]:
    """Return the kinds of tasks of a schedule."""
    backward = (INPUT_GRADIENT, WEIGHT_GRADIENT) if has_split_backward else (BACKWARD,)
    return (FORWARD, *backward)


_FILE = re.compile(r"stage(?:-(\d+))?\.(\w+)\.(?:mlir|mlirbc|hlo|pb)(?:\.(?:xz|gz))?")


def find_stage_files(folder: str | Path, stages: int) -> list[StageFiles]:
    """Find the programs of stages: ``stage-N.PART.mlir``, or ``stage.PART.mlir`` for the others.

    Raises:
        UsageError: There is no such folder, a file has another part, is of a stage that there is
            not, or one of two of a program, or a program is missing.
    """
    if not os.path.isdir(folder):
        raise UsageError("there is no such folder", where=str(folder))
    files: dict[tuple[int | None, str], str] = {}
    for path in sorted(Path(folder).iterdir()):
        match = _FILE.fullmatch(path.name)
        if match is None:
            continue
        if match[2] not in PARTS:
            raise UsageError(
                f"stages have no part '{match[2]}'",
                where=str(path),
                remedy=f"parts are {', '.join(PARTS)}",
            )
        key = None if match[1] is None else int(match[1]), match[2]
        if key[0] is not None and key[0] >= stages:
            raise UsageError(
                f"the schedule has {stages} stages, the last of which is stage {stages - 1}",
                where=str(path),
                remedy="choose a schedule and ranks that run all programs, or remove this one",
            )
        if key in files:
            raise UsageError(
                f"{os.path.basename(files[key])} is the same program",
                where=str(path),
                remedy="keep one of them",
            )
        files[key] = str(path)
    selected: list[StageFiles] = [
        {
            part: files.get((number, part)) or files[None, part]
            for part in PARTS
            if {(number, part), (None, part)} & files.keys()
        }
        for number in range(stages)
    ]
    for number, programs in enumerate(selected):
        if FORWARD not in programs:
            name = f"stage-{number}.forward.mlir"
            raise UsageError(
                f"there is no forward program of stage {number}",
                where=str(folder),
                remedy=f"name it {name}, or stage.forward.mlir for several stages",
            )
    return selected


def count_in_flight(schedule: PipelineSchedule, rank: int) -> int:
    """Count the most microbatches, of all stages of a rank, whose activations it keeps at once."""
    return _find_peak(schedule.tasks[rank], lambda stage: 1, lambda stage: 0)


def compute_kept_bytes(
    schedule: PipelineSchedule, stages: Sequence[StageEstimate], rank: int
) -> int:
    """Compute the most bytes that the microbatches in flight of a rank keep at once."""
    back = list_task_kinds(schedule.has_split_backward)[1]

    def sum_forward_bytes(stage: int) -> int:
        own_bytes = stages[stage].get_program(FORWARD).sum_kept_bytes(first=1)
        if not stage:
            return own_bytes
        return own_bytes + stages[stage - 1].get_program(FORWARD).result_bytes[0]

    def sum_backward_bytes(stage: int) -> int:
        program = stages[stage].get_program(back)
        return program.sum_kept_bytes(first=1 if stage else 0)

    return _find_peak(schedule.tasks[rank], sum_forward_bytes, sum_backward_bytes)


def compute_rank_memory(
    schedule: PipelineSchedule, stages: Sequence[StageEstimate], rank: int
) -> int | None:
    """Compute the peak memory of a device of a rank; None if a stage has no optimiser."""
    own = [stages[number] for number in schedule.list_stages(rank)]
    updates = [stage.programs.get(UPDATE) for stage in own]
    state = [update.argument_bytes for update in updates if update is not None]
    if len(state) < len(updates):
        return None
    kinds = list_task_kinds(schedule.has_split_backward)
    temporary = max(stage.get_program(kind).temporary_bytes for stage in own for kind in kinds)
    during_update = max(update.temporary_bytes for update in updates if update is not None)
    kept_bytes = compute_kept_bytes(schedule, stages, rank)
    return sum(state) + max(kept_bytes + temporary, during_update)


def _find_peak(
    tasks: Iterable[StageTask],
    count_forward: Callable[[int], int],
    count_backward: Callable[[int], int],
) -> int:
    """Find the highest sum of what tasks keep.

    Args:
        tasks: The tasks of a rank, in order.
        count_forward: Returns what the forward task of a stage keeps until its last gradient.
        count_backward: Returns what the gradient of the input of a stage keeps until that of the
            weights.
    """
    total = peak = 0
    for kind, stage, _ in tasks:
        if kind == FORWARD:
            total += count_forward(stage)
        elif kind == INPUT_GRADIENT:
            total += count_backward(stage)
        elif kind == WEIGHT_GRADIENT:
            total -= count_forward(stage) + count_backward(stage)
        else:
            total -= count_forward(stage)
        peak = max(peak, total)
    return peak
