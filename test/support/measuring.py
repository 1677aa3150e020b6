"""An estimator whose worker does what its payload says: answer, crash, hang, or take all memory."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar

from hespas.estimators.measure.base import MeasuringEstimator
from support.annotated_programs import REDUCE, X

# Two equal regions, one of its own, and one that is free; a collective after each.
PROGRAM = f"""module attributes {{mhlo.num_partitions = 2 : i32, mhlo.num_replicas = 1 : i32}} {{
  func.func public @main(%x: {X}) -> tensor<4096xf32> {{
    %0 = stablehlo.add %x, %x : {X}
    %1 = stablehlo.tanh %0 : {X}
    {REDUCE.format(2, 1)}
    %3 = stablehlo.add %2, %2 : {X}
    %4 = stablehlo.tanh %3 : {X}
    {REDUCE.format(5, 4)}
    %6 = stablehlo.subtract %5, %x : {X}
    %7 = stablehlo.sine %6 : {X}
    {REDUCE.format(8, 7)}
    %9 = stablehlo.reshape %8 : ({X}) -> tensor<4096xf32>
    return %9 : tensor<4096xf32>
  }}
}}"""


@dataclass(frozen=True)
class FakeConfig:
    """``act`` is what the worker does with modules that hold ``where``; ``log`` counts its calls.

    ``device`` is what the probe says.
    """

    act: str = ""
    where: str = ""
    log: str = ""
    device: str = "a fake device"
    mark: str = ""


class Fake(MeasuringEstimator):
    """A time that is the length of the module's text, in microseconds."""

    name: ClassVar[str] = "fake"
    version: ClassVar[str] = "1"
    Config: ClassVar[type] = FakeConfig
    worker: ClassVar[str] = "support.measuring_work:work"
    probe: ClassVar[str] = "support.measuring_work:probe"
    packages: ClassVar[tuple[str, ...]] = ("numpy",)


class OwnTurns(Fake):
    """The same with turns of its own."""

    turns: ClassVar = "own"
    worker: ClassVar[str] = "support.measuring_work:take_turns"


def calls(log: Path) -> list[str]:
    return log.read_text().splitlines() if log.exists() else []
