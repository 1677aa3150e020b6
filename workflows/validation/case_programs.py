"""The program of a training case: its recipe, options and mesh, or why there is none.

A case whose model, precision, division or rematerialisation no recipe can express is refused with
all its reasons, and never replaced by a similar program. What a row leaves open and a program needs
becomes an assumption, which the row of the result lists.
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, get_args

from hespas.frontends.recipes.remat_policies import RematPolicy
from hespas.workflows.studies.study_definition import StudyWorkload
from hespas.workflows.validation.case_activations import read_kept_activations
from hespas.workflows.validation.case_flags import choose_gpu_options, choose_tpu_options
from hespas.workflows.validation.case_models import (
    find_family,
    find_published_model,
    find_recipe,
    infer_head_dim,
)
from hespas.workflows.validation.case_slices import find_slice_problem
from hespas.workflows.validation.training_cases import DIMENSIONS, TrainingCase, read_fsdp_strategy

if TYPE_CHECKING:
    from hespas.dialects.xla import CompilerName

RECIPE_SIZES = {
    "layers": "layers", "hidden": "emb", "heads": "heads", "kv_heads": "kv_heads",
    "head_dim": "head_dim", "ffn": "mlp", "vocab": "vocab",
}  # fmt: skip
PRECISIONS: Mapping[str, Mapping[str, str]] = {
    "bf16": {},
    "bf16 (te)": {},
    "bf16 compute, fp32 params": {},
    "bf16 autocast + fp32 optimizer": {},
    # Composer's modes: gathered weights in bf16, sums of gradients in f32 (DEFAULT) or bf16 (PURE).
    # Autocast computes every linear layer in bf16, and so the logits.
    "amp_bf16/default": {"reduce_dtype": "f32", "logits_dtype": "bf16"},
    "bf16/pure": {"logits_dtype": "bf16"},
    "amp_fp8/default": {"reduce_dtype": "f32", "logits_dtype": "bf16", "products": "fp8"},
    "fp8+bf16": {"products": "fp8"},
    "fp8 (te)": {"products": "fp8"},
    "fp8 (aqt/te linear)+bf16": {"products": "fp8"},
    "fp8 (linear) + bf16": {"products": "fp8"},
    "fp8 tensorwise": {"products": "fp8"},
    "fp8 rowwise": {"products": "fp8_rowwise"},
    "int8 quantized training (folder says fp8)": {"products": "int8"},
    "fp16 mixed": {"compute_dtype": "f16"},
    "fp32": {"compute_dtype": "f32"},
    "f32": {"compute_dtype": "f32"},
}
REMAT_POLICIES: tuple[str, ...] = get_args(RematPolicy)
DEFAULT_SEQUENCE, DEFAULT_REMAT = 4096, "minimal"  # as the recipes


@dataclass
class CasePlan:
    """How a case is predicted, or why it is not.

    Attributes:
        workload: The recipe with options and mesh; None if the case is refused.
        xla_options: Options of the pass xla-optimize.
        reasons: By kind (model, precision, ...), why there is no program.
        assumptions: What the row does not state, one phrase each.
    """

    workload: StudyWorkload | None = None
    xla_options: str = ""
    reasons: dict[str, str] = field(default_factory=dict)
    assumptions: list[str] = field(default_factory=list)


def plan_case_program(
    case: TrainingCase, changes: Mapping[str, str], *, compiler: CompilerName | None
) -> CasePlan:
    """Plan the program of a case.

    Args:
        case: The case.
        changes: Options of the recipe that replace those of every row.
        compiler: The compiler, which has a kernel of attention; None if XLA compiles nothing.
    """
    plan = CasePlan()
    sizes = _plan_sizes(case, plan)
    precision = _plan_precision(case, plan)
    mesh = _plan_mesh(case, plan)
    remat = changes.get("remat") or _plan_remat(case, plan)
    sequence = _read_count(case, "seq_len", plan)
    if sequence is None and "sequence" not in plan.reasons:
        sequence = DEFAULT_SEQUENCE
        plan.assumptions.append(f"sequences of {sequence} tokens")
    batch = _plan_batch(case, mesh, plan)
    if plan.reasons or batch is None:
        return plan
    options = {
        **sizes,
        **precision,
        **_plan_optimiser(case),
        "sequence": str(sequence),
        **batch,
        "remat": remat,
        "attention": _choose_attention(precision, compiler),
        "scan": _plan_scan(case, plan),
        **changes,
    }
    recipe = find_recipe(case.get_text("model"))
    if recipe != "moe" and (_is_sequence_parallel(case) or _divides_activations(case, mesh)):
        options["sequence_parallel"] = "true"
    plan.workload = StudyWorkload(recipe, options, mesh, {"id": case.id})
    if compiler == "gpu":
        plan.xla_options = choose_gpu_options(case, mesh, plan.assumptions)
    elif compiler == "tpu":
        plan.xla_options = choose_tpu_options(case, plan.assumptions)
    return plan


def _is_sequence_parallel(case: TrainingCase) -> bool:
    """Return whether the devices of tensor parallelism divide the tokens too, as ``sp=8;tp=8``."""
    sizes = dict(re.findall(r"\b(sp|tp)=(\d+)", case.get_text("parallelism")))
    return sizes.get("sp", "1") != "1" and sizes.get("sp") == sizes.get("tp")


def _divides_activations(case: TrainingCase, mesh: Mapping[str, int]) -> bool:
    """Return whether tensor parallelism divides the activations between blocks, as in MaxText.

    MaxText divides them by embedding (its rule of the axis ``activation_embed``), the recipes by
    tokens: the sizes of activations and collectives are the same.
    """
    return (
        mesh["tensor"] > 1
        and "tpu" in case.get_text("hardware").lower()
        and ("maxtext" in case.get_text("framework").lower())
    )


def _choose_attention(precision: Mapping[str, str], compiler: CompilerName | None) -> str:
    """Return the fused attention of the device: splash on TPUs, cuDNN's for types of 16 bits."""
    if compiler == "tpu":
        return "splash"
    is_fused = compiler == "gpu" and precision.get("compute_dtype") != "f32"
    return "cudnn" if is_fused else "dot_product"


def _plan_scan(case: TrainingCase, plan: CasePlan) -> str:
    """Return whether the layers are a loop: as the row says, else as MaxText does by default."""
    texts = [case.get_text(column).lower() for column in ("framework", "notes")]
    if any(phrase in text for text in texts for phrase in ("scan off", "scan_layers false")):
        return "false"
    if "maxtext" not in texts[0]:
        plan.assumptions.append("layers in a loop")
    return "true"


def _plan_sizes(case: TrainingCase, plan: CasePlan) -> dict[str, str]:
    """Return the dimensions of the model as options of the recipe."""
    name = case.get_text("model")
    family = find_family(name)
    if family is None:
        plan.reasons["model"] = f"no recipe builds the model '{name}'"
        return {}
    sizes: dict[str, int] = {}
    for column in DIMENSIONS:
        value = _read_count(case, column, plan)
        if value is not None:
            sizes[column] = value
    published = find_published_model(name)
    if "model" not in plan.reasons and not published:
        missing = [c for c in DIMENSIONS if c not in (*sizes, "head_dim", "kv_heads")]
        if missing:
            plan.reasons["model"] = (
                f"the dimensions of '{name}' are not known: {', '.join(missing)} missing"
            )
    if "hidden" in sizes and "heads" in sizes and "head_dim" not in sizes:
        sizes["head_dim"] = infer_head_dim(family, published, sizes["hidden"], sizes["heads"])
    if "heads" in sizes:
        sizes.setdefault("kv_heads", sizes["heads"])
    options = {RECIPE_SIZES[column]: str(value) for column, value in sizes.items()}
    if family.assumption:
        plan.assumptions.append(family.assumption)
    return {"model": published or family.base, **options, **family.options}


def _plan_precision(case: TrainingCase, plan: CasePlan) -> Mapping[str, str]:
    text = case.get_text("precision")
    if not text:
        plan.assumptions.append("bf16 with f32 weights")
    elif text.lower() not in PRECISIONS:
        plan.reasons["precision"] = f"no recipe computes in '{text}'"
    options = PRECISIONS.get(text.lower(), {})
    if options.get("products") == "fp8" and "torchtitan" not in case.get_text("framework"):
        plan.assumptions.append("scales of fp8 from the values themselves, not from earlier steps")
    if options.get("compute_dtype") == "f16":
        plan.assumptions.append("no scaling of the loss")
    return options


def _plan_mesh(case: TrainingCase, plan: CasePlan) -> dict[str, int]:
    """Return the mesh: data (between hosts first), fsdp, expert if the model has any, tensor."""
    text = case.get_text("parallelism")
    sizes = {name: int(size) for name, size in re.findall(r"\b([a-z]+)=(\d+)", text)}
    if not text:
        sizes = {"fsdp": case.devices}
        if case.devices > 1:
            plan.assumptions.append(f"fsdp over all {case.devices} devices")
    elif not sizes:
        plan.reasons["parallelism"] = f"'{text}' states no sizes such as dp=2;fsdp=8"
        return {}
    is_moe = find_recipe(case.get_text("model")) == "moe"
    names = {"pp": "pipeline", "cp": "context", **({} if is_moe else {"ep": "expert"})}
    problems = [
        f"{title} parallelism ({name}={sizes[name]})"
        for name, title in names.items()
        if sizes.get(name, 1) > 1
    ]
    strategy = read_fsdp_strategy(case)
    if strategy not in ("", "FULL_SHARD", "SHARD_GRAD_OP"):
        problems.append(f"FSDP's strategy {strategy}")
    problems += filter(None, [find_slice_problem(text, sizes)])
    is_in_data = is_moe and "megatron" in case.get_text("framework").lower()
    mesh = {
        # Megatron divides experts over devices of data parallelism.
        "data": sizes.get("dp", 1) // (sizes.get("ep", 1) if is_in_data else 1),
        "fsdp": sizes.get("fsdp", 1),
        **({"expert": sizes.get("ep", 1)} if is_moe else {}),
        "tensor": sizes.get("tp", 1),
    }
    count = math.prod(mesh.values())
    if problems:
        plan.reasons["parallelism"] = f"no program with {', '.join(problems)}"
    elif count != case.devices:
        plan.reasons["parallelism"] = f"'{text}' makes {count} devices, not {case.devices}"
    return mesh


def _plan_optimiser(case: TrainingCase) -> dict[str, str]:
    """Return the options of an optimiser whose state the devices of ``dp`` divide (ZeRO-1).

    Megatron's distributed optimiser, which ``zero1`` stands for there, keeps the weights in bf16
    with a copy in f32, and sums gradients in f32.
    """
    is_divided = re.search(r"zero-?1", case.get_text("parallelism").lower())
    options = {"zero1": "true"} if is_divided else {}
    if "megatron" in case.get_text("framework").lower():
        options |= {"weights_dtype": "bf16", "master": "true", "reduce_dtype": "f32"}
    return options


def _plan_remat(case: TrainingCase, plan: CasePlan) -> str:
    """Return MaxText's policy that a row names: at its start, or in parentheses."""
    text = case.get_text("remat")
    if not text:
        plan.assumptions.append(f"rematerialisation {DEFAULT_REMAT}")
        return DEFAULT_REMAT
    start = re.split(r" \(| by ", text)[0]
    for name in (start, *re.findall(r"\((\w+)\)", text)):
        if name in REMAT_POLICIES:
            if " by " in text:
                plan.assumptions.append(f"rematerialisation {name} ('{text}')")
            return _choose_eager_policy(case) if name == "none" else name
    if names := read_kept_activations(text):
        return names
    plan.reasons["remat"] = f"no recipe has the rematerialisation '{text}'"
    return ""


def _choose_eager_policy(case: TrainingCase) -> str:
    """Return the policy of a row without rematerialisation: ``none`` in JAX.

    PyTorch's operators keep their inputs, not each intermediate value as JAX does, and FSDP with
    FULL_SHARD frees gathered weights after the forward pass of a layer.
    """
    strategy, framework = read_fsdp_strategy(case), case.get_text("framework").lower()
    if not strategy and not any(name in framework for name in ("pytorch", "megatron")):
        return "none"
    return "eager_weights" if strategy == "FULL_SHARD" else "eager"


def _plan_batch(
    case: TrainingCase, mesh: Mapping[str, int], plan: CasePlan
) -> dict[str, str] | None:
    """Return the options of the batch of each shard, or None if the case is refused."""
    accumulated = _read_count(case, "grad_accum", plan)
    rows = _read_count(case, "global_batch", plan)
    per_device = _read_number(case, "per_device_batch", plan)
    microbatch = _read_count(case, "microbatch", plan)
    if not mesh:
        return None
    shards = math.prod(mesh.values()) // mesh["tensor"]
    if rows is None and "batch" not in plan.reasons:
        if per_device is None:
            plan.assumptions.append("one sequence for each batch shard")
        total = per_device * case.devices if per_device is not None else shards
        rows = int(total)
        if rows != total:
            plan.reasons["batch"] = f"{per_device:g} sequences of a device make no whole batch"
    if rows is None or "batch" in plan.reasons or "parallelism" in plan.reasons:
        return None
    batch, rest = divmod(rows, shards)
    if rest or not batch:
        plan.reasons["batch"] = f"{rows} sequences cannot be divided over {shards} batch shards"
        return None
    count = accumulated or (-(-batch // microbatch) if microbatch else 1)
    is_short = count == 1 and (microbatch or 0) > batch  # one microbatch of all that there is
    if batch % count or not (is_short or batch // count == (microbatch or batch // count)):
        stated = f"{count} microbatches" + (f" of {microbatch}" if microbatch else "")
        plan.reasons["batch"] = f"{batch} sequences of a batch shard are not {stated}"
    accumulation = {"accumulate": str(count)} if count > 1 else {}
    return {"batch": str(batch // count), **accumulation}


def _read_count(case: TrainingCase, column: str, plan: CasePlan) -> int | None:
    """Read a whole number; None if the cell is empty, or wrong, which is a reason."""
    value = _read_number(case, column, plan)
    if value is None:
        return None
    if value != int(value) or value < 1:
        plan.reasons[_get_reason_kind(column)] = f"{column} is '{case.get_text(column)}'"
        return None
    return int(value)


def _read_number(case: TrainingCase, column: str, plan: CasePlan) -> float | None:
    text = case.get_text(column)
    if not text:
        return None
    try:
        return float(text)
    except ValueError:
        plan.reasons[_get_reason_kind(column)] = f"{column} is '{text}', not a number"
        return None


def _get_reason_kind(column: str) -> str:
    if column in DIMENSIONS:
        return "model"
    return "sequence" if column == "seq_len" else "batch"
