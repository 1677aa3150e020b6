"""An estimator whose worker does what its payload says: answer, crash, hang, or take all memory."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from hespas.estimators.measure.base import MeasuringEstimator


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
    worker: ClassVar[str] = "measuring_work:work"
    probe: ClassVar[str] = "measuring_work:probe"
    packages: ClassVar[tuple[str, ...]] = ("numpy",)


class OwnTurns(Fake):
    """The same with turns of its own."""

    turns: ClassVar = "own"
    worker: ClassVar[str] = "measuring_work:take_turns"
