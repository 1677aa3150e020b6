"""The parts in which a training case computes its logits.

A row states them as ``vocab tiling 4`` or ``num_vocab_tiling=4``. MaxText sets ``num_vocab_tiling``
where the logits of all tokens of a device are too large. Rows seldom copy it from the script, and
programs with fewer layers have the same logits. Where XLA finds the program of such a row too
large, its logits are therefore computed in parts of at most 1 GiB. That is what configurations of
MaxText have that set it: parts of 1 GiB for Gemma 3 12B on v6e and of 0.98 GiB for Llama 3.1 405B
on v5p (AI-Hypercomputer/maxtext@e591f30 benchmarks/maxtext_trillium_model_configs.py and
maxtext_v5p_model_configs.py), and of 0.98 GiB for Llama 3.1 70B on TPU7x
(AI-Hypercomputer/tpu-recipes@c8cfe2f training/ironwood/llama3.1-70b/128k-fp8-tpu7x-4x8x8).
"""

from __future__ import annotations

import dataclasses
import re

from hespas.recipes.published_models import MODELS
from hespas.workflows.studies.study_definition import StudyWorkload
from hespas.workflows.validation.case_frameworks import MAXTEXT, read_framework
from hespas.workflows.validation.training_cases import TrainingCase

PART_BYTES = 2**30
STATED_TILES = re.compile(r"(?:vocab tiling|num_vocab_tiling)\W*(\d+)")
_RECIPES = ("llama", "gpt", "gemma", "moe")
_NARROW_TYPES = ("bf16", "f16")


def read_vocabulary_tiles(case: TrainingCase) -> dict[str, str]:
    """Return the option for logits in parts, as ``vocab tiling 4``; empty if a row names none."""
    texts = " ".join(map(case.get_text, ("remat", "notes"))).lower()
    stated = STATED_TILES.search(texts)
    return {"vocab_tiles": stated[1]} if stated else {}


def divide_logits(case: TrainingCase, workload: StudyWorkload) -> StudyWorkload | None:
    """Divide the logits of a program that XLA finds too large into parts of at most 1 GiB.

    Returns:
        The workload with the fewest parts that divide the tokens of a device; None if a row states
        the parts, its framework has none, or its logits are small.
    """
    options = workload.options
    is_possible = workload.recipe in _RECIPES and options.get("partitioning") != "auto"
    if not is_possible or read_framework(case).name != MAXTEXT or "vocab_tiles" in options:
        return None
    tokens = int(options["batch"]) * int(options["sequence"]) // workload.mesh.get("context", 1)
    vocab = int(options.get("vocab") or MODELS[options["model"]].vocab)
    element_bytes = 2 if options.get("logits_dtype") in _NARROW_TYPES else 4
    logits_bytes = tokens * vocab * element_bytes // workload.mesh.get("tensor", 1)
    parts = 1
    while logits_bytes > parts * PART_BYTES and tokens % (2 * parts) == 0:
        parts *= 2
    if parts == 1:
        return None
    return dataclasses.replace(workload, options={**options, "vocab_tiles": str(parts)})
