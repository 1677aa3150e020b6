"""Splitting: compute regions become functions, collectives stay between the calls."""
