"""PyTorch programs: what they compute as exported, and the page that tells of them."""

from __future__ import annotations

import importlib.metadata
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
    assert differences.pop("attention") < 0.05  # in bf16, with a step of 0.008
    assert differences.pop("random values") < 0.05  # of a mean and a deviation, of 10,000
    assert differences.pop("grouped products") < 0.02  # in bf16
    assert differences.pop("dropped attention") < 0.1  # of a mean
    assert len(differences) == 38
    assert {name: d for name, d in differences.items() if not d < 1e-4} == {}


@needs_torch
def test_products_of_f32_are_as_narrow_as_pytorch_allows(answers):
    """By default PyTorch multiplies matrices of f32 in full, and convolves them as tf32."""
    assert answers["precisions"] == {
        "highest": ["HIGHEST", "DEFAULT", "DEFAULT"],
        "high": ["DEFAULT", "DEFAULT", "DEFAULT"],
    }


@needs_torch
def test_wrappers_of_data_parallelism_communicate_as_pytorch_does(answers):
    """Three units of 4,192 parameters: all but the outermost are gathered again when needed.

    DistributedDataParallel fills a bucket of 1 MiB from the last parameters on, and then larger
    ones; broadcasts of buffers are all-gathers.
    """
    assert answers["sharded collectives"] == [
        *["all_gather 4192xbf16"] * 5,
        *["reduce_scatter 524xf32"] * 3,
    ]
    # Each part of four devices has the parameters of all units between the passes.
    assert answers["partly sharded collectives"] == [
        *["all_gather 4192xbf16"] * 3,
        *["all_gather 4192xbf16 in parts"] * 3,
        *["reduce_scatter 524xf32"] * 3,
    ]
    # Without a type for it, gradients are reduced in their own, or since 2.15 in the parameters'.
    kind = "f32" if importlib.metadata.version("torch") >= "2.15" else "bf16"
    assert answers["unreduced type"] == [
        *["all_gather 4192xbf16"] * 5,
        *[f"reduce_scatter 524x{kind}"] * 3,
    ]
    # 4,096 weights as bf16 and 96 biases as f32 travel as bytes.
    if mixed := answers["types of parameters"]:
        assert mixed == [*["all_gather 8576xui8"] * 5, *["reduce_scatter 524xf32"] * 3]
    assert answers["replicated collectives"] == [
        "all_gather 8x1xi32",
        "all_gather 8x2048xf32",
        "all_reduce 1051648xf32",
        "all_reduce 524800xf32",
    ]


@needs_torch
def test_ring_attention_communicates_as_pytorch_does(answers):
    """Keys and values are gathered for each pass, and their gradients travel around the ring.

    A device has 16 of 128 tokens: 2 batches x 4 heads x 16 tokens x 16 numbers, of keys and values.
    """
    ring = answers["ring"]
    assert {name: count for name, count in ring.items() if "$" not in name} == {
        "all_gather 32768xbf16": 2,
        "collective_permute 4096xf32": 8,
    }
    assert {name: count for name, count in ring.items() if "$" in name} == {
        "__cudnn$fmhaSoftmax": 8,
        "__cudnn$fmhaSoftmaxBackward": 8,
    }


@needs_torch
def test_uneven_all_to_all_sends_what_pytorch_sends(answers):
    """Rank 0 sends 20 rows and receives 21; the gradient takes the opposite way."""
    rows = "tensor<20x32xf32> to tensor<21x32xf32>", "tensor<21x32xf32> to tensor<20x32xf32>"
    assert answers["uneven exchanges"] == [*rows]


@needs_torch
def test_steps_of_optimisers_communicate_as_pytorch_does(answers):
    """The step around a model under ``fully_shard`` also adds the norms of all gradients."""
    assert answers["clipped collectives"] == [
        *["all_gather 4192xf32"] * 4,
        "all_reduce 8xf32",
        *["reduce_scatter 524xf32"] * 2,
    ]


@needs_torch
@pytest.mark.parametrize("kind", ["bfloat16", "float16"])
def test_autocast_of_gpus_acts_on_a_trace(answers, kind):
    """The types are those of PyTorch's reference of autocast on CUDA."""
    types = answers["types"][f"cuda {kind}"]
    full = dict.fromkeys(("sum", "softmax", "norm", "disabled", "outside"), "float32")
    assert types == {**full, **dict.fromkeys(("product", "mean", "attention"), kind)}
    assert answers["types"]["cpu bfloat16"]["norm"] == "bfloat16"


@needs_torch
@pytest.mark.parametrize(
    ("case", "message"),
    [
        ("pattern", "no argument matches 'y'"),
        ("no mesh", "'x' is a DTensor; pass its DeviceMesh as mesh"),
        ("divide", "6 is not divisible by 8"),
        ("arguments", "takes 1 arguments, but 2 were passed"),
        ("op", "no JAX function for aten.poisson"),
        ("own op", "the function of the op hespas_test::relu cannot be traced"),
        ("no mesh of shards", "'weights.up.weight' is a DTensor; pass its DeviceMesh as mesh"),
        ("captured meta", "uses tensors on several devices"),
        ("keywords", "1 arguments and the keywords scale, but 1 arguments were passed; pass the"),
        ("captured in place", "modifies a tensor that it captures, and that no module or optim"),
        ("optimiser", "the optimiser LBFGS cannot make a step from gradients without values: LBF"),
        ("rank", "does not fit [4]; write a pattern before it that matches this name"),
        ("autocast", "a region of torch.autocast for cuda was made outside the function that is"),
        ("nested", "sizes that are not known before it runs, such as those of nested tensors"),
        ("ring", "causal attention within context_parallel is not balanced"),
        ("send", "torch.distributed.send concerns single ranks"),
        ("reduction", "('product',) is not supported; reduce by sum, avg, max or min"),
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


ATTENTION = """
import torch
from torch.nn import MultiheadAttention
from torch.nn.functional import scaled_dot_product_attention
from hespas.pytorch import TorchTrainingStep, to_exportable

class Model(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.weight = torch.nn.Parameter(torch.empty(64, 64))
        self.layer = MultiheadAttention(64, 4, batch_first=True)

    def forward(self, x):
        x = self.layer(x, x, x, need_weights=False)[0]
        q = (x @ self.weight).view(2, 128, 4, 16).transpose(1, 2)
        y = scaled_dot_product_attention(q, q[:, :2], q[:, :2], is_causal=True, enable_gqa=True)
        y = scaled_dot_product_attention(y, y, y, dropout_p=0.1)
        mask = torch.zeros(2, 128, 128, dtype=x.dtype)
        return scaled_dot_product_attention(y[:, 0], y[:, 1], y[:, 2], mask)

def train(dtype: str = "bfloat16"):
    with torch.device("meta"):
        model = Model().to(getattr(torch, dtype))
        x = torch.empty(2, 128, 64, dtype=getattr(torch, dtype))
    step = TorchTrainingStep(model, lambda model, x: model(x).float().mean())
    return to_exportable("train", step, (step.state, x))
"""


@needs_torch
@pytest.mark.parametrize(
    ("dtype", "platform", "calls", "unfused"),
    [("bfloat16", "cuda", 2, 0), ("float32", "cuda", 0, 4), ("bfloat16", "cpu", 0, 4),
     ("bfloat16", "tpu", 0, 0)],
)  # fmt: skip
def test_attention_is_the_kernel_that_pytorch_calls(tmp_path, dtype, platform, calls, unfused):
    """For GPUs PyTorch has fused kernels; where there is none here, it is a fact and a warning."""
    path = tmp_path / "model.py"
    path.write_text(ATTENTION)
    request = ExportRequest(f"{path}:train", {"dtype": dtype}, platform=platform)
    exported = export_process.lower_in_process(request, say=lambda line: None)
    text = str(ir.Module.parse(exported.bytecode, make_context()))
    for kind in ("Softmax", "SoftmaxDropout", "ScaleBiasSoftmax"):
        for name in (f"fmha{kind}", f"fmha{kind}Backward"):
            assert text.count(f"@__cudnn${name}(") == (calls if kind == "Softmax" else calls // 2)
    assert exported.facts.get("unfused_attention", 0) == unfused


@needs_torch
def test_the_examples_of_the_page(page):
    _, text = census("steps.py", "lowered")
    assert "optimizer['opt_state']['up.weight.exp_avg']" in text
    assert "tf.aliasing_output" in text or "jax.buffer_donor" in text
    counts, text = census("model.py:train", "partitioned")
    assert counts["stablehlo.all_gather"] and counts["stablehlo.all_reduce"]
    counts, text = census("model.py:infer", "partitioned")
    assert counts["stablehlo.all_reduce"]
    assert "weights['up.weight']" in text and "jit(block)/up/" in text
    counts, text = census("parallel.py", "lowered")
    assert counts["stablehlo.all_reduce"] == 1
    groups = "[0, 1, 2, 3], [4, 5, 6, 7]", 'axis_ref<name = "tensor">'  # JAX 0.12 names the axis
    assert any(form in text for form in groups)
    counts, text = census("shards.py", "lowered")
    assert counts["stablehlo.all_gather"] == 6 and counts["stablehlo.reduce_scatter"] == 3


@pytest.mark.skipif(not MISSING, reason="torch is installed")
def test_without_torch_says_what_to_install(tmp_path):
    (tmp_path / "model.py").write_text("from hespas.frontends.pytorch import exportable\n")
    with pytest.raises(HespasError, match=r"is not installed; pip install 'hespas\[torch\]'"):
        export_process.lower_in_process(
            ExportRequest(f"{tmp_path}/model.py"), say=lambda line: None
        )
