"""What XLA's optimised modules hold beyond StableHLO, as plain StableHLO of the same meaning."""
