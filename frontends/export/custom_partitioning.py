"""Programs with kernels that have their own partitioning rule, such as cuDNN's fused attention.

JAX lowers a kernel with ``custom_partitioning`` to a call that refers to a Python function of the
lowering process, and only that process can partition the module. JAX also wants devices to be
present while it lowers such a kernel. The functions here lower it for an abstract mesh, and
partition it in this process.
"""

from __future__ import annotations

import contextlib
import re
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

from hespas.dialects.mlir import (
    ir,
    read_frontend_items,
    to_mlir_bytecode,
    write_frontend_items,
)
from hespas.dialects.op_kinds import NUM_PARTITIONS
from hespas.dialects.protobuf import extract_hlo_module
from hespas.dialects.xla import CompilationSettings, HloDump, compile_for_cpu
from hespas.frontends.export.target_device import AbsentDevice
from hespas.passes.base import PassRun
from hespas.passes.compile.compiler_worker import find_complete_dump
from hespas.passes.compile.hlo_to_stablehlo import convert_hlo_to_stablehlo
from hespas.passes.prepare.census import collect_census
from hespas.passes.prepare.device_grid import write_stated_count
from hespas.passes.prepare.partition import CPU_DUMPS, find_custom_partitioning, partition_module
from hespas.support.errors import HespasError, extract_first_line

if TYPE_CHECKING:
    from jax.sharding import AbstractMesh

# Neither library nor GPU is present during an export, so a program is lowered for a recent one.
CUDNN_VERSION = 91100  # 9.11.0, as ``cudnnGetVersion`` returns it
COMPUTE_CAPABILITY = (9, 0)
POLL_S = 0.01
PYTHON_ERROR = re.compile(r"^(?:\w+\.)*\w*(?:Error|Exception): .*", re.M)


@contextlib.contextmanager
def assume_recent_gpu() -> Iterator[None]:
    """Let JAX's checks of cuDNN and of the GPU answer as if a recent one were present."""
    from jax._src.cudnn import fused_attention_stablehlo

    def check_compute_capability(capability: str) -> bool:
        return tuple(map(int, capability.split("."))) <= COMPUTE_CAPABILITY

    def is_cuda_compute_capability_equal(capability: str) -> bool:
        return tuple(map(int, capability.split("."))) == COMPUTE_CAPABILITY

    answers = {
        "check_cudnn_version": lambda: CUDNN_VERSION,
        "check_compute_capability": check_compute_capability,
        "is_cuda_compute_capability_equal": is_cuda_compute_capability_equal,
    }
    checks = {name: getattr(fused_attention_stablehlo, name) for name in answers}
    fused_attention_stablehlo.__dict__.update(answers)
    try:
        yield
    finally:
        fused_attention_stablehlo.__dict__.update(checks)


@contextlib.contextmanager
def lower_without_devices(mesh: AbstractMesh) -> Iterator[None]:
    """Let JAX lower kernels with ``custom_partitioning`` for a mesh without devices."""
    from jax._src import custom_partitioning, dispatch, sharding_impls
    from jax._src.cudnn import fused_attention_stablehlo
    from jax._src.interpreters import mlir

    primitive: Any = custom_partitioning.custom_partitioning_p
    lower_for_devices = custom_partitioning._custom_partitioning_lowering_rule

    def lower_call(ctx: Any, *values: Any, **parameters: Any) -> Any:
        axes = ctx.module_context.axis_context
        if isinstance(axes, sharding_impls.ShardingContext) and axes.device_assignment is None:
            devices: Any = tuple(map(AbsentDevice, range(axes.num_devices)))
            axes = sharding_impls.ShardingContext(axes.num_devices, devices, mesh)
            ctx = ctx.replace(module_context=ctx.module_context.replace(axis_context=axes))
        results = lower_for_devices(ctx, *values, **parameters)
        _write_model_flops(results, parameters["call"], ctx.module_context.platforms[0])
        return results

    fused = fused_attention_stablehlo.__dict__.values()
    waived = dispatch.prim_requires_devices_during_lowering & {
        primitive,
        *(value for value in fused if type(value) is type(primitive)),
    }
    dispatch.prim_requires_devices_during_lowering -= waived
    mlir.register_lowering(primitive, lower_call)
    try:
        with assume_recent_gpu():
            yield
    finally:
        mlir.register_lowering(primitive, lower_for_devices)
        dispatch.prim_requires_devices_during_lowering |= waived


def _write_model_flops(results: Any, call: Any, platform: str) -> None:
    """Write the operations of a kernel's model on the call that stands for it.

    The call has the shapes of all devices, but not the kernel, which the partitioner inserts.
    """
    import jax
    from jax.extend.core import jaxpr_as_fun

    from hespas.frontends.jax import from_jax
    from hespas.frontends.model_operations import KERNEL_MODEL_FLOPS, count_model_flops

    op = getattr(results[0].owner, "operation", None) if results else None
    if op is None or op.name != "stablehlo.custom_call":
        return  # no device to partition for: the kernel itself
    kernel = jax.jit(jaxpr_as_fun(call)).trace(*call.in_avals)
    module = from_jax(kernel.lower(lowering_platforms=(platform,)))
    write_stated_count(module, NUM_PARTITIONS, 1)  # its shapes are those of all devices
    flops = count_model_flops(module)
    if flops is not None:
        text = ir.StringAttr.get(str(flops), op.context)
        write_frontend_items(op, {**read_frontend_items(op), KERNEL_MODEL_FLOPS: text})


def partition_custom_kernels(
    module: ir.Module, folder: str | Path, note: Callable[[str], None], *, waits: bool
) -> None:
    """Partition a module with kernels that only this process can partition; leave others as is.

    Args:
        module: The module; what JAX returned for it must still be referenced.
        folder: The folder for XLA's dumps.
        note: Receives warnings.
        waits: Whether to wait for the rest of XLA's compilation; see ``run_partitioner_here``.

    Raises:
        HespasError: XLA, or the partitioning rule of a kernel, failed.
    """
    census = collect_census(module)
    if find_custom_partitioning(census) is None:
        return
    dumps = Path(tempfile.mkdtemp(prefix="dumps-", dir=folder))  # a worker exports many programs

    def run_partitioner(module: ir.Module, compilation: CompilationSettings) -> ir.Module:
        return run_partitioner_here(module, compilation, dumps, waits=waits)

    partition_module(module, census, PassRun(note=note), partitioner=run_partitioner)


def run_partitioner_here(
    module: ir.Module, compilation: CompilationSettings, folder: Path, *, waits: bool
) -> ir.Module:
    """Partition a module with XLA in this process.

    XLA cannot run a part of its pipeline, so a thread goes on compiling. Either end the process
    with ``os._exit`` when the result is written, or wait: XLA:CPU ends with an error at the first
    kernel of a GPU, before it generates code.

    Args:
        module: The module; what JAX returned for it must still be referenced.
        compilation: The compilation settings.
        folder: An empty folder for XLA's dumps.
        waits: Whether to wait for the end of the compilation.

    Raises:
        HespasError: XLA, or the partitioning rule of a kernel, failed.
    """
    passes, wanted = CPU_DUMPS
    bytecode = to_mlir_bytecode(module)
    errors: list[BaseException] = []

    def compile_bytecode() -> None:
        try:
            compile_for_cpu(bytecode, compilation, HloDump(str(folder), passes))
        except BaseException as error:
            errors.append(error)

    thread = threading.Thread(target=compile_bytecode, daemon=True)
    thread.start()
    while thread.is_alive() and (waits or not find_complete_dump(folder, wanted)):
        time.sleep(POLL_S)
    dump = find_complete_dump(folder, wanted)
    if dump is None:
        text = str(errors[0]) if errors else "it wrote no dump"
        raised = PYTHON_ERROR.findall(text)
        reason = raised[-1] if raised else extract_first_line(text)
        raise HespasError(f"XLA cannot partition the program: {reason}")
    proto = extract_hlo_module(dump.read_bytes()) or b""
    return ir.Module.parse(convert_hlo_to_stablehlo(proto, scheduled=False), module.context)
