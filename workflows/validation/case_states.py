"""The types of a training case's weights and optimiser state, and who keeps which part of it."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping

from hespas import configs
from hespas.recipes.published_models import MODELS
from hespas.workflows.validation.case_frameworks import MAXTEXT, MEGATRON, read_framework
from hespas.workflows.validation.case_pipelines import read_stage_counts
from hespas.workflows.validation.case_systems import find_node
from hespas.workflows.validation.training_cases import TrainingCase

STATE_BYTES = 16
"""Bytes of a weight in f32 with its gradient and AdamW's two moments, all of which a step holds."""


def choose_optimiser_state(case: TrainingCase, precision: Mapping[str, str]) -> dict[str, str]:
    """Return the options of an optimiser whose state the devices of ``dp`` divide (ZeRO-1).

    Megatron's distributed optimiser, which ``zero1`` stands for there, keeps the weights in the
    type of activations with a copy in f32, and sums gradients in f32. Megatron Core reads and
    divides the gradients before that.
    """
    is_divided = re.search(r"zero-?1", case.get_text("parallelism").lower())
    options = {"zero1": "true"} if is_divided else {}
    if read_framework(case).name == MEGATRON:
        stored = precision.get("compute_dtype", "bf16")
        options |= {"weights_dtype": stored, "master": "true", "reduce_dtype": "f32"}
        if is_divided and "core" in case.get_text("framework").lower():
            options["checked_gradients"] = "true"
    return options


def choose_state_types(
    case: TrainingCase, mesh: Mapping[str, int], assumptions: list[str]
) -> dict[str, str]:
    """Return the types of MaxText's weights and moments: f32, or bf16 if f32 cannot fit.

    MaxText has one key for both (``weight_dtype``), which rows do not state. Its benchmarks set it
    to bfloat16 where the memory of the devices is too small.
    """
    weights, node = case.get_text("params"), find_node(*map(case.get_text, ("hardware", "source")))
    if read_framework(case).name != MAXTEXT or not weights or not node:
        return {}
    available_bytes = configs.load_node(node).memory_bytes
    shards = math.prod(mesh.get(axis, 1) for axis in ("fsdp", "tensor", "expert"))
    if available_bytes is None or float(weights) * STATE_BYTES <= shards * available_bytes:
        return {}
    assumptions.append("weights and AdamW's moments in bf16, because they do not fit in f32")
    return {"weights_dtype": "bf16", "moments_dtype": "bf16"}


def choose_weight_padding(
    case: TrainingCase,
    sizes: Mapping[str, str],
    mesh: Mapping[str, int],
    assumptions: list[str],
) -> dict[str, str]:
    """Return the option of a decoder by which PyTorch's FSDP pads weights; {} if it need not.

    FSDP2 pads the first dimension of each weight (_init_sharded_param of torch/distributed/fsdp/
    _fully_shard/_fsdp_param.py), and FSDP1 all weights of a block together, by less (_flat_param.py
    there). JAX's frameworks refuse such a mesh.

    Args:
        case: The case.
        sizes: The options of the recipe that are dimensions, with the name of the model.
        mesh: The mesh.
        assumptions: The list to which assumptions are added.
    """
    devices = mesh.get("fsdp", 1)
    width = int(sizes.get("emb", MODELS[sizes["model"]].emb))
    if not read_framework(case).is_pytorch or width % devices == 0:
        return {}
    if read_stage_counts(case).ranks > 1:
        return {}
    padded = width + -width % devices
    assumptions.append(f"weights of width {width} are padded to {padded}, as fsdp={devices} needs")
    return {"pad_weights": "true"}
