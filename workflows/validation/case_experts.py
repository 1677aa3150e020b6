"""The experts of a training case: their sizes in words, and how tokens reach them."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import TYPE_CHECKING

from hespas.recipes.published_models import MODELS
from hespas.workflows.validation.case_automodel import find_automodel_benchmark
from hespas.workflows.validation.case_frameworks import AUTOMODEL, MAXTEXT
from hespas.workflows.validation.case_models import find_published_model

if TYPE_CHECKING:
    from hespas.workflows.validation.training_cases import CaseOutcome, TrainingCase

# As tables write them: ``18432 dense (3 layers); 2048 x 256 experts, top 8, 1 shared``, the width
# of the dense layers before that of an expert, and ``18432/2048x256``.
_EXPERT_WORDS = re.compile(
    r"(?:(?P<mlp>\d+)(?: dense)?(?: \((?P<dense_layers>\d+) layers?\))?(?:/|[;,] ?))?"
    r"(?P<expert_mlp>\d+) ?x ?(?P<experts>\d+)(?: experts)?"
    r"(?:, top (?P<top_k>\d+))?(?:, (?P<shared_experts>\d+) shared)?"
)
_CAPACITY = re.compile(r"\bcapacity[ _]factor\s?[=:]?\s?(\d+(?:\.\d+)?)")
_UNLIMITED = re.compile(r"\bdropless\b|\bbalanced routing\b")
_SORTED = re.compile(r"\bsparse_matmul[ =]?true\b")
_UNSORTED = re.compile(r"\bsparse_matmul[ =]?false\b")


def read_expert_sizes(text: str) -> dict[str, int]:
    """Read the sizes of dense layers and experts in words, as options of the recipe moe.

    Returns:
        {} if a text is a number or anything else.
    """
    match = _EXPERT_WORDS.fullmatch(text)
    return {name: int(size) for name, size in match.groupdict().items() if size} if match else {}


def choose_expert_sizes(outcome: CaseOutcome, published: str, base: str) -> dict[str, str]:
    """Return the options of experts that a row states in words; {} if they are its model's.

    Args:
        outcome: The case; sizes that contradict a published model are a reason against it.
        published: The published model; "" if the row's is none.
        base: The model whose parts it has.
    """
    stated = read_expert_sizes(outcome.case.get_text("ffn"))
    m = MODELS[published or base]
    if stated and not m.experts:
        name = outcome.case.get_text("model")
        outcome.reasons["model"] = f"ffn states experts, and the model '{name}' has no experts"
        return {}
    if not published:
        return {name: str(size) for name, size in stated.items()}
    known = {name: getattr(m, name) for name in stated}
    if "expert_mlp" in stated:
        known["expert_mlp"] = m.expert_mlp or m.mlp
    differences = [
        f"{name} {size}, but {published} has {known[name]}"
        for name, size in stated.items()
        if size != known[name]
    ]
    if differences:
        outcome.reasons["model"] = f"ffn states {'; '.join(differences)}"
    return {}


def choose_weight_division(case: TrainingCase, mesh: Mapping[str, int]) -> dict[str, str]:
    """Return the option for weights outside of experts that the devices of ``expert`` divide too.

    MaxText divides them so (the rules of ``embed`` and ``embed_no_exp`` in its configs/base.yml),
    and so does FSDP2, whose devices are those of the experts as well. The programs of stages of a
    pipeline have no such weights.
    """
    is_divided = case.framework.name in (MAXTEXT, AUTOMODEL) or "fsdp2" in case.words
    has_stages = case.read_axis_sizes().get("pp", 1) > 1
    is_spread = is_divided and mesh.get("expert", 1) > 1 and not has_stages
    return {"spread_weights": "true"} if is_spread else {}


def choose_expert_dispatch(outcome: CaseOutcome) -> dict[str, str]:
    """Return the options for how tokens reach their experts, and how many of them do.

    DeepEP sends a token once to a host, which copies it to the devices of its experts (the README
    of deepseek-ai/DeepEP); the exchange of the recipes sends each copy.

    MaxText without ``sparse_matmul`` has products with masks (dense_matmul of its layers/moe.py),
    or, without a capacity, multiplies every token by every expert. With it, a device has a buffer
    for all tokens of the devices of ``expert`` (sparse_matmul there).

    Tokens of NeMo Automodel's benchmarks take experts in turn, so that DeepEP sends a token to few
    devices.
    """
    case = outcome.case
    if _takes_turns(case):
        outcome.assumptions.append(
            "each device gets one message of a token for all its experts, not each host as by "
            "DeepEP"
        )
        return {"dispatch": "in_turn"}
    is_divided = case.read_axis_sizes().get("ep", 1) > 1
    is_maxtext = case.framework.name == MAXTEXT
    if "deepep" in case.words and is_divided:
        outcome.assumptions.append(
            "each expert of a token gets a message of its own, not each host as by DeepEP"
        )
    stated = _CAPACITY.search(case.words)
    is_unsorted = is_maxtext and _UNSORTED.search(case.words) is not None
    if stated:
        return {**({"dispatch": "masks"} if is_unsorted else {}), "capacity": stated[1]}
    if is_unsorted:
        outcome.reasons["model"] = (
            "no recipe multiplies each token by all experts, as sparse_matmul=false without "
            "capacity_factor does"
        )
        return {}
    if is_maxtext and _SORTED.search(case.words):
        if is_divided:
            outcome.assumptions.append(
                "each device receives as many tokens as it sends, and products read these alone"
            )
        return {"dispatch": "ragged" if is_divided else "dropless"}
    if _UNLIMITED.search(case.words):
        outcome.assumptions.append(
            "each expert gets as many tokens, in products and messages of equal size"
        )
        return {"capacity": "1"}
    outcome.assumptions.append("the capacity of experts is that of the recipe moe")
    return {}


def _takes_turns(case: TrainingCase) -> bool:
    """Return whether tokens take experts in turn, and load all devices evenly."""
    benchmark = find_automodel_benchmark(case)
    m = MODELS.get(find_published_model(case.get_text("model")))
    sequence = case.get_text("seq_len")
    if benchmark is None or not benchmark.takes_turns or m is None or not sequence.isdecimal():
        return False
    return m.has_even_turns(case.read_axis_sizes().get("ep", 1), int(sequence))
