"""Optimisation of a program with XLA for a target device, without that device."""
