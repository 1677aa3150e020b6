"""The embedded simulator: ASTRA-sim's analytical models in Python, and options beyond them."""

from .options import Options
from .simulate import simulate

__all__ = ["Options", "simulate"]
