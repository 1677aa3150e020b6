"""Comparing the time of a whole program on one device with the sum of its regions' times.

The program of many devices runs on one: collectives are replaced by local ops.
"""

from __future__ import annotations

import statistics
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from hespas.dialects.executions import COLLECTIVE, iterate_op_executions
from hespas.dialects.mlir import (
    collect_functions,
    func,
    get_attribute,
    ir,
    stablehlo,
    walk_operations,
)
from hespas.dialects.op_bodies import format_zero
from hespas.dialects.op_kinds import find_entry_function, is_collective
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

TOKENS = ("!stablehlo.token", "!mhlo.token")

Signature = tuple[tuple[ir.Type, ...], tuple[ir.Type, ...]]  # types of operands and results


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
    whole, stand_ins = _build_local_program(module)
    passes.run_pipeline(module, split, run)
    options = MeasureOptions(cache="none", timeout=timeout_s)
    built = registry.build_estimator(estimator, None, settings)
    assert isinstance(built, MeasuringEstimator)
    config = built.config

    def measure_round() -> tuple[ComparisonRound, MeasureStatistics, Mapping[str, Any]]:
        measuring = _accept_whole_programs(cls)(config)
        items = [whole, *(item for item, _ in stand_ins)]
        measure_items(measuring, items, options, note=run.note, show_progress=run.progress)
        annotation = annotate_module(module, measuring, run, options=options)
        assert annotation.measured is not None
        regions = annotation.total
        times = ComparisonRound(
            _get_answer(measuring, whole),
            1e-9 * regions.time_ns,
            _sum_times(measuring, stand_ins, "median_s"),
            1e-9 * (regions.low_ns or 0.0) + _sum_times(measuring, stand_ins, "low_s"),
        )
        return times, annotation.measured, measuring.environment

    finished_rounds = [measure_round() for _ in range(rounds)]
    _, measured, environment = finished_rounds[-1]
    return ProgramComparison(
        tuple(times for times, _, _ in finished_rounds), measured.regions, measured.distinct,
        sum(count for _, count in stand_ins), require_target(module).devices,
        str(environment.get("device", "")), dict(environment.get("versions", {})),
    )  # fmt: skip


def _build_local_program(
    module: ir.Module,
) -> tuple[_ProgramItem, list[tuple[_ProgramItem, int]]]:
    """Build what is measured of a prepared program on one device, without communication.

    Returns:
        The whole program; and the local op in place of each distinct collective, with how often it
        runs.

    Raises:
        HespasError: The program computes nothing.
    """
    entry = find_entry_function(module)
    if has_only_free_ops(entry):
        raise HespasError("the program computes nothing", op=entry)
    stand_ins = [
        (_ProgramItem(op, str(build_stand_in_module(op))), count)
        for op, count in count_collectives(entry)
    ]
    return _ProgramItem(entry, _format_local_program(entry)), stand_ins


def _sum_times(
    estimator: MeasuringEstimator, items: Sequence[tuple[CostItem, int]], key: str
) -> float:
    """Sum a time of measured items, each as often as it runs."""
    return sum(count * _get_answer(estimator, item)[key] for item, count in items)


class _ProgramItem(CostItem):
    """A program that is compiled as it is, not as a region."""

    def __init__(self, op: ir.Operation, program: str) -> None:
        super().__init__(op, program)
        self.program = program


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


def _get_answer(estimator: MeasuringEstimator, item: CostItem) -> Answer:
    answer = estimator.answers[item.digest]
    if isinstance(answer, UnknownCost):
        raise answer
    return answer


def count_collectives(function: ir.Operation) -> list[tuple[ir.Operation, int]]:
    """Count the executions of collectives in a prepared function by types.

    Returns:
        The first collective of each operand and result types, and the executions of all of them.
    """
    counts: Counter[str] = Counter()
    first: dict[str, ir.Operation] = {}
    for op, runs, kind, _ in iterate_op_executions(function):
        if kind == COLLECTIVE:
            key = str(_get_collective_signature(op))
            first.setdefault(key, op)
            counts[key] += runs
    return [(first[key], count) for key, count in counts.items()]


def _get_collective_signature(op: ir.Operation) -> Signature:
    """Return the types of operands and results, without tokens."""
    return (
        tuple(value.type for value in op.operands if str(value.type) not in TOKENS),
        tuple(value.type for value in op.results if str(value.type) not in TOKENS),
    )


def replace_collectives(module: ir.Module) -> None:
    """Replace each collective in ``main``, in place, by local ops with the same result types.

    The operands are cut and repeated to the shapes of the results. This happens in a branch of a
    ``case``, because compilers fuse neither across a collective nor across a ``case``. The branch
    is selected by a new last argument of ``main``, an i32 that must be 0.
    """
    main = collect_functions(module)["main"]
    collectives: list[ir.Operation] = []
    walk_operations(main, lambda op: collectives.append(op) if is_collective(op) else None)
    if not collectives:
        return
    with main.context, ir.Location.unknown():
        block = main.regions[0].blocks[0]
        kind = ir.RankedTensorType.get([], ir.IntegerType.get_signless(32))
        alternative = block.add_argument(kind, ir.Location.unknown())
        old = get_attribute(main, "function_type").value
        new = ir.FunctionType.get([*old.inputs, kind], old.results)
        main.attributes["function_type"] = ir.TypeAttr.get(new)
        for op in collectives:
            _replace_collective(op, alternative)


def build_stand_in_module(op: ir.Operation) -> ir.Module:
    """Build a module whose ``main`` runs the local ops that replace a collective."""
    inputs, results = _get_collective_signature(op)
    with op.context, ir.Location.unknown():
        module = ir.Module.create()
        kind = ir.RankedTensorType.get([], ir.IntegerType.get_signless(32))
        with ir.InsertionPoint(module.body):
            main = func.FuncOp("main", ir.FunctionType.get([*inputs, kind], list(results)))
        *values, alternative = main.add_entry_block().arguments
        with ir.InsertionPoint(main.entry_block):
            func.ReturnOp(_build_case_op(alternative, values, results))
    return module


def _replace_collective(op: ir.Operation, alternative: ir.Value) -> None:
    _, types = _get_collective_signature(op)
    with ir.InsertionPoint(op):
        operands = [value for value in op.operands if str(value.type) not in TOKENS]
        replacements = iter(_build_case_op(alternative, operands, types) if types else [])
        for result in op.results:
            is_token = str(result.type) in TOKENS
            value = stablehlo.AfterAllOp([]).result if is_token else next(replacements)
            result.replace_all_uses_with(value)
    op.erase()


def _build_case_op(
    alternative: ir.Value, values: Sequence[ir.Value], types: Sequence[ir.Type]
) -> Sequence[ir.Value]:
    case = ir.Operation.create(
        "stablehlo.case", results=list(types), operands=[alternative], regions=2
    )
    kinds = [ir.RankedTensorType(type_) for type_ in types]
    for number, region in enumerate(case.regions):
        with ir.InsertionPoint(region.blocks.append()):
            returned_values = (
                _fit_values_to_types(values, kinds)
                if number == 0
                else [_build_zeros(kind) for kind in kinds]
            )
            stablehlo.ReturnOp(returned_values)
    return case.results


def _fit_values_to_types(
    values: Sequence[ir.Value], kinds: Sequence[ir.RankedTensorType]
) -> list[ir.Value]:
    """Fit the value at each position to its type; zeros if rank or element type differ."""
    fitted_values: list[ir.Value] = []
    for number, kind in enumerate(kinds):
        fits = number < len(values) and _has_same_kind(values[number].type, kind)
        fitted_values.append(
            _fit_value_to_type(values[number], kind) if fits else _build_zeros(kind)
        )
    return fitted_values


def _has_same_kind(type_: ir.Type, kind: ir.RankedTensorType) -> bool:
    own = ir.RankedTensorType(type_)
    return own.rank == kind.rank and own.element_type == kind.element_type


def _fit_value_to_type(value: ir.Value, kind: ir.RankedTensorType) -> ir.Value:
    """Cut, then repeat a value dimension by dimension."""
    for d in range(kind.rank):
        value = _cut_dimension(
            value, d, min(kind.shape[d], ir.RankedTensorType(value.type).shape[d])
        )
    for d in range(kind.rank):
        shape = list(ir.RankedTensorType(value.type).shape)
        if 0 < shape[d] < kind.shape[d]:
            copies = -(-kind.shape[d] // shape[d])
            shape[d] *= copies
            wide = ir.RankedTensorType.get(shape, kind.element_type)
            value = stablehlo.ConcatenateOp([value] * copies, d, results=[wide]).result
            value = _cut_dimension(value, d, kind.shape[d])
    return value


def _cut_dimension(value: ir.Value, dimension: int, extent: int) -> ir.Value:
    shape = list(ir.RankedTensorType(value.type).shape)
    if shape[dimension] == extent:
        return value
    shape[dimension] = extent
    return stablehlo.SliceOp(value, [0] * len(shape), shape, [1] * len(shape)).result


def _build_zeros(kind: ir.RankedTensorType) -> ir.Value:
    element = str(kind.element_type)
    zero = ir.Attribute.parse(f"dense<{format_zero(element)}> : tensor<{element}>")
    scalar = stablehlo.ConstantOp(zero).result
    return stablehlo.BroadcastInDimOp(kind, scalar, ir.DenseI64ArrayAttr.get([])).result
