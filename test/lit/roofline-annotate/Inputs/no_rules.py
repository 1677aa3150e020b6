"""A file without rules."""
