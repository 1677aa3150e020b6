"""Fitting the constants of ``calibrated`` to measurements; needs ``hespas[calibrate]``."""
