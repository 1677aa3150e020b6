"""What implementations of MLPerf Training set that rows of their results do not state.

Each is a folder of configuration files in the results of a round, mlcommons/training_results_vN
(Apache-2.0). NVIDIA's is the one that most others copy, for Blackwell; those of older boards are
older ones.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from hespas.workflows.validation.training_cases import TrainingCase


@dataclass(frozen=True, slots=True)
class MlperfImplementation:
    """An implementation of a benchmark.

    Attributes:
        words: A regular expression of the model, source and hardware of its rows, in lower case.
        file: Where it sets this, in the results of its round.
        has_current_scales: Whether scales of 8 bits come from the values (``FP8_RECIPE`` is
            tensorwise), not from earlier steps.
        exchanges_heads: Whether context parallelism exchanges tokens for heads (``cp_comm_type`` is
            a2a), where TransformerEngine's default is a ring.
        has_narrow_attention: Whether attention is computed in 8 bits (``FP8_DPA`` of its
            config_common.sh is 1).
        separate_kernels: The option of this name: ``megatron``, or ``megatron_te`` where
            TransformerEngine fuses activations and rotations (``USE_TE_OPS`` and
            ``FUSED_SINGLE_QKV_ROPE`` of its config_common.sh are 1).
    """

    words: str
    file: str
    has_current_scales: bool = False
    exchanges_heads: bool = False
    has_narrow_attention: bool = False
    separate_kernels: str = ""


_BLACKWELL = r"\bg?b[23]00"
_LORA = "NVIDIA/benchmarks/llama2_70b_lora/implementations"
# Cisco's rows of H100 in round 5.1 have files of their own without both settings: FP8_RECIPE is
# delayed in its conf/custom.yaml, as in AMD's src/train.py.
_IMPLEMENTATIONS = (
    MlperfImplementation(
        rf"llama-?3\.1.*training_results_v5\.1.*{_BLACKWELL}",
        "NVIDIA/benchmarks/llama31_8b/implementations/nemo/config_common.sh",
        has_current_scales=True,
    ),
    MlperfImplementation(
        rf"lora.*training_results_v5\.1.*{_BLACKWELL}",
        f"{_LORA}/nemo/conf/megatron_gpt_peft_tuning_config.yaml",
        exchanges_heads=True,
        has_narrow_attention=True,
        separate_kernels="megatron_te",
    ),
    MlperfImplementation(
        rf"lora.*training_results_v5\.0.*{_BLACKWELL}",
        f"{_LORA}/*/conf/megatron_gpt_peft_tuning_config.yaml",
        exchanges_heads=True,
        has_narrow_attention=True,
        separate_kernels="megatron",
    ),
    MlperfImplementation(
        rf"lora.*training_results_v4\.1.*{_BLACKWELL}",
        f"{_LORA}/b200_preview_nemo/conf/megatron_gpt_peft_tuning_config.yaml",
        exchanges_heads=True,
        has_narrow_attention=True,
        separate_kernels="megatron",
    ),
    MlperfImplementation(
        r"lora.*training_results_v5\.0\S* dell/.*\bh200",
        "Dell/benchmarks/llama2_70b_lora/implementations/nemo/conf/"
        "megatron_gpt_peft_tuning_config.yaml",
        exchanges_heads=True,
        separate_kernels="megatron",
    ),
    # bias_activation_fusion and apply_rope_fusion are true in all of these.
    MlperfImplementation(
        r"lora.*training_results_v4\.[01].*\b(?:h100|h200|l40s)",
        f"{_LORA}/*/conf/megatron_gpt_peft_tuning_config.yaml",
        separate_kernels="megatron",
    ),
    MlperfImplementation(
        r"lora.*training_results_v5\.1\S* cisco/.*\bh100",
        "Cisco/benchmarks/llama2_70b_lora/implementations/nemo/conf/"
        "megatron_gpt_peft_tuning_config.yaml",
        separate_kernels="megatron",
    ),
)


_UNKNOWN = MlperfImplementation("", "")


def find_mlperf_implementation(case: TrainingCase) -> MlperfImplementation:
    """Return the implementation of a row of MLPerf's results; one that sets nothing if unknown."""
    text = case.join_words("model", "source", "hardware")
    return next((each for each in _IMPLEMENTATIONS if re.search(each.words, text)), _UNKNOWN)
