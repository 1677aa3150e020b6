"""Private functions that nothing refers to are left out of the text before MLIR parses it."""

from __future__ import annotations

from pathlib import Path

import pytest

from hespas import frontends
from hespas.dialects.mlir import ir, make_context
from hespas.frontends.dead_functions import leave_out_dead_functions
from hespas.passes.prepare import census
from hespas.passes.prepare.census import collect_census
from hespas.tools import hespas_opt

DEAD = """\
  func.func private @dead(%x: tensor<f32>) -> (tensor<f32>, tensor<f32>) {
    %0 = stablehlo.abs %x {a = "}\\22\\"{ @tail", b = {c = 1 : i64}} : tensor<f32>
    %1 = "stablehlo.reduce_precision"(%0) <{exponent_bits = 1 : i32, mantissa_bits = 1 : i32}> \
: (tensor<f32>) -> tensor<f32>
    return %0, %1 : tensor<f32>, tensor<f32>
  }
"""
TAIL = """\
  func.func private @tail(%x: tensor<f32>) -> tensor<f32> {
    return %x : tensor<f32>
  }
"""
MAIN = """\
  func.func public @main(%x: tensor<f32> {jax.arg_info = "x"}) -> tensor<f32> {
    %0 = call @live(%x) : (tensor<f32>) -> tensor<f32>
    return %0 : tensor<f32>
  }
"""
LIVE = """\
  func.func private @live(%x: tensor<f32>) -> tensor<f32> {
    %0 = call @called.by_live$1(%x) : (tensor<f32>) -> tensor<f32>
    return %0 : tensor<f32>
  }
  func.func private @called.by_live$1(%x: tensor<f32>) -> tensor<f32> {
    return %x : tensor<f32>
  }
"""


def in_module(*functions: str) -> str:
    return "module @m attributes {a.b = {c = 1 : i64}} {\n" + "".join(functions) + "}\n"


def read_functions(path: Path, text: str, *, only_live: bool) -> str:
    """Return a module with its locations after ``prepare`` has removed dead functions."""
    path.write_text(text)
    context = make_context(allow_unregistered=True)
    module = frontends.read_module(str(path), context, only_live=only_live)
    if not only_live:
        collect_census(module)
    return str(module.operation.get_asm(enable_debug_info=True))


@pytest.mark.parametrize(
    "text",
    [
        in_module(MAIN, LIVE, DEAD),
        in_module(LIVE, DEAD, MAIN),
        in_module(LIVE, DEAD.replace("@tail", "tail"), TAIL, MAIN),
        in_module(MAIN, TAIL, TAIL.replace("@tail", "@main_2"), LIVE),
    ],
)
def test_what_remains_is_what_prepare_leaves(tmp_path: Path, text: str) -> None:
    live = leave_out_dead_functions(text.encode())
    assert live is not None and b"@dead" not in live and live.count(b"\n") == text.count("\n")
    path = tmp_path / "program.mlir"
    assert read_functions(path, text, only_live=True) == read_functions(path, text, only_live=False)


@pytest.mark.parametrize(
    "text",
    [
        in_module(MAIN, LIVE),  # nothing is dead
        in_module(MAIN, LIVE, DEAD.replace("  return", "  // }\n    return")),
        in_module(MAIN, LIVE, DEAD.replace("(%x: tensor<f32>)", '(%x: tensor<f32> {a.b = "c"})')),
        in_module(MAIN, LIVE, DEAD.replace(") {\n", ") attributes {a.b = 1 : i64} {\n")),
        in_module(MAIN, LIVE, MAIN.replace("public @main", "private @dead() func.func @other")),
        in_module(MAIN, LIVE, DEAD.replace("@dead", '@"dead"')),
        in_module(MAIN, LIVE.replace("call @called", 'call @"called').replace("$1(", '$1"(', 1)),
        in_module(MAIN, LIVE.replace("@called.by_live$1", '@"dead"'), DEAD),
        in_module(MAIN, LIVE, DEAD[:-1] + " loc(unknown)\n"),
        in_module(MAIN, LIVE, "  module @inner {\n", TAIL, "  }\n"),
        in_module(MAIN, LIVE, DEAD.replace("\n  }\n", "\n }\n")),
        in_module(MAIN, LIVE, DEAD).replace("module", "builtin.module"),
        in_module(MAIN, LIVE) + in_module(TAIL),
        "func.func @main() {\n    return\n  }\n" + DEAD,
        in_module(MAIN, LIVE, DEAD).replace("\n", "\r\n"),
        "module {\n  func.func private @declared()\n}\n",
    ],
)
def test_text_that_may_mean_more_is_left_as_it_is(text: str) -> None:
    assert leave_out_dead_functions(text.encode()) is None


def test_private_main_is_live() -> None:
    text = in_module(MAIN.replace("public", "private"), LIVE, TAIL)
    live = leave_out_dead_functions(text.encode())
    assert live is not None and b"@main" in live and b"@tail" not in live


def test_other_parts_keep_their_place_in_errors(tmp_path: Path) -> None:
    path = tmp_path / "program.mlir"
    path.write_text(in_module(MAIN, DEAD, MAIN.replace("@main", "@other").replace("%0 :", "%7 :")))
    with pytest.raises(Exception, match=r"program.mlir:13:12: .*undeclared") as whole:
        frontends.read_module(str(path), make_context())
    with pytest.raises(type(whole.value)) as parts:
        frontends.read_module(str(path), make_context(), only_live=True)
    assert str(parts.value) == str(whole.value)


@pytest.mark.parametrize(
    ("flags", "is_seen"),
    [
        (["--split-linear", "-o", "/dev/null"], False),
        (["--prepare", "--disable-output"], False),
        (["--split-linear", "-o", "{folder}/out.mlir"], True),
        (["--symbol-dce", "--split-linear", "-o", "/dev/null"], True),
        (["--op-stats", "-o", "/dev/null"], True),
        (["--split-linear", "-o", "/dev/null", "--mlir-print-ir-before-all"], True),
        (["-o", "/dev/null"], True),
    ],
)
def test_tool_leaves_out_what_no_output_shows(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, flags: list[str], is_seen: bool
) -> None:
    parsed: list[str] = []
    read_module = frontends.read_module

    def record_parsed_text(path: str, context: ir.Context, *, only_live: bool) -> ir.Module:
        module = read_module(path, context, only_live=only_live)
        parsed.append(str(module))
        return module

    path = tmp_path / "program.mlir"
    path.write_text(in_module(MAIN, LIVE, DEAD))
    monkeypatch.setattr(frontends, "read_module", record_parsed_text)
    assert hespas_opt.main([str(path), *(flag.format(folder=tmp_path) for flag in flags)]) == 0
    assert ["@dead" in text for text in parsed] == [is_seen]


def test_an_annotated_module_keeps_all_functions(tmp_path: Path) -> None:
    path = tmp_path / "program.mlir"
    path.write_text(in_module(MAIN, LIVE, DEAD).replace("a.b = {", "hespas.split = {"))
    with pytest.raises(Exception, match=r"hespas\.split"):
        frontends.read_module(str(path), make_context(), only_live=True)
    path.write_text(in_module(MAIN, LIVE, DEAD).replace('"x"', '"hespas.x"'))
    module = frontends.read_module(str(path), make_context(), only_live=True)
    assert "@dead" in str(module)


@pytest.mark.parametrize("is_nested", [False, True])
def test_the_census_of_a_search_is_that_of_a_walk(
    is_nested: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """MLIR finds what is in a loop before the loop; the census has it after the loop."""
    groups = "replica_groups = dense<[[0, 1]]> : tensor<1x2xi64>"
    body = f"""%r = "stablehlo.all_reduce"(%x) <{{{groups}}}> ({{
      ^bb0(%p: tensor<f32>, %q: tensor<f32>):
        %s = stablehlo.add %p, %q : tensor<f32>
        stablehlo.return %s : tensor<f32>
      }}) : (tensor<f32>) -> tensor<f32>
      %o = "acme.scale"(%r) : (tensor<f32>) -> tensor<f32>"""
    loop = f"""%o = stablehlo.while(%x = %a) : tensor<f32> cond {{
        %lt = stablehlo.compare LT, %x, %x : (tensor<f32>, tensor<f32>) -> tensor<i1>
        stablehlo.return %lt : tensor<i1>
      }} do {{
        {body}
        stablehlo.return %o : tensor<f32>
      }}"""
    text = f"""module {{ func.func @main(%a: tensor<f32>) -> tensor<f32> {{
      {loop if is_nested else body.replace("%x", "%a")}
      %c = func.call @f(%o) : (tensor<f32>) -> tensor<f32>
      return %c : tensor<f32>
    }}
    func.func private @f(%b: tensor<f32>) -> tensor<f32> {{ return %b : tensor<f32> }} }}"""

    def list_contents() -> dict[str, list[str]]:
        module = ir.Module.parse(text, make_context(allow_unregistered=True))
        functions = collect_census(module).functions
        return {name: [op for op, _ in contents.ops] for name, contents in functions.items()}

    found = list_contents()
    monkeypatch.setattr(census, "count_op_names", lambda module: None)  # as without stderr
    assert list_contents() == found
    expected = ["stablehlo.all_reduce", "acme.scale", "func.call"]
    assert found == {"main": ["stablehlo.while"] * is_nested + expected, "f": []}
