"""The times of messages on a network without other traffic, by its network model."""

from __future__ import annotations

from hespas.configs.system_spec import SystemSpec
from hespas.simulators.simulation_options import ASTRA, SimulationOptions

from .network import AnalyticalNetwork


class IdleMessages:
    """Times messages on an idle network."""

    def __init__(self, system: SystemSpec, options: SimulationOptions) -> None:
        self.device_count = system.device_count
        if options.find_network_model(system) == ASTRA:
            self.compute_transfer_ns = AnalyticalNetwork.from_system(system).compute_transfer_ns
        else:
            from .flows.flow_engine import FlowNetwork

            network = FlowNetwork.from_system(system, options)
            self.compute_transfer_ns = network.compute_transfer_ns
