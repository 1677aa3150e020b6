"""The embedded simulator: ASTRA-sim's analytical models in Python, and options beyond them."""

from hespas.simulators.simulation_options import SimulationOptions

from .event_simulation import run_event_simulation

__all__ = ["SimulationOptions", "run_event_simulation"]
