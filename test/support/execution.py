"""Running per-device programs through PJRT on CPU, collectives included, on made-up inputs."""

from __future__ import annotations

import functools
import io
import math
import re

import numpy as np
from jaxlib import xla_client

from hespas.dialects.mlir import ir, make_context, stablehlo
from hespas.dialects.op_bodies import replace_op_by_block

DEVICES = 8
SCALES = {"f": 0.125, "b": 0.125, "c": "(0.125, 0.0)"}  # by first letter of the element type


def as_replicas(text: str) -> str:
    """A partitioned module's text with replicas for partitions: XLA runs it without shardings."""
    text = re.sub(r"channel_handle = #stablehlo.channel_handle<[^>]*>(, )?", "", text)
    text = re.sub(r"(, )?use_global_device_ids", "", text).replace("partition_id", "replica_id")
    text = re.sub(r"mhlo.num_(partitions|replicas) = \d+ : i32(, )?", "", text)
    text = text.replace(", } {", "} {")  # after the other attributes of the module
    return re.sub(r" <\{\}>", "", text)


@functools.cache
def client() -> xla_client.Client:
    return xla_client.make_cpu_client(num_devices=DEVICES)


def runnable(module: ir.Module) -> ir.Module:
    """A copy without arguments: a new main makes inputs that differ by element and by device.

    Devices are replicas, since XLA refuses a partitioned module without shardings.
    """
    text = re.sub(
        r"func.func (public )?@main\(", "func.func private @program(", as_replicas(str(module))
    )
    program = next(
        op.operation
        for op in module.body.operations
        if op.operation.attributes["sym_name"].value == "main"
    )
    kind = program.attributes["function_type"].value
    copy = ir.Module.parse(text, module.context)
    main_module = ir.Module.parse(main_text(list(kind.inputs), list(kind.results)), module.context)
    point = ir.InsertionPoint(copy.body)
    for function in main_module.body.operations:
        if function.operation.attributes["sym_name"].value == "main":
            function.operation.clone(point)
    copy.operation.walk(_strip_hespas_attributes)
    copy.operation.walk(_widen_product)
    return copy


def put_fusions_in_place(module: ir.Module) -> None:
    """Put the bodies of fusions in their place: XLA's CPU compiler takes few kinds of fusion."""
    fusions: list[ir.Operation] = []

    def visit(op: ir.Operation) -> ir.WalkResult:
        if op.name == "mhlo.fusion":
            fusions.append(op)
        return ir.WalkResult.ADVANCE

    module.operation.walk(visit)
    for op in fusions:
        replace_op_by_block(op, op.operands, op.regions[0].blocks[0])


def _widen_product(op: ir.Operation) -> ir.WalkResult:
    """Convert what a product reads to the type of its result, which XLA:CPU does not always do."""
    if op.name != "stablehlo.dot_general" or "algorithm" in op.attributes:
        return ir.WalkResult.ADVANCE
    kind = ir.RankedTensorType(op.results[0].type).element_type
    for number, operand in enumerate(op.operands):
        read = ir.RankedTensorType(operand.type)
        if read.element_type != kind:
            with ir.InsertionPoint(op), op.location:
                wide = ir.RankedTensorType.get(read.shape, kind)
                op.operands[number] = stablehlo.ConvertOp(wide, operand).result
    return ir.WalkResult.ADVANCE


def _strip_hespas_attributes(op: ir.Operation) -> ir.WalkResult:
    """Remove what passes have noted on an op, so that programs that compute the same are equal."""
    for name in [name for name in op.attributes if name.startswith("hespas.")]:
        del op.attributes[name]
    return ir.WalkResult.ADVANCE


def main_text(inputs: list[ir.Type], results: list[ir.Type]) -> str:
    lines, names = ["%id = stablehlo.replica_id : tensor<ui32>"], []
    for k, kind in enumerate(inputs):
        element = str(kind.element_type)
        flat = math.prod(kind.shape)
        dims = "".join(f"{extent}x" for extent in kind.shape)
        wide, long = f"tensor<{flat}xui32>", f"tensor<{flat}x{element}>"
        modulus = 7 if element[0] in SCALES else 2
        lines += [
            f"%i{k} = stablehlo.iota dim = 0 : {wide}",
            f"%b{k} = stablehlo.broadcast_in_dim %id, dims = [] : (tensor<ui32>) -> {wide}",
            f"%c{k} = stablehlo.constant dense<{3 + k}> : {wide}",
            f"%m{k} = stablehlo.multiply %i{k}, %c{k} : {wide}",
            f"%s{k} = stablehlo.add %m{k}, %b{k} : {wide}",
            f"%n{k} = stablehlo.constant dense<{modulus}> : {wide}",
            f"%r{k} = stablehlo.remainder %s{k}, %n{k} : {wide}",
            f"%t{k} = stablehlo.convert %r{k} : ({wide}) -> {long}",
            f"%f{k} = stablehlo.constant dense<{SCALES.get(element[0], 1)}> : {long}",
            f"%u{k} = stablehlo.multiply %t{k}, %f{k} : {long}",
            f"%o{k} = stablehlo.reshape %u{k} : ({long}) -> tensor<{dims}{element}>",
        ]
        names.append(f"%o{k}")
    input_list, result_list = ", ".join(map(str, inputs)), ", ".join(map(str, results))
    outs = [f"%res#{k}" if len(results) > 1 else "%res" for k in range(len(results))]
    bind = f"%res:{len(results)} = " if len(results) > 1 else "%res = "
    return (
        f"module {{ func.func public @main() -> ({result_list}) {{\n" + "\n".join(lines) + "\n"
        f"{bind}func.call @program({', '.join(names)}) : ({input_list}) -> ({result_list})\n"
        f"return {', '.join(outs)} : {result_list} }}\n"
        f"func.func private @program({input_list}) -> ({result_list}) }}"
    )


def execute(module: ir.Module, devices: int = DEVICES) -> list[list[np.ndarray]]:
    """Per result the array of each device; equal programs in a row run once."""
    return _execute_text(str(runnable(module)), devices)


@functools.lru_cache(maxsize=2)
def _execute_text(text: str, devices: int) -> list[list[np.ndarray]]:
    options = xla_client.CompileOptions()
    options.num_replicas, options.num_partitions = devices, 1
    options.device_assignment = xla_client.DeviceAssignment.create(
        np.arange(devices).reshape(devices, 1)
    )
    buffer = io.BytesIO()
    ir.Module.parse(text, make_context()).operation.write_bytecode(buffer)
    where = xla_client.DeviceList(tuple(client().local_devices()[:devices]))
    program = client().compile_and_load(buffer.getvalue(), where, options)
    results = program.execute_sharded([]).disassemble_into_single_device_arrays()
    return [
        [np.asarray(shard._single_device_array_to_np_array_did_copy()[0]) for shard in column]
        for column in results
    ]


def assert_same_results(
    results: list[list[np.ndarray]],
    references: list[list[np.ndarray]],
    *,
    rtol: float,
    atol_of_largest: float,
) -> None:
    """Assert that the arrays of each device are equal, those of fractions within a tolerance.

    Args:
        atol_of_largest: The absolute tolerance as a share of the largest value of the reference.
    """
    for result, reference in zip(results, references, strict=True):
        previous: tuple[np.ndarray, np.ndarray] | None = None
        for a, b in zip(result, reference, strict=True):
            # Most arrays have equal bits, or are those of the device before: comparing bits takes a
            # hundredth of the time of the arithmetic below.
            repeats = previous and has_equal_bits(a, previous[0]) and has_equal_bits(b, previous[1])
            if not (repeats or has_equal_bits(a, b)):
                _assert_close_array(a, b, rtol, atol_of_largest)
            previous = a, b


def has_equal_bits(a: np.ndarray, b: np.ndarray) -> bool:
    """Whether two arrays have the same type, shape and bits."""
    if (a.dtype, a.shape) != (b.dtype, b.shape):
        return False
    return np.array_equal(*(np.ascontiguousarray(x).reshape(-1).view(np.uint8) for x in (a, b)))


def _assert_close_array(a: np.ndarray, b: np.ndarray, rtol: float, atol_of_largest: float) -> None:
    assert a.dtype == b.dtype
    if a.dtype.kind in "iub":
        np.testing.assert_array_equal(a, b)
        return
    if a.dtype.kind not in "fc" or a.dtype.itemsize < 4:
        a, b = a.astype(np.float32), b.astype(np.float32)
    atol = atol_of_largest * np.nanmax(np.abs(b))
    with np.errstate(invalid="ignore"):
        is_close = np.abs(a - b) <= atol + rtol * np.abs(b)
    if not (is_close.all() and np.isfinite(atol)):  # perhaps where both are not finite
        np.testing.assert_allclose(a, b, rtol=rtol, atol=atol)


def call(module: ir.Module, arguments: list[np.ndarray]) -> list[np.ndarray]:
    """The results of a module's ``main`` on one device, for arguments of at most 32 bits."""
    import jax
    from jax.extend import backend

    here = backend.get_backend("cpu")
    device = here.local_devices()[0]
    where = xla_client.DeviceList((device,))
    program = here.compile_and_load(str(module), where, xla_client.CompileOptions())
    device_arguments = [jax.device_put(argument, device) for argument in arguments]
    results = program.execute_sharded(device_arguments).disassemble_into_single_device_arrays()
    return [np.asarray(shards[0]) for shards in results]
