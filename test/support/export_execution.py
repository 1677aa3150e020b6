"""What an export computes, on 8 CPU devices, against ``jax.jit`` of the same program.

Run as a program: ``python -m support.export_execution PROGRAM MESH KEY=VALUE,...`` prints as JSON
the number of results and, per stage, the largest difference of any of them on any device, relative
to its values.
"""

from __future__ import annotations

import dataclasses
import io
import json
import os
import sys

os.environ.update(JAX_PLATFORMS="cpu", JAX_NUM_CPU_DEVICES="8")

import jax
import numpy as np
from jaxlib import xla_client

from hespas import frontends
from hespas.dialects.mlir import ir, make_context
from hespas.frontends.export import lower_exportable, stages
from hespas.frontends.export.exportable_lowering import to_named_shardings
from hespas.frontends.export.program_source import find_program_function
from hespas.frontends.export.recipe_options import bind_option_texts
from hespas.passes.base import PassRun
from support.cpu_compilation import FAST_COMPILATION
from support.execution import as_replicas
from support.recipe_runs import arrays


def pieces(array, devices):
    """The part of an array on each device."""
    parts = {shard.device: shard.data for shard in array.addressable_shards}
    return [np.asarray(parts[device]) for device in devices]


def run(module: ir.Module, arguments, devices, shardy: bool):
    """The results of a module per device; arguments too are per device."""
    options = xla_client.CompileOptions()
    count = len(devices)
    grid = (1, count) if shardy else (count, 1)
    options.num_replicas, options.num_partitions = grid
    options.device_assignment = xla_client.DeviceAssignment.create(np.arange(count).reshape(grid))
    options.env_option_overrides = list(FAST_COMPILATION.items())
    options.executable_build_options.use_spmd_partitioning = shardy
    options.executable_build_options.use_shardy_partitioner = shardy
    buffer = io.BytesIO()
    module.operation.write_bytecode(buffer)
    where = xla_client.DeviceList(tuple(devices))
    program = devices[0].client.compile_and_load(buffer.getvalue(), where, options)
    line = jax.sharding.Mesh(np.array(devices), "d")
    placed = []
    for parts in arguments:
        one = [jax.device_put(part, device) for part, device in zip(parts, devices, strict=True)]
        extents = parts[0].shape
        spec = jax.P("d") if extents else jax.P()
        shape = (count * extents[0], *extents[1:]) if extents else ()
        sharding = jax.sharding.NamedSharding(line, spec)
        placed.append(jax.make_array_from_single_device_arrays(shape, sharding, one))
    results = program.execute_sharded(placed).disassemble_into_single_device_arrays()
    return [[np.asarray(shard) for shard in column] for column in results]


def difference(results, references):
    """The largest difference, over devices and results, relative to the largest value."""
    worst = 0.0
    for result, reference in zip(results, references, strict=True):
        for actual, expected in zip(result, reference, strict=True):
            a, b = np.asarray(actual, np.float64), np.asarray(expected, np.float64)
            assert a.shape == b.shape and np.isfinite(a).all(), (a.shape, b.shape)
            scale = max(float(np.max(np.abs(b), initial=0)), 1e-6)
            worst = max(worst, float(np.max(np.abs(a - b), initial=0)) / scale)
    return worst


def pairs(text: str) -> dict[str, str]:
    return dict(part.split("=") for part in text.split(",") if part)


def main(place: str, mesh_text: str, settings: str) -> None:
    axes = {name: int(size) for name, size in pairs(mesh_text).items()}
    build = find_program_function(place)
    program = build(**bind_option_texts(build, pairs(settings), axes, place))
    devices = jax.devices()
    sizes = tuple(program.mesh.values())
    mesh = jax.make_mesh(
        sizes, tuple(program.mesh), axis_types=(jax.sharding.AxisType.Auto,) * len(sizes)
    )
    whole = jax.sharding.NamedSharding(mesh, jax.P())
    laid = jax.tree.map(
        lambda spec, tree: jax.tree.map(lambda _: to_named_shardings(spec, mesh) or whole, tree),
        program.in_shardings, program.args,
        is_leaf=lambda leaf: leaf is None or isinstance(leaf, jax.P),
    )  # fmt: skip
    arguments = jax.device_put(arrays(program.args), laid)
    flat = [pieces(array, devices) for array in jax.tree.leaves(arguments)]
    out = (
        to_named_shardings(program.out_shardings, mesh)
        if program.out_shardings is not None
        else None
    )
    with jax.set_mesh(mesh):
        jitted = jax.jit(
            program.function,
            in_shardings=to_named_shardings(program.in_shardings, mesh), out_shardings=out,
            compiler_options=FAST_COMPILATION,
        )  # fmt: skip
        expected = [pieces(x, devices) for x in jax.tree.leaves(jitted(*arguments))]

    # Inputs are used three times: none may be given away.
    module = frontends.from_jax(lower_exportable(dataclasses.replace(program, donate_argnums=())))
    context = make_context()
    report = {"devices": len(devices), "results": len(expected)}
    for stage in ("lowered", "partitioned"):
        copy = ir.Module.parse(str(module), context)
        stages.advance_to_stage(copy, stage, stages.CPU, PassRun(note=lambda _: None))
        if stage == "partitioned":
            assert "sdy.sharding" not in str(copy)
            copy = ir.Module.parse(as_replicas(str(copy)), context)
        result = run(copy, flat, devices, shardy=stage == "lowered")
        report[stage] = difference(result, expected)
    print(json.dumps(report))


if __name__ == "__main__":
    main(*sys.argv[1:])
