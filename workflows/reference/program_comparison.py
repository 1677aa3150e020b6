"""Comparing the time of a whole program on one device with the sum of its regions' times."""

from __future__ import annotations

import statistics
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from hespas.dialects.attrs import Cost
from hespas.dialects.mlir import ir
from hespas.dialects.op_kinds import find_entry_function
from hespas.estimators import registry
from hespas.estimators.base import CostItem
from hespas.estimators.lower.plain_stablehlo import lower_to_plain_stablehlo
from hespas.estimators.measure.base import MeasuringEstimator
from hespas.estimators.measure.measurement_job import Answer
from hespas.estimators.measure.measurement_run import (
    MeasureOptions,
    MeasureStatistics,
    measure_items,
)
from hespas.estimators.measure.standalone_region import build_standalone_module, has_only_free_ops
from hespas.estimators.work import UnknownCost
from hespas.passes.base import PassRun
from hespas.support.errors import HespasError, UsageError
from hespas.workflows.reference.local_program import (
    build_stand_in_module,
    count_collectives,
    replace_collectives,
)


@dataclass(frozen=True)
class ComparisonRound:
    """One measurement of the whole program and of all its parts.

    Attributes:
        whole: The worker's answer for the whole program.
        regions_s: The sum of the regions' times in seconds.
        stand_ins_s: The sum of the times of the ops that replace collectives, in seconds.
        quick_parts_s: The sum of the 10th percentiles of all parts in seconds.
    """

    whole: Answer
    regions_s: float
    stand_ins_s: float
    quick_parts_s: float

    @property
    def whole_s(self) -> float:
        return self.whole["median_s"]

    @property
    def ratio(self) -> float:
        """The time of all parts over that of the whole program."""
        return (self.regions_s + self.stand_ins_s) / self.whole_s


@dataclass(frozen=True)
class ProgramComparison:
    """The rounds of a comparison.

    Attributes:
        rounds: The measurements.
        regions: The number of regions.
        distinct: The number of distinct regions.
        collectives: The number of collectives, which were replaced.
        devices: The number of devices of the program.
        device: The device that measured.
        versions: The versions of the packages that measured.
    """

    rounds: tuple[ComparisonRound, ...]
    regions: int
    distinct: int
    collectives: int
    devices: int
    device: str
    versions: dict[str, str]

    def compute_median(self, name: str) -> float:
        """Return the median of one figure over the rounds."""
        return statistics.median(getattr(measured_round, name) for measured_round in self.rounds)

    @property
    def least_ratio(self) -> float:
        """The ratio of the least 10th percentiles of all rounds, which other load affects least."""
        parts = min(measured_round.quick_parts_s for measured_round in self.rounds)
        return parts / min(measured_round.whole["low_s"] for measured_round in self.rounds)

    def to_json(self) -> dict[str, Any]:
        ratios = [measured_round.ratio for measured_round in self.rounds]
        return {
            "whole_s": self.compute_median("whole_s"),
            "regions_s": self.compute_median("regions_s"),
            "stand_ins_s": self.compute_median("stand_ins_s"),
            "ratio": self.compute_median("ratio"),
            "ratio_range": [min(ratios), max(ratios)],
            "least_ratio": self.least_ratio,
            "regions": self.regions,
            "distinct": self.distinct,
            "collectives": self.collectives,
            "devices": self.devices,
            "device": self.device,
            "versions": self.versions,
            "rounds": [
                {
                    "whole_s": measured_round.whole_s,
                    "whole_mad_s": measured_round.whole["mad_s"],
                    "regions_s": measured_round.regions_s,
                    "stand_ins_s": measured_round.stand_ins_s,
                    "ratio": measured_round.ratio,
                    "whole_low_s": measured_round.whole["low_s"],
                    "quick_parts_s": measured_round.quick_parts_s,
                    "clock": measured_round.whole["clock"],
                    "host_load": measured_round.whole["host_load"],
                }
                for measured_round in self.rounds
            ],
        }


def compare_with_regions(
    module: ir.Module,
    estimator: str,
    settings: Mapping[str, Any],
    split: str,
    run: PassRun,
    *,
    rounds: int = 3,
    timeout_s: float = 600.0,
) -> ProgramComparison:
    """Measure a program as a whole and region by region.

    Collectives are replaced by local ops. Whole program and parts are measured alternately, so that
    a change of the machine's speed affects both. The cache is not used.

    Args:
        module: The program; it is left split and annotated.
        estimator: The name of an estimator that measures.
        settings: Its settings.
        split: The pass that divides the program into regions.
        run: Receives notes and progress.
        rounds: The number of measurements, at least 1.
        timeout_s: The seconds that one measurement may take.

    Raises:
        HespasError: The program computes nothing, or cannot be measured.
    """
    from hespas import passes
    from hespas.passes.annotate.traverse import annotate_module, require_target

    cls = registry.load_estimator_class(estimator)
    if not issubclass(cls, MeasuringEstimator):
        raise UsageError(f"{estimator} does not measure", remedy="xla and iree do")
    passes.run_pipeline(module, "prepare", run)
    local = _build_local_program(module)
    passes.run_pipeline(module, split, run)
    options = MeasureOptions(cache="none", timeout=timeout_s)
    config = _build_measuring_estimator(estimator, settings).config

    def measure_round() -> tuple[ComparisonRound, MeasureStatistics, Mapping[str, Any]]:
        measuring = _accept_whole_programs(cls)(config)
        items = [local.whole, *(item for item, _ in local.stand_ins)]
        measure_items(measuring, items, options, note=run.note, show_progress=run.progress)
        annotation = annotate_module(module, measuring, run, options=options)
        assert annotation.measured is not None
        times = _summarise_round(local, measuring, annotation.total)
        return times, annotation.measured, measuring.environment

    finished_rounds = [measure_round() for _ in range(rounds)]
    _, measured, environment = finished_rounds[-1]
    return ProgramComparison(
        tuple(times for times, _, _ in finished_rounds), measured.regions, measured.distinct,
        sum(count for _, count in local.stand_ins), require_target(module).devices,
        str(environment.get("device", "")), dict(environment.get("versions", {})),
    )  # fmt: skip


def _build_local_program(module: ir.Module) -> _LocalProgram:
    """Build what is measured of a prepared program; raises HespasError if it computes nothing."""
    entry = find_entry_function(module)
    if has_only_free_ops(entry):
        raise HespasError("the program computes nothing", op=entry)
    stand_ins = [(_build_stand_in_item(each.op), each.count) for each in count_collectives(entry)]
    return _LocalProgram(_ProgramItem(entry, _format_local_program(entry)), stand_ins)


def _summarise_round(
    local: _LocalProgram, measuring: MeasuringEstimator, regions: Cost
) -> ComparisonRound:
    return ComparisonRound(
        _get_answer(measuring, local.whole),
        1e-9 * regions.time_ns,
        _sum_times(measuring, local.stand_ins, "median_s"),
        1e-9 * (regions.low_ns or 0.0) + _sum_times(measuring, local.stand_ins, "low_s"),
    )


def _sum_times(
    estimator: MeasuringEstimator, items: Sequence[tuple[CostItem, int]], key: str
) -> float:
    """Sum a time of measured items, each as often as it runs."""
    return sum(count * _get_answer(estimator, item)[key] for item, count in items)


def _build_measuring_estimator(name: str, settings: Mapping[str, Any]) -> MeasuringEstimator:
    estimator_instance = registry.build_estimator(name, None, settings)
    assert isinstance(estimator_instance, MeasuringEstimator)
    return estimator_instance


class _ProgramItem(CostItem):
    """A program that is compiled as it is, not as a region."""

    def __init__(self, op: ir.Operation, program: str) -> None:
        super().__init__(op, program)
        self.program = program


@dataclass(frozen=True)
class _LocalProgram:
    """A program for one device, without communication.

    Attributes:
        whole: The whole program.
        stand_ins: The local op in place of each distinct collective, and how often it runs.
    """

    whole: _ProgramItem
    stand_ins: Sequence[tuple[_ProgramItem, int]]


def _accept_whole_programs(cls: type[MeasuringEstimator]) -> type[MeasuringEstimator]:
    """Derive an estimator that also accepts whole programs."""

    class WholeProgramEstimator(cls):
        def build_module_text(self, item: CostItem) -> str:
            return (
                item.program if isinstance(item, _ProgramItem) else super().build_module_text(item)
            )

    return WholeProgramEstimator


def _format_local_program(function: ir.Operation) -> str:
    module = build_standalone_module(function)
    replace_collectives(module)
    lower_to_plain_stablehlo(module)
    return str(module)


def _build_stand_in_item(collective: ir.Operation) -> _ProgramItem:
    return _ProgramItem(collective, str(build_stand_in_module(collective)))


def _get_answer(estimator: MeasuringEstimator, item: CostItem) -> Answer:
    answer = estimator.answers[item.digest]
    if isinstance(answer, UnknownCost):
        raise answer
    return answer
