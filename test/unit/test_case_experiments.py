"""Experiments that rows name by their framework and model: Paxml's for GPUs, AXLearn's Fuji."""

import pytest
from support.xla_flags import read_flags

from hespas.workflows.validation.case_programs import plan_case_program
from hespas.workflows.validation.training_cases import TrainingCase

TEXTS = {
    "hardware": "H100_80GB_SXM", "layers": "4", "hidden": "512", "heads": "8", "ffn": "2048",
    "vocab": "1000", "seq_len": "2048", "per_device_batch": "2", "precision": "bf16",
    "parallelism": "dp=2;fsdp=8;tp=1", "remat": "default", "framework": "Paxml (JAX/XLA:GPU)",
}  # fmt: skip


def plan_case(**texts):
    case = TrainingCase("a", 16, 1.0, {**TEXTS, **texts}, 2)
    return plan_case_program(case, {}, compiler="gpu")


def get_options(plan):
    assert plan.workload is not None, plan.reasons
    return plan.workload.options


@pytest.mark.parametrize(
    ("model", "remat", "scan", "attention"),
    [
        ("pax-gpt-126m", "none", "false", "dot_product"),
        ("gpt3-5b", "minimal", "true", "cudnn"),
        ("gpt3-175b", "full", "true", "cudnn"),
        ("llama2-7b", "none", "false", "cudnn"),
    ],
)
def test_layers_and_checkpoints_are_those_of_the_experiment(model, remat, scan, attention):
    plan = plan_case(model=model)
    options = get_options(plan)
    assert (options["remat"], options["scan"]) == (remat, scan)
    assert options["attention"] == attention
    assert any(f"rematerialisation {remat}, the default" in text for text in plan.assumptions)
    assert "layers in a loop" not in plan.assumptions
    stated = plan_case(model=model, remat="SAVE_CONTEXT (Paxml)")
    assert get_options(stated)["remat"] == "context"


def test_flags_are_those_of_the_scripts_of_the_source():
    toolbox = plan_case(model="gpt3-5b", source="NVIDIA/JAX-Toolbox@28603900 pax/README.md")
    assert toolbox.xla_options == "framework=paxml"
    dgxc = plan_case(model="gpt3-5b", source="NVIDIA/dgxc-benchmarking@v25.01.1 paxml/README_5b.md")
    assert dgxc.xla_options.startswith("preset=paxml-dgxc,")
    assert not [text for text in dgxc.assumptions if "XLA flags" in text]
    small = plan_case(model="pax-gpt-126m")
    assert "all_reduce_combine_threshold_bytes=33554432" in read_flags(small.xla_options)
    assert "=33554432" not in read_flags(toolbox.xla_options)


@pytest.mark.parametrize(
    ("model", "attention", "remat"),
    [
        ("fuji-7b-v1", "dot_product", "save_dot_with_context_except_mlp"),
        ("fuji-7b-v1-flash", "cudnn", "save_dot_except_mlp"),
        ("fuji-70b-v2", "cudnn", "save_dot_except_mlp"),
    ],
)
def test_the_first_fuji_of_axlearn_has_no_fused_attention(model, attention, remat):
    plan = plan_case(model=model, framework="AXLearn (JAX/XLA)")
    options = get_options(plan)
    assert (options["attention"], options["remat"]) == (attention, remat)
    assert options.get("wide_scores") == ("false" if attention == "dot_product" else None)
    assert options["logits_dtype"] == "bf16"


@pytest.mark.parametrize(
    ("network", "hides"), [("p5.48xlarge EFA 3200 Gb/s per node", False), ("A3 Mega", True)]
)
def test_axlearn_sets_no_flags_for_gpus_on_ec2(network, hides):
    plan = plan_case(model="fuji-7b-v1", framework="AXLearn (JAX/XLA)", network=network)
    assert ("latency_hiding_scheduler=true" in read_flags(plan.xla_options)) == hides
    assert ("disable_async_collectives" in read_flags(plan.xla_options)) != hides


@pytest.mark.parametrize(
    ("source", "remat"),
    [("foundation-model-stack/fms-fsdp README.md", "full@1/2+eager_weights"), ("a blog", None)],
)
def test_selective_checkpointing_of_fms_fsdp_is_of_whole_blocks(source, remat):
    framework = "PyTorch FSDP + torch.compile + SDPA flash"
    plan = plan_case(model="llama2-13b", framework=framework, remat="selective", source=source)
    if remat is None:
        assert "does not say which activations" in plan.reasons["remat"]
    else:
        options = get_options(plan)
        assert (options["remat"], options["scan"]) == (remat, "false")
        assert any("half of the blocks" in text for text in plan.assumptions)
