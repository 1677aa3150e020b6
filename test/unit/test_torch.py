"""PyTorch programs: what they compute as exported, and the page that tells of them."""

from __future__ import annotations

import importlib.util
import json
import re
from collections import Counter
from pathlib import Path

import pytest
from support.processes import run_support_module

from hespas.dialects.mlir import ir, make_context
from hespas.frontends.export import export_process, stages
from hespas.frontends.export.program_source import ExportRequest
from hespas.passes.base import PassRun
from hespas.support.errors import HespasError

HERE = Path(__file__).parent
PAGE = HERE.parents[1] / "docs" / "how-to" / "pytorch.md"
MISSING = [name for name in ("torch", "torchax") if importlib.util.find_spec(name) is None]
needs_torch = pytest.mark.skipif(
    bool(MISSING), reason=f"not installed: {', '.join(MISSING)} (hespas[torch])"
)


@pytest.fixture(scope="module")
def answers() -> dict:
    done = run_support_module("torch_execution", timeout_s=600)
    assert done.returncode == 0, done.stderr[-3000:]
    return json.loads(done.stdout.splitlines()[-1])


@needs_torch
def test_computes_what_torch_computes(answers):
    differences = dict(answers["differences"])
    assert differences.pop("dropout") < 0.03  # the share of elements kept, of 4096
    assert len(differences) == 14
    assert {name: d for name, d in differences.items() if not d < 1e-4} == {}


@needs_torch
@pytest.mark.parametrize(
    ("case", "message"),
    [
        ("in place", "modifies an argument in place"),
        ("pattern", "no argument matches 'y'"),
        ("no mesh", "'x' is a DTensor; pass its DeviceMesh as mesh"),
        ("divide", "6 is not divisible by 8"),
        ("arguments", "takes 1 arguments, but 2 were passed"),
        ("op", "no JAX function for aten.upsample_bicubic2d_backward"),
        ("own op", "no JAX function for hespas_test.relu"),
        ("fully_shard", "the program is wrapped by fully_shard, which acts through hooks"),
        ("captured meta", "uses tensors on several devices"),
        ("control flow", "depends on the values of tensors"),
    ],
)
def test_errors_say_what_is_wrong(answers, case, message):
    assert message in answers["errors"][case]


@pytest.fixture
def page(tmp_path, monkeypatch) -> Path:
    """A folder with the files of the page."""
    for name, text in re.findall(r"^```python=(\S+)\n(.*?)^```$", PAGE.read_text(), re.M | re.S):
        (tmp_path / name).write_text(text)
    monkeypatch.chdir(tmp_path)
    return tmp_path


def census(program: str, stage: stages.Stage) -> tuple[Counter, str]:
    exported = export_process.lower_in_process(ExportRequest(program), say=lambda line: None)
    module = ir.Module.parse(exported.bytecode, make_context())
    stages.advance_to_stage(module, stage, "cpu", PassRun(note=lambda _: None))
    counts: Counter = Counter()

    def count(op: ir.Operation) -> ir.WalkResult:
        counts[op.name] += 1
        return ir.WalkResult.ADVANCE

    module.operation.walk(count)
    return counts, module.operation.get_asm(enable_debug_info=True)


@needs_torch
def test_the_examples_of_the_page(page):
    counts, text = census("model.py:train", "partitioned")
    assert counts["stablehlo.all_gather"] and counts["stablehlo.all_reduce"]
    counts, text = census("model.py:infer", "partitioned")
    assert counts["stablehlo.all_reduce"]
    assert "weights['up.weight']" in text and "jit(block)/up/" in text
    counts, text = census("parallel.py", "lowered")
    assert counts["stablehlo.all_reduce"] == 1
    assert "[0, 1, 2, 3], [4, 5, 6, 7]" in text


@pytest.mark.skipif(not MISSING, reason="torch is installed")
def test_without_torch_says_what_to_install(tmp_path):
    (tmp_path / "model.py").write_text("from hespas.frontends.pytorch import exportable\n")
    with pytest.raises(HespasError, match=r"is not installed; pip install 'hespas\[torch\]'"):
        export_process.lower_in_process(
            ExportRequest(f"{tmp_path}/model.py"), say=lambda line: None
        )
