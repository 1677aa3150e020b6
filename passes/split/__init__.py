"""Splitting: compute regions become functions, and collectives stay between the calls."""
