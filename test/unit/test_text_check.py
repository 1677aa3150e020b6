"""Names in locations and symbols that are not UTF-8, which MLIR accepts and its bindings do not."""

from __future__ import annotations

import io
from pathlib import Path

import pytest

from hespas.dialects.mlir import (
    collect_functions,
    get_symbol_name,
    ir,
    make_context,
    stablehlo,
)
from hespas.frontends import read_module, text_check
from hespas.support import errors
from hespas.support.errors import HespasError, find_framework_name, format_source_position
from hespas.tools import console_scripts, hespas_opt

TEXT = r"""func.func @main(%x: tensor<4xf32> loc("x\FE")) -> tensor<4xf32> {
  %0 = stablehlo.custom_call @k(%x)
    : (tensor<4xf32>) -> tensor<4xf32> loc("q\22\\\E9n"("caf\E9.py":3:4))
  return %0 : tensor<4xf32>
}
"""
ASCII = TEXT.replace(r"\FE", "").replace(r"\E9", "")
PASSES = ["--split-linear", "--roofline-annotate=node=A100_SXM_40GB", "-o", "/dev/null"]


def to_bytecode(text: str) -> bytes:
    buffer = io.BytesIO()
    ir.Module.parse(text, make_context()).operation.write_bytecode(buffer)
    return buffer.getvalue()


@pytest.fixture(autouse=True)
def ordinary_names(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(errors, "_locations_are_text", False)


@pytest.mark.parametrize("form", ["file", "bytes", "bytecode"])
def test_locations_are_read_with_replacement_characters(form: str) -> None:
    text = f"// by hand\n{TEXT}" if form == "file" else f" \n{TEXT}"
    Path("f").write_bytes(to_bytecode(TEXT) if form == "bytecode" else text.encode())
    module = read_module("f", make_context())
    main = collect_functions(module)["main"]
    block = main.regions[0].blocks[0]
    location = block.operations[0].location
    assert find_framework_name(location) == 'q"\\\ufffdn'
    assert format_source_position(location) == "caf\ufffd.py:3:4"
    assert find_framework_name(block.arguments[0].location) == "x\ufffd"


@pytest.mark.parametrize("form", ["text", "bytecode"])
def test_ascii_is_read_as_before(form: str) -> None:
    Path("f").write_bytes(to_bytecode(ASCII) if form == "bytecode" else ASCII.encode())
    module = read_module("f", make_context())
    block = collect_functions(module)["main"].regions[0].blocks[0]
    assert find_framework_name(block.operations[0].location) == 'q"\\n'
    assert not errors._locations_are_text


def test_an_error_names_the_file(capfd: pytest.CaptureFixture[str]) -> None:
    Path("f").write_text(TEXT)
    assert console_scripts.run_tool_main(hespas_opt.main, ["f", *PASSES]) == 1
    message = capfd.readouterr().err
    assert message.startswith("caf\ufffd.py:3:4: error: 'stablehlo.custom_call': ")
    assert message.count("\n") == 1


def test_a_symbol_is_refused(capfd: pytest.CaptureFixture[str]) -> None:
    Path("f").write_text('func.func @main() { return }\nfunc.func private @"f\\FF"() { return }')
    assert console_scripts.run_tool_main(hespas_opt.main, ["f", *PASSES]) == 1
    assert capfd.readouterr().err == (
        "f:2:1: error: 'func.func': the symbol @\"f\\FF\" is not UTF-8 text\n"
    )
    module = ir.Module.parse('func.func private @"f\\FF"()', make_context())  # keeps its ops alive
    with pytest.raises(HespasError, match="is not UTF-8"):
        get_symbol_name(module.body.operations[0].operation)


def test_another_name_is_refused_without_a_traceback(capfd: pytest.CaptureFixture[str]) -> None:
    Path("f").write_text(
        'module attributes {mhlo.labels = [@"f\\FF"]} {\nfunc.func @main() { return }\n}'
    )

    def read_name(argv: object) -> int:
        attributes = read_module("f", make_context()).operation.attributes
        print(attributes["mhlo.labels"][0].value)  # type: ignore[attr-defined]
        return 0

    assert console_scripts.run_tool_main(read_name, []) == 1
    assert capfd.readouterr().err == "error: a name in the program is not UTF-8 text\n"


def test_strings_of_bytecode() -> None:
    assert b"caf\xe9.py" in (text_check._extract_strings(to_bytecode(TEXT)) or b"")
    assert (text_check._extract_strings(to_bytecode(ASCII)) or b"").isascii()
    version = stablehlo.get_minimum_version()
    module = ir.Module.parse(ASCII, make_context())
    artifact = stablehlo.serialize_portable_artifact(module, version)
    assert b"vhlo" in (text_check._extract_strings(artifact) or b"")


def test_damaged_bytecode_is_left_to_mlir() -> None:
    data = to_bytecode(ASCII)
    for end in range(len(data)):
        text_check.check_bytecode(data[:end])
    for position in range(len(data)):
        text_check.check_bytecode(data[:position] + b"\0" + data[position + 1 :])


def test_an_escape_between_two_blocks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(text_check, "BLOCK_BYTES", 16)
    for shift in range(20):
        monkeypatch.setattr(errors, "_locations_are_text", False)
        text_check.check_text(b"x" * shift + b"\\FE" + b"y" * 20, "x.mlir")
        assert errors._locations_are_text
