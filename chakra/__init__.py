"""Chakra execution traces: schema, writing, reading and checking."""
