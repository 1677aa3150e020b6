"""The XLA flags of a framework are chosen by its name, and one question has one answer."""

from __future__ import annotations

import csv
import json

import pytest
from support.xla_flags import read_flags

import hespas
from hespas.configs import compile_targets
from hespas.configs.framework_flags import FRAMEWORK_FLAGS
from hespas.dialects.mlir import ir, make_context
from hespas.dialects.xla import find_gpu_library
from hespas.passes.base import PassRun
from hespas.passes.pipeline import run_pipeline
from hespas.support.errors import UsageError
from hespas.tools.console_scripts import run_tool_main
from hespas.tools.hespas import main
from hespas.workflows.validation.case_frameworks import FRAMEWORKS

NODE, SYSTEM = "H100_80GB", "HGX_H100_8"
# A decoder of two small layers in MaxText's form, as a row of a table and as options of the recipe.
ROW = {
    "id": "small", "model": "llama3-8b", "hardware": "H100 SXM 80GB", "devices": "8",
    "step_time_s": "0.01", "layers": "2", "hidden": "512", "heads": "4", "kv_heads": "4",
    "head_dim": "128", "ffn": "1024", "vocab": "8192", "seq_len": "1024", "global_batch": "16",
    "precision": "bf16", "parallelism": "fsdp=8", "remat": "minimal_flash", "framework": "MaxText",
}  # fmt: skip


def test_every_framework_with_xla_has_its_flags():
    names = {framework.name for framework in FRAMEWORKS if framework.uses_xla}
    assert names - set(FRAMEWORK_FLAGS) == {"pytorch/xla", "xla"}  # "xla" is any other use of JAX
    for name, own in FRAMEWORK_FLAGS.items():
        assert own.reason and own.flags
        flags = read_flags(f"framework={name}").split()
        preset = compile_targets.read_xla_flags(own.preset) if own.preset else []
        assert flags == [*preset, *own.flags]


def test_further_flags_come_last():
    text = read_flags('framework=maxtext,flags="--xla_gpu_enable_triton_gemm=true"')
    assert text.endswith("--xla_gpu_enable_triton_gemm=true")


def test_unknown_frameworks_and_other_targets_are_refused():
    text = "func.func @main(%x: tensor<4xf32>) -> tensor<4xf32> { return %x : tensor<4xf32> }"
    for options, message in (
        ("target=H100_80GB,framework=maxtex", "no framework 'maxtex'.*did you mean 'maxtext'"),
        ("target=cpu,framework=maxtext", "'framework' is for GPUs"),
    ):
        module = ir.Module.parse(text, make_context())
        with pytest.raises(UsageError, match=message):
            run_pipeline(module, f"xla-optimize{{{options}}}", PassRun(note=lambda _: None))


@pytest.mark.long
@pytest.mark.slow
@pytest.mark.skipif(find_gpu_library() is None, reason="needs pip install 'hespas[gpu-compiler]'")
def test_one_question_has_one_answer(tmp_path, monkeypatch, capsys):
    """A row of a table, a run, a compiled program and Python agree to the last digit."""
    pytest.importorskip("jax")
    monkeypatch.chdir(tmp_path)
    with open("rows.csv", "w", newline="") as file:
        writer = csv.DictWriter(file, list(ROW))
        writer.writeheader()
        writer.writerow(ROW)

    def call(*argv):
        assert run_tool_main(main, list(argv)) == 0
        return capsys.readouterr().out

    row = json.loads(call("validate", "rows.csv", "--work-dir", "work", "--json"))["rows"][0]
    assert row["xla_options"] == "framework=maxtext" and row["system"] == SYSTEM
    options = [f"--set={option}" for option in row["options"].split() if "model=" not in option]
    export = ["export", "llama", "--model", "8b", "--mesh", "fsdp=8", "--platform", "cuda"]
    call(*export, *options, "-o", "step.mlir")
    place = ["--node", NODE, "--system", SYSTEM]
    named = ["--xla-optimize", "framework=maxtext"]
    at_once = json.loads(call("run", "--mlir", "step.mlir", *place, *named, "--json"))
    assert at_once["xla_flags"].startswith("framework maxtext: --xla_gpu")
    compiled = ["--stage", "scheduled", "--async-collectives", "keep", "--framework", "maxtext"]
    call("optimize", "step.mlir", "--target", NODE, *compiled, "-o", "compiled.mlir")
    apart = json.loads(call("run", "--mlir", "compiled.mlir", *place, "--json"))
    assert apart["xla_flags"] == at_once["xla_flags"]
    assert apart["compile_memory_limit_bytes"] == at_once["compile_memory_limit_bytes"]
    result = hespas.estimate(
        "step.mlir", target=NODE, system=SYSTEM, xla_optimize="framework=maxtext"
    )
    answers = [at_once["step_time_s"], apart["step_time_s"], result.step_time_s]
    assert answers == [pytest.approx(row["predicted_s"], rel=1e-9)] * 3
