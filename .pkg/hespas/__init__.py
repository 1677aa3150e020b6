"""hespas: predict how fast a distributed ML program runs, as passes over its StableHLO."""

__version__ = "0.1.0"
