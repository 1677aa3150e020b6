"""XLA's own optimisation, for a device that need not be there."""
