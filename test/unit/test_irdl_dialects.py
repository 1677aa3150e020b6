"""Modules with ops of an IRDL file are accepted if MLIR accepts them (torch-mlir's bindings)."""

from __future__ import annotations

import importlib.util
import json
import subprocess
import sys
from pathlib import Path

import pytest

from hespas.dialects.mlir import ir, make_context
from hespas.frontends.irdl_dialects import load_irdl_dialects
from hespas.support.errors import HespasError

# The bindings of two packages do not share a process.
READER = """
import json, sys
from torch_mlir import ir
from torch_mlir.dialects import irdl
accepted = []
for definition, text in json.load(sys.stdin):
    with ir.Context():
        try:
            irdl.load_dialects(ir.Module.parse(definition))
            ir.Module.parse(text)
            accepted.append(True)
        except (RuntimeError, ir.MLIRError):
            accepted.append(False)
print(json.dumps(accepted))
"""
F32, I32 = "%f = irdl.is f32 ", "%i = irdl.is i32 "
ANY = "%a = irdl.any "
OPS: dict[str, list[str]] = {  # definitions of g.o, and uses
    F32 + I32 + "%c = irdl.any_of(%f, %i) irdl.operands(x: %c) irdl.results(y: variadic %c)": [
        '"g.o"(%s) : (f32) -> ()', '"g.o"(%n) : (i32) -> ()', '"g.o"(%x) : (tensor<4xf32>) -> ()',
        '%0 = "g.o"(%s) : (f32) -> f32', '%0 = "g.o"(%s) : (f32) -> i32', '"g.o"() : () -> ()',
    ],
    ANY + "irdl.operands(x: %a, class: %a) irdl.results(operands: %a)": [
        '%0 = "g.o"(%s, %s) : (f32, f32) -> f32', '%0 = "g.o"(%s, %n) : (f32, i32) -> f32',
        '%0 = "g.o"(%s, %s) : (f32, f32) -> i32',
    ],
    ANY + "%b = irdl.any irdl.operands(x: %a, y: %b)": ['"g.o"(%s, %n) : (f32, i32) -> ()'],
    F32 + ANY + "%c = irdl.all_of(%f, %a) irdl.operands(x: %c)": [
        '"g.o"(%s) : (f32) -> ()', '"g.o"(%n) : (i32) -> ()',
    ],
    F32 + "irdl.operands(x: optional %f)": [
        '"g.o"() : () -> ()', '"g.o"(%s) : (f32) -> ()', '"g.o"(%s, %s) : (f32, f32) -> ()',
    ],
    F32 + I32 + "irdl.operands(x: variadic %f, y: variadic %i)": [
        '"g.o"(%s, %n) {operandSegmentSizes = array<i32: 1, 1>} : (f32, i32) -> ()',
        '"g.o"(%n, %s) {operandSegmentSizes = array<i32: 1, 1>} : (i32, f32) -> ()',
        '"g.o"(%s, %n) {operandSegmentSizes = array<i32: 2, 0>} : (f32, i32) -> ()',
        '"g.o"(%s, %n) {operandSegmentSizes = array<i32: 1>} : (f32, i32) -> ()',
        '"g.o"(%s, %n) : (f32, i32) -> ()',
    ],
    I32 + 'irdl.attributes {"k" = %i}': [
        '"g.o"() {k = i32, more} : () -> ()', '"g.o"() {k = f32} : () -> ()', '"g.o"() : () -> ()',
    ],
    '%v = irdl.is 3 : i64 irdl.attributes {"k" = %v}': [
        '"g.o"() {k = 3 : i64} : () -> ()', '"g.o"() {k = 3 : i32} : () -> ()',
    ],
    '%v = irdl.base "#builtin.integer" %w = irdl.base "#builtin.string" '
    'irdl.attributes {"k" = %v, "s" = %w}': [
        '"g.o"() {k = 3 : i64, s = "a"} : () -> ()', '"g.o"() {k = true, s = "a"} : () -> ()',
        '"g.o"() {k, s = "a"} : () -> ()', '"g.o"() {k = 3 : i64, s = i32} : () -> ()',
    ],
    '%t = irdl.base "!builtin.tensor" %u = irdl.base "!builtin.f32" irdl.operands(x: %t, y: %u)': [
        '"g.o"(%x, %s) : (tensor<4xf32>, f32) -> ()', '"g.o"(%s, %s) : (f32, f32) -> ()',
        '"g.o"(%x, %n) : (tensor<4xf32>, i32) -> ()',
    ],
    "%r = irdl.region irdl.regions(body: %r)": [
        '"g.o"() ({}) : () -> ()', '"g.o"() : () -> ()', '"g.o"() ({}, {}) : () -> ()',
    ],
    F32 + "%r = irdl.region(%f) irdl.regions(body: %r)": [
        '"g.o"() ({ ^bb0(%q: i32): }) : () -> ()',
    ],
    "%t = irdl.base @g::@t irdl.results(y: %t)": [
        '%0 = "g.o"() : () -> !g.t<i32, "a, b">', '%0 = "g.o"() : () -> !g.t<f32, "a">',
        '%0 = "g.o"() : () -> !g.t<i32>', '%0 = "g.o"() : () -> !g.u', '%0 = "g.o"() : () -> f32',
    ],
    I32 + ANY + "%t = irdl.parametric @g::@t<%i, %a> irdl.results(y: %t)": [
        '%0 = "g.o"() : () -> !g.t<i32, (i32) -> f32>', '%0 = "g.o"() : () -> f32',
    ],
    '%k = irdl.base @g::@k irdl.attributes {"k" = %k}': [
        '"g.o"() {k = #g.k<i32>} : () -> ()', '"g.o"() {k = #g.k<f32>} : () -> ()',
        '"g.o"() {k = i32} : () -> ()', '"g.o"() {k = #g.k<i32>, l = [#g.no]} : () -> ()',
    ],
    "": ['"g.o"() {a} : () -> ()', '"g.o"(%s) : (f32) -> ()', '"g.o"() ({}) : () -> ()'],
    ANY + "irdl.operands(x: %a, x: %a)": ['"g.o"(%s, %s) : (f32, f32) -> ()'],
    ANY + "irdl.operands(x: %a) irdl.operands(y: %a)": ['"g.o"(%s) : (f32) -> ()'],
    "irdl.operands(x: %a)" + ANY: ['"g.o"(%s) : (f32) -> ()'],
    "} irdl.operation @o {": ['"g.o"() : () -> ()'],
    '%a = irdl.base "!builtin.nope" irdl.operands(x: variadic %a)': ['"g.o"() : () -> ()'],
    '%a = irdl.base "builtin.f32" irdl.operands(x: variadic %a)': ['"g.o"() : () -> ()'],
    "%a = irdl.base @g::@nope irdl.operands(x: variadic %a)": ['"g.o"() : () -> ()'],
    "%a = irdl.base @t irdl.operands(x: variadic %a)": ['"g.o"() : () -> ()'],
}  # fmt: skip
DIALECT = """irdl.dialect @g {{
  irdl.type @t {{ %i = irdl.is i32 %w = irdl.any irdl.parameters(e: %i, w: %w) }}
  irdl.attribute @k {{ %i = irdl.is i32 irdl.parameters(e: %i) }}
  irdl.operation @o {{ {} }}
}}"""
FUNCTION = """func.func @main(%x: tensor<4xf32>, %s: f32, %n: i32) {{
  {}
  return
}}"""


def is_accepted(definition: str, text: str) -> bool:
    Path("g.irdl").write_text(definition)
    try:
        dialects = load_irdl_dialects(["g.irdl"])
        module = ir.Module.parse(text, make_context(allow_unregistered=True))
        dialects.verify_module(module)
    except HespasError:
        return False
    return True


@pytest.mark.slow
@pytest.mark.skipif(not importlib.util.find_spec("torch_mlir"), reason="torch-mlir is not here")
def test_what_mlir_accepts_is_accepted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    cases = [(DIALECT.format(op), FUNCTION.format(use)) for op, uses in OPS.items() for use in uses]
    command = [sys.executable, "-c", READER]
    done = subprocess.run(
        command, input=json.dumps(cases), capture_output=True, text=True, check=True
    )
    expected = json.loads(done.stdout)
    assert 15 < sum(expected) < len(cases) - 30
    for (definition, text), answer in zip(cases, expected, strict=True):
        assert is_accepted(definition, text) == answer, (definition, text)
