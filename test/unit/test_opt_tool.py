"""``hespas-opt`` as an ``-opt`` tool: reproducers, IRDL files, native passes, typed attributes."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from support.paths import ROOT

from hespas.dialects.mlir import make_context
from hespas.passes.native_passes import NAMES, list_native_passes
from hespas.passes.pipeline import parse_pipeline, resolve_native_passes
from hespas.support.errors import HespasError, UsageError
from hespas.support.packed_data import unpack_bytes
from hespas.tools import hespas_opt
from hespas.tools.console_scripts import run_tool_main

X = "tensor<8xf32>"
TEXT = f"""func.func @main(%x: {X}) -> {X} {{
  %0 = stablehlo.add %x, %x : {X}
  %1 = stablehlo.tanh %0 : {X}
  return %1 : {X}
}}
"""
IRDL = """irdl.dialect @guest {
  irdl.operation @scale {
    %0 = irdl.any
    irdl.operands(x: %0)
    irdl.results(y: %0)
  }
  irdl.attribute @mode { %0 = irdl.is i32 irdl.parameters(word: %0) }
  irdl.type @tile {}
  irdl.operation @load {
    %mode = irdl.base @guest::@mode
    %tile = irdl.base @guest::@tile
    %value = irdl.base "!builtin.tensor"
    irdl.operands(x: %value, more: variadic %value)
    irdl.results(y: %tile)
    irdl.attributes { "mode" = %mode }
    %region = irdl.region
    irdl.regions(body: %region)
  }
}
"""
LOAD = f'"guest.load"(%x) ({{{{}}}}) {{}} : ({X}) -> {{}}'
MODE = "{mode = #guest.mode<i32>}"


@pytest.fixture(autouse=True)
def folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    Path("m.mlir").write_text(TEXT)
    Path("guest.irdl").write_text(IRDL)


def run(*argv: str) -> int:
    return run_tool_main(hespas_opt.main, list(argv))


@pytest.mark.parametrize("ending", ["xz", "gz"])
def test_what_is_written_is_compressed_as_its_name_says(ending: str, tmp_path: Path) -> None:
    plain, packed = tmp_path / "m.mlir", tmp_path / f"m.mlir.{ending}"
    plain.write_text(TEXT)
    assert run_tool_main(hespas_opt.main, [str(plain), "-o", str(packed)]) == 0
    assert run_tool_main(hespas_opt.main, [str(plain), "-o", str(plain)]) == 0
    assert packed.read_bytes() != plain.read_bytes()
    assert unpack_bytes(packed.read_bytes(), str(packed)) == plain.read_bytes()


def test_a_reproducer_contains_the_pass_that_fails(capsys) -> None:
    flag = "--mlir-pass-pipeline-crash-reproducer=r.mlir"
    assert run("m.mlir", flag, "--split-linear", "-o", "out.mlir") == 0
    assert not Path("r.mlir").exists(), "every pass has ended well"
    arguments = ["--cse", "--split-linear=block-limit=1", "--emit-chakra=output=t", "--cse"]
    assert run("m.mlir", flag, *arguments) == 1
    error = capsys.readouterr().err
    assert "no hespas.cost" in error
    text = Path("r.mlir").read_text()
    assert 'pipeline: "builtin.module(emit-chakra{output=t},cse)"' in text
    assert run("r.mlir", "--run-reproducer") == 1
    assert capsys.readouterr().err == error
    assert run("r.mlir", "--disable-output") == 0, "it is a module"


def test_a_reproducer_replaces_no_file_of_the_user(capsys) -> None:
    flag = "--mlir-pass-pipeline-crash-reproducer"
    Path("old.mlir").write_text("of yesterday")
    assert run("m.mlir", f"{flag}=old.mlir", "--cse", "-o", "out.mlir") == 0
    assert Path("old.mlir").read_text() == "of yesterday"
    assert run("m.mlir", f"{flag}=./m.mlir", "--cse") == 2
    assert run("m.mlir", f"{flag}=out.mlir", "--cse", "-o", "out.mlir") == 2
    assert "would replace out.mlir; choose another file" in capsys.readouterr().err
    assert Path("m.mlir").read_text() == TEXT
    assert run("m.mlir", f"{flag}=r.mlir", "--emit-chakra=output=t") == 1
    assert run("r.mlir", "--run-reproducer", "--cse") == 2
    assert "runs the passes of the file, and others are given" in capsys.readouterr().err
    names = {path.name for path in Path().iterdir()}
    assert names == {"m.mlir", "guest.irdl", "old.mlir", "out.mlir", "r.mlir"}, "and no others"


@pytest.mark.parametrize("kind", ["pipe", "file"])
def test_what_a_shell_has_opened_is_written_to(kind: str) -> None:
    """``-o /dev/stdout`` in a pipe, ``-o >(gzip)``, and a file that others write to as well."""
    if kind == "pipe":
        reader, writer = os.pipe()
    else:
        reader = writer = os.open("shared", os.O_RDWR | os.O_CREAT)
    try:
        os.write(writer, b"before\n")
        assert run("m.mlir", "--cse", "-o", f"/dev/fd/{writer}") == 0
        reproducer = f"--mlir-pass-pipeline-crash-reproducer=/proc/self/fd/{writer}"
        assert run("m.mlir", reproducer, "--emit-chakra=output=t") == 1
        if kind == "file":
            os.lseek(reader, 0, os.SEEK_SET)
        text = os.read(reader, 1 << 16).decode()
    finally:
        for descriptor in {reader, writer}:
            os.close(descriptor)
    parts = ("before\n", "module {", '"builtin.module"()', "mlir_reproducer")
    places = [text.find(part) for part in parts]
    assert places[0] == 0 and places == sorted(places)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        ("os.abort()", "pass 'guest-abort' failed (SIGABRT"),
        ("os._exit(0)", "pass 'guest-abort' ended hespas (exit code 0)"),
    ],
)
def test_a_reproducer_survives_a_native_crash(call, message) -> None:
    """view-op-graph writes to stdout, so that the pass itself is replaced by one that aborts."""
    Path("aborting.py").write_text(
        "import os\n"
        "from hespas.plugin import Pass\n"
        "class AbortPass(Pass):\n"
        "    name = 'guest-abort'\n"
        "    def apply(self, module, run):\n"
        f"        {call}\n"
    )
    Path("aborting-1.0.dist-info").mkdir()
    Path("aborting-1.0.dist-info/METADATA").write_text("Name: aborting\nVersion: 1.0\n")
    Path("aborting-1.0.dist-info/entry_points.txt").write_text(
        "[hespas.passes]\nguest-abort = aborting:AbortPass\n"
    )
    tool = Path(sys.executable).parent / "hespas-opt"
    done = subprocess.run(
        [tool, "m.mlir", "--cse", "--guest-abort",
         "--mlir-pass-pipeline-crash-reproducer=r.mlir"],
        capture_output=True, text=True, env={**os.environ, "PYTHONPATH": os.getcwd()},
    )  # fmt: skip
    assert done.returncode == 1 and message in done.stderr
    assert "Traceback" not in done.stderr
    assert 'pipeline: "builtin.module(guest-abort)"' in Path("r.mlir").read_text()
    assert not [*Path().glob(".hespas*")]


@pytest.mark.parametrize(
    ("body", "message"),
    [
        (f'"guest.scale"(%x) {{m = #guest.mode<i32>}} : ({X}) -> {X}', ""),
        (
            f'"guest.scale"(%x, %x) : ({X}, {X}) -> {X}',
            "3:8: error: 'guest.scale': number of operands: 2 instead of 1",
        ),
        (
            f'"guest.scale"(%x) : ({X}) -> tensor<4xf32>',
            "'guest.scale': result y: tensor<4xf32> is not",
        ),
        (f'"guest.other"(%x) : ({X}) -> {X}', "error: 'guest.other': the op is of an unknown"),
        (LOAD.format(MODE, "!guest.tile"), ""),
        (f'"guest.load"(%x, %x) <{MODE}> ({{}}) : ({X}, {X}) -> !guest.tile', ""),
        (LOAD.format("", "!guest.tile"), "attribute mode: it is missing"),
        (LOAD.format(MODE.replace("mode<", "other<"), "!guest.tile"), "is no #guest.mode"),
        (LOAD.format(MODE, "!guest.other"), "result y: !guest.other is no !guest.tile"),
        (f'"guest.load"(%x) {MODE} : ({X}) -> !guest.tile', "number of regions: 0 instead of 1"),
    ],
)
def test_ops_of_an_irdl_file_are_accepted_and_verified(body, message, capsys) -> None:
    Path("g.mlir").write_text(f"func.func @main(%x: {X}) {{\n\n  %0 = {body}\n  return }}\n")
    assert run("g.mlir", "--irdl-file=guest.irdl", "--cse") == (1 if message else 0)
    shown = capsys.readouterr()
    assert message in shown.err and ("guest." in shown.out) == (not message)


def test_an_irdl_file_that_is_none(capsys) -> None:
    Path("wrong.irdl").write_text("irdl.dialect @guest {\n  irdl.operation }\n")
    Path("misspelt.irdl").write_text("irdl.dialect @guest {\n  irdl.operatoin @x {} }\n")
    Path("undefined.irdl").write_text(
        "irdl.dialect @g { irdl.operation @x {\n  irdl.operands(x: %10)\n  irdl.results(y: %1)\n} }"
    )
    Path("none.irdl").write_text("module {}")
    Path("bytes.irdl").write_bytes(b"ML\xefR")
    Path("predicate.irdl").write_text(
        'irdl.dialect @g { irdl.operation @x { %0 = irdl.c_pred "p" irdl.operands(x: %0) } }'
    )
    Path("twice.irdl").write_text("irdl.dialect @g { irdl.operation @x {} irdl.operation @x {} }")
    Path("base.irdl").write_text(
        "irdl.dialect @g { irdl.operation @x { %0 = irdl.base @g::@t irdl.operands(x: %0) } }"
    )
    assert run("m.mlir", "--irdl-file=guest.irdl", "--irdl-file=guest.irdl") == 1
    assert "the dialect guest is defined twice" in capsys.readouterr().err
    for name, message in (
        ("wrong.irdl", ":2:18: error: not IRDL: expect symbol name\n"),
        ("m.mlir", ":1:1: error: not IRDL: there is no op 'func.func'; define the ops in an irdl"),
        ("misspelt.irdl", ":2:3: error: not IRDL: there is no op 'irdl.operatoin'; did you mean"),
        ("undefined.irdl", ":2:20: error: not IRDL: the constraint %10 is not defined\n"),
        ("none.irdl", ": error: the file defines no dialect; define the ops in an irdl.dialect"),
        ("bytes.irdl", ": error: not IRDL text; bytecode is not read"),
        ("absent.irdl", ": error: cannot read it"),
        ("twice.irdl", ": error: g.x is defined twice"),
        ("base.irdl", ": error: g.x: irdl.base @g::@t is unknown; write"),
        ("predicate.irdl", ": error: g.x: irdl.c_pred cannot be verified"),
    ):  # fmt: skip
        assert run("m.mlir", f"--irdl-file={name}") == 1
        assert f"{name}{message}" in capsys.readouterr().err


def test_native_passes_of_the_list_are_those_of_the_bindings() -> None:
    """The newest and the oldest bindings have most of them; none ends the process."""
    listed = dict(list_native_passes(make_context()))
    assert len(listed) > 0.8 * len(NAMES)
    assert listed["cse"] == "builtin.module"
    assert listed["chlo-legalize-to-stablehlo"] == "func.func"


def test_flags_nest_and_textual_pipelines_do_not() -> None:
    context = make_context()
    name = "chlo-legalize-to-stablehlo"
    (step,) = resolve_native_passes([hespas_opt._build_pass_step(name, "")], context)
    assert step.to_pipeline_text() == f"func.func({name})"
    with pytest.raises(UsageError, match=r"restricted to 'func\.func'"):
        resolve_native_passes(parse_pipeline(name), context)
    with pytest.raises(
        UsageError, match=r"prepare is a pass on builtin\.module and cannot be nest"
    ):
        resolve_native_passes(parse_pipeline("func.func(cse,prepare)"), context)


# Tools that know the dialect from the IRDL file write its attributes by position.
READERS = {
    "torch-mlir": "import sys\n"
    "from torch_mlir import ir\n"
    "from torch_mlir.dialects import irdl\n"
    "with ir.Context() as context:\n"
    "    context.allow_unregistered_dialects = True\n"
    "    irdl.load_dialects(ir.Module.parse(open(sys.argv[1]).read()))\n"
    "    print(ir.Module.parse(sys.stdin.read()))\n"
}


@pytest.mark.slow
def test_the_typed_form_of_another_tool_is_read_back(capsys) -> None:
    """Our typed form names its fields; a loaded dialect needs them by position."""
    positional = """module { func.func @main(%x: tensor<8xf32>) {
      %0 = "stablehlo.tanh"(%x) {hespas.region = #hespas.region<0 : i64, 3 : i64, "5f1c">,
        hespas.kernel = #hespas.kernel<"loop">} : (tensor<8xf32>) -> tensor<8xf32>
      return } }"""
    irdl = str(ROOT / "dialects" / "hespas.irdl")
    tried = 0
    for command in (
        [shutil.which("mlir-opt") or "", "--allow-unregistered-dialect", f"--irdl-file={irdl}"],
        [sys.executable, "-c", READERS["torch-mlir"], irdl],
        [shutil.which("iree-opt") or "", "--allow-unregistered-dialect", "--verify-each=0"],
    ):
        if not command[0]:
            continue
        done = subprocess.run(command, input=positional, capture_output=True, text=True)
        if "No module named 'torch_mlir'" in done.stderr:
            continue
        assert done.returncode == 0, done.stderr
        Path("back.mlir").write_text(done.stdout)
        assert run("back.mlir", "--disable-output") == 0, capsys.readouterr().err
        assert run("back.mlir") == 0
        shown = capsys.readouterr().out
        assert 'hespas.kernel = {kind = "loop"}' in shown
        assert 'hespas.region = {digest = "5f1c", id = 0 : i64, ops = 3 : i64}' in shown
        tried += 1
    if not tried:
        pytest.skip("no other MLIR is here")


def test_typed_attributes_by_position_have_all_fields() -> None:
    from hespas import frontends

    text = TEXT.replace(f"%0 : {X}", f"%0 {{hespas.region = #hespas.region<0 : i64>}} : {X}")
    with pytest.raises(
        HespasError, match="has 1 fields, not 3; they are id, ops, digest; unit for"
    ):
        frontends.parse_module(text.encode(), "m.mlir", make_context())
