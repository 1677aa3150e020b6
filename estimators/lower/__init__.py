"""Rewriting modules that XLA has optimised to plain StableHLO with the same meaning."""
