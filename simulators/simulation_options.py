"""The options of a simulation beyond the files of the system; the defaults are ASTRA-sim's."""

from __future__ import annotations

import os
from collections.abc import Collection
from dataclasses import dataclass, field, fields
from typing import Literal, get_args

from hespas.configs.overlap_slowdown import SlowdownShares
from hespas.configs.system_spec import SystemSpec

SimulatorName = Literal["auto", "embedded", "astra-sim", "both", "simgrid"]
SIMULATORS: tuple[SimulatorName, ...] = get_args(SimulatorName)
FLOWS, ASTRA = "flows", "astra"
UNMODELLED = ("symmetry", "intervals")  # options that change no time


@dataclass(frozen=True, slots=True)
class SimulationOptions:
    """Options of a simulation.

    The first three are options of ASTRA-sim too.

    Attributes:
        queues_per_dim: Queues of collective chunks in each dimension of the network.
        injection_scale: Factor on the endpoint delay of the system.
        rendezvous: Whether a message waits until its receiver has asked for it.
        congestion: Whether messages wait for each other on a link as in ASTRA-sim's
            congestion-aware backend.
        network_model: "flows" for the flow-level model, in which messages share links, "astra" for
            ASTRA-sim's rules, or "" for that of the system: "astra" for a folder of ASTRA-sim's
            files, and with ``congestion``, else "flows".
        curves: Device whose measured curves give the times of collectives; "" for the network
            model.
        between_hosts: What times collectives between hosts for which there is no curve: "network",
            the network model, or "nccl", NCCL's tuning model of the device of ``curves``.
        slowdown: Share by which compute takes longer while communication runs, 0.18 for 18 %; or
            shares by kind of communication, see ``configs.overlap_slowdown``.
        symmetry: Whether one device is simulated for each class of equivalent devices.
        intervals: Whether to record when each node ran, for timelines and critical paths.
        links: Whether to record the use of the links.
    """

    queues_per_dim: int = 1
    injection_scale: float = 1.0
    rendezvous: bool = False
    congestion: bool = False
    network_model: str = ""
    curves: str = ""
    between_hosts: str = "network"
    slowdown: SlowdownShares = 0.0
    symmetry: bool = True
    intervals: bool = True
    links: bool = False

    def list_requests(self, modelled: Collection[str]) -> list[str]:
        """List the flags of what is requested beside the rules of ASTRA-sim, but for ``modelled``.

        Args:
            modelled: The options that a simulator can model.
        """
        requests = {
            option.name: getattr(self, option.name)
            for option in fields(self)
            if option.name not in (*UNMODELLED, *modelled)
            and getattr(self, option.name) not in (option.default, ASTRA)
        }
        words = ("network_model", "between_hosts")  # whose value says what is requested
        return [
            f"--{name.replace('_', '-')}{f' {value}' if name in words else ''}"
            for name, value in requests.items()
        ]

    def find_network_model(self, system: SystemSpec) -> str:
        """Return the network model of a simulation on a system, FLOWS or ASTRA."""
        return self.network_model or (ASTRA if self.congestion else system.network_model)


@dataclass(frozen=True, slots=True)
class SimulatorChoice:
    """Which simulator runs, and how.

    Attributes:
        simulator: One of SIMULATORS. "both" runs the embedded simulator and ASTRA-sim, and fails if
            the finish or the exposed communication of any device differs. "auto" is the
            embedded simulator, unless ``astra_sim`` is given and supports the options.
        options: The options of the simulation.
        astra_sim: Where ASTRA-sim is; see ``astra_program.find_astra_sim``.
        timeout_s: Time limit of ASTRA-sim in seconds; None for its default.
        simgrid_model: The network model of SimGrid: "CM02", flows with max-min fair shares, or
            "LV08", its default.
        exact_durations: Whether durations are in nanoseconds if traces and system allow it, for
            every simulator; see ``simulator_choice``. If False, ASTRA-sim's reading of the files
            holds.
    """

    simulator: str = "auto"
    options: SimulationOptions = field(default_factory=SimulationOptions)
    astra_sim: str | os.PathLike[str] | None = None
    timeout_s: float | None = None
    simgrid_model: str = "CM02"
    exact_durations: bool = True
