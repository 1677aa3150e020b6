"""The search for the best layout of a program on a machine: ``hespas plan``."""
