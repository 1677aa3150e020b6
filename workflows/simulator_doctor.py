"""Which optional parts are usable here, and what is missing: extras, and simulators of others."""

from __future__ import annotations

import functools
from dataclasses import dataclass
from importlib import import_module
from typing import Any, Literal

from hespas import configs
from hespas.configs.accelerator import list_accelerator_presets
from hespas.estimators import registry
from hespas.estimators.accelerators.external_estimator import ExternalSimulatorEstimator
from hespas.estimators.measure.base import MeasuringEstimator
from hespas.simulators import astra_program
from hespas.support.errors import HespasError

ASTRA_SIM = "astra-sim"


@dataclass(frozen=True)
class SimulatorState:
    """The state of a simulator or compiler on this machine.

    Attributes:
        name: The name of the estimator, or of the network simulator.
        source: How it is installed: by pip, or by a build of its own sources.
        tested_version: The version that hespas has been run with; "" if it is any supported one.
        identity: What is installed; "" if it is not usable.
        problem: Why it is not usable; "" if it is.
        remedy: How to make it usable.
    """

    name: str
    source: Literal["pip", "build"]
    tested_version: str
    identity: str
    problem: str = ""
    remedy: str = ""

    @property
    def is_usable(self) -> bool:
        return not self.problem


def examine_simulators() -> list[SimulatorState]:
    """Examine ASTRA-sim and each estimator that runs code, without running a program."""
    names = [
        name
        for name in registry.list_estimator_names()
        if issubclass(registry.load_estimator_class(name), MeasuringEstimator)
    ]
    return [*map(examine_estimator, names), _describe_accelsim(), examine_astra_sim()]


def examine_estimator(name: str) -> SimulatorState:
    """Probe an estimator as its workers do, with its default settings."""
    estimator_class: Any = registry.load_estimator_class(name)
    tested = estimator_class.tested_version
    is_built = issubclass(estimator_class, ExternalSimulatorEstimator)
    describe = functools.partial(SimulatorState, name, "build" if is_built else "pip", tested)
    node = configs.load_node(list_accelerator_presets()[0])
    try:
        estimator: Any = registry.build_estimator(name, node, {})
        module, _, function = estimator_class.probe.partition(":")
        answer = getattr(import_module(module), function)(estimator.collect_settings())
    except HespasError as error:
        return describe("", error.message, error.remedy)
    except ImportError as error:
        message = f"package '{error.name}' is not installed"
        return describe("", message, f"pip install 'hespas[{name}]'")
    versions = [f"{package} {text}" for package, text in answer.get("versions", {}).items()]
    return describe(", ".join([answer["device"], *versions]))


def _describe_accelsim() -> SimulatorState:
    """Describe Accel-Sim, which runs elsewhere: hespas reads its reports."""
    return SimulatorState(
        "accelsim", "build", "", "its reports, which it writes where there is a GPU"
    )


def examine_astra_sim() -> SimulatorState:
    describe = functools.partial(SimulatorState, ASTRA_SIM, "build", astra_program.TESTED_VERSION)
    try:
        program = astra_program.find_astra_sim()
    except HespasError as error:
        return describe("", error.message, error.remedy)
    if program is None:
        problem = f"{astra_program.UNAWARE} is not on PATH"
        remedy = (
            "build it from github.com/astra-sim/astra-sim, and name it by "
            f"{astra_program.ENVIRONMENT}; until then, use embedded"
        )
        return describe("", problem, remedy)
    return describe(str(program.path))
