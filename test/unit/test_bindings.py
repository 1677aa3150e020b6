"""The contract with jaxlib: every private name that hespas uses exists and behaves as needed."""

from __future__ import annotations

import pkgutil
import subprocess
import sys
from pathlib import Path

import pytest

from hespas.dialects import mlir, pjrt
from hespas.dialects.mlir import (
    PassManager,
    collect_functions,
    ir,
    register_passes,
    walk_operations,
)
from hespas.estimators.op_content import render_op_text
from hespas.workflows.module_output import to_mlir_text

TEXT = """
module @m {
  func.func public @main(%x: tensor<4xf32>) -> tensor<4xf32> {
    %0 = call @f(%x) : (tensor<4xf32>) -> tensor<4xf32>
    %1 = stablehlo.add %0, %0 {hespas.cost = {flops = 4 : i64}} : tensor<4xf32>
    %2 = stablehlo.add %1, %1 : tensor<4xf32>
    return %2 : tensor<4xf32>
  }
  func.func private @f(%x: tensor<4xf32>) -> tensor<4xf32> { return %x : tensor<4xf32> }
}
"""


@pytest.mark.parametrize(
    "name",
    [
        "_hlo.HloModule", "_hlo.HloPrintOptions", "_hlo.hlo_module_from_text",
        "_jax.hlo_module_cost_analysis",
        "_jax.mlir.hlo_to_stablehlo", "_jax.mlir.mlir_module_to_xla_computation",
        "_jax.mlir.refine_polymorphic_shapes", "_profile_data.ProfileData",
        "_profiler.ProfileOptions",
        "_profiler.ProfilerSession",
        "cpu._lapack.initialize", "mlir._mlir_libs._jax_mlir_ext.register_dialects",
        "mlir._mlir_libs._mlir.rewrite.walk_and_apply_patterns",
        "xla_client.CompileOptions", "xla_client.DeviceAssignment", "xla_client.DeviceList",
        "xla_client.load_pjrt_plugin_dynamically", "xla_client.make_c_api_device_topology",
        "xla_client.make_cpu_client", "xla_client.register_custom_call_as_batch_partitionable",
        "xla_client.register_custom_call_target",
    ],
)  # fmt: skip
def test_every_name_of_jaxlib_is_there(name):
    """A release of jaxlib that moves a name which hespas uses fails here, by that name."""
    pkgutil.resolve_name(f"jaxlib.{name}")


@pytest.mark.parametrize(
    "name",
    [
        "_src.custom_partitioning._custom_partitioning_lowering_rule",
        "_src.custom_partitioning.custom_partitioning_p",
        "_src.cudnn.fused_attention_stablehlo._dot_product_attention_bwd_rule",
        "_src.cudnn.fused_attention_stablehlo.check_compute_capability",
        "_src.cudnn.fused_attention_stablehlo.check_cudnn_version",
        "_src.cudnn.fused_attention_stablehlo.is_cuda_compute_capability_equal",
        "_src.dispatch.prim_requires_devices_during_lowering",
        "_src.interpreters.mlir.register_lowering",
        "_src.sharding_impls.ShardingContext.device_assignment",
    ],
)
def test_every_private_name_of_jax_is_there(name):
    """A release of jax that moves a name which hespas uses fails here, by that name."""
    pkgutil.resolve_name(f"jax.{name}")


def test_every_dialect_is_there(context):
    for op in (
        "func.func", "stablehlo.add", "chlo.erf", "vhlo.add_v1", "mhlo.fusion",
        "sdy.manual_computation", "scf.for", "tensor.dim",
    ):  # fmt: skip
        assert context.is_registered_operation(op) or op == "tensor.dim", op


@pytest.mark.parametrize(
    "name",
    ["canonicalize", "cse", "trivial-dce", "symbol-dce", "func.func(chlo-legalize-to-stablehlo)",
     "stablehlo-refine-shapes", "sdy-propagation-pipeline", "hlo-legalize-to-stablehlo"],
)  # fmt: skip
def test_native_passes_are_registered(name, context):
    register_passes()
    with context:
        PassManager.parse(f"builtin.module({name})")


def test_core_does_not_import_jax_or_heavy_packages():
    code = (
        "import sys; import hespas.tools.hespas_opt, hespas.passes.pipeline, hespas.frontends; "
        "print([m for m in ('jax', 'pydantic', 'rich', 'xdsl', 'google.protobuf') "
        "if m in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


def test_functions_and_calls(parse):
    module = parse(TEXT)
    functions = collect_functions(module)
    assert list(functions) == ["main", "f"]
    assert [mlir.has_private_symbol(f) for f in functions.values()] == [False, True]
    assert [c.name for c in mlir.find_ops(functions["main"], ("func.call",))] == ["func.call"]


def test_a_walk_takes_modules_and_functions_that_return_nothing(parse):
    module, names = parse(TEXT), []
    walk_operations(module, lambda op: names.append(op.name))
    assert names.count("stablehlo.add") == 2 and names[-1] == "builtin.module"
    walk_operations(module.body.operations[0], lambda op: names.remove(op.name))
    with pytest.raises(ValueError, match="not in list"):
        walk_operations(module, lambda op: names.remove(op.name))


def test_ops_are_found_by_name_inner_ones_first(parse):
    module = parse("""
func.func @main(%x: tensor<4xf32>, %i: tensor<i32>) -> tensor<4xf32> {
  %0 = stablehlo.add %x, %x : tensor<4xf32>
  %1 = "stablehlo.case"(%i) ({
    %3 = stablehlo.sine %0 : tensor<4xf32>
    %4 = stablehlo.add %3, %3 : tensor<4xf32>
    stablehlo.return %4 : tensor<4xf32>
  }) : (tensor<i32>) -> tensor<4xf32>
  %2 = stablehlo.add %1, %1 : tensor<4xf32>
  return %2 : tensor<4xf32>
}""")
    main = collect_functions(module)["main"]
    ops = mlir.find_ops(main, {"stablehlo.add", "stablehlo.case", "stablehlo.none", "none.none"})
    assert [op.name.partition(".")[2] for op in ops] == ["add", "add", "case", "add"]
    assert ops[1].parent == ops[2] and type(ops[0]) is ir.Operation
    assert mlir.find_ops(main, ()) == mlir.find_ops(main, ("func.func",)) == []


def test_op_text_tells_content_not_place(parse):
    module = parse(TEXT)
    main = collect_functions(module)["main"]
    ops = [view.operation for view in main.regions[0].blocks[0].operations]
    assert render_op_text(ops[1]) == render_op_text(ops[2])
    assert "hespas.cost" in ops[1].attributes, "the op itself keeps its attributes"


def test_attributes_that_the_bindings_cannot_represent(parse):
    value = "dense<(1.0,2.0)> : tensor<1xcomplex<f32>>"
    module = parse(
        f'module attributes {{mhlo.a = {value}, mhlo.b = {{c = {value}, d = "\\FF"}}}} {{}}'
    )
    with pytest.raises(TypeError):
        module.operation.attributes["mhlo.a"]
    assert mlir.find_attribute(module.operation, "mhlo.a") is None
    assert mlir.find_attribute(module.operation, "mhlo.c") is None
    entries = dict(mlir.list_dictionary_entries(module.operation.attributes["mhlo.b"]))
    assert entries["c"] is None
    assert mlir.decode_string_attr(entries["d"]) == "\N{REPLACEMENT CHARACTER}"
    assert list(mlir.clone_module(module).operation.attributes) == ["mhlo.b"]


def test_hash_of_operations_is_structural(parse):
    """Operations cannot be dictionary keys: their hashes change with their attributes."""
    module = parse(TEXT)
    op = collect_functions(module)["main"].regions[0].blocks[0].operations[1].operation
    before = hash(op)
    op.attributes["x"] = ir.StringAttr.get("y", op.context)
    assert hash(op) != before


def test_python_passes_run_in_the_pass_manager(parse):
    module = parse(TEXT)
    seen = []
    with module.context:
        manager = PassManager("builtin.module")
        manager.add(lambda op, _pass: seen.append(op.operation.name), "ours")
        manager.run(module.operation)
    assert seen == ["builtin.module"]


def test_programs_compile_run_and_are_profiled():
    device = pjrt.open_first_device("cpu")
    text = """func.func @main() -> tensor<4xf32> {
      %0 = stablehlo.constant dense<2.0> : tensor<4xf32>
      %1 = stablehlo.iota dim = 0 : tensor<4xf32>
      %2 = stablehlo.multiply %0, %1 : tensor<4xf32>
      return %2 : tensor<4xf32> }"""
    program = pjrt.compile_for_device(device, text, {"xla_cpu_enable_fast_math": False})
    (result,) = program.launch_once([])
    pjrt.wait_for_results([result])
    assert list(result._single_device_array_to_np_array_did_copy()[0]) == [0, 2, 4, 6]
    assert program.query_memory_bytes() >= 16
    assert program.query_cost_analysis()["bytes accessed"] > 0
    assert program.compile_s > 0
    assert program.measure_launch_time_s([], launches=3) > 0
    space = pjrt.profile_launches(program, [], runs=2)
    assert b"/host" in space
    assert pjrt.extract_kernel_times_ns(space) == []
    with pytest.raises(RuntimeError, match="No such compile option"):
        pjrt.compile_for_device(device, text, {"xla_nonsense": True})


def test_classes_of_ops_are_imported_when_an_op_of_their_dialect_is_met():
    """The modules of the classes of mhlo and chlo take 0.03 s, and most programs have none."""
    code = (
        "import sys; from hespas.dialects.mlir import ir, make_context; "
        "text = 'module { func.func @main(%x: tensor<f32>) { "
        "%0 = chlo.erf %x : tensor<f32> -> tensor<f32> return } }'; "
        "module = ir.Module.parse(text, make_context()); "
        "name = 'jaxlib.mlir.dialects._chlo_ops_gen'; print(name in sys.modules); "
        "op = module.body.operations[0].regions[0].blocks[0].operations[0]; "
        "print(name in sys.modules, type(op).__name__)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.split() == ["False", "True", "ErfOp"]


def test_shardy_is_whole_for_what_imports_it_later():
    """JAX lowers ``shard_map`` with what its native part defines, after hespas has read a file."""
    code = (
        "import hespas.dialects.mlir; from jaxlib.mlir._mlir_libs import _sdy; "
        "import jaxlib.mlir.dialects.sdy as sdy; "
        "print({name for name in dir(_sdy) if name[0] != '_'} - set(dir(sdy)))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "set()"


def test_modules_are_printed_to_a_file_by_its_path(tmp_path: Path):
    """MLIR then writes the file itself, without a call of Python for each word."""
    module = ir.Module.parse("module { func.func private @f() }", mlir.make_context())
    path = tmp_path / "out.mlir"
    module.operation.print(file=str(path), binary=True, assume_verified=True)
    assert path.read_text() == module.operation.get_asm()
    assert to_mlir_text(module) == path.read_bytes()
