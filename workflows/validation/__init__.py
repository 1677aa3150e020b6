"""Validation of predictions against measured step times."""
