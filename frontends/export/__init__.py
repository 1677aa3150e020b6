"""JAX programs to modules: on shapes alone, for devices that need not be there."""

from hespas.frontends.export.exportable import Exportable
from hespas.frontends.export.exportable_lowering import lower_exportable

__all__ = ["Exportable", "lower_exportable"]
