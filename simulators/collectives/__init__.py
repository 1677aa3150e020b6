"""Collective algorithms as programs: read from MSCCL XML or generated, verified, and lowered."""
