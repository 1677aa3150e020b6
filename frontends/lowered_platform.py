"""The platform that JAX lowered a program for, as facts of the module.

JAX lowers some primitives to other ops on each platform: a ragged product is the dense product of
all groups on a CPU, and one op on a TPU. A module does not show which it was lowered for.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from hespas.dialects.attr_codec import read_program_facts, write_program_facts

LOWERED_FOR = "lowered_for"  # the fact that names the platform
PLATFORM_OPS = "platform_ops"  # the fact that lists the primitives that differ between platforms
# Primitives whose lowering has another amount of work, or calls another library, by platform.
_DIFFERING = frozenset((
    "approx_top_k", "cholesky", "eig", "eigh", "geqrf", "hessenberg", "householder_product", "lu",
    "ragged_dot_general", "schur", "svd", "triangular_solve", "tridiagonal", "tridiagonal_solve",
))  # fmt: skip


def record_platform(lowered: Any, jaxpr: Any, platform: str) -> None:
    """Write the facts on the module of a ``Lowered``.

    Args:
        jaxpr: The jaxpr that was lowered.
        platform: The platform that JAX lowered it for.
    """
    names = sorted({name for name in _iterate_primitives(jaxpr) if name in _DIFFERING})
    facts = {LOWERED_FOR: platform, **({PLATFORM_OPS: ", ".join(names)} if names else {})}
    module = lowered.compiler_ir("stablehlo")
    write_program_facts(module, {**read_program_facts(module), **facts})


def _iterate_primitives(jaxpr: Any) -> Iterator[str]:
    """Iterate over the names of the primitives of a jaxpr and of those that it contains."""
    waiting, seen = [jaxpr], set[int]()
    while waiting:
        one = waiting.pop()
        if isinstance(one, (list, tuple)):
            waiting += one
        elif id(one) in seen:
            continue
        elif hasattr(one, "eqns"):
            seen.add(id(one))
            for equation in one.eqns:
                yield equation.primitive.name
                waiting += equation.params.values()
        elif hasattr(one, "jaxpr"):  # a closed one of jax 0.10; that of 0.12 has equations itself
            waiting.append(one.jaxpr)
