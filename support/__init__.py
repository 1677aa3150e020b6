"""Errors, suggestions, text of numbers and tables, and atomic output; imports nothing of hespas."""
