"""The embedded simulator: ASTRA-sim's analytical models in Python, and options beyond them."""

from .event_simulation import run_event_simulation
from .simulation_options import SimulationOptions

__all__ = ["SimulationOptions", "run_event_simulation"]
