"""The time of a whole program on one device, beside the sum of its regions' times."""

from __future__ import annotations

import statistics
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from hespas.dialects.errors import HespasError, UsageError
from hespas.dialects.mlir import ir
from hespas.dialects.ops import entry
from hespas.estimators import registry
from hespas.estimators.base import Item
from hespas.estimators.lower.plain import to_plain
from hespas.estimators.measure.base import Answer, Measuring
from hespas.estimators.measure.region import is_nothing, standalone
from hespas.estimators.measure.run import Options, measure
from hespas.estimators.reference.local import collectives_of, make_local, stand_in
from hespas.estimators.work import UnknownCost
from hespas.passes.base import Run


@dataclass(frozen=True)
class Round:
    """One measurement of everything, in seconds; ``whole`` is that program's full answer.

    ``quick_parts_s`` is the sum of the parts' 10th percentiles.
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
        """The sum of the parts over the whole."""
        return (self.regions_s + self.stand_ins_s) / self.whole_s


@dataclass(frozen=True)
class Comparison:
    """The rounds, and what they were made with; ``regions`` run, of which ``distinct`` differ."""

    rounds: tuple[Round, ...]
    regions: int
    distinct: int
    collectives: int
    devices: int
    device: str
    versions: dict[str, str]

    def median(self, name: str) -> float:
        """The median over the rounds of one of their figures."""
        return statistics.median(getattr(found, name) for found in self.rounds)

    @property
    def least_ratio(self) -> float:
        """The ratio of the least 10th percentiles of all rounds: other work only adds time."""
        parts = min(found.quick_parts_s for found in self.rounds)
        return parts / min(found.whole["low_s"] for found in self.rounds)

    def to_json(self) -> dict[str, Any]:
        ratios = [found.ratio for found in self.rounds]
        return {
            "whole_s": self.median("whole_s"),
            "regions_s": self.median("regions_s"),
            "stand_ins_s": self.median("stand_ins_s"),
            "ratio": self.median("ratio"),
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
                    "whole_s": found.whole_s,
                    "whole_mad_s": found.whole["mad_s"],
                    "regions_s": found.regions_s,
                    "stand_ins_s": found.stand_ins_s,
                    "ratio": found.ratio,
                    "whole_low_s": found.whole["low_s"],
                    "quick_parts_s": found.quick_parts_s,
                    "clock": found.whole["clock"],
                    "host_load": found.whole["host_load"],
                }
                for found in self.rounds
            ],
        }


def compare(
    module: ir.Module,
    estimator: str,
    settings: Mapping[str, Any],
    split: str,
    run: Run,
    *,
    rounds: int = 3,
    timeout_s: float = 600.0,
) -> Comparison:
    """Measure a module whole and in the regions of ``split`` (a pass), ``rounds`` times in turn.

    The module is one device's program, with ``make_local``'s stand-ins for its collectives. Whole
    and parts are measured one after the other, so that a machine that gets slower or faster does so
    for both. The cache is not used. ``module`` is left split and annotated. Raises HespasError.
    """
    from hespas import passes
    from hespas.passes.annotate.traverse import annotate, target_of

    cls = registry.get(estimator)
    if not issubclass(cls, Measuring):
        raise UsageError(f"{estimator} does not measure", remedy="xla and iree do")
    passes.run(module, "prepare", run)
    if is_nothing(entry(module)):
        raise HespasError("the program computes nothing", op=entry(module))
    devices = target_of(module).devices
    collectives = collectives_of(entry(module))
    program = _Program(entry(module), _local_text(entry(module)))
    parts = [(_stand_in(found.op), found.count) for found in collectives]
    passes.run(module, split, run)
    options = Options(cache="none", timeout_s=timeout_s)
    done: list[Round] = []
    config = _built(estimator, settings).config
    built = _whole_programs(cls)(config)
    for _ in range(rounds):
        built = _whole_programs(cls)(config)
        measure(built, [program, *(item for item, _ in parts)], options, run)
        total = annotate(module, built, run, node="", options=options)
        done.append(
            Round(
                _answer(built, program),
                1e-9 * total.latency_ns,
                sum(count * _answer(built, item)["median_s"] for item, count in parts),
                1e-9 * (total.low_ns or 0.0)
                + sum(count * _answer(built, item)["low_s"] for item, count in parts),
            )
        )
    counted = run.results["measured"]
    return Comparison(
        tuple(done), counted.regions, counted.distinct,
        sum(found.count for found in collectives), devices,
        str(built.environment.get("device", "")), dict(built.environment.get("versions", {})),
    )  # fmt: skip


def _built(name: str, settings: Mapping[str, Any]) -> Measuring:
    built = registry.build(name, None, settings)
    assert isinstance(built, Measuring)
    return built


class _Program(Item):
    """A program that is compiled as it is written, not as a region."""

    def __init__(self, op: ir.Operation, program: str) -> None:
        super().__init__(op, program)
        self.program = program


def _whole_programs(cls: type[Measuring]) -> type[Measuring]:
    """The estimator, taking whole programs too."""

    class Whole(cls):
        def module(self, item: Item) -> str:
            return item.program if isinstance(item, _Program) else super().module(item)

    return Whole


def _local_text(function: ir.Operation) -> str:
    module = standalone(function)
    make_local(module)
    to_plain(module)
    return str(module)


def _stand_in(collective: ir.Operation) -> _Program:
    return _Program(collective, str(stand_in(collective)))


def _answer(estimator: Measuring, item: Item) -> Answer:
    answer = estimator.answers[item.digest]
    if isinstance(answer, UnknownCost):
        raise answer
    return answer
