"""``hespas validate`` of training cases: rows, programs, networks, scores, the command."""

import csv
import dataclasses
import json
import re

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.xla_flags import read_flags

from hespas.dialects.xla import find_gpu_library
from hespas.frontends.export.slice_mesh import order_devices
from hespas.passes.pipeline import parse_options
from hespas.support.errors import HespasError
from hespas.tools import hespas
from hespas.tools.console_scripts import run_tool_main
from hespas.workflows.run_config import RunOptions
from hespas.workflows.studies.study_output import format_csv
from hespas.workflows.validation import case_models, case_report, case_runner, case_systems
from hespas.workflows.validation.case_experts import read_expert_sizes
from hespas.workflows.validation.case_flags import read_combine_flags
from hespas.workflows.validation.case_kernels import choose_attention_library
from hespas.workflows.validation.case_models import FAMILIES
from hespas.workflows.validation.case_programs import plan_case_program
from hespas.workflows.validation.case_rematerialisation import REMAT_POLICIES
from hespas.workflows.validation.prediction_scores import COLUMNS, MeasuredCell, StepPrediction
from hespas.workflows.validation.training_cases import (
    REQUIRED,
    CaseOptions,
    CaseOutcome,
    TrainingCase,
    is_case_table,
    read_training_cases,
    select_cases,
)

HEADER = ",".join(REQUIRED) + "\n"
LLAMA = {
    "model": "llama-x", "hardware": "H100_80GB_SXM", "layers": "4", "hidden": "512", "heads": "8",
    "kv_heads": "2", "ffn": "1024", "vocab": "1000", "seq_len": "2048", "per_device_batch": "2",
    "precision": "bf16", "parallelism": "dp=2;fsdp=8;tp=1", "remat": "full (per block)",
    "framework": "MaxText (JAX/XLA:GPU)",
}  # fmt: skip


def make_case(devices=16, **texts):
    return TrainingCase("a", devices, 1.0, {**LLAMA, **texts}, 2)


def plan_case(devices=16, changes=None, **texts):
    return plan_case_program(make_case(devices, **texts), changes or {}, compiler="gpu")


@pytest.fixture
def write_table(tmp_path):
    def write_table(text):
        path = tmp_path / "cases.csv"
        path.write_text(text)
        return str(path)

    return write_table


@pytest.mark.parametrize(
    ("rows", "error"),
    [
        ("llama2-7b,H100_80GB_SXM,eight,1\n", r":2: error: devices is 'eight', not a whole"),
        ("llama2-7b,H100_80GB_SXM,8,fast\n", r":2: error: step_time_s is 'fast', not a positive"),
        ("llama2-7b,H100_80GB_SXM,8,-1\n", r":2: error: step_time_s is '-1'"),
        ("llama2-7b,H100_80GB_SXM,8,nan\n", r":2: error: step_time_s is 'nan'"),
        ("llama2-7b,,8,1\n", r":2: error: 'hardware' is empty"),
        ("llama2-7b,H100_80GB_SXM,8,1,9\n", r":2: error: the row has more cells"),
        ("", r"cases.csv: error: it has no row"),
    ],
)
def test_wrong_rows_are_errors_with_their_line(write_table, rows, error):
    with pytest.raises(HespasError, match=error):
        read_training_cases(write_table(HEADER + rows))


def test_ids_are_unique_and_selectable(write_table):
    columns = "id," + HEADER
    row = ",llama2-7b,H100_80GB_SXM,8,1\n"
    cases = read_training_cases(write_table(columns + "x" + row + "y" + row))
    assert [case.id for case in select_cases(cases, ["y"])] == ["y"]
    assert select_cases(cases, []) == cases
    with pytest.raises(HespasError, match="no row has the id 'z'"):
        select_cases(cases, ["z"])
    with pytest.raises(HespasError, match=r":3: error: id 'x' is that of line 2 too"):
        read_training_cases(write_table(columns + "x" + row + "x" + row))


def test_columns_select_the_form_of_the_table(write_table):
    assert is_case_table(write_table(HEADER))
    assert not is_case_table(write_table(",".join(COLUMNS)))
    with pytest.raises(HespasError, match="no column step_time_s; a table of training cases has"):
        is_case_table(write_table("model,hardware,devices\n"))
    with pytest.raises(HespasError, match="no column source; a table of program files has"):
        is_case_table(write_table(",".join(COLUMNS[:-1])))


def test_a_row_becomes_a_recipe():
    plan = plan_case()
    assert not plan.reasons and not plan.assumptions
    assert plan.workload.recipe == "llama"
    assert plan.workload.mesh == {"data": 2, "fsdp": 8, "tensor": 1}
    assert plan.workload.options == {
        "model": "8b", "layers": "4", "emb": "512", "heads": "8", "kv_heads": "2", "mlp": "1024",
        "vocab": "1000", "head_dim": "64", "sequence": "2048", "batch": "2", "remat": "full",
        "attention": "cudnn", "scan": "true", "logits_dtype": "bf16",
    }  # fmt: skip


@pytest.mark.parametrize(
    ("model", "texts", "recipe", "expected"),
    [
        ("mpt-7b", {"kv_heads": "8"}, "gpt", {"model": "mpt-7b", "emb": "512", "head_dim": "64"}),
        ("megatron-22b", {}, "gpt", {"model": "gpt3-22b", "head_dim": "64"}),
        ("maxtext-scale-16b", {}, "llama", {"model": "llama2-7b", "head_dim": "128"}),
        ("maxtext-22b", {}, "gpt", {"norm": "rms", "activation": "relu", "head_dim": "256"}),
        ("llama3.1-405b", {"hidden": "16384", "heads": "128"}, "llama",
         {"model": "405b", "head_dim": "128"}),
        ("fuji-7b-v1", {"head_dim": "32"}, "gpt", {"tied": "true", "head_dim": "32"}),
        ("gpt-oss-120b", {"hidden": "2880", "heads": "64"}, "moe",
         {"model": "gpt-oss-120b", "head_dim": "64"}),
        ("bert-large", {"kv_heads": "8"}, "bert", {"model": "bert-large", "head_dim": "64"}),
        ("t5-v1.1-xl", {}, "t5", {"model": "t5-v1.1-xl", "head_dim": "64"}),
    ],
)  # fmt: skip
def test_models_are_those_of_their_families(model, texts, recipe, expected):
    workload = plan_case(model=model, **texts).workload
    assert workload.recipe == recipe
    assert {key: workload.options[key] for key in expected} == expected


def test_published_models_of_a_table_are_options_of_their_recipes():
    pytest.importorskip("jax")
    from hespas.frontends.export.program_source import find_program_function
    from hespas.frontends.export.recipe_options import collect_options

    for family in FAMILIES:
        if not family.recipe:
            continue
        options = {o.name: o for o in collect_options(find_program_function(family.recipe))}
        assert family.base in options["model"].words
        assert set(family.options) <= set(options)


def test_rows_of_tpus_use_splash_attention_and_libtpus_flags():
    texts = {
        "hardware": "TPUv5e", "framework": "MaxText (JAX/XLA)",
        "network": "ICI; DCN between 2 slices", "parallelism": "dp=2;fsdp=4;tp=2",
        "notes": "2 x v5e-8; configs/v5e/16b.sh",
    }  # fmt: skip
    plan = plan_case_program(make_case(16, **texts), {}, compiler="tpu")
    assert plan.workload is not None and not plan.reasons
    assert plan.workload.options["attention"] == "splash"
    assert plan.workload.options["sequence_parallel"] == "true"
    assert plan.xla_options == "slices=2,preset=maxtext-v5e"
    plan = plan_case_program(make_case(16, hardware="TPUv5e"), {}, compiler="tpu")
    assert "libtpu's default flags" in plan.assumptions and not plan.xla_options
    assert "AdamW's moments in f32" in plan.assumptions
    case = make_case(16, hardware="TPUv5e", notes="mu_dtype bf16 adamw")
    plan = plan_case_program(case, {}, compiler="tpu")
    assert "AdamW's moments in f32, not the first in bf16" in plan.assumptions


def test_weights_that_do_not_fit_in_f32_are_in_bf16():
    texts = {"hardware": "TPUv6e", "framework": "MaxText (JAX/XLA)", "params": "7.06e10"}
    plan = plan_case_program(make_case(32, parallelism="fsdp=32", **texts), {}, compiler="tpu")
    types = {name: plan.workload.options[name] for name in ("weights_dtype", "moments_dtype")}
    assert types == {"weights_dtype": "bf16", "moments_dtype": "bf16"}
    assert any("do not fit in f32" in text for text in plan.assumptions)
    plan = plan_case_program(make_case(64, parallelism="fsdp=64", **texts), {}, compiler="tpu")
    assert "weights_dtype" not in plan.workload.options


def test_the_share_of_memory_that_a_row_states_is_what_weights_fit_in():
    texts = {"hardware": "B200_180GB", "params": "8.8e10", "parallelism": "fsdp=8", "notes": "a"}
    assert "weights_dtype" not in plan_case(8, **texts).workload.options
    plan = plan_case(8, **{**texts, "notes": "run a; memory fraction 0.93"})
    assert plan.workload.options["weights_dtype"] == "bf16"


def test_the_type_of_weights_that_a_row_states_is_that_of_moments_too():
    plan = plan_case(precision="bf16 (weights bf16)")
    types = {name: plan.workload.options[name] for name in ("weights_dtype", "moments_dtype")}
    assert types == {"weights_dtype": "bf16", "moments_dtype": "bf16"} and not plan.assumptions
    texts = {"hardware": "B200_180GB", "params": "8.8e12", "parallelism": "fsdp=8"}
    wide = plan_case(8, precision="int8 (AQT), weights f32", **texts)
    assert "weights_dtype" not in wide.workload.options


def test_logits_are_computed_in_as_many_parts_as_a_row_states():
    plan = plan_case(remat="custom: context on device; vocab tiling 4")
    assert plan.workload.options["vocab_tiles"] == "4"
    assert plan_case(notes="num_vocab_tiling=16").workload.options["vocab_tiles"] == "16"
    assert "vocab_tiles" not in plan_case().workload.options


def test_attention_is_fused_for_types_of_16_bits_on_gpus():
    assert plan_case(precision="f32").workload.options["attention"] == "dot_product"
    for compiler, kernel in (("gpu", "cudnn"), ("tpu", "splash"), (None, "cudnn")):
        plan = plan_case_program(make_case(), {}, compiler=compiler, is_compiled=False)
        assert plan.workload.options["attention"] == kernel
        assert plan.xla_options == ("" if compiler == "tpu" else "framework=maxtext")


@pytest.mark.parametrize(
    ("framework", "notes", "attention"),
    [
        ("Megatron-LM", "", "dot_product"),
        ("Megatron-LM v2.5", "", "dot_product"),
        ("Megatron-LM", "FlashAttention", "cudnn"),
        ("Megatron-LM core 0.14, TE 2.11", "", "cudnn"),
        ("MaxText (JAX/XLA)", "", "cudnn"),
    ],
)
def test_early_megatron_has_no_fused_attention(framework, notes, attention):
    plan = plan_case(framework=framework, notes=notes)
    assert plan.workload.options["attention"] == attention


def test_frameworks_whose_logits_are_products_of_activations_have_16_bits():
    assert plan_case(framework="PyTorch FSDP").workload.options["logits_dtype"] == "bf16"
    assert "logits_dtype" not in plan_case(framework="PyTorch", precision="f32").workload.options
    assert plan_case(framework="MaxText (JAX/XLA)").workload.options["logits_dtype"] == "bf16"
    old = {"hardware": "TPUv5e", "source": "AI-Hypercomputer/maxtext@0a1b2c3 configs/v5e/README.md"}
    assert "logits_dtype" not in plan_case(framework="MaxText", **old).workload.options
    assert plan_case(framework="Paxml (JAX/XLA)").workload.options["logits_dtype"] == "bf16"
    assert "logits_dtype" not in plan_case(framework="T5X (JAX/XLA)").workload.options
    f16 = plan_case(framework="Megatron-LM", precision="fp16").workload.options
    assert {f16[key] for key in ("compute_dtype", "logits_dtype", "weights_dtype")} == {"f16"}


def test_the_batch_of_a_shard_counts_tensor_devices_once():
    plan = plan_case(parallelism="dp=2;fsdp=4;tp=2")
    assert plan.workload.options["batch"] == "4"
    plan = plan_case(parallelism="fsdp=16", global_batch="48")
    assert plan.workload.options["batch"] == "3"


@pytest.mark.parametrize(
    ("texts", "expected"),
    [
        ({"grad_accum": "2"}, ("1", "2")),
        ({"microbatch": "1"}, ("1", "2")),
        ({"microbatch": "3", "grad_accum": "4", "per_device_batch": "12"}, ("3", "4")),
        ({"microbatch": "2", "grad_accum": "1"}, ("2", None)),
        ({"microbatch": "8"}, ("2", None)),
    ],
)
def test_microbatches_are_accumulated(texts, expected):
    options = plan_case(**texts).workload.options
    assert (options["batch"], options.get("accumulate")) == expected


@pytest.mark.parametrize(
    "sizes",
    [
        {"dcn_dp": 2, "dcn_fsdp": 2, "ici_fsdp": 4},
        {"dcn_fsdp": 4, "ici_fsdp": 2, "ici_tp": 2},
        {"dcn_dp": 2, "ici_dp": 1, "ici_fsdp": 2, "ici_tp": 4},
        {"ici_dp": 2, "dcn_fsdp": 2, "ici_fsdp": 4},
    ],
)
def test_slices_have_the_order_of_jax(sizes):
    """The hybrid mesh is made as JAX's: meshes of slices and within one, interleaved by axis."""
    axes = ("dp", "fsdp", "tp")
    between = [sizes.get(f"dcn_{axis}", 1) for axis in axes]
    within = [sizes.get(f"ici_{axis}", 1) for axis in axes]
    whole = {axis: b * w for axis, b, w in zip(axes, between, within, strict=True)}
    numbers = np.arange(np.prod(between) * np.prod(within)).reshape(*between, *within)
    hybrid = numbers.transpose(0, 3, 1, 4, 2, 5).reshape(tuple(whole.values()))
    for form in ("{}={}", "{}_parallelism={}"):
        text = ";".join(form.format(*item) for item in sizes.items())
        plan = plan_case(devices=hybrid.size, parallelism=text, global_batch="64")
        mesh = plan.workload.mesh
        assert [*mesh.values()] == [*whole.values()]
        assert order_devices(mesh, plan.dcn) == hybrid.ravel().tolist()


def test_mixed_precision_of_composer_is_a_type_of_sums():
    for text, expected in (("amp_bf16/DEFAULT", "f32"), ("bf16/PURE", None)):
        assert plan_case(precision=text).workload.options.get("reduce_dtype") == expected


@pytest.mark.parametrize(
    ("row", "is_eager"),
    [
        ({"framework": "PyTorch FSDP (Composer)"}, True),
        ({"framework": "PyTorch FSDP (Composer)", "notes": "torch.compile"}, False),
        ({"framework": "PyTorch FSDP (Composer)", "model": "mixtral-8x7b"}, False),
        ({"framework": "PyTorch torchtitan FSDP+compile"}, False),
        ({"framework": "Megatron-LM core 0.14"}, False),
    ],
)
def test_operators_run_one_by_one_if_nothing_is_compiled(row, is_eager):
    plan = plan_case(**row)
    assert plan.workload.options.get("eager") == ("true" if is_eager else None)
    assert plan.workload.options.get("loss_metrics") == ("2" if is_eager else None)
    assert ("xla_gpu_enable_cublaslt=true" in read_flags(plan.xla_options)) == is_eager
    assert ("memory_limit_slop_factor=1000" in read_flags(plan.xla_options)) == is_eager
    assert any("torch.compile" in text for text in plan.assumptions) == is_eager


@pytest.mark.parametrize(
    ("row", "is_separate"),
    [
        ({"framework": "Megatron-LM core 0.14"}, True),
        ({"framework": "Megatron-LM core 0.14", "model": "mixtral-8x7b"}, True),
        ({"framework": "Megatron-LM", "notes": "--cross-entropy-loss-fusion"}, False),
        ({"framework": "Megatron-LM", "model": "bert-large"}, False),
        ({"framework": "PyTorch torchtitan FSDP+compile"}, False),
    ],
)
def test_operations_of_megatrons_loss_have_kernels_of_their_own(row, is_separate):
    options = plan_case(**row).workload.options
    assert options.get("separate_loss") == ("true" if is_separate else None)


@pytest.mark.parametrize(
    ("row", "copies"),
    [
        ({"framework": "PyTorch torchtitan FSDP+compile"}, ["fsdp_copies", "token_copies"]),
        (
            {"framework": "PyTorch torchtitan", "precision": "fp8 rowwise"},
            ["fsdp_copies", "token_copies"],
        ),
        ({"framework": "PyTorch torchtitan", "precision": "fp8 tensorwise"}, []),
        ({"framework": "PyTorch torchtitan async TP compile"}, ["fsdp_copies"]),
        ({"framework": "PyTorch torchtitan AsyncTP"}, ["fsdp_copies"]),
        ({"framework": "PyTorch, fully_shard (FSDP2)"}, ["fsdp_copies"]),
        ({"framework": "PyTorch FSDP + torch.compile"}, []),
    ],
)
def test_weights_and_tokens_are_copied_around_collectives(row, copies):
    options = plan_case(**row).workload.options
    assert [name for name in ("fsdp_copies", "token_copies") if name in options] == copies


@pytest.mark.parametrize(
    ("row", "has_steps"),
    [
        ({"framework": "PyTorch torchtitan async TP", "parallelism": "fsdp=4;tp=2"}, True),
        ({"framework": "PyTorch torchtitan vanilla TP", "parallelism": "fsdp=4;tp=2"}, False),
        ({"framework": "PyTorch torchtitan AsyncTP", "parallelism": "fsdp=2;tp=2;pp=2"}, True),
        ({"framework": "PyTorch torchtitan async TP", "parallelism": "fsdp=8"}, False),
    ],
)
def test_asynchronous_tensor_parallelism_has_products_in_steps(row, has_steps):
    options = plan_case(devices=8, **row).workload.options
    assert options.get("ring_products") == ("true" if has_steps else None)
    assert options["repeated_heads"] == "true"


def test_precisions_of_8_bits_are_schemes_of_products():
    plan = plan_case(precision="fp8 (TE)", framework="Megatron-LM core 0.14")
    assert plan.workload.options["products"] == "fp8"
    assert any("scales of fp8" in text for text in plan.assumptions)
    plan = plan_case(precision="fp8 rowwise", framework="PyTorch torchtitan")
    assert plan.workload.options["products"] == "fp8_rowwise"
    assert not any("scales of fp8" in text for text in plan.assumptions)
    assert plan_case(precision="amp_fp8/DEFAULT").workload.options["reduce_dtype"] == "f32"


@pytest.mark.parametrize(
    ("row", "scheme"),
    [
        ({}, "fp8_delayed"),
        ({"hardware": "TPUv6e"}, "fp8"),
        ({"model": "mixtral-8x7b"}, "fp8"),
        ({"grad_accum": "2"}, "fp8"),
    ],
)
@pytest.mark.parametrize("framework", ["MaxText", "Paxml"])
def test_scales_are_delayed_where_a_recipe_has_them(framework, row, scheme):
    plan = plan_case(precision="fp8", framework=framework, **row)
    assert plan.workload.options["products"] == scheme
    assert any("scales of fp8" in text for text in plan.assumptions) == (scheme == "fp8")


@pytest.mark.parametrize(
    ("strategy", "remat", "expected"),
    [
        ("FULL_SHARD", "none", "eager_weights"),
        ("SHARD_GRAD_OP", "none", "eager"),
        ("FULL_SHARD", "full (per block)", "full"),
    ],
)
def test_full_shard_gathers_weights_again(strategy, remat, expected):
    plan = plan_case(parallelism=f"fsdp=16;fsdp_strategy={strategy}", remat=remat)
    assert plan.workload.options["remat"] == expected


def test_the_distributed_optimiser_of_megatron_divides_its_state():
    plan = plan_case(
        parallelism="dp=8;tp=2;zero1", framework="Megatron-LM", per_device_batch="1",
        remat="none by the case name",
    )  # fmt: skip
    options = plan.workload.options
    assert (options["zero1"], options["master"], options["remat"]) == ("true", "true", "eager")
    assert (options["weights_dtype"], options["reduce_dtype"]) == ("bf16", "f32")
    assert any("none by the case name" in text for text in plan.assumptions)
    assert "checked_gradients" not in options
    plan = plan_case(parallelism="dp=8;tp=2;zero1", framework="Megatron-LM core 0.14")
    assert plan.workload.options["checked_gradients"] == "true"


def test_nemo_overlaps_and_sums_gradients_in_16_bits():
    framework = "NeMo/Megatron-Core + TransformerEngine"
    plan = plan_case(
        parallelism="dp=4;tp=2;pp=2;vp=2;zero1;sp=2", framework=framework, precision="fp8 (TE)",
        grad_accum="2", per_device_batch="0.5", microbatch="1",
    )  # fmt: skip
    assert plan.case.framework.overlaps_updates
    options = plan.stage_workloads[0]["forward"].options
    assert (options["products"], options["sequence_parallel"]) == ("fp8_te", "true")
    assert (options["accumulator_dtype"], options["master"]) == ("bf16", "true")
    assert not {"reduce_dtype", "checked_gradients", "separate_loss"} & set(options)
    names = ("stored_products", "fused_sums", "ring_products")
    assert [options.get(name) for name in names] == ["true"] * 3
    assert any("gathered in 8 bits" in text for text in plan.assumptions)
    current = plan_case(framework=framework, precision="fp8 current scaling (TE)")
    assert current.workload.options["products"] == "fp8_te_current"
    assert current.workload.options["stored_products"] == "true"
    automodel = plan_case(framework="PyTorch FSDP2 (NeMo Automodel)").case.framework
    assert not (automodel.overlaps_updates or automodel.fuses_sums)
    assert not plan_case(framework="Megatron-LM core 0.14").case.framework.overlaps_updates


AUTOMODEL = {
    "framework": "PyTorch FSDP2 (NeMo Automodel)",
    "remat": "see the YAML in examples/llm_benchmark",
    "notes": "TE + DeepEP; balanced routing, no gradient clipping",
}  # fmt: skip
UNSIZED = dict.fromkeys(("layers", "hidden", "heads", "kv_heads", "ffn", "vocab"), "")
SIZED = re.compile("llama|qwen2")  # models of the row's own dimensions
PARTS = "attention_input,out_proj,mlp_input"


def plan_automodel(model, devices=16, **texts):
    sizes = {} if SIZED.match(model) else UNSIZED
    return plan_case(devices, **{**AUTOMODEL, **sizes, "model": model, **texts})


@pytest.mark.parametrize(
    ("model", "parallelism", "remat", "file"),
    [
        ("deepseek3-671b", "fsdp=16;ep=16", "full", "deepseek/deepseek_v3_te_deepep"),
        ("kimi-k2-1t", "fsdp=16;ep=16", "full", "kimi/kimi_k2_te_deepep"),
        ("qwen3-30b-a3b", "fsdp=16;ep=16", "full", "qwen/qwen3_moe_30b_te_deepep"),
        ("gpt-oss-120b", "fsdp=16;ep=16", "eager", "gpt_oss/gptoss_120b_te_deepep"),
        ("gpt-oss-20b", "fsdp=16;ep=16", "eager", "gpt_oss/gptoss_20b_te_deepep"),
        (
            "llama3.1-70b-lora", "fsdp=8;tp=2", PARTS,
            "llama3_3/custom_llama3_3_70b_instruct_peft_benchmark",
        ),
        (
            "llama3.1-70b", "fsdp=16", PARTS,
            "llama3_3/custom_llama3_1_70b_pretrain_benchmark_8nodes",
        ),
        ("llama3-8b-lora", "fsdp=16", "eager_weights", "llama3_1/llama3_1_8b_peft_benchmark"),
        ("qwen2.5-32b-lora", "fsdp=8;tp=2", PARTS, "qwen/custom_qwen2_5_32b_peft_benchmark"),
    ],
)  # fmt: skip
def test_benchmarks_of_automodel_say_what_is_computed_again(model, parallelism, remat, file):
    plan = plan_automodel(model, parallelism=parallelism)
    assert not plan.reasons
    assert plan.workload.options["remat"] == remat
    named = f"NVIDIA-NeMo/Automodel@36044ad examples/llm_benchmark/{file}.yaml"
    assert any(text.startswith("rematerialisation") and named in text for text in plan.assumptions)
    stated = plan_automodel(model, parallelism=parallelism, remat="full")
    assert stated.workload.options["remat"] == "full"
    assert not any("rematerialisation" in text for text in stated.assumptions)


@pytest.mark.parametrize(
    "texts",
    [{"model": "llama3-3b"}, {"model": "gpt-oss-20b", "hardware": "GB200"}],
)
def test_files_of_automodel_that_are_not_known_are_a_reason(texts):
    plan = plan_automodel(**texts)
    assert "no benchmark that is known" in plan.reasons["remat"]
    plan = plan_automodel("llama3-3b", remat="default")
    assert plan.workload.options["remat"] == "eager_weights"
    assert "rematerialisation none, the default of automodel" in plan.assumptions


def test_automodel_keeps_weights_and_moments_in_the_type_of_the_checkpoint():
    names = (
        "weights_dtype",
        "moments_dtype",
        "reduce_dtype",
        "accumulator_dtype",
        "master",
        "clip",
    )

    def plan_state(devices, model, **texts):
        options = plan_automodel(model, devices, **texts).workload.options
        return {name: options[name] for name in names if name in options}

    narrow = {"weights_dtype": "bf16", "moments_dtype": "bf16", "clip": "0"}
    sums = {"accumulator_dtype": "bf16"}
    alone = plan_state(1, model="llama3-8b-lora", parallelism="fsdp=1")
    assert alone == {**narrow, **sums}
    divided = plan_state(8, model="qwen2.5-32b-lora", parallelism="fsdp=4;tp=2")
    assert divided == {**narrow, "reduce_dtype": "f32"}
    # FSDP2 divides no expert if the devices of experts are all devices
    experts = plan_state(8, model="gpt-oss-20b", parallelism="fsdp=8;ep=8")
    assert experts == {**narrow, **sums, "reduce_dtype": "f32"}
    # TransformerEngine's FusedAdam has moments in f32
    wide = plan_state(16, model="llama3.1-70b", parallelism="fsdp=16", notes="mock data")
    assert wide == {"weights_dtype": "bf16", "reduce_dtype": "f32"}


def test_automodel_compiles_the_layers_of_some_benchmarks():
    def plan_kernels(devices, model, **texts):
        options = plan_automodel(model, devices, **texts).workload.options
        return options.get("eager"), options.get("fsdp_copies"), options.get("ring_products")

    single = plan_kernels(1, model="llama3-8b-lora", parallelism="fsdp=1")
    assert single == ("true", None, None)
    compiled = plan_kernels(8, model="qwen2.5-32b-lora", parallelism="fsdp=4;tp=2")
    assert compiled == (None, "true", None)
    asynchronous = plan_kernels(8, model="llama3.1-70b-lora", parallelism="fsdp=4;tp=2")
    assert asynchronous == (None, "true", "true")
    many = plan_kernels(8, model="llama3-8b-lora", parallelism="fsdp=8")
    assert many == ("true", "true", None)


def test_automodel_compiles_no_layer_with_experts():
    plan = plan_automodel("gpt-oss-20b", 8, parallelism="fsdp=8;ep=8")
    options = plan.workload.options
    assert (options["eager"], options["fsdp_copies"]) == ("true", "true")
    assert "disable_async_collectives=ALLTOALL" in read_flags(plan.xla_options)
    stages = plan_automodel("deepseek3-671b", 256, parallelism="fsdp=64;pp=4;ep=64;vp=8")
    options = stages.stage_workloads[0]["forward"].options
    assert (options["eager"], options.get("fsdp_copies")) == ("true", None)
    # 48 turns do not divide the tokens of a sequence
    routed = plan_automodel("kimi-k2", 8, parallelism="fsdp=8;ep=8")
    assert "eager" not in routed.workload.options
    assert "operators are fused, as by torch.compile" in routed.assumptions


def test_automodel_notes_collectives_that_it_has_less_often():
    texts = {"parallelism": "fsdp=8;ep=8", "per_device_batch": "8", "grad_accum": "4"}
    plan = plan_automodel("qwen3-30b-a3b", 8, **texts)
    assert plan.workload.options["spread_weights"] == "true"
    reduced, gathered = (
        "gradients reduce-scattered for each microbatch, not once in a step",
        "weights gathered for each pass of each microbatch, not once in a step",
    )
    assert {reduced, gathered} <= set(plan.assumptions)
    plan = plan_automodel("gpt-oss-20b", 8, **texts)
    assert reduced in plan.assumptions and gathered not in plan.assumptions
    plan = plan_automodel("llama3-8b-lora", 1, **{**texts, "parallelism": "fsdp=1"})
    assert not {reduced, gathered} & set(plan.assumptions)


@pytest.mark.parametrize(
    ("model", "devices", "dispatch"),
    [
        ("deepseek3-671b", 64, "in_turn"),
        ("gpt-oss-20b", 8, "in_turn"),
        ("kimi-k2-1t", 32, None),  # 384 experts in 48 turns
    ],
)
def test_experts_of_automodel_take_tokens_in_turn(model, devices, dispatch):
    plan = plan_automodel(model, devices, parallelism=f"fsdp={devices};ep={devices}")
    assert plan.workload.options.get("dispatch") == dispatch
    assert any("each device gets one message" in text for text in plan.assumptions) == bool(
        dispatch
    )
    plan = plan_case(devices, model=model, parallelism=f"ep={devices}", **UNSIZED)
    assert "dispatch" not in plan.workload.options


@pytest.mark.parametrize(
    ("model", "library"),
    [
        ("deepseek3-671b", "cudnn"),
        ("gpt-oss-20b", "flex-attention"),
        ("llama3-8b-lora", "flash-attention-2"),
    ],
)
def test_attention_of_automodel_is_that_of_its_benchmark(model, library):
    outcome = CaseOutcome(make_case(model=model, **AUTOMODEL))
    assert choose_attention_library(outcome, "H100_80GB") == library


def test_pipelines_whose_gradients_are_not_clipped_have_no_norm():
    texts = {"parallelism": "fsdp=4;pp=4;vp=2;ep=4", "grad_accum": "4", "per_device_batch": "1"}
    plan = plan_automodel("deepseek3-671b", **texts)
    assert plan.stage_workloads[0]["update"].options["clip"] == "0"
    assert not any("clipped" in text for text in plan.assumptions)
    assert not plan.case.framework.overlaps_updates


def test_nemo_without_a_pipeline_is_one_rank_with_a_stage_for_each_layer():
    texts = {
        "framework": "NeMo/Megatron-Core + TransformerEngine", "precision": "fp8 (TE)",
        "layers": "4", "per_device_batch": "1",
    }  # fmt: skip
    plan = plan_case(8, parallelism="dp=4;cp=2;zero1", **{**texts, "per_device_batch": "0.5"})
    assert (plan.schedule.ranks, plan.schedule.stages_per_rank) == (1, 4)
    assert [stage["update"].options["position"] for stage in plan.stage_workloads] == [
        "first", "middle", "middle", "last",
    ]  # fmt: skip
    assert plan.stage_workloads[0]["forward"].options["ring_branches"] == "true"
    assert any("norm of each layer" in text for text in plan.assumptions)
    adapters = "LoRA rank 16 on attention (qkv and dense)"
    for changes in (
        {"parallelism": "dp=8"},
        {"parallelism": "dp=8;zero1", "notes": adapters},
        {"parallelism": "tp=8;zero1;sp=8", "per_device_batch": "0.125"},
        {"parallelism": "dp=8;zero1", "framework": "Megatron-LM core 0.14"},
    ):
        plan = plan_case(8, **{**texts, **changes})
        assert plan.schedule is None
        assert not plan.reasons


@pytest.mark.parametrize(
    ("source", "hardware", "products"),
    [
        ("v5.1@441d65f44 Oracle/results", "B200_180GB", "fp8_te_current"),
        ("v5.1@441d65f44 Cisco/results", "H100_80GB_SXM", "fp8_te"),
        ("v5.0@0fdc28f01 NVIDIA/results", "GB200_NVL72", "fp8_te"),
    ],
)
def test_mlperf_rows_scale_as_their_implementation(source, hardware, products):
    plan = plan_case(
        8, model="llama3.1-8b", source=f"mlcommons/training_results_{source}",
        framework="NeMo/Megatron-Core + TransformerEngine", precision="fp8 (TE)",
        hardware=hardware, parallelism="dp=8;zero1",
    )  # fmt: skip
    options = plan.workload.options
    assert (options["products"], options["stored_products"]) == (products, "true")
    is_current = any("from the values themselves, but of weights" in x for x in plan.assumptions)
    assert is_current == (products == "fp8_te_current")


@pytest.mark.parametrize(
    ("source", "hardware", "option"),
    [
        ("v5.1@441d65f44 NVIDIA/results", "GB300_NVL72", "exchange_heads"),
        ("v5.0@0fdc28f01 Dell/results", "H200_141GB_SXM", "exchange_heads"),
        ("v5.1@441d65f44 Cisco/results", "H100_80GB_SXM", "ring_branches"),
        ("v4.1@b87b9e396 Azure/results", "H200_141GB_SXM", "ring_branches"),
    ],
)
def test_mlperf_rows_divide_attention_as_their_implementation(source, hardware, option):
    plan = plan_case(
        8, model="llama2-70b-lora", source=f"mlcommons/training_results_{source}",
        framework="NeMo/Megatron-Core + TransformerEngine", precision="fp8 (TE)",
        notes="LoRA rank 16 on attention (qkv and dense)", hardware=hardware,
        parallelism="dp=4;cp=2", per_device_batch="0.5",
    )  # fmt: skip
    options = plan.workload.options
    assert {"exchange_heads", "ring_branches"} & {*options} == {option}
    assert any("cp_comm_type" in text for text in plan.assumptions) == (option == "exchange_heads")


@pytest.mark.parametrize(
    ("source", "hardware", "separate"),
    [
        ("v5.1@441d65f44 NVIDIA/results", "GB300_NVL72", "megatron_te"),
        ("v5.1@441d65f44 Cisco/results", "H100_80GB_SXM", "megatron"),
        ("v5.1@441d65f44 AMD/results", "MI350X", None),
        ("v5.0@0fdc28f01 Oracle/results", "GB200_NVL72", "megatron"),
        ("v5.0@0fdc28f01 Dell/results", "H200_141GB_SXM", "megatron"),
        ("v4.1@b87b9e396 NVIDIA/results", "B200_180GB", "megatron"),
        ("v4.0@6fe954378 NVIDIA/results", "H100_80GB_SXM", "megatron"),
    ],
)
def test_mlperf_rows_run_operators_as_their_implementation(source, hardware, separate):
    plan = plan_case(
        8, model="llama2-70b-lora", source=f"mlcommons/training_results_{source}",
        framework="NeMo/Megatron-Core + TransformerEngine", precision="fp8 (TE)",
        notes="LoRA rank 16 on attention (qkv and dense)", hardware=hardware,
        parallelism="dp=8;zero1", per_device_batch="1",
    )  # fmt: skip
    assert plan.workload.options.get("separate_kernels") == separate
    stated = [text for text in plan.assumptions if "kernels of their own" in text]
    assert len(stated) == (separate is not None)


def test_layers_are_a_loop_unless_the_row_says_otherwise():
    assert plan_case(notes="2 A3 VM(s); scan_layers False").workload.options["scan"] == "false"
    assert plan_case(framework="MaxText (JAX), scan off").workload.options["scan"] == "false"


@pytest.mark.parametrize(
    ("framework", "remat", "scan"),
    [
        ("PyTorch FSDP", "none", "false"),
        ("PyTorch FSDP", "full", "true"),
        ("MaxText (JAX)", "none", "true"),
    ],
)
def test_layers_of_pytorch_that_keep_their_activations_are_unrolled(framework, remat, scan):
    plan = plan_case(framework=framework, remat=remat)
    assert plan.workload.options["scan"] == scan
    assert ("layers in a loop" in plan.assumptions) == (
        scan == "true" and "MaxText" not in framework
    )
    assert "layers in a loop" in plan_case(framework="AXLearn (JAX/XLA)").assumptions


def test_sequence_parallelism_needs_the_devices_of_tensor_parallelism():
    for text, expected in (("dp=2;tp=8;sp=8", "true"), ("dp=2;tp=8;sp=1", None)):
        options = plan_case(parallelism=text, global_batch="2").workload.options
        assert options.get("sequence_parallel") == expected


def test_images_have_a_recipe_of_their_own():
    texts = {
        "model": "ResNet-50 v1.5", "parallelism": "dp=4;fsdp=1", "seq_len": "192x192x3",
        "precision": "fp16 AMP", "per_device_batch": "64", "framework": "PyTorch (DDP)",
    }  # fmt: skip
    plan = plan_case(4, **texts)
    assert (plan.workload.recipe, plan.workload.mesh) == ("resnet", {"data": 4})
    assert plan.workload.options == {
        "depth": "50", "image": "192", "batch": "64", "dtype": "f16", "norm_images": "own",
    }  # fmt: skip
    assert any("own images" in text for text in plan.assumptions)
    for change, kind in (
        ({"parallelism": "fsdp=4"}, "parallelism"),
        ({"precision": "fp8"}, "precision"),
        ({"seq_len": "192x96"}, "sequence"),
        ({"grad_accum": "2"}, "batch"),
    ):
        assert list(plan_case(4, **{**texts, **change}).reasons) == [kind]


@pytest.mark.parametrize(
    ("row", "waits"),
    [
        ({"framework": "Megatron-LM core 0.14"}, True),
        ({"framework": "Megatron-LM core 0.14", "notes": "overlap-grad-reduce"}, False),
        ({"framework": "Megatron-LM core 0.14", "parallelism": "dp=4;tp=4"}, False),
        ({"framework": "JAX"}, False),
    ],
)
def test_megatron_waits_for_collectives_but_those_of_tensor_parallelism(row, waits):
    plan = plan_case(**{"parallelism": "dp=16", **row})
    assert ("disable_async_collectives" in read_flags(plan.xla_options)) == waits
    assert ("latency_hiding_scheduler=true" in read_flags(plan.xla_options)) != waits
    assert any("no overlap" in text for text in plan.assumptions) == waits


@pytest.mark.parametrize("microbatch", [8, 16, 32, 64])
def test_binned_sequences_keep_their_tokens_and_pairs(microbatch):
    """The mean of the bins' lengths is 279 tokens, and of their squares that of 329 tokens."""
    source = "NVIDIA/DeepLearningExamples PyTorch/LanguageModeling/BERT/README.md"
    options = plan_case(
        model="bert-large", parallelism="dp=16", seq_len="512", microbatch=str(microbatch),
        per_device_batch=str(microbatch), remat="none", framework="PyTorch", source=source,
        kv_heads="8",
    ).workload.options  # fmt: skip
    batch, tokens, predictions = (int(options[k]) for k in ("batch", "sequence", "predictions"))
    assert batch * tokens == pytest.approx(microbatch * 279.2, rel=0.05)
    assert batch * tokens**2 == pytest.approx(microbatch * 328.8**2, rel=0.05)
    assert batch * predictions == pytest.approx(microbatch * 0.15 * 255.8, rel=0.02)


@pytest.mark.parametrize(("sequence", "predictions"), [("128", "20"), ("512", "80"), ("256", "39")])
def test_bert_predicts_masked_tokens(sequence, predictions):
    texts = {
        "model": "bert-large", "parallelism": "dp=16", "seq_len": sequence, "grad_accum": "4",
        "global_batch": "1024", "microbatch": "16", "precision": "fp16 AMP", "remat": "none",
        "framework": "PyTorch (21.11), LAMB", "kv_heads": "8",
    }  # fmt: skip
    plan = plan_case(**texts)
    assert (plan.workload.recipe, plan.reasons) == ("bert", {})
    expected = {
        "predictions": predictions, "optimiser": "lamb", "logits_dtype": "f16", "scan": "false",
        "attention": "dot_product", "remat": "eager", "accumulate": "4", "batch": "16",
    }  # fmt: skip
    assert plan.workload.options.items() >= expected.items()
    assert f"{predictions} predicted tokens of a sequence, no dropout" in plan.assumptions
    fused = plan_case(**{**texts, "notes": "SDPA"}).workload.options
    assert fused["attention"] == "cudnn"
    adam = plan_case(**{**texts, "framework": "JAX", "precision": "bf16"}).workload.options
    assert not {"optimiser", "logits_dtype"} & set(adam)
    source = "NVIDIA/DeepLearningExamples PyTorch/LanguageModeling/BERT/README.md"
    binned = plan_case(**{**texts, "source": source})
    is_binned = any("padded to bins of 64" in text for text in binned.assumptions)
    assert is_binned == (sequence == "512")
    for text in ("dp=2;tp=8;sp=8", "dp=4;cp=4"):
        assert list(plan_case(**{**texts, "parallelism": text}).reasons) == ["parallelism"]


def test_stacks_of_t5_have_layers_and_tokens_of_their_own():
    texts = {
        "model": "t5-v1.1-xl", "parallelism": "dp=16", "layers": "12+24", "kv_heads": "8",
        "seq_len": "512 enc / 114 dec", "remat": "t5x config", "framework": "T5X (JAX/XLA:GPU)",
    }  # fmt: skip
    plan = plan_case(**texts)
    assert (plan.workload.recipe, plan.reasons) == ("t5", {})
    expected = {
        "encoder_layers": "12", "layers": "24", "sequence": "512", "targets": "114",
        "remat": "none", "scan": "false", "attention": "dot_product",
    }  # fmt: skip
    assert plan.workload.options.items() >= expected.items()
    assert "rematerialisation none, the default of t5x" in plan.assumptions
    assert "all_reduce_combine_threshold_bytes=136314880" in read_flags(plan.xla_options)
    assert "enable_triton_gemm=false" in read_flags(plan.xla_options)
    plain = plan_case(**{**texts, "layers": "24", "seq_len": "512"})
    assert plain.workload.options.items() >= {"layers": "24", "targets": "114"}.items()
    assert "114 tokens of the decoder's sequence" in plain.assumptions
    assert "encoder_layers" not in plain.workload.options
    wrong = plan_case(**{**texts, "layers": "24 each", "seq_len": "512 or so"})
    assert set(wrong.reasons) == {"model", "sequence"}


def test_experts_are_an_axis_of_the_mesh():
    plan = plan_case(model="mixtral-8x7b", parallelism="fsdp=2;ep=8")
    assert plan.workload.recipe == "moe"
    assert plan.workload.mesh == {"data": 1, "fsdp": 2, "expert": 8, "tensor": 1}
    assert plan.workload.options["batch"] == "2"
    assert any("capacity of experts" in text for text in plan.assumptions)


EXPERT_WORDS = "18432 dense (3 layers); 2048 x 256 experts, top 8, 1 shared"
DEEPSEEK = {
    "model": "deepseek3-671b", "layers": "61", "hidden": "7168", "heads": "128", "kv_heads": "128",
    "vocab": "129280", "parallelism": "dcn_fsdp=8;ici_ep=8", "per_device_batch": "7",
}  # fmt: skip


@pytest.mark.parametrize(
    ("ffn", "expected"),
    [
        (EXPERT_WORDS, {"mlp": 18432, "dense_layers": 3, "expert_mlp": 2048, "experts": 256,
                        "top_k": 8, "shared_experts": 1}),
        ("18432 dense (1 layer); 2048 x 384 experts, top 8, 1 shared",
         {"mlp": 18432, "dense_layers": 1, "expert_mlp": 2048, "experts": 384, "top_k": 8,
          "shared_experts": 1}),
        ("18432/2048x256", {"mlp": 18432, "expert_mlp": 2048, "experts": 256}),
        ("2880x32", {"expert_mlp": 2880, "experts": 32}),
        ("2880 x 32 experts, top 4", {"expert_mlp": 2880, "experts": 32, "top_k": 4}),
        ("18432", {}),
        ("some 2048 x 256", {}),
    ],
)  # fmt: skip
def test_experts_are_read_in_words(ffn, expected):
    assert read_expert_sizes(ffn) == expected


def test_experts_in_words_are_those_of_the_published_model():
    for ffn in (EXPERT_WORDS, "18432/2048x256"):
        plan = plan_case(64, ffn=ffn, **DEEPSEEK)
        assert not plan.reasons
        options = plan.workload.options
        assert options["model"] == "deepseek-v3" and "mlp" not in options
        assert "experts" not in options and "expert_mlp" not in options
    assert not plan_case(
        8, ffn="2880x32", model="gpt-oss-20b", parallelism="ep=8", layers="24", hidden="2880",
        heads="64", kv_heads="8", vocab="201088",
    ).reasons  # fmt: skip


@pytest.mark.parametrize(
    ("texts", "reason"),
    [
        ({"ffn": "18432/2048x128"}, "experts 128, but deepseek-v3 has 256"),
        ({"ffn": EXPERT_WORDS.replace("3 layers", "1 layer")}, "dense_layers 1, .* has 3"),
        ({"ffn": "1024x256"}, "expert_mlp 1024, but deepseek-v3 has 2048"),
        ({"ffn": "some 2048 x 256"}, "ffn is 'some 2048 x 256', not a number"),
        ({"ffn": "2048x256", "model": "llama3-8b"}, "'llama3-8b' has no experts"),
    ],
)
def test_experts_in_words_that_contradict_the_model_are_a_reason(texts, reason):
    assert re.search(reason, plan_case(64, **{**DEEPSEEK, **texts}).reasons["model"])


def test_experts_in_words_are_options_of_a_model_that_is_not_published():
    plan = plan_case(64, **{**DEEPSEEK, "model": "deepseek-v3-proxy", "ffn": "9216/1024x128"})
    expected = {"mlp": "9216", "expert_mlp": "1024", "experts": "128", "dense_layers": "1"}
    assert plan.workload.options.items() >= expected.items()


@pytest.mark.parametrize(
    ("framework", "notes", "expected", "assumption"),
    [
        ("MaxText (JAX/XLA:GPU)", "run a; sparse_matmul=false, capacity_factor 2.0; b",
         {"dispatch": "masks", "capacity": "2.0"}, ""),
        ("PyTorch FSDP2", "mock data, balanced routing", {"capacity": "1"},
         "each expert gets as many tokens"),
        ("MaxText (JAX/XLA:GPU)", "capacity_factor=1.5", {"capacity": "1.5"}, ""),
        ("MaxText (JAX/XLA:GPU)", "", {}, "the capacity of experts is that of the recipe moe"),
    ],
)  # fmt: skip
def test_the_dispatch_of_experts_is_that_of_the_row(framework, notes, expected, assumption):
    plan = plan_case(64, **{**DEEPSEEK, "framework": framework, "notes": notes, "ffn": "18432"})
    options = plan.workload.options
    assert {key: options[key] for key in ("dispatch", "capacity") if key in options} == expected
    about_experts = [text for text in plan.assumptions if "expert" in text]
    assert len(about_experts) == bool(assumption)
    assert not assumption or about_experts[0].startswith(assumption)


def test_sinks_are_left_out_where_the_kernel_has_none():
    texts = {"model": "gpt-oss-120b", "hidden": "2880", "heads": "64", "parallelism": "ep=8"}
    plan = plan_case(8, **texts)
    assert plan.workload.options["sinks"] == "false"
    assert "attention without sinks" in plan.assumptions
    plan = plan_case_program(make_case(8, **{**texts, "hardware": "TPUv5e"}), {}, compiler="tpu")
    assert "sinks" not in plan.workload.options
    assert "sinks" not in plan_case().workload.options


def test_experts_that_maxtext_sorts_tokens_for():
    """With experts on other devices it has a buffer for the largest load of any device."""
    texts = {**DEEPSEEK, "ffn": "18432", "notes": "sparse_matmul=true, grouped GEMM"}
    plan = plan_case(64, **texts)
    assert plan.workload.options["dispatch"] == "ragged"
    assert "each device receives as many tokens as it sends" in "; ".join(plan.assumptions)
    plan = plan_case(64, **{**texts, "parallelism": "fsdp=64"})
    assert plan.workload.options["dispatch"] == "dropless"
    assert not [text for text in plan.assumptions if "expert" in text]


def test_a_library_that_joins_messages_is_an_assumption():
    texts = {**DEEPSEEK, "ffn": "18432", "notes": "TE + DeepEP; balanced routing"}
    phrase = "each expert of a token gets a message of its own, not each host as by DeepEP"
    assert phrase in plan_case(64, **texts).assumptions
    texts |= {"parallelism": "fsdp=64"}
    assert phrase not in plan_case(64, **texts).assumptions


@pytest.mark.parametrize(
    ("framework", "parallelism", "is_spread"),
    [
        ("MaxText (JAX/XLA:GPU)", "dcn_fsdp=8;ici_ep=8", True),
        ("PyTorch FSDP2 (NeMo Automodel)", "fsdp=64;ep=64", True),
        ("MaxText (JAX/XLA:GPU)", "fsdp=64", False),
        ("Megatron-LM", "dp=64;ep=8", False),
        ("PyTorch FSDP2 (NeMo Automodel)", "fsdp=16;pp=4;ep=16", False),  # stages have no fsdp
    ],
)
def test_weights_outside_of_experts_are_spread_as_by_the_framework(
    framework, parallelism, is_spread
):
    plan = plan_case(64, **{
        **DEEPSEEK, "ffn": "18432", "framework": framework, "parallelism": parallelism,
        "per_device_batch": "4",
    })  # fmt: skip
    assert plan.workload.options.get("spread_weights", "false") == str(is_spread).lower()


def test_dense_products_of_all_experts_are_refused():
    plan = plan_case(64, **{**DEEPSEEK, "notes": "sparse_matmul=false", "ffn": "18432"})
    assert "capacity_factor" in plan.reasons["model"]


def test_axes_between_hosts_and_within_them_make_the_mesh_of_maxtext():
    """MaxText gives each axis its devices between hosts times those within one."""
    for text, mesh, dcn in (
        ("dcn_fsdp=8;ici_ep=8", (8, 8), {"fsdp": 8}),
        ("dcn_fsdp=4;dcn_ep=2;ici_ep=8", (4, 16), {"fsdp": 4, "expert": 2}),
        ("dcn_fsdp=1;dcn_ep=8;ici_ep=8", (1, 64), {"fsdp": 1, "expert": 8}),
        ("dcn_fsdp=8;ici_fsdp=2;ici_ep=4", (16, 4), {"fsdp": 8}),
    ):
        plan = plan_case(64, **{**DEEPSEEK, "ffn": "18432", "parallelism": text})
        fsdp, expert = mesh
        assert plan.workload.mesh == {"data": 1, "fsdp": fsdp, "expert": expert, "tensor": 1}
        assert plan.dcn == dcn
        ids = np.array(order_devices(plan.workload.mesh, plan.dcn)).reshape(fsdp, expert)
        hybrid = np.arange(64).reshape(
            dcn.get("fsdp", 1), dcn.get("expert", 1), fsdp // dcn.get("fsdp", 1), -1
        )
        expected = hybrid.transpose(0, 2, 1, 3).reshape(fsdp, expert)
        np.testing.assert_array_equal(ids, expected)


def test_experts_of_megatron_are_part_of_data_parallelism():
    plan = plan_case(
        model="deepseek-v3-proxy", parallelism="dp=16;ep=8;tp=1", framework="Megatron-LM",
        per_device_batch="1", remat="none",
    )  # fmt: skip
    assert plan.workload.mesh == {"data": 2, "fsdp": 1, "expert": 8, "tensor": 1}
    assert plan.workload.options["batch"] == "1"
    assert plan.workload.options["dense_layers"] == "1"  # 3 of the whole model


def test_pipelines_have_the_schedule_of_their_row():
    plan = plan_case(parallelism="pp=2;vp=2;tp=2;dp=4", framework="Megatron-LM", grad_accum="2",
                     per_device_batch="0.5", microbatch="1")  # fmt: skip
    assert plan.schedule is not None
    schedule = plan.schedule
    assert (schedule.name, schedule.ranks, schedule.stages_per_rank) == ("interleaved", 2, 2)
    assert schedule.microbatches == 2 and "schedule interleaved" in plan.assumptions
    last = plan.stage_workloads[-1]["update"]
    assert last.mesh == {"data": 4, "tensor": 2} and last.options["layers"] == "1"
    torch = plan_case(parallelism="fsdp=4;pp=4", framework="torchtitan interleaved 1F1B",
                      layers="8", per_device_batch="2", microbatch="8")  # fmt: skip
    assert torch.schedule is not None and torch.schedule.stages == 8
    assert torch.stage_workloads[0]["forward"].mesh == {"data": 4, "tensor": 1}
    assert torch.stage_workloads[0]["forward"].options["zero1"] == "true"
    assert torch.schedule.microbatches == 4
    assert "4 microbatches, as many as ranks of the pipeline" in torch.assumptions
    assert "two stages for each rank" in torch.assumptions


def test_options_of_the_user_replace_those_of_rows():
    plan = plan_case(changes={"remat": "none", "batch": "1"}, remat="whatever the framework does")
    assert not plan.reasons
    assert (plan.workload.options["remat"], plan.workload.options["batch"]) == ("none", "1")


@pytest.mark.parametrize(
    ("texts", "kind", "reason"),
    [
        ({"model": "t5-xl"}, "model", "no recipe builds the model 't5-xl'"),
        ({"layers": "", "vocab": ""}, "model", "layers, vocab missing"),
        ({"layers": "24+24"}, "model", "layers is '24\\+24', not a number"),
        ({"seq_len": "224x224x3"}, "sequence", "seq_len is '224x224x3'"),
        ({"precision": "nvfp4"}, "precision", r"computes in 'nvfp4'"),
        ({"precision": "nvfp4", "framework": "NeMo + TE"}, "compile", "no kernels that convert"),
        ({"parallelism": "pp=8;fsdp=2"}, "parallelism", "4 layers cannot fill 8 stages"),
        ({"parallelism": "cp=2;fsdp=8", "model": "gemma2-9b"}, "parallelism", "and windows"),
        ({"parallelism": "fsdp=8"}, "parallelism", "makes 8 devices, not 16"),
        ({"parallelism": "3-D"}, "parallelism", "states no sizes"),
        ({"parallelism": "pp=2;dp=2;fsdp=4;ici_dp=2;dcn_fsdp=2"}, "parallelism", "no pipeline"),
        ({"parallelism": "fsdp=16;dcn_fsdp=2;ici_fsdp=4"}, "parallelism", "2 x 4 devices of"),
        ({"parallelism": "fsdp=16;fsdp_strategy=MY_SHARD"}, "parallelism", "strategy MY_SHARD"),
        ({"remat": "custom: context on device; tiling"}, "remat", "no recipe has"),
        ({"remat": "custom: everything on device"}, "remat", "no recipe has"),
        ({"remat": "selective"}, "remat", "'selective' does not say which activations are"),
        ({"per_device_batch": "0.1"}, "batch", "make no whole batch"),
        ({"global_batch": "17"}, "batch", "17 sequences cannot be divided over 16"),
        ({"grad_accum": "4"}, "batch", "2 sequences of a batch shard are not 4 microbatches"),
        ({"microbatch": "2", "grad_accum": "2"}, "batch", "are not 2 microbatches of 2"),
        ({"microbatch": "3", "per_device_batch": "4"}, "batch", "are not 2 microbatches of 3"),
    ],
)
def test_what_no_recipe_can_express_is_a_reason(texts, kind, reason):
    plan = plan_case(**texts)
    assert plan.workload is None and list(plan.reasons) == [kind]
    assert re.search(reason, plan.reasons[kind])


def test_fsdp_of_a_row_without_sizes_divides_the_width():
    plan = plan_case(128, hidden="2880", heads="64", parallelism="see recipe", per_device_batch="1")
    assert plan.workload.mesh == {"data": 2, "fsdp": 64, "tensor": 1}
    assert "fsdp over 64 of 128 devices ('see recipe')" in plan.assumptions


def test_fsdp_of_a_row_without_sizes_divides_the_width_of_its_model():
    unstated = dict.fromkeys(("hidden", "heads", "kv_heads", "parallelism"), "")
    plan = plan_case(24, model="llama2-7b", **unstated)
    assert plan.workload.mesh == {"data": 3, "fsdp": 8, "tensor": 1}


@pytest.mark.parametrize(
    ("framework", "devices", "expected"),
    [
        ("PyTorch FSDP", 24, "weights of width 512 are padded to 528, as fsdp=24 needs"),
        ("PyTorch FSDP", 16, None),
        ("MaxText (JAX/XLA:GPU)", 24, None),  # refused when the program is built
    ],
)
def test_fsdp_of_pytorch_pads_weights(framework, devices, expected):
    plan = plan_case(devices, framework=framework, parallelism=f"fsdp={devices}")
    assert plan.workload.options.get("pad_weights") == ("true" if expected else None)
    assert [text for text in plan.assumptions if "padded" in text] == ([expected] * bool(expected))


def test_what_a_row_leaves_open_is_an_assumption():
    texts = {"model": "llama2-7b", "hardware": "H100_80GB_SXM"}
    case = TrainingCase("a", 8, 1.0, texts, 2)
    plan = plan_case_program(case, {}, compiler="gpu")
    assert plan.workload.options["model"] == "llama2-7b"
    assert plan.workload.mesh == {"data": 1, "fsdp": 8, "tensor": 1}
    for word in (
        "4096 tokens",
        "bf16",
        "in a loop",
        "fsdp over all 8",
        "minimal",
        "one sequence",
        "XLA flags",
    ):
        assert any(word in text for text in plan.assumptions), word


@given(st.sampled_from(REMAT_POLICIES))
def test_policies_are_recognised_alone_or_in_parentheses(policy):
    for text in (policy, f"{policy} (MaxText)", f"custom: some on device ({policy})"):
        assert plan_case(remat=text).workload.options["remat"] == policy


@pytest.mark.parametrize(
    ("text", "remat"),
    [
        ("custom: layer input, q,k proj offloaded to host",
         "decoder_layer_input:host,query_proj:host,key_proj:host"),
        ("custom: context and mlpwo offloaded", "context:host,mlpwo:host"),
        ("custom: query,qkv,out proj + mlpwo on device",
         "query_proj,key_proj,value_proj,out_proj,mlpwo"),
        ("qkv proj and input offloaded",
         "query_proj:host,key_proj:host,value_proj:host,decoder_layer_input:host"),
    ],
)  # fmt: skip
def test_activations_are_kept_as_rows_say_in_words(text, remat):
    assert plan_case(remat=text).workload.options["remat"] == remat


def test_policies_are_those_of_the_recipes():
    pytest.importorskip("jax")
    from typing import get_args

    from hespas.recipes.remat_policies import RematPolicy

    assert get_args(RematPolicy) == REMAT_POLICIES


BY_PRECISION = (
    "(bf16: AR/AG 2 GiB, RS 8 GiB/256, from 64 nodes /512; fp8: AR 1 GiB, AG 512 MiB, RS 8/4 MiB)"
)


@pytest.mark.parametrize(
    ("notes", "hosts", "sizes"),
    [
        ("AR/AG combine 128 MiB, RS 64 MiB, latency hiding", 1, (2**27, 2**27, 2**26)),
        ("AR/AG combine 2 GiB, RS 8 GiB/256 (8 GiB/512 from 64 nodes)", 8, (2**31, 2**31, 2**25)),
        ("AR/AG combine 2 GiB, RS 8 GiB/256 (8 GiB/512 from 64 nodes)", 64, (2**31, 2**31, 2**24)),
        (BY_PRECISION, 64, (2**31, 2**31, 2**24)),
        ("AR, AG and RS combine 8 GiB", 8, (None, 2**33, 2**33)),
    ],
)  # fmt: skip
def test_thresholds_are_read_from_notes(notes, hosts, sizes):
    names = ("all_reduce", "all_gather", "reduce_scatter")
    assert read_combine_flags(notes, hosts) == [
        f"--xla_gpu_{name}_combine_threshold_bytes={size}"
        for name, size in zip(names, sizes, strict=True)
        if size
    ]
    assert read_combine_flags("nothing about flags", hosts) == []


LISTED = (
    "latency hiding scheduler, memory_limit_slop_factor=95, AG and RS combine 8 GiB, triton_gemm "
    "off, cublaslt on, autotune 0, AG combine_by_dim off, command buffers off"
)
LISTED_FLAGS = (
    "--xla_gpu_enable_latency_hiding_scheduler=true --xla_gpu_memory_limit_slop_factor=95 "
    "--xla_gpu_all_gather_combine_threshold_bytes=8589934592 "
    "--xla_gpu_reduce_scatter_combine_threshold_bytes=8589934592 "
    "--xla_gpu_enable_triton_gemm=false --xla_gpu_enable_cublaslt=true --xla_gpu_autotune_level=0 "
    "--xla_gpu_enable_all_gather_combine_by_dim=false --xla_gpu_enable_command_buffer="
)


@pytest.mark.parametrize(
    ("notes", "flags"),
    [
        (f"run a; AMD-parity flags: {LISTED}; memory fraction 0.93", LISTED_FLAGS),
        (f"dropless; XLA flags = AMD image default: {LISTED}", LISTED_FLAGS),
        (f"parity flags: {LISTED}, but triton_gemm=true (autotune 0: slow); b",
         f"{LISTED_FLAGS} --xla_gpu_enable_triton_gemm=true"),
        (f"parity flags: {LISTED}, but combine thresholds of 256 B; b",
         f"{LISTED_FLAGS} --xla_gpu_all_reduce_combine_threshold_bytes=256 "
         "--xla_gpu_all_gather_combine_threshold_bytes=256 "
         "--xla_gpu_reduce_scatter_combine_threshold_bytes=256"),
        ("a; NV defaults: latency hiding scheduler, command buffers off, nothing else",
         "--xla_gpu_enable_latency_hiding_scheduler=true --xla_gpu_enable_command_buffer="),
    ],
)  # fmt: skip
def test_a_list_of_flags_in_notes_replaces_those_of_the_framework(notes, flags):
    plan = plan_case(notes=notes)
    assert plan.xla_options == f'flags="{flags}"'
    assert not plan.assumptions
    unknown = plan_case(notes=notes.replace("hiding scheduler,", "hiding scheduler, warp 9,"))
    assert unknown.assumptions == ["flags that are not known by these words left out: warp 9"]


@pytest.mark.parametrize(("hosts", "scattered"), [(16, 2**23), (64, 2**22)])
def test_thresholds_of_rows_in_8_bits_are_their_own(hosts, scattered):
    flags = read_combine_flags(BY_PRECISION, hosts, is_fp8=True)
    assert [flag.partition("=")[2] for flag in flags] == [
        str(size) for size in (2**30, 2**29, scattered)
    ]
    plan = plan_case(notes=BY_PRECISION, precision="fp8", framework="MaxText (JAX/XLA)")
    assert "all_gather_combine_threshold_bytes=536870912" in read_flags(plan.xla_options)


def test_xla_flags_are_those_of_the_row_then_of_the_framework():
    assert plan_case(xla_flags="--xla_a=1 --xla_b=2").xla_options == 'flags="--xla_a=1 --xla_b=2"'
    maxtext = plan_case(framework="MaxText (JAX/XLA)", notes="AG combine 1 MiB")
    threshold = "--xla_gpu_all_gather_combine_threshold_bytes=1048576"
    assert maxtext.xla_options == f'framework=maxtext,flags="{threshold}"'
    assert read_flags(maxtext.xla_options).endswith(threshold)  # XLA uses the last of each flag
    torch = plan_case(framework="PyTorch FSDP")
    assert torch.xla_options.startswith("framework=pytorch")
    assert torch.assumptions == ["layers in a loop", "compiled by XLA, not by PyTorch FSDP"]
    assert "disable_hlo_passes=rematerialization" in read_flags(torch.xla_options)
    unrolled = plan_case(framework="PyTorch FSDP", remat="none")
    assert "enable_pipelined_all_gather=false" in unrolled.xla_options
    tensor = plan_case(framework="PyTorch FSDP", parallelism="fsdp=8;tp=2", global_batch="8")
    assert "enable_pipelined_all_gather=false" in tensor.xla_options
    undivided = plan_case(framework="PyTorch", parallelism="dp=16;fsdp=1")
    assert not undivided.xla_options.startswith(("preset=", "framework="))
    assert "XLA flags: default thresholds, latency-hiding scheduler" in undivided.assumptions


@pytest.mark.parametrize(
    ("text", "gb_s"),
    [
        ("NVLink in node of 8, 8x400 Gb/s IB per node", 50.0),
        ("p5.48xlarge EFA 3200 Gb/s per node", 50.0),
        ("1600 Gb/s per node RoCE; 8 GPUs/node NVLink", 25.0),
        ("400 Gb/s RDMA per GPU; NVLink in node of 8", 50.0),
        ("xGMI in a node of 8; Pensando AINIC RoCE (400 Gb/s a GPU) between 8 nodes", 50.0),
        ("18x 5th Gen NVLink; 8x ConnectX-7 IB NDR 400Gb/s + 200Gb/s Ethernet NIC", 50.0),
        ("Storage: 2x BF3 ConnectX-7 400Gb/s, Compute: 8x BF3 ConnectX-7 400Gb/s", 50.0),
        ("not stated", None),
    ],
)
def test_bandwidth_between_hosts_is_read(text, gb_s):
    assert case_systems.read_nic_bandwidth(text) == gb_s


@pytest.mark.parametrize(
    ("node", "devices", "network", "error"),
    [
        ("GB200_186GB", 512, "4x ConnectX-7 IB NDR 400 Gb/s", None),
        ("B200_180GB", 64, "InfiniBand between 8 nodes (rate not stated)", "unrated"),
        ("B200_180GB", 64, "NVLink in a node", "unstated"),
        ("MI300X", 16, "Ethernet(RoCEv2)", "unstated"),
        ("A100_SXM_80GB", 16, "InfiniBand", "unstated"),
    ],
)
def test_what_a_row_leaves_open_of_its_network(node, devices, network, error):
    system = case_systems.choose_case_system(node, devices, network)
    assert system.network_error == error
    assert bool(system.assumption) == (error is not None)


def test_networks(tmp_path):
    """One host, a preset of several, and one that is written because no preset has its numbers."""
    choose = case_systems.choose_case_system
    assert choose("H100_80GB", 8, "").name == "HGX_H100_8"
    assert choose("H100_80GB", 1, "").name == ""
    stated = choose("H100_80GB", 16, "8x400 Gb/s")
    assert (stated.name, stated.assumption) == ("DGX_H100_SuperPOD_2", "")
    assert "network between hosts assumed: 50 GB/s" in choose("H100_80GB", 16, "").assumption
    linked = choose("MI355X", 16, "400 Gb/s a GPU")
    assert [each.topology for each in linked.dimensions] == ["FullyConnected", "Switch"]
    assert linked.dimensions[0].bandwidth_gb_s == pytest.approx(60.8) and not linked.assumption
    assert choose("GB300_288GB", 144, "").name == "GB300_NVL72_SuperPOD_2"
    assert choose("B300_288GB", 16, "").name == "DGX_B300_SuperPOD_2"
    named = choose("H100_80GB", 16, "GPUDirect-TCPX between A3 VMs; 8x100 Gb/s TCPX")
    assert (named.name, named.assumption) == ("A3_High_2", "")
    assert choose("H200_141GB", 256, "Google A4/A3 Ultra: 8x400 Gb/s").name == "A3_Ultra_32"
    assert choose("A100_SXM_80GB", 32, "8x200 Gb/s").name == "DGX_A100_SuperPOD_4"
    odd = choose("H100_80GB", 24, "p5.48xlarge EFA 3200 Gb/s per node")
    assert odd.name == "" and odd.dimensions[1].bandwidth_gb_s == 50
    dgx_2 = choose("V100_SXM3_32GB", 16, "NVSwitch, DGX-2")
    assert (dgx_2.name, dgx_2.assumption) == ("DGX_2_V100_16", "")
    assert [d.devices for d in choose("V100_SXM3_32GB", 32, "").dimensions] == [16, 2]
    assert choose("V100_16GB", 8, "").name == "V100_32GB_8GPU"
    with pytest.raises(HespasError, match="12 devices do not fill hosts of 8"):
        choose("H100_80GB", 12, "")
    slow = choose("A100_SXM_80GB", 24, "8x100 Gb/s")
    folder = case_systems.write_case_system(slow, "A100_SXM_80GB", tmp_path)
    from hespas import configs

    spec = configs.load_system(folder)
    assert spec.npus_count == (8, 3)
    assert spec.bandwidth_gib_s[0] == pytest.approx(300)
    assert spec.bandwidth_gib_s[1] == pytest.approx(12.5e9 / 2**30)


@pytest.mark.parametrize(
    ("node", "chips", "network", "counts", "gb_s"),
    [
        ("TPUv5e", 512, "ICI; DCN between 2 slices", (16, 16, 2), (45, 45, 3.125)),
        ("TPUv6e", 1024, "ICI", (16, 16, 4), (90, 90, 4.1)),
        ("TPUv6e", 32, "ICI torus", (8, 4), (90, 90)),
        ("TPUv5p", 1024, "ICI; DCN between 2 slices", (8, 8, 8, 2), (90, 90, 90, 6.25)),
        ("TPUv4", 192, "ICI", (12, 4, 4), (45, 45, 45)),
        ("TPU7x", 256, "ICI", (8, 8, 4), (90, 90, 90)),
        ("TPU7x_core", 512, "ICI", (2, 8, 8, 4), (600, 45, 45, 45)),
    ],
)
def test_slices_of_tpu_chips(tmp_path, node, chips, network, counts, gb_s):
    """A device has the bandwidth in each of both directions of a closed ring."""
    chosen = case_systems.choose_case_system(node, chips, network)
    assert "shape of a slice assumed" in chosen.assumption
    assert ("network between slices assumed" in chosen.assumption) == ("DCN" in chosen.title)
    from hespas import configs

    spec = configs.load_system(case_systems.write_case_system(chosen, node, tmp_path))
    assert spec.npus_count == counts
    assert [bw * 2**30 / 1e9 for bw in spec.bandwidth_gib_s] == pytest.approx(gb_s)


def test_slices_that_no_pod_has():
    with pytest.raises(HespasError, match="no slice of TPUv5p has 100 chips"):
        case_systems.choose_case_system("TPUv5p", 100, "ICI")
    with pytest.raises(HespasError, match="100 devices do not fill 3 slices"):
        case_systems.choose_case_system("TPUv5p", 100, "DCN between 3 slices")


def test_a_board_may_be_described_in_brackets():
    assert case_systems.find_node("TPU7x (chip = 2 JAX devices)") == "TPU7x_core"
    assert case_systems.find_node("abacus") == ""


@pytest.mark.parametrize(
    ("hardware", "node"),
    [
        ("NVIDIA H100 SXM 80GB", "H100_80GB"),
        ("H100_80GB_PCIe", "H100_PCIe_80GB"),
        ("GB200", "GB200_186GB"),
        ("TPU v5e", "TPUv5e"),
        ("TPU v6e (Trillium)", "TPUv6e"),
        ("TPU 7x", "TPU7x_core"),
        ("H100", ""),
        ("A100_SXM_60GB", ""),
        ("TPU", ""),
    ],
)
def test_boards_are_found_by_the_words_of_their_names(hardware, node):
    assert case_systems.find_node(hardware) == node


@pytest.mark.parametrize(
    ("node", "devices", "counts"),
    [
        ("V100_16GB", 4, [4]),
        ("V100_SXM3_32GB", 8, [8]),
        ("GB200_186GB", 64, [64]),
        ("GB200_186GB", 256, [64, 4]),
        ("H100_96GB_HBM2e", 4, [4]),
    ],
)
def test_parts_of_hosts_and_racks(node, devices, counts):
    system = case_systems.choose_case_system(node, devices, "")
    assert [dimension.devices for dimension in system.dimensions] == counts


@pytest.mark.parametrize(
    ("model", "family", "published"),
    [
        ("meta-llama/Llama-3.1-70B", "llama", "70b"),
        ("Llama 2 7B", "llama2", "llama2-7b"),
        ("deepseek3-671b", "deepseek-v3", "deepseek-v3"),
        ("kimi-k2-1t", "kimi-k2", "kimi-k2"),
        ("Gemma-3-12B", "gemma3", "gemma3-12b"),
        ("Qwen/Qwen2.5-32B", "qwen2.5-32b", "qwen2.5-32b"),
        ("qwen3-32b", "qwen3", "qwen3-32b"),
        ("T5_1_1_base", "t5-1-1", ""),
    ],
)
def test_names_of_models_may_be_written_in_other_ways(model, family, published):
    model_family = case_models.find_family(model)
    assert model_family is not None and model_family.start == family
    assert case_models.find_published_model(model) == published


def test_models_that_only_begin_like_a_family_are_refused():
    for model in ("llama4-17b-16e", "Gemma 3n E4B"):
        assert "no recipe builds" in plan_case(model=model).reasons["model"]


@pytest.mark.parametrize(
    ("texts", "options"),
    [
        (
            {"notes": "LoRA rank 16 on attention (qkv and dense)"},
            {"lora_rank": "16", "lora_targets": "attention"},
        ),
        (
            {"notes": "LoRA, r=8, all linear layers", "framework": "PyTorch torchtitan"},
            {"lora_rank": "8", "lora_targets": "all"},
        ),
        (
            {"model": "llama2-7b-lora", "framework": "PyTorch FSDP2 (NeMo Automodel)"},
            {"lora_rank": "16", "lora_targets": "all"},
        ),
        (  # no adapter has scales of earlier steps
            {
                "notes": "LoRA rank 4 on attention", "framework": "Paxml (JAX/XLA:GPU)",
                "precision": "fp8",
            },
            {"lora_rank": "4", "lora_targets": "attention", "products": "fp8"},
        ),
        ({"notes": "lower rank of 8 hosts"}, {}),
    ],
)  # fmt: skip
def test_rows_that_train_adapters_say_which(texts, options):
    plan = plan_case(**texts)
    assert not plan.reasons
    known = {name: plan.workload.options.get(name) for name in options}
    assert known == options
    assert ("lora_rank" in plan.workload.options) == bool(options)
    is_stated = "automodel" not in texts.get("framework", "").lower()
    assert ("adapters of rank 16 on all projections" in str(plan.assumptions)) != is_stated


@pytest.mark.parametrize(
    ("texts", "reason"),
    [
        ({"framework": "Paxml (JAX/XLA:GPU), LoRA"}, "(LoRA) whose rank and projections"),
        ({"notes": "LoRA rank 16"}, "(LoRA) whose rank and projections"),
        ({"notes": "QLoRA rank 16 on attention"}, "4 bits"),
        ({"model": "mixtral-8x7b", "notes": "LoRA rank 16 on attention"}, "the recipe moe has no"),
        (
            {"parallelism": "dp=2;pp=8", "notes": "LoRA rank 16 on attention"},
            "no program of a pipeline",
        ),
        ({"precision": "fp8 rowwise", "notes": "LoRA rank 16 on attention"}, "for each row"),
    ],
)
def test_adapters_without_a_program_say_why(texts, reason):
    assert reason in " ".join(plan_case(**texts).reasons.values())


def test_a_defect_in_the_plan_of_a_row_does_not_end_the_run(monkeypatch, tmp_path):
    def plan_case_program(case, changes, *, compiler, is_compiled):
        raise KeyError("emb")

    monkeypatch.setattr(case_runner, "plan_case_program", plan_case_program)
    options = CaseOptions(form="fused", work_dir=str(tmp_path), cache="none")
    (outcome,) = case_runner.predict_cases([make_case()], options, lambda line: None)
    assert outcome.reasons == {"internal": "internal error: KeyError: 'emb'"}


@pytest.mark.parametrize(
    ("overlap", "word"),
    [(None, "keep"), ("xla", "keep"), ("latency-hiding", "hide"), ("none", "remove")],
)
def test_programs_of_cases_have_the_overlap_that_is_asked_for(overlap, word):
    outcome = case_runner._plan_case(make_case(), CaseOptions(run=RunOptions(overlap=overlap)))
    assert outcome.program is not None
    pass_options = parse_options(outcome.program.format_pass_options())
    assert pass_options["async-collectives"] == word


def test_rows_of_devices_that_xla_has_no_target_for_are_fused_unless_a_form_is_asked_for():
    row = {"model": "llama2-7b", "hardware": "MI300X", "framework": "MaxText (JAX/XLA:GPU)"}
    case = make_case(8, parallelism="fsdp=8", **row)
    fused = case_runner._plan_case(case, CaseOptions())
    assert not fused.reasons and fused.form == "fused"
    assert "XLA has no target for node MI300X: hespas fuses the program" in fused.assumptions
    assert case_report.build_case_row(fused)["form"] == "fused"
    refused = case_runner._plan_case(case, CaseOptions(form="scheduled"))
    assert refused.reasons == {"hardware": "XLA has no target for node MI300X"}
    assert case_runner._plan_case(make_case(), CaseOptions()).form == "scheduled"


def test_rows_whose_program_xla_does_not_compile_are_fused(monkeypatch, tmp_path):
    made, notes = [], []

    def make_programs(outcomes, options, note):
        for outcome in outcomes:
            made.append(outcome.form)
            if outcome.form == "scheduled":
                outcome.reasons["compile"] = "the compiler crashed"

    monkeypatch.setattr(case_runner, "_make_programs", make_programs)
    monkeypatch.setattr(case_runner, "_run_programs", lambda *_: 0)
    options = CaseOptions(work_dir=str(tmp_path), cache="none")
    (outcome,) = case_runner.predict_cases([make_case()], options, notes.append)
    assert made == ["scheduled", "fused"] and not outcome.reasons
    assert "XLA did not compile it (the compiler crashed)" in outcome.assumptions[-1]
    assert any("1 row in the form fused" in note for note in notes)
    options = CaseOptions(form="scheduled", work_dir=str(tmp_path), cache="none")
    (outcome,) = case_runner.predict_cases([make_case()], options, notes.append)
    assert outcome.reasons == {"compile": "the compiler crashed"}


def test_fused_programs_of_cases_follow_the_flags_of_their_framework():
    options = CaseOptions(form="fused", run=RunOptions(slowdown=0.5))
    outcome = case_runner._plan_case(make_case(8, parallelism="fsdp=8"), options)
    config = case_runner._make_run_config(outcome, options)
    assert config.form == "fuse" and config.slowdown == 0.5
    text = str(parse_options(config.xla_optimize or "")["flags"])
    assert "--xla_gpu_enable_latency_hiding_scheduler=true" in text.split()
    assert "rematerialization" not in text and "xla_gpu_all_gather_combine" in text
    assert not [word for word in outcome.assumptions if "compiled by XLA" in word]


def test_a_damaged_cache_is_found_before_programs_are_made(monkeypatch, tmp_path):
    monkeypatch.setattr(case_runner, "_make_programs", lambda *_: pytest.fail("too late"))
    (tmp_path / "cache").write_text("no database")
    options = CaseOptions(form="fused", cache=str(tmp_path / "cache"))
    with pytest.raises(HespasError, match="the cache is damaged"):
        case_runner.predict_cases([make_case()], options, lambda line: None)


def test_the_layers_of_stages_whose_gradients_are_divided_are_unrolled():
    texts = {"parallelism": "fsdp=2;pp=4;tp=2", "framework": "PyTorch torchtitan ZeroBubble"}
    plan = plan_case(global_batch="16", **texts)
    assert plan.schedule is not None and plan.schedule.name == "zb-h1"
    workloads = [workload for stage in plan.stage_workloads for workload in stage.values()]
    assert {workload.options["scan"] for workload in workloads} == {"false"}


def test_unrolled_layers_need_no_dimensions_in_the_row():
    unstated = dict.fromkeys(("layers", "hidden", "heads", "kv_heads", "ffn", "vocab"), "")
    plan = plan_case(model="mpt-7b", framework="PyTorch FSDP", remat="none", **unstated)
    assert "all_gather_combine_threshold_bytes=402653184" in read_flags(plan.xla_options)


def make_outcome(name, measured_s, predicted_s, **texts):
    case = TrainingCase(name, 16, measured_s, {**LLAMA, **texts}, 2)
    outcome = plan_case(**texts)
    outcome.case, outcome.node = case, "H100_80GB"
    if predicted_s is not None:
        cell = MeasuredCell("llama-x", 16, "H100_80GB", "s", measured_s, 0.0, "", 2)
        outcome.prediction = StepPrediction(
            cell, predicted_s, 0.9 * predicted_s, 1.1 * predicted_s, compute_s=predicted_s,
            exposed_s=0.0,
        )  # fmt: skip
    return outcome


def test_groups_of_numbers_are_sorted_by_size():
    outcomes = [make_outcome("x", 1.0, None) for _ in range(3)]
    for outcome, devices in zip(outcomes, (16, 128, 8), strict=True):
        outcome.case = dataclasses.replace(outcome.case, devices=devices)
    assert list(case_report.score_groups(outcomes, 0.1)["devices"]) == ["8", "16", "128"]


def test_scores_by_group_and_reasons():
    outcomes = [
        make_outcome("a", 1.0, 1.2, framework="MaxText (a)"),
        make_outcome("b", 2.0, 1.9, framework="MaxText (b)"),
        make_outcome("c", 3.0, None, precision="nvfp4"),
        make_outcome("d", 3.0, None, precision="nvfp4", remat="selective", framework=""),
    ]
    scores = case_report.score_groups(outcomes, 0.1)
    count, score = scores["all"]["rows"]
    assert (count, score.cells, score.inside, score.order) == (4, 2, 0.5, 1.0)
    assert score.mape == pytest.approx(0.125) and score.bias == pytest.approx(0.075)
    assert scores["precision"]["nvfp4"] == (2, None)
    assert set(scores["framework"]) == {"MaxText", "not stated"}
    reasons = case_report.count_reasons(outcomes)
    assert {kind: (c["rows"], c["alone"]) for kind, c in reasons.items()} == {
        "precision": (2, 1), "remat": (1, 0),
    }  # fmt: skip
    rows = [case_report.build_case_row(outcome) for outcome in outcomes]
    assert rows[3]["reason_kinds"] == "precision remat" and rows[3]["predicted_s"] is None
    lines = list(csv.DictReader(format_csv(rows).splitlines()))
    assert [line["in_band"] for line in lines] == ["false", "true", "", ""]
    titles = [table.title for table in case_report.build_case_tables(outcomes, 0.1)]
    assert titles == [
        "predicted rows", "scores of rows of 100 ms and more", "largest errors",
        "2 rows without a prediction",
    ]  # fmt: skip


def run(*argv):
    return run_tool_main(hespas.main, ["validate", *argv])


def test_a_table_of_refused_rows_has_their_reasons(write_table, capsys, tmp_path):
    table = write_table(HEADER + "t5-xl,MI300X,8,1\nllama2-7b,abacus,8,1\n")
    out = tmp_path / "out.csv"
    page = tmp_path / "out.html"
    assert run(table, "--csv", str(out), "--page", str(page), "--work-dir", str(tmp_path)) == 1
    assert "2 rows without a prediction" in page.read_text()
    text = capsys.readouterr()
    assert "no row can be predicted" in text.err
    assert "2 rows without a prediction" in text.out
    rows = list(csv.DictReader(out.open()))
    assert [row["reason_kinds"] for row in rows] == ["model", "hardware"]
    assert rows[1]["reason"] == "no node preset for 'abacus'"


@pytest.mark.parametrize(
    ("flags", "error"),
    [
        (("--programs", "x"), "--programs needs a table of program files"),
        (("--no-baselines",), "--no-baselines needs a table of program files"),
        (("--set", "remat"), "--set: 'remat' is not KEY=VALUE"),
        (("--rows", "7"), "no row has the id '7'"),
        (("--form", "optimised", "--overlap", "none"), "it needs --form scheduled"),
        (
            ("--form", "fused", "--xla-optimize", "stage=hlo"),
            "'xla_optimize' has stage: this is",
        ),
    ],
)
def test_wrong_flags(write_table, capsys, flags, error):
    assert run(write_table(HEADER + "llama2-7b,abacus,8,1\n"), *flags) != 0
    assert error in capsys.readouterr().err


def test_flags_of_cases_need_cases(write_table, capsys):
    table = write_table(",".join(COLUMNS) + "\n")
    assert run(table, "--form", "fused") != 0
    assert "--form needs a table of training cases" in capsys.readouterr().err
    assert run(table) != 0
    assert "--programs is missing" in capsys.readouterr().err


@pytest.mark.slow
@pytest.mark.skipif(find_gpu_library() is None, reason="needs hespas[gpu-compiler]")
def test_a_newcomer_s_table(write_table, capsys, tmp_path):
    """Four columns suffice; the second run computes nothing and gives the same."""
    pytest.importorskip("jax")
    table = write_table(
        "model,hardware,devices,step_time_s,per_device_batch,seq_len,heads,kv_heads,head_dim,hidden\n"
        "tiny,H100_80GB_SXM,8,0.5,1,128,4,2,64,256\nt5-xl,H100_80GB_SXM,8,1,1,128,,,,\n"
    )
    places = ("--work-dir", str(tmp_path / "w"), "--cache", str(tmp_path / "c"), "--jobs", "1")
    assert run(table, *places, "--json") == 0
    text = capsys.readouterr()
    assert "1 of 2 rows predicted, 1 computed now" in text.err
    data = json.loads(text.out)
    row, refused = data["rows"]
    assert row["low_s"] < row["predicted_s"] < row["high_s"] and row["compile_s"] > 0
    assert row["error"] == pytest.approx(row["predicted_s"] / 0.5 - 1)
    assert refused["reason"] == "no recipe builds the model 't5-xl'"
    assert data["scores"]["all"]["rows"]["score"]["cells"] == 1
    assert run(table, *places, "--json", "--max-mape", "1") == 1
    again = capsys.readouterr()
    assert "1 of 2 rows predicted, 0 computed now" in again.err
    assert json.loads(again.out)["rows"][0]["predicted_s"] == row["predicted_s"]


@pytest.mark.slow
@pytest.mark.skipif(find_gpu_library() is None, reason="needs hespas[gpu-compiler]")
def test_one_worker_exports_several_programs_that_xla_divides(write_table, capsys, tmp_path):
    """Kernels with a partitioning rule of their own are divided while the program is exported."""
    pytest.importorskip("jax")
    rows = "tiny,H100_80GB_SXM,8,1,128\ntiny,H100_80GB_SXM,8,1,256\n"
    table = write_table("model,hardware,devices,step_time_s,seq_len\n" + rows)
    places = ("--work-dir", str(tmp_path / "w"), "--cache", "none", "--jobs", "1")
    assert run(table, *places, "--set", "partitioning=auto") == 0
    assert "2 of 2 rows predicted" in capsys.readouterr().err
