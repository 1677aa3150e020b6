"""Simulators: traces and a system in, the step time out."""
