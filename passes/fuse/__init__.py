"""Fusion: grouping ops into the kernels that a compiler would launch, as ``mhlo.fusion``."""
