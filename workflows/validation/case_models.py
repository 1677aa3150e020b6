"""The models of training cases: which recipe builds a model, and with which options.

Models that share a recipe differ in data only: a name that the recipe knows, or its family with the
dimensions of the row. Rows of models with an encoder leave more open: BERT's heads and optimiser,
the two stacks of T5.
"""

from __future__ import annotations

import dataclasses
import math
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from hespas.recipes.published_models import ALIASES, MODELS

if TYPE_CHECKING:
    from hespas.workflows.validation.training_cases import CaseOutcome, TrainingCase


@dataclass(frozen=True)
class ModelFamily:
    """Models that differ in their dimensions only.

    Attributes:
        start: The start of their names, as `normalise_model_name` writes them.
        recipe: The recipe that builds them; "" if none does.
        base: The recipe's model whose parts they have.
        head_dim: Their head size, if it is not hidden / heads.
        options: Options of the recipe that differ from those of ``base``.
    """

    start: str
    recipe: str
    base: str
    head_dim: int | None = None
    options: Mapping[str, str] = field(default_factory=dict)


# The parts of a Llama, as options of the recipe gpt.
_LLAMA = {
    "norm": "rms", "biases": "false", "activation": "silu", "gated": "true", "positions": "rotary",
}  # fmt: skip
# MaxText's default decoder in its base.yml of November 2023 (c85d11c39).
_MAXTEXT_2023 = _LLAMA | {"activation": "relu", "gated": "false"}

# The first family whose start fits is taken.
FAMILIES = (
    # Models whose parts differ from those of the families that their names continue.
    *(ModelFamily(start, "", "") for start in ("llama4", "gemma3n", "gemma4")),
    ModelFamily("llama2", "llama", "llama2-7b"),
    ModelFamily("codellama", "llama", "codellama-34b"),
    ModelFamily("llama", "llama", "8b"),
    ModelFamily("mistral-7b", "llama", "mistral-7b"),
    # AXLearn's Llama, which shares its embedding with the logits.
    ModelFamily("fuji", "gpt", "tiny-gpt", options=_LLAMA | {"tied": "true"}),
    ModelFamily("tiny-gpt", "gpt", "tiny-gpt"),
    ModelFamily("tiny-moe", "moe", "tiny-moe"),
    ModelFamily("tiny-bert", "bert", "tiny-bert"),
    ModelFamily("tiny", "llama", "tiny"),
    # MaxText's default decoder since 2024: a Llama with heads of 128 for any width.
    ModelFamily("maxtext-scale", "llama", "llama2-7b", head_dim=128),
    ModelFamily("maxtext-22b", "gpt", "tiny-gpt", head_dim=256, options=_MAXTEXT_2023),
    ModelFamily("maxtext-52b", "gpt", "tiny-gpt", head_dim=256, options=_MAXTEXT_2023),
    ModelFamily("gemma3", "gemma", "gemma3-12b"),
    ModelFamily("gemma2", "gemma", "gemma2-9b"),
    ModelFamily("gemma", "gemma", "gemma-7b"),
    ModelFamily("mpt", "gpt", "mpt-7b"),
    ModelFamily("gpt3", "gpt", "gpt3-7b"),
    ModelFamily("pax-gpt", "gpt", "gpt3-7b"),
    ModelFamily("megatron", "gpt", "gpt3-22b"),
    ModelFamily("turing", "gpt", "gpt3-22b"),
    ModelFamily("bert", "bert", "bert-large"),
    ModelFamily("t5-v1.1", "t5", "t5-v1.1-xl", head_dim=64),
    ModelFamily("t5-1-1", "t5", "t5-v1.1-xl", head_dim=64),
    ModelFamily("gpt-oss", "moe", "gpt-oss-120b"),
    ModelFamily("mixtral", "moe", "mixtral-8x7b"),
    ModelFamily("qwen2.5-32b", "llama", "qwen2.5-32b"),
    ModelFamily("qwen3-235b", "moe", "qwen3-235b-a22b"),
    ModelFamily("qwen3-30b", "moe", "qwen3-30b-a3b"),
    ModelFamily("qwen3", "llama", "qwen3-8b"),
    # The dimensions of experts and latent vectors stand in no column of a table.
    ModelFamily("deepseek-v2-lite", "moe", "deepseek-v2-lite"),
    ModelFamily("deepseek-v2", "moe", "deepseek-v2"),
    # SimuMax cuts DeepSeek-V3 down to one dense layer and a few with experts (MOE_LAYER_FREQ in its
    # simu_tools/megatron_scripts/scripts/run_pretrain_deepseekv2.sh).
    ModelFamily(
        "deepseek-v3-proxy", "moe", "deepseek-v3", options={"dense_layers": "1"}
    ),
    ModelFamily("deepseek-v3", "moe", "deepseek-v3"),
    ModelFamily("kimi-k2", "moe", "kimi-k2"),
)  # fmt: skip
_T5_TARGETS = 114  # of T5's pretraining on inputs of 512 tokens (arXiv 1910.10683, 3.1.4)
_FUSED_ATTENTION = re.compile(r"flash|sdpa|fmha|fused[- ]attention|cudnn_attention")
# max_predictions_per_seq of the two phases of pretraining, in Google's and NVIDIA's scripts
# (NVIDIA/DeepLearningExamples, PyTorch/LanguageModeling/BERT/scripts).
_PREDICTIONS = {128: 20, 512: 80}
_MASKED_SHARE = 0.15  # arXiv 1810.04805, section 3.1
# NVIDIA's pretraining in PyTorch with sequences of at most 512 tokens takes those of a microbatch
# from one bin of 64 tokens, and pads them to the longest ("Binned pretraining for phase2" in the
# README of NVIDIA/DeepLearningExamples, PyTorch/LanguageModeling/BERT; phase2_bin_size of its
# scripts). Sequences of at most 128 tokens have no bins.
_BINNED_TOKENS = 512
_BIN_TOKENS = 64
# The sequences of Wikipedia in each bin, in thousands, and the tokens of a sequence without padding
# (arXiv 2107.02027; graphcore/tutorials, blogs_code/packedBERT/histograms.py)
_BIN_SEQUENCES = (2863, 3151, 1856, 1350, 1050, 860, 723, 4428)
_SEQUENCE_TOKENS = 256


def find_family(model: str) -> ModelFamily | None:
    """Return the family of a model, or None if no recipe builds it."""
    name = normalise_model_name(model)
    family = next((family for family in FAMILIES if name.startswith(family.start)), None)
    return family if family and family.recipe else None


def normalise_model_name(model: str) -> str:
    """Return a name as tables write it, such as ``llama2-7b`` for ``meta-llama/Llama-2-7B``."""
    name = re.sub(r"[\s_]+", "-", model.lower().rpartition("/")[2])
    name = re.sub(r"^(?:meta-)?(llama|gemma|qwen)-(?=\d(?![\d.]*[bm]))", r"\1", name)
    return re.sub(r"^deepseek-?([23])(?=-)", r"deepseek-v\1", name)


def find_resnet_depth(model: str) -> str:
    """Return the layers of a ResNet, as its recipe names them; "" for another model."""
    match = re.match(r"resnet[-_ ]?(18|34|50|101|152|200)(?!\d)", model.lower())
    return match[1] if match else ""


def find_recipe(model: str) -> str:
    """Return the recipe of a model, or "" if none builds it."""
    if find_resnet_depth(model):
        return "resnet"
    family = find_family(model)
    return family.recipe if family else ""


def find_published_model(model: str) -> str:
    """Return the name under which recipes know the dimensions of a model, or ""."""
    name = normalise_model_name(model)
    return ALIASES.get(name, name if name in MODELS else "")


def infer_head_dim(family: ModelFamily, published: str, hidden: int, heads: int) -> int:
    """Return the head size of a row that does not state it.

    It is that of the published model, or of the base of the family, unless the row changes the
    dimensions; then that of the family, or hidden / heads.
    """
    m = MODELS[published or family.base]
    if (m.emb, m.heads) == (hidden, heads):
        return m.head_dim
    return family.head_dim or hidden // heads


def choose_bert_options(outcome: CaseOutcome, sequence: int, batch: int) -> dict[str, str]:
    """Return the options of the recipe bert that a row of it does not state.

    The heads see the predicted tokens only, as with ``sequence_output_is_dense`` of NVIDIA's
    implementation in PyTorch.

    Args:
        outcome: The case.
        sequence: The tokens of a sequence.
        batch: The sequences of a microbatch.
    """
    options = {"optimiser": "lamb"} if "lamb" in outcome.case.words else {}
    source = outcome.case.get_text("source").lower()
    if sequence == _BINNED_TOKENS and "deeplearningexamples pytorch/" in source:
        return options | _choose_binned_options(outcome, batch)
    predictions = _PREDICTIONS.get(sequence, math.ceil(_MASKED_SHARE * sequence))
    outcome.assumptions.append(f"{predictions} predicted tokens of a sequence, no dropout")
    return options | {"predictions": str(predictions)}


def _choose_binned_options(outcome: CaseOutcome, batch: int) -> dict[str, str]:
    """Return the options of a microbatch that stands for the mean one of all bins.

    It has equal sequences, with as many tokens, and as many pairs of tokens that attend to each
    other, as ``batch`` padded sequences have on average.
    """
    lengths = [_BIN_TOKENS * (number + 1) for number in range(len(_BIN_SEQUENCES))]
    tokens, pairs = (
        batch * sum(n * length**power for n, length in zip(_BIN_SEQUENCES, lengths, strict=True))
        / sum(_BIN_SEQUENCES)
        for power in (1, 2)
    )  # fmt: skip
    sequence = _BIN_TOKENS * round(pairs / tokens / _BIN_TOKENS)
    rows = max(round(tokens / sequence), 1)
    predictions = round(_MASKED_SHARE * _SEQUENCE_TOKENS * batch / rows)
    outcome.assumptions.append(
        f"{batch} sequences padded to bins of {_BIN_TOKENS} tokens, as {rows} of {sequence} with "
        f"{predictions} predicted tokens each, no dropout"
    )
    return {"sequence": str(sequence), "batch": str(rows), "predictions": str(predictions)}


def read_stacks(outcome: CaseOutcome) -> tuple[TrainingCase, dict[str, str]]:
    """Read layers such as ``24+24`` and sequences such as ``512 enc / 114 dec`` of a T5.

    Returns:
        The case with the layers of its decoder and the tokens of its encoder, and the options of
        the recipe t5 that hold the others.
    """
    case = outcome.case
    texts, options = dict(case.texts), {}
    if layers := re.fullmatch(r"(\d+) ?\+ ?(\d+)", case.get_text("layers")):
        options["encoder_layers"], texts["layers"] = layers.groups()
    pair = re.fullmatch(r"(\d+) ?enc\w* ?[/,;+] ?(\d+) ?dec\w*", case.get_text("seq_len"))
    if pair:
        texts["seq_len"], options["targets"] = pair.groups()
    else:
        options["targets"] = str(_T5_TARGETS)
        outcome.assumptions.append(f"{_T5_TARGETS} tokens of the decoder's sequence")
    outcome.assumptions.append("AdamW, no dropout")
    return dataclasses.replace(case, texts=texts), options


def names_fused_attention(case: TrainingCase) -> bool:
    """Return whether a row says that its attention is one kernel."""
    return bool(_FUSED_ATTENTION.search(case.words))
