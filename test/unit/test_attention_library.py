"""Rates of libraries of fused attention, and the rows of training runs that have them."""

from __future__ import annotations

import dataclasses

import pytest

from hespas import configs
from hespas.configs import list_preset_names
from hespas.estimators.calibrated.attention_library import AttentionLibrary
from hespas.estimators.calibrated.attention_presets import FOLDER
from hespas.estimators.calibrated.attention_shape import AttentionShape
from hespas.estimators.calibrated.device_constants import TRANSFERRED, DeviceConstants
from hespas.estimators.calibrated.kernel_times import estimate_attention_time
from hespas.support.errors import HespasError, UsageError
from hespas.workflows.validation.case_kernels import choose_attention_library
from hespas.workflows.validation.training_cases import CaseOutcome, TrainingCase

SEQUENCE, HEADS, SIZE = 4096, 128, 128
COMPOSER = "PyTorch FSDP + FlashAttention (Composer)"


def make_call(*, backward: bool, queries: int = SEQUENCE) -> AttentionShape:
    flops = (5 if backward else 2) * HEADS * queries * queries * SIZE  # a causal mask halves them
    return AttentionShape(HEADS, queries, SIZE, "bf16", flops, backward, HEADS, queries)


# Measured times: NVIDIA/cudnn-frontend 816ea4573, llama3.1 on A100 80GB PCIe, flash_attention.
@pytest.mark.parametrize(("backward", "measured_ms"), [(False, 2.690), (True, 8.175)])
def test_times_are_those_measured(backward, measured_ms):
    node = configs.load_node("A100_PCIe_80GB")
    library = AttentionLibrary.load("flash-attention-2", node)
    call = make_call(backward=backward)
    timed = estimate_attention_time(DeviceConstants.from_node(node), call, 1e6, library)
    assert 1000 * timed.time_s == pytest.approx(measured_ms, rel=0.01)
    assert timed.tags.isdisjoint((TRANSFERRED,))


@pytest.mark.parametrize(("backward", "factor"), [(False, 1.4), (True, 2.0)])
def test_a_library_may_be_described_beside_another(backward, factor):
    node = configs.load_node("H100_80GB")
    constants, call = DeviceConstants.from_node(node), make_call(backward=backward)
    cudnn, second, triton = (
        estimate_attention_time(constants, call, 1e6, AttentionLibrary.load(name, node))
        for name in ("cudnn", "flash-attention-2", "flash-attention-triton")
    )
    assert triton.time_s == pytest.approx(factor * second.time_s)
    assert cudnn.time_s < second.time_s
    assert TRANSFERRED in triton.tags


# Measured times of fp8: NVIDIA/cudnn-frontend 3929da2, llama3.1, batch 2, 64 heads, 8,192 tokens.
@pytest.mark.parametrize(
    ("node", "backward", "measured_ms"),
    [
        ("GB200_186GB", False, 1.074),
        ("GB200_186GB", True, 3.781),
        ("GB300_288GB", False, 0.759),
        ("GB300_288GB", True, 3.087),
    ],
)
def test_times_in_8_bits_are_near_those_measured(node, backward, measured_ms):
    """The times in 16 bits that they are multiples of are those of another library."""
    spec = configs.load_node(node)
    library = AttentionLibrary.load("cudnn-fp8", spec)
    call = make_call(backward=backward, queries=8192)
    timed = estimate_attention_time(DeviceConstants.from_node(spec), call, 1e6, library)
    assert 1000 * timed.time_s == pytest.approx(measured_ms, rel=0.2)


def test_fewer_heads_take_the_same_multiple_of_the_time_in_16_bits():
    node = configs.load_node("GB300_288GB")
    constants, library = DeviceConstants.from_node(node), AttentionLibrary.load("cudnn-fp8", node)
    call = make_call(backward=False, queries=8192)
    few = dataclasses.replace(call, heads=8, flops=call.flops // 16, streams=1)
    ratios = [
        estimate_attention_time(constants, shape, 1e6, library).time_s
        / estimate_attention_time(constants, shape, 1e6).time_s
        for shape in (call, few)
    ]
    assert ratios == pytest.approx([0.641, 0.641])
    short = dataclasses.replace(call, queries=512)
    assert estimate_attention_time(constants, short, 1e6, library).extrapolated


def test_other_sizes_than_the_measured_ones_are_extrapolated():
    node = configs.load_node("A100_SXM_80GB")
    library = AttentionLibrary.load("flash-attention-2", node)
    assert library is not None
    assert library.estimate_time(make_call(backward=False, queries=512))[1]
    assert not library.estimate_time(make_call(backward=False))[1]


@pytest.mark.parametrize("name", list_preset_names(FOLDER))
def test_presets_are_valid(name):
    node = "MI300X" if name == "aiter" else "H100_80GB"
    assert AttentionLibrary.load(name, configs.load_node(node)) is not None


@pytest.mark.parametrize(("backward", "factor"), [(False, 0.8), (True, 0.97)])
def test_a_library_beside_another_may_be_known_on_some_nodes(backward, factor):
    call = make_call(backward=backward)
    second, flexible = (
        AttentionLibrary.load(name, configs.load_node("H100_80GB"))
        for name in ("flash-attention-2", "flex-attention")
    )
    assert second is not None and flexible is not None
    assert flexible.estimate_time(call)[0] == pytest.approx(factor * second.estimate_time(call)[0])
    with pytest.raises(HespasError, match="flex-attention on A100_SXM_80GB are not known"):
        AttentionLibrary.load("flex-attention", configs.load_node("A100_SXM_80GB"))


def test_unknown_libraries_and_nodes_are_errors():
    with pytest.raises(UsageError, match="no library of fused attention is named 'flash'"):
        AttentionLibrary.load("flash", configs.load_node("H100_80GB"))
    with pytest.raises(HespasError, match="flash-attention-2 on B200_180GB are not known"):
        AttentionLibrary.load("flash-attention-2", configs.load_node("B200_180GB"))


@pytest.mark.parametrize(
    ("framework", "notes", "node", "library"),
    [
        (COMPOSER, "", "H100_80GB", "flash-attention-triton"),
        (COMPOSER, "FlashAttention-2", "A100_SXM_80GB", "flash-attention-2"),
        ("Megatron-LM", "FA2 kernels", "A100_SXM_80GB", "flash-attention-2"),
        ("PyTorch torchtitan", "", "H100_96GB_HBM2e", "flash-attention-2"),
        ("Megatron-LM", "FlashAttention", "A100_SXM_80GB", "cudnn"),
        ("MaxText (JAX)", "", "H100_80GB", "cudnn"),
        (COMPOSER, "", "B200_180GB", "cudnn"),
        ("NeMo/Megatron-Core + TransformerEngine", "", "MI300X", "aiter"),
        ("NeMo/Megatron-Core + TransformerEngine", "", "H100_80GB", "cudnn"),
        ("NeMo", "attention in fp8", "B200_180GB", "cudnn-fp8"),
        ("NeMo", "attention in fp8", "MI300X", "cudnn"),
    ],
)
def test_rows_name_the_library_of_their_attention(framework, notes, node, library):
    case = TrainingCase("a", 8, 1.0, {"framework": framework, "notes": notes}, 2)
    outcome = CaseOutcome(case)
    assert choose_attention_library(outcome, node) == library
    assert bool(outcome.assumptions) == (library != "cudnn" or node in ("B200_180GB", "MI300X"))
