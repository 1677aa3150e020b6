"""Fusing: ops become the kernels that a compiler would launch, as ``mhlo.fusion``."""
