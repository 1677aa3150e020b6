"""Compilation with XLA in a separate process, used by ``prepare`` and ``xla-optimize``."""
