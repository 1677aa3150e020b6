"""Describing and sketching programs: in a worker process, which starts JAX once for many."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from hespas.workflows.planning.layout_space import BATCH, SEQUENCE

if TYPE_CHECKING:
    from hespas.dialects.mlir import ir
    from hespas.frontends.export.exportable import Exportable
    from hespas.workflows.planning.layout_builders import LayoutBuilder
    from hespas.workflows.planning.program_sketch import SketchOp

TASKS = ("interface", "meshes", "specs", "sketch")


def run_task(payload: dict[str, Any], scratch: str) -> dict[str, Any]:
    """Run one task of a plan in a worker process; raises what the program raises.

    Args:
        payload: ``task``, one of TASKS, and its data; ``export`` is a request for
            ``frontends.export.export_worker``.
        scratch: A folder for temporary files.
    """
    from hespas.workflows.planning.layout_builders import find_layout_builder
    from hespas.workflows.studies.program_worker import prepare_jax

    prepare_jax()
    return answer_task(payload, find_layout_builder(payload["export"]), scratch)


def answer_task(payload: dict[str, Any], builder: LayoutBuilder, scratch: str) -> dict[str, Any]:
    """Answer one task of a plan; raises what the program raises."""
    request = payload["export"]
    if payload["task"] == "interface":
        interface = builder.describe_interface()
        return {
            "axes": interface.axes,
            "defaults": dict(interface.defaults),
            "default_axes": interface.default_axes,
        }
    if payload["task"] == "meshes":
        return {"meshes": _describe_meshes(builder, request["options"], payload["meshes"])}
    if payload["task"] == "specs":
        program = builder.build_program(request["options"], request["mesh"])
        return {
            "specs": {
                name: str(spec)
                for name, _, spec in _list_specified_arguments(program, is_recipe=builder.is_recipe)
            }
        }
    return _write_sketch(payload, builder, scratch)


def _describe_meshes(
    builder: LayoutBuilder, options: Mapping[str, str], meshes: Sequence[dict[str, int]]
) -> list[dict[str, Any]]:
    """Describe the program over each mesh; raises HespasError if an option is wrong."""
    builder.check_options(options, meshes[0])
    return [_describe_mesh(builder, options, mesh) for mesh in meshes]


def _describe_mesh(
    builder: LayoutBuilder, options: Mapping[str, str], mesh: dict[str, int]
) -> dict[str, Any]:
    """Describe the program over a mesh by its facts, without lowering it."""
    from hespas.frontends.export.export_worker import describe_error

    try:
        program = builder.build_program(options, mesh)
        arguments = _list_specified_arguments(program, is_recipe=builder.is_recipe)
        return {
            "samples": _count_samples(builder, options, program.facts),
            "argument_bytes": sum(_count_local_bytes(*one, mesh, options) for one in arguments),
        }
    except MemoryError:
        raise
    except (Exception, SystemExit) as error:
        described = describe_error(error)
        return {"error": "; ".join(filter(None, (described["message"], described["remedy"])))}


def _list_specified_arguments(
    program: Exportable, *, is_recipe: bool
) -> list[tuple[str, Any, Any]]:
    """List the name, the shape and the PartitionSpec of each array; None if XLA chooses it.

    The arrays of a recipe have the names in its state and its batch, or that of the parameter where
    an argument is an array; those of other functions begin with the parameter.
    """
    import inspect

    import jax
    from jax.sharding import PartitionSpec

    specs: list[Any] = []

    def repeat_spec(spec: Any, part: Any) -> None:
        specs.extend([spec] * len(jax.tree.leaves(part)))

    shardings = program.in_shardings or (None,) * len(program.args)
    jax.tree.map(
        repeat_spec,
        tuple(shardings),
        program.args,
        is_leaf=lambda leaf: leaf is None or isinstance(leaf, PartitionSpec),
    )
    leaves = jax.tree_util.tree_leaves_with_path(program.args)
    parameters = [*inspect.signature(program.function).parameters]
    return [
        (_name_array(path, parameters, is_recipe=is_recipe), leaf, spec)
        for (path, leaf), spec in zip(leaves, specs, strict=True)
    ]


def _name_array(path: Sequence[Any], parameters: Sequence[str], *, is_recipe: bool) -> str:
    """Name an array by its path, whose first key is the number of its argument.

    A box of Flax, whose only array is its ``value``, has the name of the array.
    """
    from jax.tree_util import GetAttrKey, keystr

    if path[-1] == GetAttrKey("value"):
        path = path[:-1]
    name = keystr(tuple(path[1:]), simple=True, separator=".")
    if is_recipe and name:
        return name
    number = path[0].idx
    parameter = str(parameters[number] if number < len(parameters) else number)
    return f"{parameter}.{name}" if name else parameter


def _count_samples(
    builder: LayoutBuilder, options: Mapping[str, str], facts: Mapping[str, Any]
) -> int:
    """Count the sequences or images of a step; raises HespasError if no fact says it."""
    from hespas.support.errors import HespasError

    interface = builder.describe_interface()
    if interface.is_batch_fixed:
        return 0
    for name in ("samples_per_step", "images_per_step"):
        if name in facts:
            return int(facts[name])
    if "tokens_per_step" not in facts:
        raise HespasError("a plan needs the fact tokens_per_step or samples_per_step")
    sequence = int(options.get(SEQUENCE) or interface.defaults.get(SEQUENCE) or 1)
    return int(facts["tokens_per_step"]) // sequence


def _count_local_bytes(
    name: str, leaf: Any, spec: Any, mesh: dict[str, int], options: Mapping[str, str]
) -> int:
    """Count the bytes of an array on one device: at least, where XLA chooses its sharding.

    Raises:
        UsageError: The mesh does not divide the array.
    """
    from hespas.support.errors import UsageError

    total_bytes = math.prod(leaf.shape) * leaf.dtype.itemsize
    if spec is None:
        return total_bytes // math.prod(mesh.values())
    parts = [part if isinstance(part, tuple) else (part,) for part in spec]
    for extent, part in zip(leaf.shape, parts, strict=False):
        axes = {axis: mesh[axis] for axis in part if axis in mesh}
        if extent % math.prod(axes.values()):
            text = ", ".join(f"{axis}={size}" for axis, size in axes.items())
            shape = "x".join(map(str, leaf.shape))
            is_batch = extent == 1 == int(options.get(BATCH, 0))
            raise UsageError(
                f"{name} of {shape} cannot be divided: {extent} over {text}",
                remedy=f"{BATCH} counts the samples of each batch shard" if is_batch else "",
            )
    return total_bytes // math.prod(mesh.get(axis, 1) for part in parts for axis in part)


def _write_sketch(payload: dict[str, Any], builder: LayoutBuilder, scratch: str) -> dict[str, Any]:
    """Write the sketch of a program to the file ``output``."""
    from hespas.support.output_file import write_atomically

    module = builder.export_module(payload["export"], Path(scratch))
    ops = sketch_module(module, payload["export"]["mesh"])
    text = json.dumps([op.to_json() for op in ops])
    write_atomically(payload["output"], text.encode())
    return {}


def sketch_module(module: ir.Module, mesh: Mapping[str, int]) -> list[SketchOp]:
    """Prepare a program over ``mesh`` in place, and return its sketch; raises HespasError."""
    from hespas.passes import registry
    from hespas.passes.base import PassRun, build_pass
    from hespas.passes.pipeline import run_pipeline
    from hespas.workflows.planning.program_sketch import collect_sketch

    step = build_pass(registry.load_pass_class("prepare"), {})
    run_pipeline(module, [step], PassRun("program", note=lambda text: None))
    return collect_sketch(module, mesh)
