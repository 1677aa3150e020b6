"""The rematerialisation that a row states, as an option of the recipes.

Rows name a policy of MaxText, Paxml or JAX, describe one in words (``full``, ``selective``), list
the activations that a layer keeps, or refer to the default of their framework. A text that says
less than a program needs is refused with what it lacks.
"""

from __future__ import annotations

import re
from fractions import Fraction
from typing import TYPE_CHECKING, get_args

from hespas.recipes.remat_policies import ACTIVATION_NAMES, ON_HOST, SHARE, RematPolicy
from hespas.workflows.validation.case_automodel import (
    find_automodel_benchmark,
    gathers_weights_again,
)
from hespas.workflows.validation.case_frameworks import (
    AUTOMODEL,
    AXLEARN,
    OPERATOR_POLICY,
    find_paxml_experiment,
)
from hespas.workflows.validation.case_kernels import STATED_TILES, has_fused_attention
from hespas.workflows.validation.training_cases import TrainingCase, read_fsdp_strategy

if TYPE_CHECKING:
    from hespas.workflows.validation.training_cases import CaseOutcome

REMAT_POLICIES: tuple[str, ...] = get_args(RematPolicy)
DEFAULT_REMAT = "minimal"  # as the recipes
_HEADS = "query_proj,key_proj,value_proj"

# Names of policies besides MaxText's, by what they keep. Fused attention is no product, so that
# policies that keep products compute it again.
_POLICIES_BY_NAME = {
    # MaxText's names of policies that keep the scales of 8-bit products too
    "minimal_with_quantization": "minimal",
    "minimal_with_context_and_quantization": "minimal_with_context",
    # praxis.layers.checkpoint_policy of Paxml
    "save_nothing": "full", "save_everything": "none", "save_qkv_out_proj": "save_dot_except_mlp",
    "save_context": "context", "save_context_and_out_proj": "context,out_proj",
    "save_encoded_and_out_proj": "context,out_proj", "save_dot_only": "minimal",
    "save_dot_with_no_batch_dim": "minimal", "save_dot_with_no_batch_dims": "minimal",
    "save_dot_for_mlperf_200b": "save_dot_with_context_except_mlp",
    "save_dot_except_logits_ffn1": f"{_HEADS},context,out_proj,mlpwo",
    "save_dot_except_logits": "minimal_with_context",
    # jax.checkpoint_policies
    "nothing_saveable": "full", "everything_saveable": "none", "dots_saveable": "minimal",
    "checkpoint_dots": "minimal", "dots_with_no_batch_dims_saveable": "minimal",
    "checkpoint_dots_with_no_batch_dims": "minimal",
}  # fmt: skip

# Texts that refer to a default or a file instead of describing a policy.
_REFERENCE = re.compile(
    r"custom|(?:custom )?\(?(?:see|per|as in) [^:]*|[^:]*\b(?:default|config|policy)\b[^:]*"
    r"|not (?:stated|given|known|read).*|unknown|unspecified|\?"
)
_NOTHING = re.compile(r"(?:no|without) .*|none|off|no|false|disabled")
_EVERYTHING = re.compile(
    r"(?:full|all|complete|uniform|activation|gradient|true|on|yes|enabled)"
    r"(?: (?:full|activation|gradient|layer|block))*"
    r"(?: (?:recompute|recomputation|checkpoint(?:ing|s)?|remat(?:eriali[sz]ation)?|ac))?|fac"
)
_NOT_KEPT = re.compile(r"(?:nothing|no activations?) (?:is |are )?(?:saved|kept)")
_SOME_LAYERS = re.compile(r"\b(?!1 layer)\d+(?:/\d+| of \d+|nd|rd|th)? (?:layers?|blocks?)\b|\d ?%")
# Megatron's method ``block`` computes the first layers of each stage again.
_LAYER_SHARE = re.compile(r"full recomput(?:e|ation) of (\d+) of (\d+) layers(?: \([^()]*\))?")
_OPERATORS = re.compile(r"\b(?:per-)?(?:op|ops|operators?)(?:-level)?\b")
_WORDS = {  # as rows name activations, by MaxText's names
    "layer input": "decoder_layer_input", "layer inputs": "decoder_layer_input",
    "input": "decoder_layer_input", "inputs": "decoder_layer_input",
    "q": "query_proj", "query": "query_proj", "k": "key_proj", "key": "key_proj",
    "v": "value_proj", "value": "value_proj", "qkv": _HEADS, "qkvo": f"{_HEADS},out_proj",
    "kv": "key_proj,value_proj",
    "o": "out_proj", "out": "out_proj", "output": "out_proj", "attention": "context",
    "gate": "mlpwi_0", "up": "mlpwi_1", "down": "mlpwo", "mlp wi": "mlpwi_0,mlpwi_1,mlpwi",
    "mlpwi": "mlpwi_0,mlpwi_1,mlpwi", "mlp wo": "mlpwo",
    "mlp": "mlpwi_0,mlpwi_1,mlpwi,mlpwo",
} | {name: name for name in ACTIVATION_NAMES if name != "mlpwi"}  # fmt: skip
_PLACES = {
    "device": "", "on device": "", "saved": "", "kept": "", "kept on device": "",
    "saved on device": "", "offload": ON_HOST, "offloaded": ON_HOST,
    "offloaded to host": ON_HOST, "on host": ON_HOST, "remat": None, "recomputed": None,
    "rematerialised": None, "rematerialized": None,
}  # fmt: skip

_CLAUSE_END = re.compile(r"(?<= )(device|saved|kept|offloaded|host), ")
_OTHERS = re.compile(r"(?:everything else|all else|the rest|rest|others) (?:is |are )?re\w+")


# fms-fsdp computes a share of its blocks again, as a whole and evenly spaced, and FSDP gathers all
# weights again (fms_fsdp/policies/ac_handler.py, option selective_checkpointing). Half is in the
# middle of what a row may have run: the forward pass is a third of a step, so that no share errs by
# more than a sixth of its products.
_BLOCK_SOURCE = "fms-fsdp"
_HALF_OF_BLOCKS = "full@1/2+eager_weights"


def read_rematerialisation(outcome: CaseOutcome) -> str:
    """Read the option ``remat`` of the recipes; "" if there is a reason against it."""
    case = outcome.case
    stated = case.get_text("remat")
    text = re.sub(r"^remat(?:_policy)?\s?[=:]\s?", "", stated.lower())
    text = _select_clause(text, case.get_text("model").lower())
    if text == "selective" and _BLOCK_SOURCE in case.get_text("source"):
        outcome.assumptions.append(
            "half of the blocks are computed again, a share that is not stated"
        )
        return _HALF_OF_BLOCKS
    if share := _LAYER_SHARE.fullmatch(text):
        return _choose_shared_policy(outcome, Fraction(int(share[1]), int(share[2])), int(share[2]))
    name, is_guess = _find_policy_name(text, case)
    if name:
        if is_guess:
            outcome.assumptions.append(f"rematerialisation {name} ('{stated}')")
        return _choose_eager_policy(case) if name == "none" else name
    if names := read_kept_activations(text):
        return names
    if not text or _REFERENCE.fullmatch(text):
        return _assume_default(outcome, stated)
    outcome.reasons["remat"] = _explain_refusal(text, stated)
    return ""


def _choose_shared_policy(outcome: CaseOutcome, share: Fraction, layers: int) -> str:
    """Choose the policy of a model of which a share of all layers is computed again."""
    case = outcome.case
    stated, known = case.get_text("remat"), case.get_text("layers")
    if known not in ("", str(layers)):
        outcome.reasons["remat"] = f"remat is '{stated}', and the model has {known} layers"
        return ""
    if case.read_axis_sizes().get("pp", 1) > 1:
        outcome.reasons["remat"] = f"'{stated}' does not say which layers of a stage"
        return ""
    if not 0 < share <= 1:
        outcome.reasons["remat"] = f"remat is '{stated}', which is no share of the layers"
        return ""
    if share == 1:
        return "full"
    outcome.assumptions.append("layers that are computed again are evenly spaced, not the first")
    return f"full{SHARE}{share}+{_choose_eager_policy(case)}"


def _select_clause(text: str, model: str) -> str:
    """Select what a text says of a size of models, as ``none for 1B; full for 7B/70B``."""
    clauses = [
        re.fullmatch(r"(.+) for ([\d.]+[mbt](?:/[\d.]+[mbt])*)", c) for c in text.split("; ")
    ]
    sizes = re.findall(r"(?<![\w.])[\d.]+[mbt](?![a-z\d])", model)
    for clause in clauses if all(clauses) else ():
        if clause and set(sizes) & set(clause[2].split("/")):
            return clause[1]
    return text


def _assume_default(outcome: CaseOutcome, stated: str) -> str:
    case = outcome.case
    if (benchmark := find_automodel_benchmark(case)) is not None:
        outcome.assumptions.append(
            f"rematerialisation {benchmark.remat} and other settings of "
            f"{benchmark.describe_source()}"
        )
        return _choose_eager_policy(case) if benchmark.remat == "none" else benchmark.remat
    if case.framework.name == AUTOMODEL and "yaml" in stated.lower():
        outcome.reasons["remat"] = f"'{stated}' is no benchmark that is known"
        return ""
    experiment = find_paxml_experiment(case)
    if policy := experiment.remat if experiment else _choose_default_policy(case):
        outcome.assumptions.append(
            f"rematerialisation {policy}, the default of {case.framework.name}"
        )
        return _choose_eager_policy(case) if policy == "none" else policy
    if stated:
        outcome.reasons["remat"] = f"'{stated}' names no rematerialisation"
        return ""
    outcome.assumptions.append(f"rematerialisation {DEFAULT_REMAT}")
    return DEFAULT_REMAT


def _choose_default_policy(case: TrainingCase) -> str:
    """Return the default of a framework. AXLearn keeps the output of attention that is not fused.

    build_remat_spec names it ``context``.
    """
    framework = case.framework
    if framework.name == AXLEARN and not has_fused_attention(case):
        return "save_dot_with_context_except_mlp"
    return framework.default_remat


def _find_policy_name(text: str, case: TrainingCase) -> tuple[str, bool]:
    """Find the policy that a text names or describes, and whether it says how that is known."""
    if _SOME_LAYERS.search(text) and not _OPERATORS.search(text):
        return "", False
    start = re.split(r" \(| by |; | \+ |, ", text)[0]
    for name in (start, *re.findall(r"\((\w+)\)", text)):
        known = name if name in REMAT_POLICIES else _POLICIES_BY_NAME.get(name, "")
        if known:
            return known, " by " in text
    if _OPERATORS.search(text) and re.search(r"\bsac\b|selective", text):
        return OPERATOR_POLICY, False
    if "selective" in start or re.search(r"\bcore[_ ]attn\b|\battention only\b", text):
        return _choose_selective_policy(text, case), False
    if _NOTHING.fullmatch(start):
        return "none", False
    return ("full" if _EVERYTHING.fullmatch(start) or _NOT_KEPT.fullmatch(start) else ""), False


def _choose_selective_policy(text: str, case: TrainingCase) -> str:
    """Choose what ``selective`` means in a text, or for a framework; "" if neither says it."""
    if "attention" in text or "attn" in text:
        return "none"  # only attention is computed again, which a fused kernel does anyhow
    return case.framework.selective_remat


def _explain_refusal(text: str, stated: str) -> str:
    if _SOME_LAYERS.search(text):
        return f"no recipe has the rematerialisation of some layers ('{stated}')"
    if text.startswith("selective"):
        return f"'{stated}' does not say which activations are computed again"
    return f"no recipe has the rematerialisation '{stated}'"


def _choose_eager_policy(case: TrainingCase) -> str:
    """Return the policy of a row without rematerialisation: ``none`` in JAX.

    PyTorch's operators keep their inputs, not each intermediate value as JAX does, and FSDP with
    FULL_SHARD frees gathered weights after the forward pass of a layer.
    """
    strategy = read_fsdp_strategy(case)
    if case.framework.name == AUTOMODEL and gathers_weights_again(case):
        return "eager_weights"
    if not strategy and not case.framework.is_eager:
        return "none"
    return "eager_weights" if strategy in ("FULL_SHARD", "HYBRID_SHARD") else "eager"


def read_kept_activations(text: str) -> str:
    """Read the activations that a layer keeps in words, as a list of the option ``remat``.

    Understands ``custom: layer input, q,k,v proj offloaded to host``, ``context and mlpwo on
    device; mlpwi offloaded`` and ``context=device, query_proj=offload``; returns "" for anything
    else. Activations that are computed again are not listed.
    """
    saved: dict[str, str] = {}
    listed = re.sub(r"^custom(?:: | \((?=.*\)$))|\s*\([^()]*\)$|\)$", "", text.lower())
    for clause in _CLAUSE_END.sub(r"\1;", listed).split(";"):
        if STATED_TILES.fullmatch(clause.strip()) or _OTHERS.fullmatch(clause.strip()):
            continue
        places = _read_stated_places(clause) or _read_clause_places(clause.strip())
        if not places:
            return ""
        saved |= {name: place for name, place in places.items() if place is not None}
    return ",".join(name + place for name, place in saved.items())


def _read_stated_places(clause: str) -> dict[str, str | None]:
    """Read ``name=place`` or ``name: place`` pairs; {} for anything else."""
    pairs = [
        re.fullmatch(r"\s*([\w ]+?)\s*[=:]\s*'?(\w+)'?\s*", part) for part in clause.split(",")
    ]
    names = [_WORDS.get(pair[1].strip()) if pair else None for pair in pairs]
    if None in names or any(pair and pair[2] not in _PLACES for pair in pairs):
        return {}
    return {
        name: _PLACES[pair[2]]
        for pair, group in zip(pairs, names, strict=True)
        if pair and group
        for name in group.split(",")
    }


def _read_clause_places(clause: str) -> dict[str, str | None]:
    """Read ``names place``, such as ``q,k,v proj offloaded``; {} for anything else."""
    for words, place in sorted(_PLACES.items(), key=lambda item: -len(item[0])):
        if clause.endswith(" " + words):
            parts = re.split(r" and |[,+&/]", clause.removesuffix(" " + words))
            stems = [re.sub(r"[ _]proj(?:ection)?s?$", "", part.strip()) for part in parts]
            groups = [_WORDS.get(stem) or _WORDS.get(f"{stem}_proj") for stem in stems]
            if None in groups:
                return {}
            return {name: place for group in groups if group for name in group.split(",")}
    return {}
