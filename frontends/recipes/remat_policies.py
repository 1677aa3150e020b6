"""The names of the policies of rematerialisation; this module does not import JAX."""

from __future__ import annotations

from typing import Literal

Remat = Literal[
    "none", "weights", "minimal_with_context", "minimal_flash", "minimal",
    "save_dot_with_context_except_mlp", "save_dot_except_mlpwi", "save_dot_except_mlp",
    "save_qkv_proj", "save_out_proj", "full",
]  # fmt: skip
REMAT_HELP = (
    "what the backward pass computes again: nothing (none), the gathering of weights (weights), "
    "everything (full), or all but the activations that MaxText's policy of this name keeps"
)
