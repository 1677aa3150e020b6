"""What ``hespas export`` lowers: a JAX function with the shapes and shardings of its arguments.

A recipe is a function ``build(...) -> Exportable``. Its keyword parameters, each with a type and a
default, are its options (``--set layers=2``); one that is named ``mesh`` gets ``--mesh``. Such a
function in a file of a user's own is exported alike (``hespas export FILE.py``):

    def build(mesh: dict[str, int] = {"data": 8}, width: int = 1024) -> Exportable:
        w = jax.ShapeDtypeStruct((width, width), jnp.bfloat16)
        x = jax.ShapeDtypeStruct((64, width), jnp.bfloat16)
        return Exportable(
            "layer", lambda w, x: x @ w, (w, x), mesh=mesh, in_shardings=(P(), P("data"))
        )

The recipes that ship are named in ``frontends/recipes/__init__.py``, without an import:
``RECIPES = {"llama": "hespas.frontends.recipes.llama:build"}``; a package adds its own by the entry
point ``hespas.recipes``. The first line of ``build``'s docstring is what ``hespas export --list``
says of it, and ``Annotated[int, "help"]`` what it says of an option. Option types are ``int``,
``float``, ``bool``, ``str``, ``Literal[...]`` of strings or numbers, any of these ``| None``, and
``dict[str, int]`` for the mesh. Options that recipes share are a dataclass (``options.grouped``).

Nothing here imports jax; a recipe does, in the worker process.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any


@dataclass(frozen=True)
class Exportable:
    """A JAX program before it is lowered; no array of it is ever allocated.

    ``name``: of the module, ``jit_<name>``.
    ``function``: called with ``args`` as ``jax.jit`` calls it. The mesh is the context's: inside,
        ``jax.lax.with_sharding_constraint(x, PartitionSpec(...))`` and ``jax.shard_map(...)``
        without ``mesh=`` name its axes. Its devices are abstract: not those of ``jax.devices()``.
    ``args``: per argument a pytree of ``jax.ShapeDtypeStruct`` (no sharding in them). Names of the
        arguments and keys of their trees become the locations of the module's arguments
        (``params['wq']``), by which memory is told apart later: name them as what they hold.
    ``mesh``: axis name to size, major first; ``{}`` for one device.
    ``in_shardings``: per argument a ``PartitionSpec``, None (the partitioner chooses), or a tree of
        these that is a prefix of the argument's; None altogether leaves all to the partitioner.
    ``out_shardings``: the same of the result.
    ``donate_argnums``: arguments whose memory the results may take.
    ``explicit_axes``: mesh axes in JAX's explicit mode (sharding in types); the others are auto.
    ``facts``: what is known of the program beside its ops, for the user and ``--json``; by
        convention ``parameters`` (a count), ``tokens_per_step``, ``flops_per_step``.
    """

    name: str
    function: Callable[..., Any]
    args: tuple[Any, ...]
    mesh: Mapping[str, int] = field(default_factory=dict)
    in_shardings: tuple[Any, ...] | None = None
    out_shardings: Any = None
    donate_argnums: tuple[int, ...] = ()
    explicit_axes: tuple[str, ...] = ()
    facts: Mapping[str, int | float | str] = field(default_factory=dict)
