"""The names of the policies of rematerialisation; this module does not import JAX."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Literal

RematPolicy = Literal[
    "none", "weights", "eager", "eager_weights", "minimal_with_context", "minimal_flash", "minimal",
    "save_dot_with_context_except_mlp", "save_dot_except_mlpwi", "save_dot_except_mlp",
    "save_qkv_proj", "save_out_proj", "qkv_proj_offloaded", "minimal_offloaded", "full",
]  # fmt: skip
Remat = RematPolicy | str
ACTIVATION_NAMES = (
    "decoder_layer_input", "query_proj", "key_proj", "value_proj", "context", "out_proj",
    "mlpwi", "mlpwi_0", "mlpwi_1", "mlpwo", "attention_input", "mlp_input", "mlp_hidden",
)  # fmt: skip
ON_HOST = ":host"  # ends the name of an activation that the host's memory keeps
SHARE = "@"  # between a policy and the share of the layers that have it, as in full@1/3+none
OFFLOADED_POLICIES: Mapping[str, str] = {
    "qkv_proj_offloaded": "query_proj:host,key_proj:host,value_proj:host",
    "minimal_offloaded": "query_proj:host,key_proj:host,value_proj:host,out_proj:host,"
    "mlpwi:host,mlpwi_0:host,mlpwi_1:host,mlpwo:host",
}
REMAT_HELP = (
    "what the backward pass computes again: nothing (none), the gathering of weights (weights), "
    "what PyTorch's operators compute again (eager), both (eager_weights), "
    "everything (full), or all but the activations that MaxText's policy of this name "
    "keeps, or a list such as context,mlpwo:host keeps on the device or in the host's memory; "
    "full@1/3+none is one policy for a share of the layers and another for the rest"
)
