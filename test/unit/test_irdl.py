"""Tools that load IRDL, torch-mlir's bindings or mlir-opt, accept ``dialects/hespas.irdl``."""

from __future__ import annotations

import importlib.util
import re
import shutil
import subprocess
import sys

import pytest
from support.paths import ROOT

from hespas.dialects.attr_schema import list_attr_fields
from hespas.dialects.attrs import RECORDS

IRDL = ROOT / "dialects" / "hespas.irdl"
VALUES = {
    "str": '"word"',
    "int": "4 : i64",
    "float": "1.500000e+00 : f64",
    "bool": "true",
    "ints": "array<i64: 1, 2>",
}
# The bindings of two packages do not share a process.
LOADER = """
import sys
from torch_mlir import ir
from torch_mlir.dialects import irdl
with ir.Context():
    irdl.load_dialects(ir.Module.parse(open(sys.argv[1]).read()))
    print(ir.Module.parse(sys.stdin.read()))
"""


def load(module: str) -> subprocess.CompletedProcess[str]:
    """Parse ``module`` in a tool that knows the dialect only from the IRDL file."""
    mlir_opt = shutil.which("mlir-opt") or shutil.which("mlir-opt-22")
    if importlib.util.find_spec("torch_mlir"):
        command = [sys.executable, "-c", LOADER, str(IRDL)]
    elif mlir_opt:
        command = [mlir_opt, f"--irdl-file={IRDL}"]
    else:
        pytest.skip("neither torch-mlir nor mlir-opt is here: pip install --no-deps torch-mlir")
    return subprocess.run(command, input=module, capture_output=True, text=True)


def attributes(*, unset: bool) -> str:
    """Return a module with one positional attribute of each record."""
    entries = []
    for record in RECORDS:
        words = [
            "unit" if unset and field.default is None else VALUES[field.kind.name]
            for field in list_attr_fields(record)
        ]
        entries.append(f"{record.NAME} = #{record.NAME}<{', '.join(words)}>")
    return f"module attributes {{{', '.join(entries)}}} {{}}"


@pytest.mark.parametrize("unset", [False, True])
def test_every_record_is_accepted(unset: bool) -> None:
    done = load(attributes(unset=unset))
    assert done.returncode == 0, done.stderr
    assert "#hespas.kernel" in done.stdout


def test_a_wrong_field_is_refused() -> None:
    done = load("module attributes {a = #hespas.kernel<4 : i64>} {}")
    assert done.returncode != 0
    assert "does not satisfy" in done.stderr or "expected" in done.stderr


def test_fields_are_those_of_the_schema() -> None:
    text = IRDL.read_text()
    for record in RECORDS:
        short = record.NAME.partition(".")[2]
        body = re.search(
            rf"irdl\.attribute @{short} {{.*?irdl\.parameters\((.*?)\)", text, re.DOTALL
        )
        assert body is not None
        names = re.findall(r"(\w+): %", body[1])
        assert names == [field.name for field in list_attr_fields(record)]
