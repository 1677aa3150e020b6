"""Conversion of PyTorch programs to JAX programs, from shapes alone (``hespas[torch]``).

PyTorch traces the program to ATen ops; torchax implements each of them in JAX.
"""

import importlib.util

from hespas.support.errors import HespasError

missing = [name for name in ("torch", "torchax") if importlib.util.find_spec(name) is None]
if missing:
    raise HespasError(f"{missing[0]} is not installed", remedy="pip install 'hespas[torch]'")

from hespas.frontends.pytorch.torch_program import to_exportable  # noqa: E402
from hespas.frontends.pytorch.training import TorchTrainingStep  # noqa: E402

__all__ = ["TorchTrainingStep", "to_exportable"]
