"""Collective algorithms as programs: from MSCCL XML or generated, proved, written as traces."""
