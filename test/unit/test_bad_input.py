"""Bad input of every kind, given to the tools: one line, the right exit code, nothing left behind.

What the readers themselves make of damaged bytes is in ``test_frontends``.
"""

import errno
import gzip
import io
import json
import lzma
import os
import pickle
import re
import resource
import signal
import subprocess
import sys
from collections.abc import Callable, Sequence
from pathlib import Path

import pytest
from jaxlib.mlir.dialects import stablehlo
from support.paths import ROOT
from support.processes import environment_with_support, start_process

from hespas.chakra import trace_writer
from hespas.dialects.mlir import hlo_text_to_proto, ir, make_context
from hespas.passes.emit import module_stats
from hespas.support.errors import HespasError
from hespas.tools import hespas, hespas_opt
from hespas.tools.console_scripts import MainFunction, run_tool_main
from hespas.tools.published import hespas_chakra_gen, hespas_mlir_analyzer

TEXT = """module @m attributes {mhlo.num_partitions = 4 : i32} {
  func.func public @main(%x: tensor<4x4xf32>) -> tensor<4x4xf32> {
    %0 = stablehlo.dot_general %x, %x, contracting_dims = [1] x [0]
      : (tensor<4x4xf32>, tensor<4x4xf32>) -> tensor<4x4xf32>
    %1 = "stablehlo.all_reduce"(%0) <{
      channel_handle = #stablehlo.channel_handle<handle = 1, type = 1>,
      replica_groups = dense<[[0, 1, 2, 3]]> : tensor<1x4xi64>, use_global_device_ids}> ({
    ^bb0(%a: tensor<f32>, %b: tensor<f32>):
      %s = stablehlo.add %a, %b : tensor<f32>
      stablehlo.return %s : tensor<f32>
    }) : (tensor<4x4xf32>) -> tensor<4x4xf32>
    return %1 : tensor<4x4xf32>
  }
}
"""
DOT = "stablehlo.dot_general %x, %x, contracting_dims = [1] x [0]"
HLO = """HloModule m

ENTRY main {
  x = f32[4,4] parameter(0)
  ROOT d = f32[4,4] dot(x, x), lhs_contracting_dims={1}, rhs_contracting_dims={0}
}
"""
RECURSIVE = """func.func public @main(%x: tensor<4xf32>) -> tensor<4xf32> {
  %0 = call @f(%x) : (tensor<4xf32>) -> tensor<4xf32>
  return %0 : tensor<4xf32>
}
func.func private @f(%x: tensor<4xf32>) -> tensor<4xf32> {
  %0 = call @f(%x) : (tensor<4xf32>) -> tensor<4xf32>
  return %0 : tensor<4xf32>
}
"""
LOOP = """func.func public @main(%n: tensor<i32>) -> tensor<i32> {
  %c = stablehlo.constant dense<0> : tensor<i32>
  %0 = stablehlo.while(%i = %c) : tensor<i32>
  cond {
    %p = stablehlo.compare LT, %i, %n, SIGNED : (tensor<i32>, tensor<i32>) -> tensor<i1>
    stablehlo.return %p : tensor<i1>
  } do {
    %one = stablehlo.constant dense<1> : tensor<i32>
    %j = stablehlo.add %i, %one : tensor<i32>
    stablehlo.return %j : tensor<i32>
  }
  return %0 : tensor<i32>
}
"""
NODE = "--roofline-annotate=node=H100_80GB"
PASSES = ("--split-linear", NODE, "--emit-chakra=output=out", "-o", "o.mlir")
HARDWARE = {"peak_flops": 1e12, "memory_bandwidth": 1e12}
PUBLISHED = {
    "mlir_file": "m",
    "output_dir": "out",
    "perf_estimator": {"method": "roofline", "hardware": HARDWARE},
}

Check = Callable[..., None]


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty current folder with the good module ``m``."""
    monkeypatch.chdir(tmp_path)
    Path("m").write_text(TEXT)
    return tmp_path


def state(folder: Path) -> dict[str, bytes | None]:
    """What lies in a folder."""
    files = (path for path in folder.rglob("*"))
    return {str(p.relative_to(folder)): p.read_bytes() if p.is_file() else None for p in files}


@pytest.fixture
def refused(place: Path, capfd: pytest.CaptureFixture[str]) -> Check:
    """Check that a tool ends with an exit code and one line that matches, and leaves nothing."""

    def check(main: MainFunction, argv: Sequence[str], message: str, code: int = 1) -> None:
        before = state(place)
        assert run_tool_main(main, argv) == code
        out, err = capfd.readouterr()
        assert out == ""
        assert len(err.splitlines()) == 1, err
        assert re.search(message, err), err
        assert state(place) == before

    return check


def bytecode() -> bytes:
    buffer = io.BytesIO()
    ir.Module.parse(TEXT, make_context()).operation.write_bytecode(buffer)
    return buffer.getvalue()


def artifact() -> bytes:
    module = ir.Module.parse(TEXT, make_context())
    return stablehlo.serialize_portable_artifact(module, stablehlo.get_current_version())


def newer_bytecode() -> bytes:
    data = bytearray(bytecode())
    data[4] = 99 << 1 | 1  # after the magic, one byte of a number of one byte
    return bytes(data)


def newer_artifact() -> bytes:
    """An op that this VHLO does not have; its name stands in the string section."""
    data = artifact()
    assert b"dot_general_v" in data
    return re.sub(rb"dot_general_v\d", b"dot_general_v9", data)


MODULES: dict[str, tuple[str | bytes | Callable[[], bytes], str]] = {
    "garbage": ("what is this {]", "^f:1:1: error: .* neither MLIR nor HLO: it starts with 'what'"),
    "a program": (Path(sys.executable).read_bytes()[:9000], "^f: error: this is machine code, not"),
    "a pickle": (pickle.dumps(print), "^f: error: this is a pickle, .*; write jax.jit"),
    "an archive": (b"PK\x03\x04" + bytes(99), "^f: error: this is a zip archive, .*pytorch.md"),
    "several modules": (TEXT + TEXT, r"^f:\d+:1: error: the file has several modules; write each"),
    "several modules of other names": (
        TEXT + TEXT.replace("@m ", "@n "),
        "^f: error: .* no public function; write each module to a file of its own",
    ),
    "an elided constant": (
        TEXT.replace("return %1", "%c = stablehlo.constant dense<__elided__> : tensor<4xf32>"),
        "^f:.*error: .*; a printer has left out this constant",
    ),
    "a jaxpr": ("{ lambda ; a:f32[4]. let in (a,) }", "^f:1:1: error: this is a jaxpr.*as_text"),
    "a report of XLA's dumps": ("\nTotal 3\n", "^f:2:1: error: .* it starts with 'Total'; hespas"),
    "empty": ("", "^f: error: the file is empty; hespas reads MLIR text"),
    "only a comment": ("// nothing\n", "^f: error: .* no public function; name one 'main'"),
    "no ops": ("module {}", "^f:1:1: error: .* no public function; name one 'main'"),
    "declaration": ("func.func @main()", "^f:1:1: error: .* declaration cannot have public"),
    "truncated": (TEXT[:150], r"^f:3:\d+: error: "),
    "truncated bytecode": (lambda: bytecode()[:-9], "^f: error: "),
    "truncated artifact": (lambda: artifact()[:-9], "^f: error: "),
    "truncated HLO": (HLO[:-20], r"^f:5:\d+: error: not valid HLO text"),
    "truncated protobuf": (lambda: hlo_text_to_proto(HLO)[:60], "^f: error: unknown or damaged"),
    "truncated xz": (lambda: lzma.compress(TEXT.encode())[:-9], "^f: error: the xz file is dam"),
    "truncated gz": (lambda: gzip.compress(TEXT.encode())[:-9], "^f: error: the gzip file is dam"),
    "xz of garbage": (lambda: lzma.compress(b"what"), "^f:1:1: error: .* starts with 'what'"),
    "newer bytecode": (newer_bytecode, "^f: error: bytecode version 99 is newer"),
    "newer artifact": (newer_artifact, "^f.* error: .*dot_general_v9.*; a newer version of"),
    "latin-1": (TEXT.replace("@m", "@\xe9").encode("latin-1"), "^f:1:9: error: byte 0xe9 is not"),
    "truncated UTF-16": (TEXT.encode("utf-16")[:99], "^f: error: unknown or damaged binary"),
    "zero byte": (TEXT.replace("@m", "@\0"), "^f: error: unknown or damaged binary"),
    "unclosed string": ('"' + "(" * 100_000, r"^f:1:100002: error: expected '\"'"),
    "op of a newer StableHLO": (
        TEXT.replace(DOT, '"stablehlo.new"(%x, %x)'),
        "^f:3:10: error: .*'stablehlo.new'.*; a newer version of the dialect may have it",
    ),
    "unregistered op": (
        TEXT.replace(DOT, '"tosa.matmul"(%x, %x)'),
        "^f:3:23: error: 'tosa.matmul' is of a dialect that hespas does not read; lower the "
        "program from tosa to StableHLO first; or read its generic form with",
    ),
    "unregistered attribute": (
        TEXT.replace("mhlo.num_partitions = 4 : i32", "foo.bar = #foo.baz<1>"),
        "^f:1:.* unregistered dialect; read the module with --allow-unregistered-dialect, which",
    ),
    "unknown spelling": (
        TEXT.replace(DOT, "tosa.matmul %x"),
        "^f:3:10: .*tosa.*; lower the program from tosa to StableHLO first",
    ),
    "definitions": (
        "irdl.dialect @acme {}",
        "^f:1:1: error: .*irdl.*; a file that defines dialects goes with a program: hespas-opt",
    ),
    "invalid op": (TEXT.replace("[1] x [0]", "[7] x [0]"), "^f:3:10: error: .*7 is out of range"),
    "no rank": (
        "func.func @main(%x: tensor<*xf32>) -> tensor<*xf32> {\n"
        "  %0 = stablehlo.abs %x : tensor<*xf32>\n  return %0 : tensor<*xf32>\n}",
        r"^f:2:8: error: .* must be ranked",
    ),
    "recursion": (RECURSIVE, "^f:6:8: error: 'func.call': the function @f calls itself"),
    "unknown custom call": (
        TEXT.replace(DOT, "stablehlo.custom_call @mystery(%x, %x)"),
        "^f:3:10: error: 'stablehlo.custom_call': .*mystery.*; .*keep-going",
    ),
    "ranks beyond the devices": (
        TEXT.replace("num_partitions = 4", "num_partitions = 2"),
        "^f:5:10: error: 'stablehlo.all_reduce': the collective names .*id 3, .*correct mhlo.num",
    ),
    "a ragged all_to_all without a channel": (
        "module attributes {mhlo.num_partitions = 2 : i32, mhlo.num_replicas = 1 : i32} {\n"
        "  func.func @main(%x: tensor<8xf32>, %n: tensor<2xi64>) -> tensor<8xf32> {\n"
        "    %0 = stablehlo.custom_call @ragged_all_to_all(%x, %x, %n, %n, %n, %n) {api_version = "
        "4 : i32, backend_config = {replica_groups = dense<[[0, 1]]> : tensor<1x2xi64>}} : (tensor"
        "<8xf32>, tensor<8xf32>, tensor<2xi64>, tensor<2xi64>, tensor<2xi64>, tensor<2xi64>) -> "
        "tensor<8xf32>\n    return %0 : tensor<8xf32>\n  }\n}",
        "^f:3:10: error: .* names cross_replica id 1, .*or give the op a channel id",
    ),
    "empty groups": (  # MLIR's verifier divides by their number
        "func.func @main(%x: tensor<4x16xf32>) -> tensor<16x4xf32> {\n"
        '  %0 = "stablehlo.all_to_all"(%x) <{split_dimension = 1 : i64, concat_dimension = 0 : i64,'
        " split_count = 4 : i64, replica_groups = dense<0> : tensor<0x2xi64>}> : (tensor<4x16xf32>)"
        " -> tensor<16x4xf32>\n  return %0 : tensor<16x4xf32>\n}",
        "^f:2:8: error: the replica groups of the all_to_all are empty; list the devices",
    ),
    "a field that is not UTF-8": (
        TEXT.replace(
            "mhlo.num_partitions = 4 : i32",
            "hespas.target = {devices = 1 : i64, partitions = 1 : i64, replicas = 1 : i64, node = "
            '"\\FF"}',
        ),
        r"^f:1:1: error: .*field 'node' must be a string, not",
    ),
    "a key that is not UTF-8": (  # the bindings end the process for it
        "func.func @main(%x: tensor<4xf32>) -> tensor<4xf32> {\n"
        '  %0 = stablehlo.custom_call @k(%x) {api_version = 4 : i32, backend_config = {"\\FF" = 1 :'
        " i64}} : (tensor<4xf32>) -> tensor<4xf32>\n  return %0 : tensor<4xf32>\n}",
        r'^f: error: the key "\\FF" of a dictionary attribute is not UTF-8',
    ),
    "more operations than 64 bits count": (
        "func.func @main(%x: tensor<4294967296x4294967296xi4>) -> tensor<4294967296x4294967296xi4>"
        " {\n  %0 = stablehlo.add %x, %x : tensor<4294967296x4294967296xi4>\n"
        "  return %0 : tensor<4294967296x4294967296xi4>\n}",
        "^f: error: the program has a count of 1.845e[+]19, more than 64 bits can hold",
    ),
    "HLO that makes XLA raise std::out_of_range": (
        "HloModule m\n\nENTRY main {\n  x = f32[4] parameter(0)\n  s = (f32[4], f32[8]) "
        "all-gather-start(x), replica_groups={{0,1}}, dimensions={}\n"
        "  ROOT g = f32[8] all-gather-done(s)\n}\n",
        "^f: error: not valid HLO text: (vector|Syntax error)",
    ),
    "a fusion that differs from its body": (  # MLIR does not verify it
        "func.func @main(%x: tensor<4xf32>) -> tensor<4xf32> {\n"
        '  %0 = "mhlo.fusion"(%x) ({\n  ^bb0(%a: tensor<4xf32>, %b: tensor<4xf32>):\n'
        '    "mhlo.return"(%a) : (tensor<4xf32>) -> ()\n  }) : (tensor<4xf32>) -> tensor<4xf32>\n'
        "  return %0 : tensor<4xf32>\n}",
        "^f:2:8: error: 'mhlo.fusion': the fusion has 1 operands, and its body has 2 arguments",
    ),
}  # fmt: skip


@pytest.mark.parametrize("case", MODULES)
def test_modules(refused: Check, case: str) -> None:
    data, message = MODULES[case]
    data = data() if callable(data) else data
    Path("f").write_bytes(data.encode() if isinstance(data, str) else data)
    refused(hespas_opt.main, ["f", *PASSES], message)
    if case in ("garbage", "truncated bytecode", "recursion"):
        refused(hespas.main, ["run", "--mlir", "f", "--node", "H100_80GB"], message)
    if case == "garbage":
        refused(hespas_mlir_analyzer.main, ["f"], message)


@pytest.mark.parametrize(
    ("path", "message"),
    [
        ("absent", "^absent: error: cannot read it: No such file"),
        (".", "^.: error: the folder has no program that XLA or JAX dumped"),
        ("m/x", "^m/x: error: cannot read it: Not a directory"),
        ("/proc/self/mem", "^/proc/self/mem: error: cannot read it: "),
        ("a\0b", r"^error: 'a\\x00b' is not a file name"),
        ("n" * 300, "error: cannot read it: File name too long"),
    ],
)
def test_unreadable_files(refused: Check, path: str, message: str) -> None:
    refused(hespas_opt.main, [path, *PASSES], message)
    refused(hespas.main, ["run", "--mlir", path, "--node", "H100_80GB"], message)


@pytest.mark.parametrize("text", ['"""A model."""\nimport jax\n', "import jax\n", "# jax\nx = 1\n"])
def test_python_files(refused: Check, text: str) -> None:
    Path("model.py").write_text(text)
    message = r"^model\.py: error: this is a Python file.*hespas export model\.py -o model\.mlir$"
    refused(hespas.main, ["run", "--mlir", "model.py", "--node", "H100_80GB"], message)


@pytest.mark.parametrize("data", [b"\x08\x0a:U", b"\x1c\x00\x00\x00TFL3"])
def test_models_of_other_frameworks(refused: Check, data: bytes) -> None:
    Path("model.onnx").write_bytes(data)
    message = (
        r"^model\.onnx: error: this is an ONNX model, not a module; export the program as Stab"
    )
    refused(hespas.main, ["run", "--mlir", "model.onnx", "--node", "H100_80GB"], message)


def test_what_is_odd_and_works(place: Path, capfd: pytest.CaptureFixture[str]) -> None:
    """A byte-order mark, a name that is not UTF-8, no ops, symbolic sizes, binary strings."""
    odd = os.fsdecode(b"\xe9.mlir")
    Path(odd).write_bytes(b"\xef\xbb\xbf" + TEXT.encode())
    assert run_tool_main(hespas_opt.main, [odd, *PASSES]) == 0
    Path("zero").write_text("func.func public @main() { return }")
    assert run_tool_main(hespas_opt.main, ["zero", *PASSES]) == 0
    assert (
        run_tool_main(hespas.main, ["run", "--mlir", "zero", "--node", "H100_80GB", "--json"]) == 0
    )
    out, err = capfd.readouterr()
    assert json.loads(out)["compute_s"] == 0 and "zero" in err
    Path("free").write_text(
        LOOP.replace("tensor<i32>", "tensor<?xi32>").split("%c")[0] + "return %n : tensor<?xi32> }"
    )
    assert run_tool_main(hespas_opt.main, ["free", *PASSES]) == 0
    assert re.fullmatch(r"warning: sizes assumed .*arg0_dim0=128; .*\n", capfd.readouterr().err)
    binary = '@__cublas$gemm(%x, %x) {backend_config = "\\FF\\00"}'  # old GPU descriptors
    Path("binary").write_text(TEXT.replace(DOT, f"stablehlo.custom_call {binary}"))
    assert run_tool_main(hespas_opt.main, ["binary", *PASSES]) == 0


# Runs hespas-opt and prints the peak of its memory. ``ru_maxrss`` would include the parent's.
MEASURE_PEAK = """
import sys
from pathlib import Path
from hespas.tools.hespas_opt import main
code = main(sys.argv[1:])
status = Path("/proc/self/status").read_text().splitlines()
print(next(line for line in status if line.startswith("VmHWM")).split()[1])
sys.exit(code)
"""


@pytest.mark.slow
def test_huge_constant(place: Path, capfd: pytest.CaptureFixture[str]) -> None:
    """64 MB of data, 128 MB of text: through all passes in seconds, without a copy per pass."""
    size = 16 << 20
    with Path("huge").open("w") as file:
        file.write(
            f'func.func @main() -> tensor<{size}xf32> {{\n  %0 = stablehlo.constant dense<"0x'
        )
        for _ in range(16):
            file.write("3F80ABCD" * (size // 16))
        file.write(f'"> : tensor<{size}xf32>\n  %1 = stablehlo.add %0, %0 : tensor<{size}xf32>\n')
        file.write(f"  return %1 : tensor<{size}xf32>\n}}\n")
    argv = ["huge", "--split-individual=merge", NODE, "--emit-chakra=output=out", "-o", "/dev/null"]
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    done = subprocess.run(
        [sys.executable, "-c", MEASURE_PEAK, *argv],
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    cpu_s = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    assert (done.returncode, done.stderr) == (0, "")
    assert cpu_s < 10
    assert int(done.stdout) < 600 << 10  # KiB: the bindings, the text, the data


COMMANDS: list[tuple[list[str], str]] = [
    (["--split-linea"], "^error: there is no .* --split-linea; did you mean 'split-linear'?"),
    (["--magic-annotate"], "^error: there is no option or pass --magic-annotate; "),
    (["-p", "func.func(magic)"], "^error: no pass is named 'magic'; "),
    (["-p", "split-linear{"], "^error: unbalanced brackets"),
    (["-p"], "^error: -p needs a pipeline"),
    (["--split-linear=block-limt=3"], "no option 'block-limt'; did you mean 'block-limit'?"),
    (["--split-linear=block-limit=x"], "'block-limit' takes a whole number, not 'x'"),
    (["--split-linear=block-limit=-3"], "'block-limit' is -3, less than 0"),
    ([f"--split-linear=block-limit={10**30}"], "'block-limit' takes a whole number, not '1000"),
    (["--prepare=devices=-8"], "'devices' is -8, less than 0"),
    (["--prepare=trip-count=-3"], "'trip-count' takes a whole number or 'error', not '-3'"),
    (["--roofline-annotate=node=A100_SXM_40G"], "no node preset .*; did you mean 'A100_SXM_40GB'"),
    (["--roofline-annotate=node=A100"], "did you mean 'A100_PCIe_40GB', .*'A100_SXM_80GB'?"),
    (["--roofline-annotate=peak-flops=-1,memory-bandwidth=1e12"], "peak-flops must be more than 0"),
    (["--canonicalize=max-iterations=x"], "MLIR rejects .*max-iterations.*'x' value invalid"),
    (["--inline=foo=1"], "MLIR rejects the pass 'inline{foo=1}': .*no such option foo"),
    (["--op-stats=format=xml"], "there is no format 'xml'"),
    (["n"], "^error: unrecognized arguments: n; see hespas-opt --help"),
    (["--mlir-print-ir-after=cse"], "'cse' is not in the pipeline"),
]


@pytest.mark.parametrize(("argv", "message"), COMMANDS, ids=[" ".join(a)[:40] for a, _ in COMMANDS])
def test_command_lines(refused: Check, argv: list[str], message: str) -> None:
    refused(hespas_opt.main, ["m", *([] if "-p" in argv[-1:] else ["-o", "o"]), *argv], message, 2)


@pytest.mark.parametrize(
    ("argv", "message"),
    [
        (["--emit-chakra=output=out"], "^m:1:1: error: .* not split; run split-linear or split-"),
        ([NODE, "--emit-chakra=output=out"], "^m:1:1: error: .* not split; run split-linear"),
        (["--split-linear", "--emit-chakra=output=out"],
         "^m:3:10: error: 'stablehlo.dot_general': .*no hespas.cost; run an annotate pass first"),
        (["--prepare=devices=8"], "^m:1:1: error: .* for 1 x 4 devices .*, not 8; omit the opt"),
        (["--prepare=dims=b=3"], "^m: error: prepare: dims=b=3, but .* no symbolic dimensions"),
    ],
)  # fmt: skip
def test_order_and_devices(refused: Check, argv: list[str], message: str) -> None:
    refused(hespas_opt.main, ["m", *argv, "-o", "o.mlir"], message)


def test_unknown_trip_count(refused: Check, capfd: pytest.CaptureFixture[str]) -> None:
    Path("loop").write_text(LOOP)
    message = (
        "^loop:3:8: error: 'stablehlo.while': the trip count .* depends on data; set trip-count"
    )
    refused(hespas_opt.main, ["loop", "--prepare=trip-count=error"], message)
    assert run_tool_main(hespas_opt.main, ["loop", "--prepare", "-o", "/dev/null"]) == 0
    assert capfd.readouterr().err.startswith("warning: loop:3:8: the trip count")


CONFIGS: list[tuple[object, str, int]] = [
    ('{"mlir": "m",\n "node": }', "^c:2:10: error: is not valid JSON", 1),
    ("", "^c:1:1: error: is not valid JSON", 1),
    ("[1]", "^c: error: must hold a JSON object", 1),
    ("[" * 100_000, "^c: error: is nested too deeply", 1),
    (b'{"mlir": "\xe9"}', "^c: error: is not UTF-8", 1),
    ({"mlir": "m", "spilt": "linear"}, "^c: error: unknown key 'spilt'; did you mean 'split'?", 1),
    ({"mlir": "m", "block_limit": "x"}, "^c: error: 'block_limit' is \"x\": .*integer", 1),
    ({"mlir": "m", "block_limit": -1}, "^c: error: 'block_limit' is -1: ", 1),
    ({"mlir": "m", "block_limit": 10**30}, "'block-limit' takes a whole number", 2),
    ({"mlir": 3}, "^c: error: 'mlir' is 3: .*string", 1),
    ({"mlir": "a\0b"}, "is not a file name", 1),
    ({"mlir": "\ud800"}, "input should be a valid string", 1),
    ({"mlir": "m", "output": "a\0b", "node": "H100_80GB", "estimator": "roofline"},
     "is not a file name", 1),
    ({"node": "H100_80GB"}, "^c: error: no program is given; name it with --mlir FILE", 2),
    ({"mlir": "m", "node": "H100_80G"}, "no node preset .*; did you mean 'H100_80GB'", 2),
    ({"mlir": "m", "node": "no.json"}, "^no.json: error: cannot read it: No such file", 1),
    ({"mlir": "m", "system": "H100"}, "no system preset is named 'H100'; did you mean 'H100_", 2),
    ({"mlir": "m", "system": "A100_SXM_40GB_8GPU"},
     "^m: error: .* runs on 4 devices, but system A100_SXM_40GB_8GPU has 8; use a system", 1),
    ({"mlir": "m", "estimator": "rofline"}, "no estimator .*; did you mean 'roofline'?", 2),
    ({**PUBLISHED, "mlir_file": None}, "^c: error: the key 'mlir_file' is missing", 1),
    ({**PUBLISHED, "split_strategy": "x"}, "^c: error: 'split_strategy' is 'x'; known", 1),
    ({**PUBLISHED, "perf_estimator": {"method": "roofline", "hardware": {"peak_flop": 1}}},
     "^c: error: unknown key 'perf_estimator.hardware.peak_flop'; did you mean 'peak_flops'?", 1),
    ({**PUBLISHED, "perf_estimator": {
        "method": "roofline", "hardware": {**HARDWARE, "memory_bandwidth": -1}}},
     "^c: error: 'perf_estimator.hardware.memory_bandwidth' is -1: ", 1),
    ({**PUBLISHED, "perf_estimator": {
        "method": "roofline", "hardware": {**HARDWARE, "num_npus": 8}}},
     "^m: error: .* on 4 devices, but num_npus is 8; leave num_npus out", 1),
]  # fmt: skip


@pytest.mark.parametrize(("config", "message", "code"), CONFIGS)
def test_configurations(refused: Check, config: object, message: str, code: int) -> None:
    text = config if isinstance(config, (str, bytes)) else json.dumps(config)
    Path("c").write_bytes(text.encode() if isinstance(text, str) else text)
    refused(hespas.main, ["run", "c"], message, code)
    if isinstance(config, dict) and "perf_estimator" in config:
        refused(hespas_chakra_gen.main, ["c"], message, code)


@pytest.mark.parametrize(
    ("argv", "message", "code"),
    [
        (["trace", "check", "absent"], "^absent: error: the folder does not exist", 1),
        (["trace", "check", "."], "^.: error: there are no traces", 1),
        (["trace", "print", "m"], "^m: error: ", 1),
        (["trace", "print", "."], "^.: error: cannot read it: Is a directory", 1),
        (["trace"], "^error: .*required: COMMAND; see hespas trace --help", 2),
        (["trace", "chekc", "."], "^error: .*invalid choice: 'chekc'; did you mean 'check'", 2),
        (["presets", "nodes", "m/x.json"], "^m/x.json: error: cannot read it: Not a directory", 1),
        (
            ["run", "--mlir", "m", "--system", "."],
            "^.: error: there is no network.yml or network.yaml or network.json",
            1,
        ),
    ],
)
def test_other_commands(refused: Check, argv: list[str], message: str, code: int) -> None:
    refused(hespas.main, argv, message, code)


ANNOTATED: list[tuple[str, str, str]] = [
    ("flops = 128 : i64", "flops = 128.0 : f64", "3:10: .*'flops' must be an i64, not 1.28"),
    ("flops = 128 : i64", "flops = -5 : i64", "3:10: .*flops is -5, less than 0"),
    ("digest = ", "digezt = ", "3:10: .*unknown field 'digezt'; its fields are "),
    ('bound = "memory"', 'bound = "magic"', "3:10: .*bound is 'magic', not one of compute"),
    ("groups = array<i64: 1>", "groups = [1]", "4:10: .*'groups' must be an array<i64>, not"),
    ("0, 1, 2, 3>}", "0, 1, 2, 9>}", "1:1: .*communicator 1 names device 9 of 4"),
    ("devices = 4", "devices = 8", "1:1: .*8 devices are not 1 replicas x 4 partitions"),
    ("hespas.region =", "hespas.regoin =", "3:10: .*'hespas.regoin' is not a hespas attribute"),
    ("hespas.comm =", "hespas.target =", "4:10: .*hespas.target is an attribute of: module"),
]


@pytest.fixture
def annotated(place: Path) -> str:
    assert run_tool_main(hespas_opt.main, ["m", "--split-linear", NODE, "-o", "a"]) == 0
    return Path("a").read_text()


@pytest.mark.parametrize(("good", "bad", "message"), ANNOTATED)
def test_wrong_attributes(
    refused: Check, annotated: str, good: str, bad: str, message: str
) -> None:
    """They are refused when the module is read, whichever pass would use them."""
    assert good in annotated
    Path("a").write_text(annotated.replace(good, bad, 1))
    refused(hespas_opt.main, ["a", "-o", "o"], f"^a:{message}")
    refused(hespas.main, ["run", "--mlir", "a", "--output", "out"], f"^a:{message}")


def test_attributes_in_every_form(refused: Check, annotated: str, tmp_path: Path) -> None:
    """Good ones are taken from text, bytecode and artifact, dictionaries or typed."""
    module = ir.Module.parse(annotated, make_context())
    version = stablehlo.get_current_version()
    Path("vhlo").write_bytes(stablehlo.serialize_portable_artifact(module, version))
    assert run_tool_main(hespas_opt.main, ["a", "--emit-bytecode", "-o", "bytecode"]) == 0
    assert run_tool_main(hespas_opt.main, ["a", "--typed-attributes", "-o", "typed"]) == 0
    for name in ("a", "bytecode", "vhlo", "typed"):
        assert (
            run_tool_main(hespas_opt.main, [name, "--emit-chakra=output=out", "-o", "/dev/null"])
            == 0
        )
    assert run_tool_main(hespas_opt.main, ["typed", "-o", "again"]) == 0
    assert Path("again").read_text() == annotated
    typed = Path("typed").read_text()
    for good, bad, message in (
        ("flops = 128 : i64", "flops = 1.0 : f64", "'flops' must be an i64"),
        ("#hespas.cost<", "#hespas.cots<", "hespas.cost must be #hespas.cost<...>"),
        ("return %1", '"foo.bar"() : () -> ()\n return %1', "--allow-unregistered-dialect"),
    ):
        Path("typed").write_text(typed.replace(good, bad))
        refused(hespas_opt.main, ["typed", "-o", "o"], rf"^typed:\d+:\d+: error: .*{message}")


@pytest.mark.parametrize(
    ("output", "message"),
    [
        ("m/o", "^m/o: error: cannot write it: .*/m is a file, not a folder"),
        (".", "^.: error: cannot write it: it is a folder"),
        ("absent/o", "^absent/o: error: cannot write it: its folder does not exist"),
        ("", "^error: '' is not a file name"),
        ("n" * 300, "error: cannot write it: File name too long"),
    ],
)
def test_module_places(refused: Check, output: str, message: str) -> None:
    """Found before the work is done, so that no traces are left."""
    traces = [] if len(output) > 255 else list(PASSES[:3])
    refused(hespas_opt.main, ["m", *traces, "-o", output], message)


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="there is no /dev/full")
def test_full_places(refused: Check) -> None:
    full = "^/dev/full: error: cannot write it: No space left"
    refused(hespas_opt.main, ["m", "-o", "/dev/full"], full)
    refused(hespas_opt.main, ["m", "--op-stats=output=/dev/full", "-o", "o"], full)
    tool = [sys.executable, "-m", "hespas.tools.hespas", "presets", "nodes"]
    with Path("/dev/full").open("w") as file:
        done = subprocess.run(tool, stdout=file, stderr=subprocess.PIPE, text=True, check=False)
    assert (done.returncode, done.stderr) == (1, "<stdout>: error: No space left on device\n")


@pytest.mark.parametrize(
    ("output", "message"),
    [
        ("m", "/m: error: the output must be a folder, and this is a file"),
        ("m/x/y", "/m/x/y: error: the output must be a folder, and .*/m is a file"),
        ("/proc/absent", "^/proc/absent: error: cannot write the output: "),
        ("n" * 300, "error: cannot write the output: File name too long"),
    ],
)
def test_trace_places(refused: Check, output: str, message: str) -> None:
    traces = ["--split-linear", NODE, f"--emit-chakra=output={output}"]
    refused(hespas_opt.main, ["m", *traces, "-o", "o"], message)
    run = ["run", "--node", "H100_80GB", "--estimator", "roofline", "--output", output]
    refused(hespas.main, [*run, "--mlir", "m"], message)
    if not output.startswith("/proc"):  # where only writing tells
        refused(hespas.main, [*run, "--mlir", "absent"], message)  # told before any work


@pytest.mark.parametrize("earlier", [False, True])
@pytest.mark.parametrize(
    ("raised", "message", "code"),
    [
        (OSError(errno.ENOSPC, "No space left on device"), "cannot write .*: No space left", 1),
        (KeyboardInterrupt(), "^interrupted$", 130),
        (MemoryError(), "^error: out of memory$", 1),
    ],
)
def test_broken_off_while_writing(
    refused: Check,
    monkeypatch: pytest.MonkeyPatch,
    earlier: bool,
    raised: BaseException,
    message: str,
    code: int,
) -> None:
    """Traces of an earlier run stay as they were, new ones do not appear in part."""
    if earlier:
        assert run_tool_main(hespas_opt.main, ["m", *PASSES]) == 0

    def fails(*_: object, **__: object) -> None:
        raise raised

    argv = ["m", "--split-individual", *PASSES[1:]]
    for module, name in (
        (module_stats, "render_stats"),
        (trace_writer, "write_traces"),
        (os, "replace"),
    ):
        with monkeypatch.context() as patch:
            patch.setattr(module, name, fails)
            # The module is written last, by the replacement of the file.
            refused(
                hespas_opt.main,
                ["m", "-o", "o"] if name == "replace" else argv,
                message,
                code,
            )


def test_control_characters_in_messages() -> None:
    """Damaged bytecode has names of any bytes, and some of them end a line."""
    assert str(HespasError("no \x1eb\x85\x1b[1m é")) == r"error: no \x1eb\x85\x1b[1m é"


def test_interrupted_walk(refused: Check) -> None:
    """MLIR turns what a Python function raises during a walk into a RuntimeError of its text."""

    def interrupted(argv: Sequence[str]) -> int:
        def visit(op: ir.Operation) -> ir.WalkResult:
            raise KeyboardInterrupt

        ir.Module.parse(TEXT, make_context()).operation.walk(visit)
        return 0

    refused(interrupted, [], "^interrupted$", 130)


@pytest.mark.parametrize("stage", ["reading", "passes"])
def test_interrupt_of_a_process(place: Path, stage: str) -> None:
    """^C before the file is read, and while passes run."""
    example = ROOT / "docs" / "examples" / "llama3-100m-opt-a100.mlir.xz"
    script = """
import sys
from support.signalling import SignallingPass
from hespas.passes import registry
from hespas.tools.hespas_opt import script
registry.PASSES[SignallingPass.name] = "support.signalling:SignallingPass"
script()
"""
    signals = ["--tell-that-passes-run"] if stage == "passes" else []
    work = ["--split-individual=merge", *signals, *[NODE] * 300, *PASSES[2:]]
    before = state(place)
    with start_process(
        [sys.executable, "-c", script, str(example), "--print-pipeline", *work],
        env=environment_with_support(), stderr=subprocess.PIPE,
    ) as process:  # fmt: skip
        assert process.stderr is not None
        process.stderr.readline()  # the pipeline: it has started
        if stage == "passes":
            assert process.stderr.readline() == "passes run\n"
        process.send_signal(signal.SIGINT)
        err = process.communicate(timeout=60)[1]
        assert (process.returncode, err) == (130, "interrupted\n")
    assert state(place) == before


@pytest.mark.slow
def test_closed_streams(place: Path) -> None:
    """A reader that goes away is no error to speak of; streams that are closed are."""
    tool = f"{sys.executable} -m hespas.tools.hespas"
    example = ROOT / "docs" / "examples" / "llama3-100m.mlir.xz"
    for line, code, message in (
        (f"({tool}_opt {example}; echo $? > code) | head -c 20 > head", 0, ""),
        (f"{tool}_opt <&-", 1, "error: standard input is closed; name a file\n"),
        (f"{tool} presets nodes >&-", 1, "<stdout>: error: Bad file descriptor\n"),
        (f"{tool}_opt absent 2>&-", 1, ""),
    ):
        done = subprocess.run(line, shell=True, capture_output=True, text=True, check=False)
        assert (done.returncode, done.stderr) == (code, message), line
        assert done.stdout == ""
    assert len(Path("head").read_bytes()) == 20
