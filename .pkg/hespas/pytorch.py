"""Export PyTorch programs (``hespas[torch]``): what a file for ``hespas export`` imports."""

from hespas.frontends.pytorch import TorchTrainingStep, to_exportable

__all__ = ["TorchTrainingStep", "to_exportable"]
