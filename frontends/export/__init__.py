"""Export of JAX programs to modules, from shapes alone and for devices that are not available."""

from hespas.frontends.export.exportable import Exportable
from hespas.frontends.export.exportable_lowering import lower_exportable

__all__ = ["Exportable", "lower_exportable"]
