"""Chakra execution traces: the schema, writing, reading and checking."""
