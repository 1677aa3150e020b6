"""Generators of pages and files, which ``make generate`` runs; not a part of the package."""
