"""What Paxml's experiments for NVIDIA GPUs set and rows do not state.

The experiments are classes of google/paxml (paxml/contrib/gpu/scripts_gpu/configs.py, Apache-2.0).
Layers that are not repeated are unrolled, and CHECKPOINT_POLICY does not apply to them
(paxml/tasks/lm/model_params.py).
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from hespas.workflows.validation.case_frameworks import PAXML, read_framework
from hespas.workflows.validation.training_cases import TrainingCase

PAXML_PRESET = "paxml"
# NVIDIA's dgxc-benchmarking sets flags of its own (paxml/configure.sh).
DGXC_PRESET = "paxml-dgxc"


@dataclass(frozen=True, slots=True)
class PaxmlExperiment:
    """The experiment that trains some models.

    Attributes:
        words: A regular expression of the names of the models, in lower case.
        remat: CHECKPOINT_POLICY as an option of the recipes; "none" if layers are not repeated.
        is_repeated: Whether the layers are a loop (USE_REPEATED_LAYER).
        flags: The XLA flags that differ from those of the preset.
        has_fused_attention: Whether attention is one kernel.
    """

    words: str
    remat: str
    is_repeated: bool
    flags: tuple[str, ...] = ()
    has_fused_attention: bool = True


# The first whose words a model has counts. The threshold of 126M is that of NVIDIA/JAX-Toolbox
# 28603900 (rosetta/rosetta/projects/pax/xla_flags/gpt-126m.env), which has no other thresholds and
# turns fused attention off.
# run_llama_boolq.sh sets USE_REPEATED_LAYER to False for Llama.
_EXPERIMENTS = (
    PaxmlExperiment(
        r"126m", "none", is_repeated=False,
        flags=("--xla_gpu_all_reduce_combine_threshold_bytes=33554432",),
        has_fused_attention=False,
    ),
    PaxmlExperiment(r"(?<![\d.])5b", "minimal", is_repeated=True),
    PaxmlExperiment(r"llama", "none", is_repeated=False),
    # CHECKPOINT_POLICY of TransformerLmSpmdAdafactor, which GPT175BBase does not replace
    PaxmlExperiment(r"", "full", is_repeated=True),
)  # fmt: skip


def find_paxml_experiment(case: TrainingCase) -> PaxmlExperiment | None:
    """Return the experiment that trains the model of a case; None of another framework."""
    if read_framework(case).name != PAXML:
        return None
    model = case.get_text("model").lower()
    return next(item for item in _EXPERIMENTS if re.search(item.words, model))


def choose_paxml_preset(case: TrainingCase) -> str:
    """Return the preset of XLA flags of the scripts that the source of a case runs."""
    is_dgxc = "dgxc-benchmarking" in case.get_text("source").lower()
    return DGXC_PRESET if is_dgxc else PAXML_PRESET
