"""Conversion to xDSL and back preserves text, generic text and locations byte for byte."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from xdsl.context import Context
from xdsl.dialects.builtin import Builtin, ModuleOp
from xdsl.dialects.func import Func, FuncOp
from xdsl.parser import Parser
from xdsl.universe import XDSL_UNIVERSE

from hespas import frontends
from hespas.dialects.mlir import ir, make_context
from hespas.dialects.xdsl_bridge import to_native_module, to_xdsl_module
from hespas.dialects.xdsl_dialect import HESPAS
from hespas.support.errors import HespasError

MIXED = """
#map = loc("model.py":3:4 to :19)
module @m attributes {mhlo.num_partitions = 8 : i32, a.native = dense<0x7F800000> : tensor<f32>} {
  sdy.mesh @mesh = <["x"=8]>
  func.func public @main(%arg0: tensor<?x4xf32> loc("x"), %arg1: tensor<4xcomplex<f32>>)
      -> (tensor<4xcomplex<f32>> {jax.result_info = "r"}) {
    %0 = stablehlo.constant dense<0xFF800000> : tensor<f32> loc(#map)
    %1 = stablehlo.constant dense<[(1.0,2.0), (0x7FC00000,-0.0), (0.0,0.0), (3.0,1.0)]>
      : tensor<4xcomplex<f32>> loc(callsite("f"("a.py":1:2) at fused<"k">["u", "v"]))
    %2 = stablehlo.add %arg1, %1 {note = dense<(1.0,2.0)> : tensor<complex<f64>>,
      xla_shape = "s", big = 18446744073709551616 : i128, nan = 0x7FC00001 : f32, tiny = 1.0 : bf16,
      u = 255 : ui8, s = -1 : si8, yes = true, unit, nested = [{a = @m::@f, b = i64}],
      t = "\\22\\09"}
      : tensor<4xcomplex<f32>> loc("g.py":1:1)
    %3 = stablehlo.custom_call @foo(%2) {xla_shape = "(f32)", backend_config = "c"}
      : (tensor<4xcomplex<f32>>) -> tensor<4xcomplex<f32>>
    cf.br ^end(%3 : tensor<4xcomplex<f32>>)
  ^end(%4: tensor<4xcomplex<f32>>):
    return %4 : tensor<4xcomplex<f32>>
  }
}
"""


def everything() -> Context:
    """Return a context with all dialects of xDSL, as in xdsl-opt."""
    context = Context(allow_unregistered=True)
    for name, dialect in XDSL_UNIVERSE.all_dialects.items():
        context.register_dialect(name, dialect)
    return context


def texts(module: ir.Module) -> list[str]:
    return [
        str(module.operation.get_asm(enable_debug_info=True, print_generic_op_form=generic))
        for generic in (False, True)
    ]


def assert_same(module: ir.Module, context: Context | None) -> None:
    copy = to_xdsl_module(module, context)
    copy.verify()
    assert texts(to_native_module(copy)) == texts(module)


@pytest.mark.parametrize("known", [None, everything()], ids=["bare", "all-dialects"])
def test_attributes_and_locations_come_back(
    parse: Callable[[str], ir.Module], known: Context | None
) -> None:
    assert_same(parse(MIXED), known)


@pytest.mark.long
@pytest.mark.slow
@pytest.mark.parametrize(
    "name",
    [
        "llama3/llama3-100m.mlir",
        "llama3/llama3-100m-opt-a100.mlir",
        "zoo/collectives_all/jax_sdy.mlir",
        "zoo/control_flow/opt.mlir",
        "zoo/fft_signal/jax_sdy.mlir",
        "zoo/rng_dropout/jax_gspmd.mlir",
    ],
)
def test_workloads_come_back(
    workload: Callable[[str], Path], context: ir.Context, name: str
) -> None:
    assert_same(frontends.read_module(workload(name), context), everything())


def test_another_context_gets_the_same_module(parse: Callable[[str], ir.Module]) -> None:
    module = parse(MIXED)
    assert texts(to_native_module(to_xdsl_module(module), make_context())) == texts(module)


def test_ops_that_xdsl_knows_are_its_own(parse: Callable[[str], ir.Module]) -> None:
    copy = to_xdsl_module(parse("func.func @f() { return }"), everything())
    assert [type(op) for op in copy.ops] == [FuncOp]


def from_text(text: str) -> ModuleOp:
    context = Context(allow_unregistered=True)
    for dialect in (Builtin, Func, HESPAS):
        context.load_dialect(dialect)
    return Parser(context, text).parse_module()


def test_typed_attributes_arrive_as_dictionaries() -> None:
    native = to_native_module(
        from_text('builtin.module attributes {hespas.kernel = #hespas.kernel<kind = "copy">} {}')
    )
    assert 'hespas.kernel = {kind = "copy"}' in str(native)


def test_text_locations_arrive() -> None:
    native = to_native_module(from_text('"builtin.module"() ({}) : () -> () loc("a.mlir":3:4)'))
    assert str(native.operation.location) == 'loc("a.mlir":3:4)'


@pytest.mark.parametrize(
    ("constant", "warned"),
    [
        ("dense<0xFF800000> : tensor<f32>", "-inf"),
        ("dense<[0x7F800000, 1.0]> : tensor<2xf32>", "inf"),
        ("dense<0x7FF0000000000000> : tensor<f64>", "inf"),
        ("dense<0xFC00> : tensor<f16>", "-inf"),
        ("dense<0xFF80> : tensor<bf16>", "-inf"),
        ("dense<1.5> : tensor<f32>", ""),
    ],
)
def test_infinities_that_xdsl_corrupted_are_reported(constant: str, warned: str) -> None:
    notes: list[str] = []
    module = from_text(f"builtin.module attributes {{a.value = {constant}}} {{}}")
    to_native_module(module, warn=notes.append)
    assert bool(notes) == bool(warned)
    assert all(f"bit pattern of {warned}," in text and "hespas-read" in text for text in notes)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("builtin.module attributes {a.b = #builtin.int<3>} {}", "does not know the attribute"),
        ('%0 = "a.b"() : () -> !builtin.foo', "does not know the type"),
        ('%0 = "stablehlo.abs"() : () -> f32', "MLIR does not accept it"),
    ],
)
def test_what_mlir_does_not_take_is_named(text: str, message: str) -> None:
    with pytest.raises(HespasError, match=message):
        to_native_module(from_text(text))


def test_text_that_is_not_utf_8_and_complex_elements_are_wrapped(parse):
    values = r'a = "\FF\FE", b = [dense<(1.0,2.0)> : tensor<1xcomplex<f32>>]'
    module = parse(f"module attributes {{mhlo.a = {{{values}}}}} {{}}")
    copy = to_native_module(to_xdsl_module(module), make_context())
    assert str(copy) == str(module)
