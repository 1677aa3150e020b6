"""JAX programs to modules: on shapes alone, for devices that need not be there."""

from hespas.frontends.export.exportable import Exportable
from hespas.frontends.export.lower import lower

__all__ = ["Exportable", "lower"]
