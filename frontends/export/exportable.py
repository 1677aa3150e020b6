"""The input of ``hespas export``: a JAX function with the shapes and shardings of its arguments.

A recipe is a function ``build(...) -> Exportable``. Its keyword parameters, each with a type and a
default, are its options (``--set layers=2``); a parameter named ``mesh`` receives ``--mesh``. Such
a function in a user's file is exported in the same way (``hespas export FILE.py``):

    def build(mesh: dict[str, int] = {"data": 8}, width: int = 1024) -> Exportable:
        w = jax.ShapeDtypeStruct((width, width), jnp.bfloat16)
        x = jax.ShapeDtypeStruct((64, width), jnp.bfloat16)
        return Exportable(
            "layer", lambda w, x: x @ w, (w, x), mesh=mesh, in_shardings=(P(), P("data"))
        )

The recipes of hespas are listed in ``program_source.py``, which imports none of them:
``RECIPES = {"llama": "hespas.recipes.llama:build"}``. A package adds recipes through the entry
point ``hespas.recipes``. ``hespas export --list`` shows the first line of ``build``'s
docstring, and for each option the text of ``Annotated[int, "text"]``. Option types are ``int``,
``float``, ``bool``, ``str``, ``Literal[...]`` of strings or numbers, any of these ``| None``, and
``dict[str, int]`` for the mesh. Options that several recipes share are the fields of a dataclass
(``recipe_options.expand_option_groups``).

This module does not import jax; recipes do, in the worker process.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any


@dataclass(frozen=True)
class Exportable:
    """A JAX program before it is lowered; none of its arrays is ever allocated.

    ``name``: The module is called ``jit_<name>``.
    ``function``: Called with ``args`` as ``jax.jit`` calls it. The context sets the mesh, so that
        ``jax.lax.with_sharding_constraint(x, PartitionSpec(...))`` and ``jax.shard_map(...)``
        without ``mesh=`` can name its axes. Its devices are abstract, not ``jax.devices()``.
    ``args``: For each argument a pytree of ``jax.ShapeDtypeStruct`` without shardings. The names of
        the arguments and the keys of their trees become the locations of the module's arguments
        (``params['wq']``), from which the memory report tells parameters from optimizer state.
    ``mesh``: Axis sizes by name, major axis first; ``{}`` for one device.
    ``in_shardings``: For each argument a ``PartitionSpec``, None (the partitioner chooses), or a
        tree of these that is a prefix of the argument's tree. None for all arguments leaves every
        choice to the partitioner.
    ``out_shardings``: The same for the result.
    ``donate_argnums``: Arguments whose memory the results may reuse.
    ``explicit_axes``: Mesh axes in JAX's explicit mode (sharding in types); other axes are auto.
    ``facts``: Figures about the program for reports and ``--json``; by convention ``parameters``
        (a count), ``tokens_per_step`` and ``flops_per_step``.
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
