"""Which simulators and compilers of others are usable here, and what is missing."""

from __future__ import annotations

from dataclasses import dataclass
from importlib import import_module
from typing import Any

from hespas import configs
from hespas.configs.accelerator import list_accelerator_presets
from hespas.estimators import registry
from hespas.estimators.measure.base import MeasuringEstimator
from hespas.simulators import astra_program
from hespas.simulators.simgrid_backend import simgrid_program
from hespas.support.errors import HespasError

ASTRA_SIM = "astra-sim"
SIMGRID = "simgrid"


@dataclass(frozen=True)
class SimulatorState:
    """The state of a simulator or compiler on this machine.

    Attributes:
        name: The name of the estimator, or of the network simulator.
        tested_version: The version that hespas has been run with; "" if it is any supported one.
        identity: What is installed; "" if it is not usable.
        problem: Why it is not usable; "" if it is.
        remedy: How to make it usable.
    """

    name: str
    tested_version: str
    identity: str
    problem: str = ""
    remedy: str = ""

    @property
    def is_usable(self) -> bool:
        return not self.problem


def examine_simulators() -> list[SimulatorState]:
    """Examine ASTRA-sim, SimGrid and each estimator that runs code, without running a program."""
    names = [
        name
        for name in registry.list_estimator_names()
        if issubclass(registry.load_estimator_class(name), MeasuringEstimator)
    ]
    return [*map(examine_estimator, names), examine_astra_sim(), examine_simgrid()]


def examine_estimator(name: str) -> SimulatorState:
    """Probe an estimator as its workers do, with its default settings."""
    estimator_class: Any = registry.load_estimator_class(name)
    tested = estimator_class.tested_version
    node = configs.load_node(list_accelerator_presets()[0])
    try:
        estimator: Any = registry.build_estimator(name, node, {})
        module, _, function = estimator_class.probe.partition(":")
        answer = getattr(import_module(module), function)(estimator.collect_settings())
    except HespasError as error:
        return SimulatorState(name, tested, "", error.message, error.remedy)
    except ImportError as error:
        message = f"package '{error.name}' is not installed"
        return SimulatorState(name, tested, "", message, f"pip install 'hespas[{name}]'")
    versions = [f"{package} {text}" for package, text in answer.get("versions", {}).items()]
    return SimulatorState(name, tested, ", ".join([answer["device"], *versions]))


def examine_astra_sim() -> SimulatorState:
    tested = astra_program.TESTED_VERSION
    try:
        program = astra_program.find_astra_sim()
    except HespasError as error:
        return SimulatorState(ASTRA_SIM, tested, "", error.message, error.remedy)
    if program is None:
        problem = f"{astra_program.UNAWARE} is not on PATH"
        remedy = f"build it, and name it by {astra_program.ENVIRONMENT}; until then, use embedded"
        return SimulatorState(ASTRA_SIM, tested, "", problem, remedy)
    return SimulatorState(ASTRA_SIM, tested, str(program.path))


def examine_simgrid() -> SimulatorState:
    tested = simgrid_program.TESTED_VERSION
    try:
        version = simgrid_program.check_simgrid()
    except HespasError as error:
        return SimulatorState(SIMGRID, tested, "", error.message, error.remedy)
    return SimulatorState(SIMGRID, tested, f"{simgrid_program.name_python()}, version {version}")
