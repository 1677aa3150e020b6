"""The network and the simulator of a run, recorded in its folder for ``hespas simulate``."""

from __future__ import annotations

import dataclasses
import os
import shlex
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import BaseModel, Field

from hespas import configs
from hespas.configs.overlap_slowdown import parse_slowdown_shares
from hespas.configs.system_spec import SystemSpec
from hespas.configs.validation import SlowdownSetting, validate_config
from hespas.simulators.astra_program import ENVIRONMENT
from hespas.simulators.simulation_options import SimulationOptions, SimulatorChoice
from hespas.support.data_files import check_link, check_named_path
from hespas.support.errors import HespasError, UsageError
from hespas.workflows.run_config import (
    NETWORK_MODEL_FLAG,
    NETWORK_MODEL_HELP,
    Flag,
    NetworkOptions,
    SimulatorOptions,
    list_flag_words,
)

FIGURES = "run.json"
RUN_PREFIX = "dev"  # of the traces of a run


class _NetworkInput(BaseModel):
    system: Annotated[str | None, Flag("NAME")] = Field(
        default=None,
        description="system preset (hespas presets systems lists them), or folder with network.yml "
        "and system.json",
    )


class NetworkSettings(NetworkOptions, SimulatorOptions, _NetworkInput):
    """What ``hespas run`` simulates its traces with; the value of ``network`` in run.json.

    The options are those of the run, with the defaults of the simulator in place of the node's.
    """

    network_model: Annotated[Literal["flows", "astra"] | None, NETWORK_MODEL_FLAG] = Field(
        default=None,
        description=f"{NETWORK_MODEL_HELP}; by default astra for a folder of ASTRA-sim's files, "
        "and flows otherwise",
    )
    curves: Annotated[str | None, Flag("DEVICE")] = Field(
        default="none",
        description="use collective timings measured on DEVICE where they exist (none: use the "
        "network model)",
    )
    between_hosts: Literal["network", "nccl"] | None = Field(
        default="network",
        description="what times collectives between hosts: the network model, or NCCL's tuning "
        "model of the device of --curves",
    )
    slowdown: Annotated[SlowdownSetting | None, Flag("X", parse_text=parse_slowdown_shares)] = (
        Field(
            default=0.0,
            description="share by which compute takes longer while communication runs, such as "
            "0.18, or shares by kind, such as all_reduce=0.3,other=0.2",
        )
    )

    def build_options(self) -> SimulationOptions:
        """Build the options of the simulation."""
        values: dict[str, Any] = {name: getattr(self, name) for name in MODEL_OPTIONS} | {
            "curves": "" if self.curves == "none" else self.curves
        }
        return SimulationOptions(**{n: v for n, v in values.items() if v is not None})

    def build_simulator_choice(self) -> SimulatorChoice:
        """Build the choice of the simulator with its options."""
        return SimulatorChoice(self.simulator, self.build_options(), self.astra_sim)

    def load_system(self) -> SystemSpec:
        """Load the system; raises HespasError if there is none."""
        if self.system is None:
            raise UsageError(
                "no system is given",
                remedy="name it with --system NAME; hespas presets systems lists the presets",
            )
        return configs.load_system(self.system)


@dataclasses.dataclass(frozen=True)
class SimulatedNetwork:
    """The network that a step is simulated on, and how.

    Attributes:
        system: The network.
        choice: The simulator and the network model.
        timeline: The file for a timeline; None writes none.
    """

    system: SystemSpec
    choice: SimulatorChoice
    timeline: str | None = None

    def check_sensitivity(self) -> None:
        """Raise UsageError if other rates would be simulated otherwise than the step itself.

        The embedded simulator does it, which takes ASTRA-sim's times, and not those of SimGrid.
        """
        if self.choice.simulator == "simgrid":
            raise UsageError(
                "a step is simulated at other rates by the embedded simulator, not by simgrid",
                remedy="use the simulator embedded for the sensitivity",
            )


MODEL_OPTIONS = tuple(
    option.name
    for option in dataclasses.fields(SimulationOptions)
    if option.name in NetworkSettings.model_fields
)
"""The settings of the network model: those that are options of the simulation, by their names."""


def read_recorded_network(traces: str | os.PathLike[str]) -> SimulatedNetwork | None:
    """Read the network of the run that wrote a folder of traces; None if it had none.

    Raises:
        HespasError: The run.json of the folder is damaged, or names a program to execute, or the
            system is not where the run used it.
    """
    recorded = _read_recorded_object(traces, None)
    if recorded is None:
        return None
    settings = _replace_recorded_program(recorded, None, os.path.join(traces, FIGURES))
    return None if settings.system is None else _load_network(settings, traces)


def _read_recorded_object(
    traces: str | os.PathLike[str], prefix: str | None
) -> NetworkSettings | None:
    path = Path(traces) / FIGURES
    if prefix not in (None, RUN_PREFIX) or not path.is_file():
        return None
    check_link(path)
    settings = configs.read_json(path).get("network")
    if settings is None:
        return None
    if not isinstance(settings, dict):
        raise HespasError("'network' is not an object", where=str(path))
    return validate_config(NetworkSettings, settings, str(path))


def _replace_recorded_program(
    settings: NetworkSettings, named_program: str | None, where: str
) -> NetworkSettings:
    """Replace the ASTRA-sim that a file names by the one that the user names.

    A folder of results may come from anybody, so nothing that it names is executed.

    Args:
        settings: The settings, with the program of the file.
        named_program: The program of the flag.
        where: The file.

    Raises:
        HespasError: The file names a program, and the user none.
    """
    program = named_program or os.environ.get(ENVIRONMENT) or None
    if settings.astra_sim and not program and settings.simulator != "embedded":
        raise HespasError(
            f"the run used the simulator {settings.astra_sim}, and hespas executes no program "
            "that a file of results names",
            where=where,
            remedy=f"if you trust it, name it with --astra-sim or {ENVIRONMENT}; "
            "else use --simulator embedded",
        )
    used = program if settings.astra_sim else named_program
    return settings.model_copy(update={"astra_sim": used})


def resolve_network(
    traces: str | os.PathLike[str],
    overrides: Mapping[str, Any],
    prefix: str | None = None,
    note: Callable[[str], None] = lambda text: None,
) -> SimulatedNetwork:
    """Resolve what traces are simulated on: the network of their run, if any, and overrides.

    Args:
        traces: The folder of the traces.
        overrides: Values of settings by name, which replace those of the run.
        prefix: The common prefix of the traces; None if the folder holds only one set.
        note: Receives a note on the settings that are those of the run.

    Raises:
        HespasError: The run.json of the folder is damaged or names a program to execute, an
            override is wrong, or there is no system.
    """
    recorded = _read_recorded_object(traces, prefix)
    if overrides.get("curves") == "none":  # NCCL's model is that of the device of the curves
        overrides = {"between_hosts": "network", **overrides}
    if overrides.get("congestion"):  # it is ASTRA-sim's
        overrides = {"network_model": None, **overrides}
    if overrides.get("network_model") == "flows":
        overrides = {"congestion": False, **overrides}
    own_system = None if "system" in overrides else traces
    if recorded is None:
        return _load_network(validate_config(NetworkSettings, dict(overrides), ""), own_system)
    values = {**recorded.model_dump(), **overrides, "astra_sim": recorded.astra_sim}
    source = os.path.join(os.fspath(traces), FIGURES)
    settings = _replace_recorded_program(
        validate_config(NetworkSettings, values, ""), overrides.get("astra_sim"), source
    )
    names = set(NetworkSettings.model_fields) - set(overrides) - {"astra_sim"}
    flags = shlex.join(list_flag_words(recorded, names))
    if flags:
        note(f"note: as in the run, {source}: {flags}")
    return _load_network(settings, own_system)


def _load_network(
    settings: NetworkSettings, recorded_in: str | os.PathLike[str] | None
) -> SimulatedNetwork:
    """Load the network of resolved settings.

    Args:
        settings: The settings.
        recorded_in: The folder of the run whose system it is; None for a system that the user
            names.

    Raises:
        HespasError: There is no such system, or the run used one outside of its folder, or that
            has been moved.
    """
    name, choice = settings.system, settings.build_simulator_choice()
    if recorded_in is None or name is None:
        return SimulatedNetwork(settings.load_system(), choice)
    if configs.is_system_path(name):
        where = os.path.join(os.fspath(recorded_in), FIGURES)
        remedy = f"name it with --system {shlex.quote(name)}, or where it is now"
        check_named_path(name, Path(os.path.abspath(name)), recorded_in, where, remedy)
    try:
        return SimulatedNetwork(settings.load_system(), choice)
    except HespasError as error:
        error.remedy = "the run used this system: name where it is now with --system"
        raise
