"""Sweeps: the cells of a grid, estimated in parallel and cached, as one table."""
