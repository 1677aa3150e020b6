"""The families of kernels whose estimates share an error."""

from __future__ import annotations

from typing import Literal

Family = Literal["product", "attention", "stream", "collective"]


def find_kernel_family(kernel_class: str) -> str:
    """Return the family of a class: ``product.bf16`` is a product, attention of any form one."""
    name = kernel_class.partition(".")[0]
    return "attention" if name.endswith("attention") else name
