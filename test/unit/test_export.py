"""``hespas export``: what comes out computes what JAX computes, and wrong input is one line."""

from __future__ import annotations

import json
import re
import sys
from pathlib import Path

import pytest
from support.processes import run_support_module

from hespas import frontends, passes
from hespas.dialects.attrs import Cost
from hespas.dialects.mlir import collect_functions, get_call_target, ir, make_context
from hespas.dialects.xla import find_gpu_library
from hespas.frontends.export import export_process
from hespas.frontends.export.export_spec import ExportSpec
from hespas.frontends.export.export_spec import read_export_spec as read_spec
from hespas.frontends.export.export_worker import describe_error
from hespas.frontends.export.program_source import ExportRequest, load_lowered_program
from hespas.passes.base import PassRun
from hespas.passes.prepare.prepare import PreparePass
from hespas.support.errors import HespasError
from hespas.tools import hespas
from hespas.tools.console_scripts import run_tool_main
from hespas.workflows.module_output import encode_module

pytestmark = pytest.mark.slow

GB = 1e9
PROGRAM = '''
import jax
import jax.numpy as jnp
from jax.sharding import PartitionSpec as P

from hespas.frontends.export import Exportable


def step(params, x, scale=1.0):
    hidden = jax.nn.relu(x @ params["up"])
    return {"up": params["up"] + scale}, hidden @ params["down"] * scale


def build(mesh: dict[str, int] = {"data": 4, "tensor": 2}, width: int = 32) -> Exportable:
    """A layer of its own."""

    def layer(params, x):
        hidden = jax.lax.with_sharding_constraint(x @ params["up"], P("data", "tensor"))
        total = jax.shard_map(
            lambda part: jax.lax.psum(part.sum(axis=1), "tensor"),
            in_specs=P("data", "tensor"), out_specs=P("data"),
        )(hidden)
        return {"up": params["up"] * 2}, hidden @ params["down"], total

    f32 = jnp.float32
    params = {
        "up": jax.ShapeDtypeStruct((width, 64), f32), "down": jax.ShapeDtypeStruct((64, width), f32)
    }
    return Exportable(
        "layer", layer, (params, jax.ShapeDtypeStruct((16, width), f32)), mesh=mesh,
        in_shardings=({"up": P("data", "tensor"), "down": P("tensor")}, P("data")),
        out_shardings=({"up": P("data", "tensor")}, None, P()),
        donate_argnums=(0,),
    )


def lowered():
    mesh = jax.make_mesh((8,), ("x",))
    along = jax.NamedSharding(mesh, P("x"))
    x = jax.ShapeDtypeStruct((64,), jnp.float32)
    return jax.jit(lambda x: x.sum(), in_shardings=along).lower(x)


def traced():
    return jax.jit(lambda x: x.sum()).trace(jax.ShapeDtypeStruct((64,), jnp.float32))


def draw(key, count=8):
    return jax.random.normal(key, (count,))


def wrong(x):
    return x.nope()


def three():
    return 3


def leave():
    raise SystemExit(4)


COUNT = 3


def crash():
    import os

    print("last words")
    os.kill(os.getpid(), 11)
'''
SPEC = {
    "mesh": {"data": 4, "tensor": 2},
    "args": [
        {"up": "f32[32,64]@-,tensor", "down": "f32[64,32]@tensor,-"},
        "f32[16,32]@data",
    ],
    "static": {"scale": 0.5},
    "out_shardings": [None, "@data"],
    "donate": [0],
}


@pytest.fixture
def place(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    Path("model.py").write_text(PROGRAM)
    Path("spec.json").write_text(json.dumps(SPEC))
    return tmp_path


def export(*argv):
    return run_tool_main(hespas.main, ["export", *argv])


def read(path):
    return frontends.read_module(path, make_context())


def main_text(module):
    return collect_functions(module)["main"].get_asm(enable_debug_info=True).split("\n", 1)[0]


@pytest.mark.parametrize(
    ("program", "mesh", "settings", "results"),
    [
        ("model.py", "data=4,tensor=2", "", 3),
        pytest.param(
            "llama", "fsdp=4,tensor=2",
            "model=tiny,layers=1,sequence=16,compute_dtype=f32,partitioning=auto,scan=true", 38,
            ),
    ],
)  # fmt: skip
def test_computes_what_jax_computes(place, program, mesh, settings, results):
    """As lowered and as partitioned, on 8 CPU devices, every result on every device."""
    done = run_support_module("export_execution", program, mesh, settings, timeout_s=240)
    assert done.returncode == 0, done.stderr
    data = json.loads(done.stdout)
    assert data["devices"] == 8 and data["results"] == results
    assert data["lowered"] < 1e-5 and data["partitioned"] < 1e-4


def test_function_with_a_spec(place, capsys):
    assert export("model.py:step", "--spec", "spec.json", "-o", "out.mlir") == 0
    assert "8 devices (data 4 x tensor 2)" in capsys.readouterr().err
    text = main_text(read("out.mlir"))
    for part in (
        "loc(\"params['up']\")", 'loc("x")', '[{"data"}, {}]', '[{"tensor"}, {}]',
        "jax.buffer_donor = true", "result[1]",
    ):  # fmt: skip
        assert part in text


def test_yaml_says_the_same_as_json(place):
    Path("spec.yaml").write_text(
        "mesh: {data: 4, tensor: 2}\n"
        "args:\n- {up: 'f32[32,64]@-,tensor', down: 'f32[64,32]@tensor,-'}\n- f32[16,32]@data\n"
        "static: {scale: 0.5}\nout_shardings: [null, '@data']\ndonate: [0]\n"
    )
    assert read_spec("spec.yaml") == read_spec("spec.json") == ExportSpec(**SPEC)


def test_function_with_flags_to_stdout(place, capfd):
    argv = ("--arg", "key[]", "--static", "count=12", "--no-source")
    assert export("model:draw", *argv) == 0
    out = capfd.readouterr().out
    assert "tensor<12xf32>" in out and 'loc("key")' in out and "model.py" not in out
    assert ir.Module.parse(out, make_context()).operation.verify()


@pytest.mark.parametrize("program", ["lowered", "traced"])
def test_file_that_gives_what_jax_gives(place, program):
    argv = ("--devices", "8") if program == "lowered" else ()
    assert export(f"model.py:{program}", *argv, "-o", "out.mlirbc.xz") == 0
    assert "tensor<64xf32>" in main_text(read("out.mlirbc.xz"))


@pytest.mark.parametrize("ending", ["mlir", "mlir.xz", "mlir.gz", "mlirbc", "mlirbc.xz"])
def test_the_file_name_says_the_form(place, ending):
    module = ir.Module.parse(
        'module @m { func.func @main() { return } } loc("here")', make_context()
    )
    data = encode_module(module, f"out.{ending}")
    magic = {"mlirbc": b"ML\xefR", "xz": b"\xfd7zXZ", "gz": b"\x1f\x8b", "mlir": b"module @m"}
    assert data.startswith(magic[ending.rpartition(".")[2]])
    Path(f"out.{ending}").write_bytes(data)
    assert 'loc("here")' in read(f"out.{ending}").operation.get_asm(enable_debug_info=True)


def test_partitioned_is_one_devices_program(place):
    """Local shapes; names and donation of arguments stay; it need not be partitioned again."""
    for name in ("out.mlir", "again.mlir"):
        assert export("model.py", "--stage", "partitioned", "-o", name) == 0
    assert Path("out.mlir").read_bytes() == Path("again.mlir").read_bytes()
    module = read("out.mlir")
    text = main_text(module)
    assert "tensor<8x32xf32>" in text and "tensor<4x32xf32>" in text
    assert "tf.aliasing_output" in text and "loc(\"params['up']\")" in text
    assert "sdy.sharding" not in str(module)
    assert set(re.findall(r"hespas\.(\w+)", str(module))) == {"facts"}  # its operations
    before = str(collect_functions(module)["main"].attributes["function_type"])
    run = PassRun(note=lambda _: None)
    PreparePass().apply(module, run)
    assert str(collect_functions(module)["main"].attributes["function_type"]) == before
    assert "devices = 8" in str(module) and not run.warnings


@pytest.mark.parametrize("target", ["cpu", "H100_80GB"])
def test_optimised_is_what_xla_makes_of_it(place, capsys, target):
    if target != "cpu" and find_gpu_library() is None:
        pytest.skip("XLA's GPU compiler is not installed: pip install 'hespas[gpu-compiler]'")
    argv = ("--stage", "optimised", "--target", target, "-o", "out.mlir")
    assert export("model.py", *argv, "--xla-optimize", "keep-hlo=hlo") == 0
    module = read("out.mlir")
    assert "mhlo.fusion" in str(module) and "tensor<8x32xf32>" in main_text(module)
    assert next(Path("hlo").iterdir()).read_text().startswith("HloModule jit_layer")


def test_partitioned_for_a_gpu(place):
    """The GPU's pipeline simplifies first; local shapes and the collectives are the same."""
    if find_gpu_library() is None:
        pytest.skip("XLA's GPU compiler is not installed: pip install 'hespas[gpu-compiler]'")
    argv = ("--stage", "partitioned", "--target", "A100_SXM_40GB", "-o", "out.mlir")
    assert export("model.py", *argv) == 0
    assert "tensor<8x32xf32>" in main_text(read("out.mlir"))


@pytest.mark.parametrize("count", [1024, 4096])
def test_many_devices(place, capsys, count):
    """XLA's CPU client has at most 2048 devices in a process, but compiles for more."""
    mesh = f"data={count // 8},tensor=8"
    argv = ("--mesh", mesh, "--arg", f"bf16[{2 * count},64]@data", "--arg", "bf16[64,512]@-,tensor")
    Path("matmul.py").write_text("def f(x, w):\n    return (x @ w).sum()\n")
    argv = ("matmul.py:f", *argv, "--stage", "partitioned", "--json", "-o", "out.mlir")
    assert export(*argv) == 0
    assert json.loads(capsys.readouterr().out)["devices"] == count
    module = read("out.mlir")
    assert "tensor<16x64xbf16>" in main_text(module) and "tensor<64x64xbf16>" in main_text(module)
    PreparePass().apply(module, PassRun(note=lambda _: None))
    assert f"devices = {count}" in str(module)


def test_weights_are_never_allocated(place, capsys):
    """70B parameters, 282 GB of them in f32, in a process of less than 2 GB."""
    argv = ("--config", "70b", "--set", "scan=true", "--mesh", "fsdp=64,tensor=8", "--json")
    assert export("llama", *argv, "-o", "out.mlirbc") == 0
    data = json.loads(capsys.readouterr().out)
    assert data["facts"]["parameters"] > 70e9 and data["devices"] == 512
    assert data["lower_peak_bytes"] < 2 * GB


FUSED = """
import jax
import jax.numpy as jnp
from jax.sharding import PartitionSpec as P

from hespas.frontends.export import Exportable


def attend(q, k, v):
    out = jax.nn.dot_product_attention(q, k, v, is_causal=True, implementation="cudnn")
    return out.astype(jnp.float32).sum()


def build(mesh: dict[str, int] = {"data": 4, "tensor": 2}, manual: bool = False) -> Exportable:
    spec = P("data", None, "tensor")
    gradient = jax.grad(attend, (0, 1, 2))
    if manual:
        gradient = jax.shard_map(gradient, in_specs=(spec,) * 3, out_specs=(spec,) * 3)
    q = jax.ShapeDtypeStruct((8, 256, 16, 64), jnp.bfloat16)
    k = jax.ShapeDtypeStruct((8, 256, 4, 64), jnp.bfloat16)
    return Exportable("attend", gradient, (q, k, k), mesh=mesh, in_shardings=(spec,) * 3)
"""


@pytest.mark.parametrize("manual", ["false", "true"])
def test_cudnn_attention_without_a_gpu(place, manual):
    """Both directions have the shapes of one of 4 x 2 devices, and a cost."""
    Path("fused.py").write_text(FUSED)
    argv = ("--platform", "cuda", "--set", f"manual={manual}", "-o", "fused.mlir")
    assert export("fused.py", *argv) == 0
    module = frontends.read_module("fused.mlir", make_context())
    passes.run_pipeline(module, "split-individual,roofline-annotate{node=H100_80GB}", PassRun())
    flops = {}

    def visit_call(op):
        if op.name == "stablehlo.custom_call":
            assert str(op.operands[0].type) == "tensor<2x256x8x64xbf16>"
            assert str(op.operands[1].type) == "tensor<2x256x2x64xbf16>"
            flops[get_call_target(op)] = Cost.read_from_op(op).flops
        return ir.WalkResult.ADVANCE

    module.operation.walk(visit_call)
    pairs = 2 * 8 * 256 * 257 // 2  # of causal scores on one device
    forward, backward = flops["__cudnn$fmhaSoftmax"], flops["__cudnn$fmhaSoftmaxBackward"]
    assert 2 * 2 * 64 * pairs < forward < 1.1 * 2 * 2 * 64 * pairs
    assert 5 * 2 * 64 * pairs < backward < 1.1 * 5 * 2 * 64 * pairs


def test_a_kernel_of_another_platform_names_the_flag(place, capsys):
    Path("fused.py").write_text(FUSED)
    assert export("fused.py", "-o", "fused.mlir") == 1
    assert "--platform" in capsys.readouterr().err


def test_list(capsys, monkeypatch):
    rows = export_process.list_recipes()
    assert not [row["problem"] for row in rows if row["problem"]]
    monkeypatch.setattr(export_process, "list_recipes", lambda: rows)
    assert export("--list") == 0
    assert "llama" in capsys.readouterr().out
    assert export("--list", "llama") == 0
    out = capsys.readouterr().out
    assert "fsdp=8" in out and "| 70b" in out and "scan" in out
    assert export("--list", "llama", "--json") == 0
    data = json.loads(capsys.readouterr().out)
    assert {"name", "form", "default", "help"} == set(data["options"][0])
    assert export("--list", "lama") == 2
    assert "unknown recipe 'lama'; did you mean 'llama'?" in capsys.readouterr().err


LINE = [
    ((), "the program is missing; see hespas export --list"),
    (("llama", "--set", "layers"), "--set: 'layers' is not KEY=VALUE"),
    (("llama", "--mesh", "fsdp=0"), "'fsdp=0' is not AXIS=N with N of at least 1"),
    (("llama", "--mesh", "a=2,a=2"), "the axis 'a' is repeated"),
    (("llama", "--stage", "optimised"), "--stage optimised needs --target"),
    (("llama", "--stage", "optimised", "--target", "H100_80"), "did you mean 'H100_80GB'"),
    (("llama", "-o", "x.foo"), "the name 'x.foo' has no known ending; known: .mlir,"),
    (("llama", "--json"), "--json and the module are both written to stdout; name a file with -o"),
    (("llama", "--set", "a=b", "--arg", "f32"), "--set does not go with --arg and --spec"),
    (("model.py:draw", "--arg", "f33[2]"), "'f33[2]': unknown type 'f33'; did you mean"),
    (("model.py:draw", "--arg", "f32[2,a]"), "'a' is not a dimension size; write it as bf16[1024"),
    (("model.py:draw", "--arg", "f32[2]@a,b"), "2 shardings for 1 dimensions"),
    (
        ("model.py:draw", "--arg", "f32", "--donate", "x"),
        "--donate: 'x' is not the number of an argument",
    ),
    (("model.py:draw", "--static", "count=4"), "the arguments are missing; give --arg"),
]


@pytest.mark.parametrize(("argv", "message"), LINE)
def test_wrong_command_line_is_one_line(place, capsys, argv, message):
    assert export(*argv) == 2
    err = capsys.readouterr().err
    assert message in err and err.count("\n") == 1


USAGE, PROGRAM_ERROR = True, False
WRONG = [
    (USAGE, "lama", {}, "unknown recipe 'lama'; did you mean 'llama'?"),
    (USAGE, "llama", {"options": {"layer": "2"}}, "no option 'layer'; did you mean 'layers'?"),
    (USAGE, "llama", {"options": {"layers": "x"}}, "'layers' takes int | none, not 'x'"),
    (USAGE, "llama", {"options": {"model": "9b"}}, "not '9b'; did you mean '8b'?"),
    (USAGE, "llama", {"options": {"scan": "maybe"}}, "'scan' takes bool, not 'maybe'"),
    (USAGE, "llama", {"spec": {"args": ["f32"]}}, "'llama' is a recipe, which defines"),
    (USAGE, "model.py:step", {}, "step needs the option 'params'; add --set params=..., or export"),
    (USAGE, "model.py:three", {"mesh": {"a": 2}}, "three makes its own mesh and does not accept"),
    (
        USAGE, "model.py:draw", {"spec": {"args": ["key"], "static": {"n": 1}}},
        "draw has no argument 'n'; known: count, key",
    ),
    (
        USAGE, "model.py:draw", {"spec": {"args": ["key"], "donate": [1]}},
        "cannot donate argument 1: the function has 1 arguments",
    ),
    (PROGRAM_ERROR, "none.py", {}, "none.py: error: there is no such file"),
    (PROGRAM_ERROR, "none:f", {}, "none:f: error: there is no module 'none'"),
    (PROGRAM_ERROR, "json:dmps", {}, "the module has no function 'dmps'; did you mean 'dumps'?"),
    (PROGRAM_ERROR, "model.py:step.x", {}, "the module has no function 'step.x'"),
    (PROGRAM_ERROR, "model.py:COUNT.x", {}, "the module has no function 'COUNT.x'"),
    (PROGRAM_ERROR, "model.py:three", {}, "the function returned a int, not an Exportable"),
    (PROGRAM_ERROR, "model.py:leave", {}, "the program exited with code 4"),
    (PROGRAM_ERROR, "model.py:wrong", {"spec": {"args": ["f32"]}}, "model.py:53: error: Attribute"),
    (
        PROGRAM_ERROR, "model.py:wrong", {"spec": {"args": ["f64"]}},
        "JAX would convert float64 to float32; set JAX_ENABLE_X64",
    ),
    (
        PROGRAM_ERROR, "model.py:wrong", {"spec": {"args": ["f32[2]@d"]}},
        "a sharding names the axis 'd', which the mesh does not have; add --mesh d=N",
    ),
    (
        PROGRAM_ERROR, "model.py:wrong", {"spec": {"args": ["f32[2]@dta"], "mesh": {"data": 2}}},
        "which the mesh does not have; did you mean 'data'?",
    ),
    (PROGRAM_ERROR, "model.py", {"mesh": {"data": 3, "tensor": 2}}, "error: IndivisibleError:"),
    (PROGRAM_ERROR, "broken.py", {}, "broken.py:1:11: error: not valid Python: invalid syntax"),
]  # fmt: skip


@pytest.mark.parametrize(("usage", "program", "spec", "message"), WRONG)
def test_wrong_program_is_one_line(place, monkeypatch, usage, program, spec, message):
    """What the worker makes of it, here without its process."""
    monkeypatch.setattr(sys, "path", [*sys.path])
    Path("broken.py").write_text("def build(:\n")
    spec = {**spec, "spec": ExportSpec(**spec["spec"])} if "spec" in spec else spec
    with pytest.raises(BaseException) as caught:
        load_lowered_program(ExportRequest(program, **spec))
    text = describe_error(caught.value)
    error = HespasError(text["message"], where=text["where"], remedy=text["remedy"])
    assert message in str(error) and "\n" not in str(error)
    assert text["usage"] is usage


@pytest.mark.parametrize(
    ("code", "argv", "message", "lines"),
    [
        (2, ("lama",), "unknown recipe 'lama'; did you mean 'llama'?", 1),
        (1, ("model.py:wrong", "--arg", "f32[2]"), "model.py:53: error: AttributeError:", 1),
        (1, ("model.py:crash",), "the process that runs JAX crashed (SIGSEGV) early, and", 2),
        (1, ("llama", "-o", "nowhere/x.mlir"), "cannot write it: its folder does not exist", 1),
        (1, ("draw.py:f", "--spec", "none.json"), "none.json: error: cannot read it: No such", 1),
    ],
)
def test_error_leaves_nothing(place, capsys, code, argv, message, lines):
    output = () if "-o" in argv else ("-o", "out.mlir")
    assert export(*argv, *output) == code
    err = capsys.readouterr().err
    assert message in err and err.count("\n") == lines
    assert not Path("out.mlir").exists()


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("{", "spec.json:1:2: error: is not valid JSON"),
        ("[]", "expected a mapping of keys to values"),
        ('{"argz": []}', "unknown key 'argz'; did you mean 'args'?"),
        ('{"args": [3]}', "'args': 3 is not an array"),
        ('{"args": ["f32[2"]}', "'args': 'f32[2' is not an array"),
        ('{"args": [], "out_shardings": "x"}', "'out_shardings': 'x' is not a sharding"),
        ('{"args": [], "out_shardings": [""]}', "'out_shardings': '' is not a sharding"),
        ('{"args": [], "mesh": {"a": "b"}}', "'mesh.a' is \"b\""),
        ('{"args": [], "donate": [-1]}', "'donate': arguments are numbered from 0"),
    ],
)
def test_errors_of_a_spec_file(place, capsys, text, message):
    Path("spec.json").write_text(text)
    assert export("model.py:draw", "--spec", "spec.json", "-o", "out.mlir") == 1
    err = capsys.readouterr().err
    assert message in err and err.count("\n") == 1


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("args: &a [*a]", "not valid YAML: Circular reference detected"),
        ("args: [2024-99-99]", "not valid YAML: month must be in 1..12"),
        ("args: [f32]\nrules: {batch: 3}", "'rules': the mesh axes of 'batch' are no names: 3"),
    ],
)
def test_yaml_that_python_cannot_hold(place, capsys, text, message):
    Path("spec.yaml").write_text(text + "\n")
    assert export("model.py:draw", "--spec", "spec.yaml", "-o", "out.mlir") == 1
    assert capsys.readouterr().err.startswith(f"spec.yaml: error: {message}")


def test_static_values_of_yaml_are_those_of_json(place, capsys):
    """They go to the worker as JSON, which has no dates."""
    Path("spec.yaml").write_text("args: [key]\nstatic: {count: 2024-01-01}\n")
    assert export("model.py:draw", "--spec", "spec.yaml", "-o", "out.mlir") == 1
    message = "spec.yaml: error: 'static': JSON has no values of type date; write it as text\n"
    assert capsys.readouterr().err == message


def test_a_file_does_not_stand_in_for_a_package(place):
    """Neither one that is imported already, nor one that is not."""
    for name in ("json", "wave"):
        text = f"import {name}\nassert not {name}.__file__.startswith({str(place)!r})\n"
        Path(f"{name}.py").write_text(f"{text}from model import build\n")
        assert export(f"{name}.py", "-o", "out.mlir") == 0


def test_flags_go_before_the_environment(place, capsys, monkeypatch):
    monkeypatch.setenv("JAX_NUM_CPU_DEVICES", "2")
    monkeypatch.setenv("JAX_TRACEBACK_IN_LOCATIONS_LIMIT", "3")
    argv = ("model.py:lowered", "--devices", "8", "--no-source", "-o", "out.mlir")
    assert export(*argv) == 0
    assert "model.py" not in Path("out.mlir").read_text()


def test_traceback_on_request(place, capsys):
    assert export("model.py:wrong", "--arg", "f32[2]", "--traceback") == 1
    err = capsys.readouterr().err
    assert "Traceback" in err and "return x.nope()" in err


def test_without_jax(place, capsys, monkeypatch):
    import importlib.util

    real = importlib.util.find_spec
    monkeypatch.setattr(
        importlib.util, "find_spec", lambda name, *a: None if name == "jax" else real(name, *a)
    )
    assert export("llama") == 1
    assert capsys.readouterr().err == "error: exporting needs JAX; pip install 'hespas[jax]'\n"
