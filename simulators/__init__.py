"""Simulators, which compute the step time of traces on a system."""
