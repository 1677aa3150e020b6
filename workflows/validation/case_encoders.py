"""Rows of models with an encoder: BERT's heads and optimiser, the two stacks of T5."""

from __future__ import annotations

import dataclasses
import math
import re

from hespas.workflows.validation.training_cases import TrainingCase

DEFAULT_TARGETS = 114  # of T5's pretraining on inputs of 512 tokens (arXiv 1910.10683, 3.1.4)
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


def choose_bert_options(
    case: TrainingCase, sequence: int, batch: int, assumptions: list[str]
) -> dict[str, str]:
    """Return the options of the recipe bert that a row of it does not state.

    The heads see the predicted tokens only, as with ``sequence_output_is_dense`` of NVIDIA's
    implementation in PyTorch.

    Args:
        case: The case.
        sequence: The tokens of a sequence.
        batch: The sequences of a microbatch.
        assumptions: The list to which assumptions are added.
    """
    options: dict[str, str] = {}
    if "lamb" in f"{case.get_text('framework')}; {case.get_text('notes')}".lower():
        options["optimiser"] = "lamb"
    source = case.get_text("source").lower()
    if sequence == _BINNED_TOKENS and "deeplearningexamples pytorch/" in source:
        return options | _choose_binned_options(batch, assumptions)
    predictions = _PREDICTIONS.get(sequence, math.ceil(_MASKED_SHARE * sequence))
    assumptions.append(f"{predictions} predicted tokens of a sequence, no dropout")
    return options | {"predictions": str(predictions)}


def _choose_binned_options(batch: int, assumptions: list[str]) -> dict[str, str]:
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
    assumptions.append(
        f"{batch} sequences padded to bins of {_BIN_TOKENS} tokens, as {rows} of {sequence} with "
        f"{predictions} predicted tokens each, no dropout"
    )
    return {"sequence": str(sequence), "batch": str(rows), "predictions": str(predictions)}


def read_stacks(case: TrainingCase, assumptions: list[str]) -> tuple[TrainingCase, dict[str, str]]:
    """Read layers such as ``24+24`` and sequences such as ``512 enc / 114 dec`` of a T5.

    Returns:
        The case with the layers of its decoder and the tokens of its encoder, and the options of
        the recipe t5 that hold the others.
    """
    texts, options = dict(case.texts), {}
    if layers := re.fullmatch(r"(\d+) ?\+ ?(\d+)", case.get_text("layers")):
        options["encoder_layers"], texts["layers"] = layers.groups()
    pair = re.fullmatch(r"(\d+) ?enc\w* ?[/,;+] ?(\d+) ?dec\w*", case.get_text("seq_len"))
    if pair:
        texts["seq_len"], options["targets"] = pair.groups()
    else:
        options["targets"] = str(DEFAULT_TARGETS)
        assumptions.append(f"{DEFAULT_TARGETS} tokens of the decoder's sequence")
    assumptions.append("AdamW, no dropout")
    return dataclasses.replace(case, texts=texts), options


def names_fused_attention(case: TrainingCase) -> bool:
    """Return whether a row says that its attention is one kernel."""
    text = f"{case.get_text('framework')}; {case.get_text('notes')}".lower()
    return bool(_FUSED_ATTENTION.search(text))
