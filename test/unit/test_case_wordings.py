"""The words of rows of training cases: rematerialisation, precision, division, devices."""

from __future__ import annotations

import pytest

from hespas.workflows.validation.case_kernels import choose_loss_kernels, choose_operator_options
from hespas.workflows.validation.case_meshes import divides_tokens, read_mesh
from hespas.workflows.validation.case_precisions import read_precision
from hespas.workflows.validation.case_rematerialisation import (
    OPERATOR_POLICY,
    read_kept_activations,
    read_rematerialisation,
)
from hespas.workflows.validation.case_systems import count_xla_devices, read_slice_count
from hespas.workflows.validation.training_cases import CaseOutcome, TrainingCase, read_axis_sizes


def make_case(devices=16, **texts):
    return TrainingCase("a", devices, 1.0, {"model": "llama3-8b", **texts}, 2)


def make_outcome(**texts):
    return CaseOutcome(make_case(**texts))


def explain_refusal(read, kind, *args, **texts):
    """Return why a part of a row is refused; "" if it is not."""
    outcome = make_outcome(**texts)
    assert not read(outcome, *args)
    return outcome.reasons[kind]


@pytest.mark.parametrize(
    ("framework", "text", "policy"),
    [
        # policies by name, whatever surrounds them
        ("MaxText", "remat_policy: full", "full"),
        ("MaxText", "Full", "full"),
        ("MaxText (JAX)", "save_out_proj; scan on", "save_out_proj"),
        ("Paxml", "SAVE_NOTHING", "full"),
        ("Paxml", "SAVE_CONTEXT_AND_OUT_PROJ (Paxml)", "context,out_proj"),
        ("EasyLM", "nothing_saveable", "full"),
        ("JAX", "dots_with_no_batch_dims_saveable", "minimal"),
        # words
        ("Megatron-LM", "full recomputation, uniform, 1 layer", "full"),
        ("NeMo", "no recompute", "eager"),
        ("HF + DeepSpeed", "gradient checkpointing", "full"),
        ("JAX", "disabled", "none"),
        ("JAX", "none by the launcher", "none"),
        ("PyTorch DDP", "off", "eager"),
        ("torchtitan", "per-op SAC", OPERATOR_POLICY),
        ("torchtitan", "selective", OPERATOR_POLICY),
        ("PyTorch FSDP", "selective (op)", OPERATOR_POLICY),
        ("NeMo", "selective", "eager"),
        ("Megatron-LM", "core_attn recompute", "eager"),
        # one clause for each size of a model
        ("JAX", "none for 1B; full for 8B/70B", "full"),
        ("JAX", "full for 1B; none for 8B/70B", "none"),
        # defaults
        ("MaxText", "custom", "full"),
        ("MaxText", "see config", "full"),
        ("AXLearn", "default at that commit", "save_dot_except_mlp"),
        ("levanter", "", "full"),
        ("", "", "minimal"),
        # activations in words
        ("MaxText", "custom: context on device; q,k,v offloaded; mlpwi recomputed",
         "context,query_proj:host,key_proj:host,value_proj:host"),
        ("MaxText", "decoder_layer_input=offload, out_proj=device, mlpwi_0=remat",
         "decoder_layer_input:host,out_proj"),
        ("MaxText", "attention and down on device; vocab tiling 8", "context,mlpwo"),
        ("MaxText", "custom (layer input, q,k,v proj offloaded)",
         "decoder_layer_input:host,query_proj:host,key_proj:host,value_proj:host"),
        ("MaxText", "custom: out proj on device, context offloaded, everything else remat (v2)",
         "out_proj,context:host"),
        ("AXLearn", "qkvo proj saved", "query_proj,key_proj,value_proj,out_proj"),
        ("AXLearn", "nothing saved", "full"),
        ("MaxText", "minimal_with_context_and_quantization", "minimal_with_context"),
        # what does not say enough
        ("PyTorch", "selective", ""),
        ("torchtitan", "selective, every 2nd layer", ""),
        ("Megatron-LM", "full, 4 layers of each stage", ""),
        ("MaxText", "full (40 of 80 layers)", ""),
        ("own", "the usual", ""),
        ("own", "default", ""),
    ],
)  # fmt: skip
def test_rematerialisation_is_read_by_meaning(framework, text, policy):
    outcome = make_outcome(framework=framework, remat=text)
    assert read_rematerialisation(outcome) == policy
    assert bool(outcome.reasons) == (not policy)


def test_defaults_and_guesses_are_assumptions():
    for text, phrase in (
        ("custom", "rematerialisation full, the default of maxtext"),
        ("full by the file's name", "full ('full by the file's name')"),
        ("full", ""),
    ):
        outcome = make_outcome(framework="MaxText", remat=text)
        read_rematerialisation(outcome)
        assert [phrase in one for one in outcome.assumptions] == [True] * bool(phrase)


BLOCK = "full recompute of 21 of 80 layers (Megatron block)"


@pytest.mark.parametrize(
    ("text", "policy"),
    [
        (BLOCK, "full@21/80+eager"),
        ("full recompute of 40 of 80 layers", "full@1/2+eager"),
        ("full recomputation of 80 of 80 layers", "full"),
    ],
)
def test_a_share_of_the_layers_is_computed_again(text, policy):
    outcome = make_outcome(framework="Megatron-LM", remat=text, layers="80")
    assert read_rematerialisation(outcome) == policy
    spaced = ["layers that are computed again are evenly spaced, not the first"]
    assert outcome.assumptions == (spaced if "@" in policy else [])


def test_refusals_of_rematerialisation_say_what_is_missing():
    for text, reason in (
        ("selective", "does not say which activations"),
        ("full, 8 layers", "of some layers"),
        ("whatever", "no recipe has"),
    ):
        texts = {"framework": "JAX", "remat": text}
        assert reason in explain_refusal(read_rematerialisation, "remat", **texts)
    texts = {"framework": "Megatron-LM", "remat": BLOCK}
    for more, reason in (
        ({"layers": "64"}, "the model has 64 layers"),
        ({"remat": "full recompute of 9 of 8 layers"}, "no share of the layers"),
        ({"parallelism": "dp=4;pp=4"}, "which layers of a stage"),
    ):
        assert reason in explain_refusal(read_rematerialisation, "remat", **{**texts, **more})


def test_activations_of_unknown_names_are_not_read():
    assert read_kept_activations("q and the rest on device") == ""
    assert read_kept_activations("q=somewhere") == ""


@pytest.mark.parametrize(
    ("text", "name"),
    [
        ("MaxText (JAX/XLA:TPU)", "maxtext"),
        ("Megatron-LM core 0.14, TE 2.11", "megatron"),
        ("NeMo", "nemo"),
        ("PyTorch FSDP2 (NeMo Automodel)", "automodel"),
        ("PyTorch torchtitan FSDP+compile", "torchtitan"),
        ("PyTorch FSDP + FlashAttention (Composer)", "composer"),
        ("PyTorch (21.11), LAMB, nvFuser", "pytorch"),
        ("PyTorch/XLA NeuronX Distributed", "pytorch/xla"),
        ("T5X (JAX/XLA:GPU)", "t5x"),
        ("TensorFlow 1.15 + XLA", "xla"),
        ("MXNet (22.10 container)", ""),
        ("", ""),
    ],
)
def test_frameworks_are_read_by_their_words(text, name):
    framework = make_case(framework=text).framework
    assert framework.name == name
    assert not (framework.uses_xla and framework.is_eager)


@pytest.mark.parametrize(
    ("framework", "text", "options"),
    [
        ("MaxText", "bf16", {"logits_dtype": "bf16"}),
        ("PyTorch", "bf16 mixed, fp32 master weights", {"logits_dtype": "bf16"}),
        ("JAX", "bfloat16 activations, float32 weights", {}),
        ("PyTorch", "fp16 AMP", {"compute_dtype": "f16", "logits_dtype": "f16"}),
        ("TensorFlow", "TF32", {"compute_dtype": "f32"}),
        ("PyTorch", "float32", {"compute_dtype": "f32"}),
        ("torchtitan", "float8 rowwise", {"products": "fp8_rowwise", "logits_dtype": "bf16"}),
        ("torchtitan", "float8 tensorwise + bf16", {"products": "fp8", "logits_dtype": "bf16"}),
        ("MaxText", "fp8_full (qwix)", {"products": "fp8_static", "logits_dtype": "bf16"}),
        ("TE", "FP8 delayed scaling", {"products": "fp8"}),
        ("MaxText", "fp8", {"products": "fp8_delayed", "logits_dtype": "bf16"}),
        ("MaxText", "int8 (AQT)", {"products": "int8", "logits_dtype": "bf16"}),
        ("Composer", "amp_fp8/DEFAULT",
         {"products": "fp8", "reduce_dtype": "f32", "logits_dtype": "bf16"}),
        ("TE", "MXFP8", None),
        ("Megatron-LM", "fp8 blockwise", None),
        ("TE", "nvfp4", None),
        ("NeMo/Megatron-Core + TransformerEngine", "nvfp4 (TE)",
         {"products": "nvfp4_te", "logits_dtype": "bf16"}),
        ("own", "mixed", None),
    ],
)  # fmt: skip
def test_precisions_are_read_by_meaning(framework, text, options):
    outcome = make_outcome(framework=framework, precision=text)
    assert read_precision(outcome) == (options or {})
    assert bool(outcome.reasons) == (options is None)


def test_refusals_of_precision_name_it():
    for text, reason in (("mxfp8", "blocks"), ("nvfp4", "'nvfp4'")):
        assert reason in explain_refusal(read_precision, "precision", precision=text)


@pytest.mark.parametrize(
    ("text", "sizes"),
    [
        ("dp=2;fsdp=8;tp=1", {"dp": 2, "fsdp": 8, "tp": 1}),
        ("TP8 DP2", {"tp": 8, "dp": 2}),
        ("dcn_data_parallelism=2;ici_fsdp_parallelism=8", {"dp": 2, "fsdp": 8}),
        ("dcn_data=2, ici_fsdp=-1", {"dp": 2, "fsdp": 8}),
        ("ici_fsdp_transpose_parallelism=4;ici_fsdp=4", {"fsdp_transpose": 4, "fsdp": 4}),
        ("data_parallel=4; tensor_parallel_size: 4", {"dp": 4, "tp": 4}),
        ("dp_replicate=2,dp_shard=8", {"dp": 2, "fsdp": 8}),
        ("fsdp+dp (FSDP 2 nodes x 4)", {"dp": 2, "fsdp": 8}),
        ("fsdp+dp (FSDP 1..2 nodes x 4)", {"dp": 4, "fsdp": 4}),
        ("fsdp=16 (dcn 2 x ici 8)", {"fsdp": 16}),
        ("3-D", {}),
    ],
)
def test_axes_are_read_by_their_names(text, sizes):
    assert read_axis_sizes(text, 16) == sizes


@pytest.mark.parametrize(
    ("text", "mesh"),
    [
        ("fsdp=16;fsdp_strategy=NO_SHARD", {"data": 16, "fsdp": 1, "tensor": 1}),
        ("fsdp=16;fsdp_strategy=HYBRID_SHARD", {"data": 2, "fsdp": 8, "tensor": 1}),
        ("dp=16;zero3", {"data": 1, "fsdp": 16, "tensor": 1}),
        ("dp=16;zero-1", {"data": 16, "fsdp": 1, "tensor": 1}),
        ("fsdp=2;ici_tensor_sequence_parallelism=8", {"data": 1, "fsdp": 2, "tensor": 8}),
        ("see the recipe", {"data": 1, "fsdp": 16, "tensor": 1}),
        ("FSDP", {"data": 1, "fsdp": 16, "tensor": 1}),
        ("DDP", {"data": 16, "fsdp": 1, "tensor": 1}),
    ],
)
def test_meshes_follow_from_sizes_and_strategies(text, mesh):
    outcome = make_outcome(parallelism=text)
    assert read_mesh(outcome, "llama") == mesh and not outcome.reasons
    assert bool(outcome.assumptions) == ("=" not in text)


@pytest.mark.parametrize(
    ("text", "mesh"),
    [
        ("dp=8;ep=4;pp=2", {"data": 2, "fsdp": 1, "expert": 4, "tensor": 1}),
        ("fsdp=16;ep=8", {"data": 1, "fsdp": 2, "expert": 8, "tensor": 1}),
        ("dp=2;fsdp=8;ep=8", {"data": 1, "fsdp": 2, "expert": 8, "tensor": 1}),
        ("fsdp=2;ep=8", {"data": 1, "fsdp": 2, "expert": 8, "tensor": 1}),
        ("dp=2;tp=8;ep=4", {}),
    ],
)
def test_experts_have_devices_of_data_parallelism_or_their_own(text, mesh):
    outcome = make_outcome(parallelism=text)
    assert read_mesh(outcome, "moe") == mesh
    reason = outcome.reasons.get("parallelism", "")
    assert ("experts over 4 of 2 devices" in reason) == (not mesh)


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("fsdp=4;fsdp_transpose=4", "weights that two axes of fsdp divide"),
        ("dp=4;diloco=4", "DiLoCo"),
        ("dp=8;ep=2", "expert parallelism"),
        ("tp8", "makes 8 devices, not 16"),
    ],
)
def test_divisions_without_a_program_say_why(text, reason):
    assert reason in explain_refusal(read_mesh, "parallelism", "llama", parallelism=text)


@pytest.mark.parametrize(
    ("framework", "parallelism", "divided"),
    [
        ("", "tp=4;sp=4", True),
        ("", "ici_tensor_sequence_parallelism=4", True),
        ("", "tp=4;sp=1", False),
        ("", "tp=4", False),
        ("Megatron-LM core 0.14", "tp=4;sp=1", True),
        ("NeMo/Megatron-Core", "tp=4;sp=4", True),
        ("Megatron-LM core 0.14", "tp=4;sp=0", False),
        ("Megatron-LM core 0.14", "tp=4;sp=2", False),
        ("Megatron-LM core 0.14", "tp=1;sp=1", False),
        ("Megatron-LM", "tp=8;sp=8", True),
        ("PyTorch torchtitan", "fsdp=2;tp=4", True),
        ("PyTorch torchtitan", "fsdp=8", False),
    ],
)
def test_tokens_are_divided_by_the_devices_of_tensor_parallelism(framework, parallelism, divided):
    case = make_case(framework=framework, parallelism=parallelism)
    assert divides_tokens(case) == divided


@pytest.mark.parametrize(
    ("texts", "devices"),
    [
        ({"parallelism": "fsdp=32"}, 32),
        ({"parallelism": "fsdp=16"}, 16),
        ({"parallelism": "see recipe", "global_batch": "64", "per_device_batch": "2"}, 32),
        ({"parallelism": "see recipe"}, 16),
    ],
)
def test_chips_with_several_devices_are_counted_as_xla_does(texts, devices):
    assert count_xla_devices(make_case(16, **texts), "TPU7x_core") == devices
    assert count_xla_devices(make_case(16, **texts), "TPUv5e") == 16


@pytest.mark.parametrize(
    ("text", "count"),
    [
        ("DCN between 4 slices", 4),
        ("v5p-2048, 2 slice(s)", 2),
        ("2 x v5e-256", 2),
        ("ICI torus", 0),
    ],
)
def test_slices_are_counted(text, count):
    assert read_slice_count(text) == count


@pytest.mark.parametrize(
    ("words", "used"),
    [
        ("torchtitan 4D 1F1B AsyncTP compile", True),
        ("torchtitan, asynchronous tensor parallelism", True),
        ("torchtitan vanilla TP compile, no async TP", False),
        ("torchtitan, async tensor parallel: off", False),
        ("torchtitan, async_tp=false", False),
        ("NeMo/Megatron-Core; TP overlap of TE userbuffers", True),
        ("NeMo/Megatron-Core; no userbuffers", False),
        ("NeMo/Megatron-Core", False),
    ],
)
def test_asynchronous_products_are_read_by_meaning(words, used):
    outcome = make_outcome(framework=words, parallelism="fsdp=8;tp=8;sp=8")
    assert ("ring_products" in choose_operator_options(outcome, {})) == used


@pytest.mark.parametrize(
    ("words", "fused"),
    [
        ("", False),
        ("--cross-entropy-loss-fusion", True),
        ("case llama3_70b_l12_tp8_pp1_dp1_mbc8_cef; timing of steps 2-3", True),
        ("cross_entropy_loss_fusion=True", True),
        ("no cross-entropy-loss-fusion", False),
        ("cross_entropy_loss_fusion=False", False),
    ],
)
def test_fused_losses_are_read_by_meaning(words, fused):
    case = make_case(framework="Megatron-LM core 0.14", notes=words)
    assert (not choose_loss_kernels(case, "llama")) == fused
