"""Describing and sketching programs in a worker process, which starts JAX once for many."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from hespas.workflows.planning.layout_space import SEQUENCE

if TYPE_CHECKING:
    from hespas.frontends.export.exportable import Exportable

TASKS = ("interface", "meshes", "specs", "sketch")


def probe_device(settings: dict[str, Any]) -> dict[str, Any]:
    """Return no environment, because the names of sketches contain it."""
    return {"device": ""}


def run_task(payload: dict[str, Any]) -> dict[str, Any]:
    """Run one task of a plan.

    Args:
        payload: ``task``, one of TASKS, and its data; ``export`` is a request for
            ``frontends.export.export_worker``.

    Returns:
        The answer of the task, or {"error": ...} as ``describe_error`` makes it.
    """
    from hespas.frontends.export.export_worker import describe_error
    from hespas.workflows.studies.program_worker import prepare_jax_environment

    prepare_jax_environment()
    try:
        if payload["task"] == "interface":
            return _describe_interface(payload["export"])
        if payload["task"] == "meshes":
            return {"meshes": _describe_meshes(payload["export"], payload["meshes"])}
        if payload["task"] == "specs":
            return {"specs": _list_partition_specs(payload["export"])}
        return _write_sketch(payload)
    except MemoryError:
        raise
    except Exception as error:  # a program may raise anything
        return {"error": describe_error(error)}


def _describe_interface(request: dict[str, Any]) -> dict[str, Any]:
    from hespas.frontends.export import program_source, recipe_options

    options = recipe_options.collect_options(
        program_source.find_program_function(request["program"])
    )
    axes = next((option.axes for option in options if option.name == recipe_options.MESH), ())
    return {
        "axes": axes,
        "defaults": {o.name: o.format_default() for o in options if o.name != recipe_options.MESH},
    }


def _describe_meshes(
    request: dict[str, Any], meshes: Sequence[dict[str, int]]
) -> list[dict[str, Any]]:
    """Describe the program over each mesh; raises HespasError if an option is wrong."""
    from hespas.frontends.export import program_source, recipe_options

    function = program_source.find_program_function(request["program"])
    recipe_options.bind_option_texts(function, request["options"], meshes[0], request["program"])
    return [_describe_mesh(request, mesh) for mesh in meshes]


def _describe_mesh(request: dict[str, Any], mesh: dict[str, int]) -> dict[str, Any]:
    """Describe the program over a mesh by its facts, without lowering it."""
    from hespas.frontends.export.export_worker import describe_error

    try:
        return _collect_mesh_facts(request, mesh)
    except MemoryError:
        raise
    except Exception as error:
        described = describe_error(error)
        return {"error": "; ".join(filter(None, (described["message"], described["remedy"])))}


def _build_program(request: dict[str, Any], mesh: dict[str, int]) -> Exportable:
    """Build the program of a request without lowering it."""
    from hespas.frontends.export import program_source, recipe_options
    from hespas.frontends.export.exportable import Exportable
    from hespas.support.errors import HespasError

    function = program_source.find_program_function(request["program"])
    values = recipe_options.bind_option_texts(
        function, request["options"], mesh, request["program"]
    )
    program = function(**values)
    if not isinstance(program, Exportable) or program.in_shardings is None:
        raise HespasError("a plan needs an Exportable with in_shardings")
    return program


def _list_specified_arguments(program: Exportable) -> list[tuple[str, Any, Any]]:
    """List the name, the shape and the PartitionSpec of each argument."""
    import jax
    from jax.sharding import PartitionSpec

    specs = jax.tree.leaves(
        program.in_shardings, is_leaf=lambda leaf: isinstance(leaf, PartitionSpec)
    )
    leaves = jax.tree_util.tree_leaves_with_path(program.args)
    return [
        (jax.tree_util.keystr(path[1:], simple=True, separator="."), leaf, spec)
        for (path, leaf), spec in zip(leaves, specs, strict=True)
    ]


def _collect_mesh_facts(request: dict[str, Any], mesh: dict[str, int]) -> dict[str, Any]:
    """Collect the samples of a step, and the bytes of the arguments on one device."""
    program = _build_program(request, mesh)
    return {
        "samples": _count_samples(request, program.facts),
        "argument_bytes": sum(
            _count_local_bytes(leaf, spec, mesh)
            for _, leaf, spec in _list_specified_arguments(program)
        ),
    }


def _count_samples(request: dict[str, Any], facts: Mapping[str, Any]) -> int:
    """Count the sequences or images of a step; raises HespasError if no fact says it."""
    from hespas.support.errors import HespasError

    for name in ("samples_per_step", "images_per_step"):
        if name in facts:
            return int(facts[name])
    if "tokens_per_step" not in facts:
        raise HespasError("a plan needs the fact tokens_per_step or samples_per_step")
    defaults = _describe_interface(request)["defaults"]
    sequence = int(request["options"].get(SEQUENCE) or defaults.get(SEQUENCE) or 1)
    return int(facts["tokens_per_step"]) // sequence


def _list_partition_specs(request: dict[str, Any]) -> dict[str, str]:
    program = _build_program(request, request["mesh"])
    return {name: str(spec) for name, _, spec in _list_specified_arguments(program)}


def _count_local_bytes(leaf: Any, spec: Any, mesh: dict[str, int]) -> int:
    """Count the bytes of an argument on one device."""
    axes = [a for part in spec for a in (part if isinstance(part, tuple) else (part,)) if a]
    elements = math.prod(leaf.shape) // math.prod(mesh.get(axis, 1) for axis in axes)
    return elements * leaf.dtype.itemsize


def _write_sketch(payload: dict[str, Any]) -> dict[str, Any]:
    """Write the sketch of a program to the file ``output``."""
    from hespas.passes import registry
    from hespas.passes.base import PassRun, build_pass
    from hespas.passes.pipeline import run_pipeline
    from hespas.support.output_file import write_atomically
    from hespas.workflows.planning.program_sketch import collect_sketch
    from hespas.workflows.studies.program_worker import export_module

    module = export_module(payload["export"], Path(payload["scratch"]))
    step = build_pass(registry.load_pass_class("prepare"), {})
    run_pipeline(module, [step], PassRun("program", note=lambda text: None))
    ops = collect_sketch(module, payload["export"]["mesh"])
    text = json.dumps([op.to_json() for op in ops])
    write_atomically(payload["output"], text.encode())
    return {}
