"""Reading modules: every format, and one clear error for what is none."""

from __future__ import annotations

import gzip
import io
import lzma
import os
import time
from collections.abc import Callable
from pathlib import Path

import pytest
from jaxlib.mlir.dialects import stablehlo

from hespas import frontends
from hespas.dialects.mlir import collect_functions, hlo_text_to_proto, ir, make_context
from hespas.dialects.program_facts import read_exported_platforms
from hespas.frontends.quantised_types import replace_quantised_types
from hespas.frontends.unused_globals import leave_out_unused_globals
from hespas.passes import run_pipeline
from hespas.support.errors import HespasError

TEXT = """module @m {
  func.func public @main(%x: tensor<4xf32>) -> tensor<4xf32> {
    %0 = stablehlo.add %x, %x : tensor<4xf32>
    return %0 : tensor<4xf32>
  }
}
"""
HLO = """HloModule m, num_partitions=2, replica_count=3

ENTRY main {
  x = f32[4]{0} parameter(0)
  ROOT r = f32[4]{0} add(x, x)
}
"""


def bytecode() -> bytes:
    buffer = io.BytesIO()
    ir.Module.parse(TEXT, make_context()).operation.write_bytecode(buffer)
    return buffer.getvalue()


def artifact() -> bytes:
    return stablehlo.serialize_portable_artifact_str(TEXT, stablehlo.get_minimum_version())


def proto() -> bytes:
    return hlo_text_to_proto(HLO)


def wrap_message(data: bytes) -> bytes:
    """A protobuf whose field 1 is another: an HloProto of a module, an HloSnapshot of that."""
    size, length = len(data), b""
    while size > 127:
        length += bytes([size & 127 | 128])
        size >>= 7
    return b"\x0a" + length + bytes([size]) + data


FORMS: dict[str, Callable[[], bytes]] = {
    "text": lambda: TEXT.encode(),
    "text with a comment": lambda: b"// made by hand\n" + TEXT.encode(),
    "bytecode": bytecode,
    "portable artifact": artifact,
    "HLO text": lambda: HLO.encode(),
    "HloModuleProto": proto,
    "HloProto": lambda: wrap_message(proto()),
    "HloSnapshot": lambda: wrap_message(wrap_message(proto())),
    "UTF-16, as PowerShell writes": lambda: TEXT.replace("\n", "\r\n").encode("utf-16"),
    "xz": lambda: lzma.compress(TEXT.encode()),
    "gzip of HLO": lambda: gzip.compress(HLO.encode()),
    "xz of bytecode": lambda: lzma.compress(bytecode()),
}


@pytest.mark.parametrize("form", FORMS)
def test_every_form_gives_the_same_program(
    form: str, context: ir.Context, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    data = FORMS[form]()
    path = tmp_path / "some.file"
    path.write_bytes(data)
    monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(data)))
    for module in (
        frontends.read_module(path, context),
        frontends.parse_module(data, "m", context),
        frontends.read_module("-", context),
    ):
        main = collect_functions(module)["main"]
        assert "stablehlo.add %arg0, %arg0 : tensor<4xf32>" in str(main)


def test_an_artefact_of_jax_export(context: ir.Context) -> None:
    """JAX 0.10.2 serialised the product of b x 64 and its gradient, whose module is not read."""
    path = Path(__file__).parents[1] / "data" / "jax_export.bin"
    module = frontends.read_module(path, context)
    kind = "(%arg0: tensor<?x64xf32>, %arg1: tensor<64x64xf32>) -> (tensor<f32>"
    assert kind in str(collect_functions(module)["main"])
    assert str(module).count("stablehlo.dot_general") == 1
    data = path.read_bytes()
    end = data.index(b"ML\xefR") + 99
    for size in range(0, end, 97):  # a damaged one is an error
        with pytest.raises(HespasError):
            frontends.parse_module(data[:size], "f", context)


def test_an_artefact_of_jax_export_names_its_platforms(context: ir.Context) -> None:
    """JAX 0.12 serialised a program for three platforms, the earlier one for a CPU."""
    folder = Path(__file__).parents[1] / "data"
    expected = {"jax_export.bin": ["cpu"], "jax_export_platforms.bin": ["tpu", "cpu", "cuda"]}
    for name, platforms in expected.items():
        module = frontends.read_module(folder / name, context)
        assert read_exported_platforms(module) == platforms
    data = (folder / "jax_export_platforms.bin").read_bytes()
    module = frontends.parse_module(data.replace(b"cuda\0", b"\xff\xff\xff\xff\0"), "f", context)
    assert read_exported_platforms(module) == []


def test_hlo_text_keeps_its_device_counts(context: ir.Context) -> None:
    text = str(frontends.parse_module(HLO.encode(), "m", context))
    assert "mhlo.num_partitions = 2" in text
    assert "mhlo.num_replicas = 3" in text


def test_locations_name_the_file(context: ir.Context, tmp_path: Path) -> None:
    path = tmp_path / "model.mlir"
    path.write_text(TEXT)
    main = collect_functions(frontends.read_module(path, context))["main"]
    assert f'"{path}":2:3' in str(main.location)


UNAWAITED = """HloModule m, num_partitions=2

ENTRY main {
  p = f32[4]{0} parameter(0)
  q = f32[8]{0} parameter(1)
  ROOT c = ((f32[4], f32[8]), (f32[8], f32[16])) all-gather-start(p, q), channel_id=1,
    replica_groups={{0,1}}, dimensions={0}, use_global_device_ids=true
}
"""
BAD: dict[str, tuple[bytes, str]] = {
    "empty": (b"", "^f: error: the file is empty; hespas reads"),
    "blank": (b" \n\n", "^f: error: the file is empty"),
    "garbage": (b"what is this\n", "^f:1:1: error: this is neither MLIR nor HLO"),
    "binary": (bytes(range(256)), "^f: error: unknown or damaged binary format; hespas reads"),
    "not UTF-8": (b"module {\n  // \xff\n}", "^f:2:6: error: byte 0xff is not UTF-8"),
    "truncated text": (TEXT[:90].encode(), r"^f:3:\d+: error: "),
    "truncated bytecode": (bytecode()[:80], "^f: error: "),
    "truncated artifact": (artifact()[:60], "^f: error: "),
    "truncated xz": (lzma.compress(TEXT.encode())[:40], "^f: error: the xz file is damaged"),
    "damaged gzip": (b"\x1f\x8b\x08abc", "^f: error: the gzip file is damaged"),
    "zstd": (b"\x28\xb5\x2f\xfd\x00", "^f: error: zstd files are not supported; run: zstd -d f"),
    "truncated protobuf": (proto()[:100], "^f: error: unknown or damaged binary format"),
    "unknown dialect": (
        b"func.func @f() {\n  foo.bar\n}",
        "^f:2:3: error: Dialect .foo' not found",
    ),
    "unregistered op": (
        b'func.func @f() {\n  "foo.bar"() : () -> ()\n  return\n}',
        "^f:2:12: error: 'foo.bar' is of a .*--allow-unregistered-dialect",
    ),
    "unknown op": (
        b'func.func @f() {\n  "stablehlo.no"() : () -> ()\n  return\n}',
        "^f:2:3: error: .*stablehlo.no",
    ),
    "invalid op": (
        TEXT.replace("%x, %x : t", "%x, %x : (t").encode(),
        r"^f:3:\d+: error: ",
    ),
    "does not verify": (
        b"func.func @f(%x: tensor<2xf32>) -> tensor<3xf32> {\n  return %x : tensor<2xf32>\n}",
        "^f:2:3: error: type of return operand 0",
    ),
    "bad HLO": (
        HLO.replace("add(", "plus(").encode(),
        "^f:5:.*: error: not valid HLO text: .*plus",
    ),
    "unawaited": (
        UNAWAITED.encode(),
        "^f: error: XLA cannot express this HLO .* Async tuple .*; make the HLO with --xla_disable",
    ),
}


@pytest.mark.parametrize("case", BAD)
def test_one_clear_error(
    case: str, context: ir.Context, capfd: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    """One line that names the place; nothing of MLIR's or XLA's own on stderr."""
    data, pattern = BAD[case]
    with pytest.raises(HespasError, match=pattern) as caught:
        frontends.parse_module(data, "f", context)
    assert "\n" not in str(caught.value)
    path = tmp_path / "f"
    path.write_bytes(data)
    with pytest.raises(HespasError) as from_file:
        frontends.read_module(path, context)
    assert from_file.value.where.startswith(str(path))
    assert capfd.readouterr() == ("", "")


def test_newer_artifact_is_refused(context: ir.Context) -> None:
    """The version of an op is in its name; that of the whole artifact is not looked at."""
    newer = artifact().replace(b"add_v1", b"add_v9")
    with pytest.raises(HespasError, match=r"'vhlo\.add_v9'.*; a newer version of the dialect"):
        frontends.parse_module(newer, "f", context)


def test_unregistered_dialect_where_allowed() -> None:
    context = make_context()
    context.allow_unregistered_dialects = True
    data = b'func.func @main() {\n  "foo.bar"() : () -> ()\n  return\n}'
    assert "foo.bar" in str(frontends.parse_module(data, "f", context))


def test_empty_module_is_read(context: ir.Context) -> None:
    assert list(frontends.parse_module(b"module {}", "f", context).body.operations) == []


def test_unreadable_file(context: ir.Context, tmp_path: Path) -> None:
    with pytest.raises(HespasError, match="cannot read it: No such file"):
        frontends.read_module(tmp_path / "absent.mlir", context)


@pytest.mark.skipif(os.geteuid() == 0, reason="root reads everything")
def test_forbidden_file(context: ir.Context, tmp_path: Path) -> None:
    path = tmp_path / "secret.mlir"
    path.write_text(TEXT)
    path.chmod(0)
    with pytest.raises(HespasError, match="cannot read it: Permission denied"):
        frontends.read_module(path, context)


def test_huge_constant(context: ir.Context, tmp_path: Path) -> None:
    """50 MB of hex is parsed natively: no Python object per element, no second copy."""
    size = 25_000_000
    path = tmp_path / "huge.mlir"
    with path.open("w") as file:
        file.write(
            f'func.func @main() -> tensor<{size}xi8> {{\n  %0 = stablehlo.constant dense<"0x'
        )
        file.write("0A" * size)
        file.write(f'"> : tensor<{size}xi8>\n  return %0 : tensor<{size}xi8>\n}}\n')
    start_s = time.process_time()
    frontends.read_module(path, context)
    assert time.process_time() - start_s < 5


def test_from_jax() -> None:
    jax = pytest.importorskip("jax")
    lowered = jax.jit(lambda x: x + 1).lower(jax.ShapeDtypeStruct((4,), "float32"))
    module = frontends.from_jax(lowered)
    assert "stablehlo.add" in str(module)
    assert frontends.from_jax(module) is module
    with pytest.raises(HespasError, match="cannot get a module from an object of type str"):
        frontends.from_jax("module {}")


@pytest.mark.parametrize(
    ("text", "message", "remedy"),
    [
        (
            '%0 = "tosa.abs"(%x) : (tensor<4xf32>) -> tensor<4xf32>',
            "'tosa.abs' is of a dialect that hespas does not read",
            "lower the program from tosa to StableHLO first",
        ),
        (
            "%0 = tosa.exp %x : tensor<4xf32>",
            "'tosa.exp'",
            "lower the program from tosa to StableHLO first",
        ),
        (
            "%0 = torch.aten.mm %x : !torch.vtensor<[1],f32>",
            "torch",
            "torch_mlir.fx.export_and_import",
        ),
        (
            "%0 = ml_program.global_load @seed : tensor<i64>",
            "ml_program",
            "torch_mlir.fx.export_and_import",
        ),
    ],
)
def test_foreign_dialects_are_named_with_what_to_do(text, message, remedy, tmp_path) -> None:
    """Whatever the source of the text is: a file, a packed one, standard input."""
    path = tmp_path / "f.mlir"
    program = f"func.func @main(%x: tensor<4xf32>) {{\n  {text}\n  return\n}}\n"
    path.write_text(program)
    packed = tmp_path / "f.mlir.xz"
    packed.write_bytes(lzma.compress(program.encode()))
    for read in (
        lambda: frontends.read_module(path, make_context()),
        lambda: frontends.read_module(packed, make_context()),
        lambda: frontends.parse_module(program.encode(), "f", make_context()),
    ):
        with pytest.raises(HespasError) as raised:
            read()
        assert message in raised.value.message and remedy in raised.value.remedy
        assert ":2:" in raised.value.where


def test_an_upstream_op_without_a_cost_says_that_it_can_be_lowered() -> None:
    text = "func.func @main(%x: tensor<4xf32>) -> tensor<4xf32> {\n"
    text += "%0 = arith.addf %x, %x : tensor<4xf32>\nreturn %0 : tensor<4xf32>\n}"
    module = frontends.parse_module(text.encode(), "f", make_context())
    with pytest.raises(HespasError, match=r"no cost rule.*; lower it to StableHLO, or declare"):
        run_pipeline(module, "roofline-annotate{node=H100_80GB}")


@pytest.mark.parametrize("op", ["tanh", "logistic"])
def test_quantised_ops_on_real_values_have_a_remedy(op) -> None:
    """The storage type has no such op, so that the scales matter."""
    kind = "tensor<4x!quant.uniform<i8:f32, 0.5>>"
    text = f"func.func @main(%x: {kind}) -> {kind} {{\n%0 = stablehlo.{op} %x : {kind}\n"
    with pytest.raises(HespasError, match="stablehlo-legalize-quant-to-math") as raised:
        frontends.parse_module(f"{text}return %0 : {kind}\n}}".encode(), "f", make_context())
    assert raised.value.where.startswith("f:2:")


def test_quantised_types_keep_their_lines() -> None:
    text = b"a !quant.uniform<i8\n:f32, 0.5>\nb !quant.any<u8<0:3>:f32> !quant.uniform<i8"
    assert replace_quantised_types(text) == b"a i8\n\nb ui8 !quant.uniform<i8"


@pytest.mark.parametrize(
    "text",
    [
        'ml_program.global private @"se\\65d"(dense<0> : tensor<i64>) : tensor<i64>',
        "ml_program.global private @seed(#ml_program.extern : i64) : i64",
        "ml_program.global @seed : tuple<memref<2xi64, affine_map<(d0) -> (d0)>>, (i64) -> (i64)>",
        '"ml_program.global"() {"sym_name" = "seed", type = i64} : () -> () loc(fused["a", "b"])',
    ],
)
def test_only_the_tokens_of_an_unused_global_are_left_out(text) -> None:
    """Not the rest of its line; one that a symbol refers to stays, however the name is spelled."""

    def leave_out(program: str) -> str:
        return leave_out_unused_globals(program.encode(), keeps_generic_form=False).decode()

    before, after = 'a = "@seed", // @seed\n', " func.func private @f()"
    assert leave_out(before + text + after) == before + " " * len(text) + after
    for reference in (" @seed", ' @g::@"s\\65ed"'):
        used = before + text + after + reference
        assert leave_out(used) == used
