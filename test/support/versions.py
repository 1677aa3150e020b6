"""The version of jaxlib, on which XLA's results and messages depend."""

from importlib.metadata import version

JAXLIB = tuple(int(part) for part in version("jaxlib").split(".")[:2])
