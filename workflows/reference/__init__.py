"""Comparing the measured time of a whole program with the sum of its regions."""
