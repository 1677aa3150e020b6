"""The activations that layers keep, as rows of published tables state them in words."""

from __future__ import annotations

import re

from hespas.frontends.recipes.remat_policies import ON_HOST

_WORDS = {  # as rows name activations, by MaxText's names
    "layer input": "decoder_layer_input", "input": "decoder_layer_input",
    "q": "query_proj", "query": "query_proj", "k": "key_proj", "key": "key_proj",
    "v": "value_proj", "value": "value_proj", "qkv": "query_proj,key_proj,value_proj",
    "out": "out_proj", "context": "context", "mlpwo": "mlpwo",
}  # fmt: skip


def read_kept_activations(text: str) -> str:
    """Read the activations that a layer keeps in words, as a list of the option ``remat``.

    Understands ``custom: layer input, q,k,v proj offloaded to host``, ``context and mlpwo on
    device``; returns "" for anything else.
    """
    match = re.fullmatch(r"(?:custom: )?(.+) (offloaded(?: to host)?|on device)", text)
    if not match:
        return ""
    words = re.split(r" and |[,+]", match[1])
    names = [_WORDS.get(word.strip().removesuffix(" proj")) for word in words]
    if None in names:
        return ""
    ending = ON_HOST if match[2].startswith("offloaded") else ""
    activations = dict.fromkeys(name for group in names if group for name in group.split(","))
    return ",".join(name + ending for name in activations)
