"""The program of a training case: its recipe, options and mesh, or why there is none.

A case whose model, precision, division or rematerialisation no recipe can express is refused with
all its reasons, and never replaced by a similar program. What a row leaves open and a program needs
becomes an assumption, which the row of the result lists.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from hespas.recipes.published_models import MODELS
from hespas.recipes.remat_policies import SHARE
from hespas.support.errors import HespasError
from hespas.workflows.studies.program_forms import FUSED_ATTENTION
from hespas.workflows.studies.study_definition import StudyWorkload
from hespas.workflows.validation.case_attention import choose_score_type, has_fused_attention
from hespas.workflows.validation.case_encoders import (
    choose_bert_options,
    names_fused_attention,
    read_stacks,
)
from hespas.workflows.validation.case_flags import (
    choose_gpu_options,
    choose_tpu_options,
    describe_moments,
)
from hespas.workflows.validation.case_frameworks import MAXTEXT, T5X, read_framework
from hespas.workflows.validation.case_meshes import divides_tokens, read_mesh
from hespas.workflows.validation.case_models import (
    find_family,
    find_published_model,
    find_recipe,
    find_resnet_depth,
    infer_head_dim,
)
from hespas.workflows.validation.case_operators import (
    choose_loss_kernels,
    choose_operator_options,
)
from hespas.workflows.validation.case_pipelines import (
    CasePipeline,
    plan_case_pipeline,
    read_stage_counts,
)
from hespas.workflows.validation.case_precisions import CURRENT_SCALES, read_precision
from hespas.workflows.validation.case_rematerialisation import (
    read_rematerialisation,
)
from hespas.workflows.validation.case_states import (
    choose_optimiser_state,
    choose_state_types,
    choose_weight_padding,
)
from hespas.workflows.validation.case_vocabulary import read_vocabulary_tiles
from hespas.workflows.validation.paxml_experiments import find_paxml_experiment
from hespas.workflows.validation.training_cases import DIMENSIONS, TrainingCase

if TYPE_CHECKING:
    from hespas.dialects.xla import CompilerName

RECIPE_SIZES = {
    "layers": "layers", "hidden": "emb", "heads": "heads", "kv_heads": "kv_heads",
    "head_dim": "head_dim", "ffn": "mlp", "vocab": "vocab",
}  # fmt: skip
DEFAULT_SEQUENCE = 4096  # as the recipes
_ADAPTERS = re.compile(r"\bq?lora\b", re.IGNORECASE)
# Those with the option sequence_parallel, and products with delayed scaling
_DENSE_RECIPES = ("gemma", "gpt", "llama")


@dataclass
class CasePlan:
    """How a case is predicted, or why it is not.

    Attributes:
        workload: The recipe with options and mesh; None if the case is refused.
        pipeline: The schedule and the programs of the stages, if there are several.
        xla_options: Options of the pass xla-optimize.
        reasons: By kind (model, precision, ...), why there is no program.
        assumptions: What the row does not state, one phrase each.
    """

    workload: StudyWorkload | None = None
    pipeline: CasePipeline | None = None
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
    depth = find_resnet_depth(case.get_text("model"))
    workload = (
        _plan_resnet(case, depth, changes, plan)
        if depth
        else _plan_decoder(case, changes, compiler, plan)
    )
    if workload is None or plan.reasons:
        return plan
    counts = read_stage_counts(case)
    if counts.ranks > 1:
        try:
            plan.pipeline = plan_case_pipeline(case, workload, counts, plan.assumptions)
        except HespasError as error:
            plan.reasons["parallelism"] = error.message
            return plan
    plan.workload = workload
    if compiler == "gpu":
        plan.xla_options = choose_gpu_options(case, workload, plan.assumptions)
    elif compiler == "tpu":
        plan.xla_options = choose_tpu_options(case, plan.assumptions)
        if workload.options.get("moments_dtype", "f32") == "f32":
            plan.assumptions.append(describe_moments(case))
    return plan


def _plan_decoder(
    case: TrainingCase, changes: Mapping[str, str], compiler: CompilerName | None, plan: CasePlan
) -> StudyWorkload | None:
    """Plan the program of a language model; None if the case is refused."""
    recipe = find_recipe(case.get_text("model"))
    own: dict[str, str] = {}
    if recipe == "t5":
        case, own = read_stacks(case, plan.assumptions)
    sizes = _plan_sizes(case, plan)
    if _ADAPTERS.search(" ".join(map(case.get_text, ("model", "framework", "precision", "notes")))):
        plan.reasons["model"] = "no recipe trains adapters of low rank (LoRA) beside frozen weights"
    precision = _plan_precision(case, plan)
    mesh = _plan_mesh(case, plan)
    attention = _choose_attention(case, precision, compiler)
    if "context" in mesh and attention == "cudnn" and sizes and MODELS[sizes["model"]].window:
        plan.reasons["parallelism"] = "no program with context parallelism and windows"
    remat = changes.get("remat") or _plan_remat(case, plan)
    optimiser = choose_optimiser_state(case, precision)
    sequence = _read_count(case, "seq_len", plan)
    if sequence is None and "sequence" not in plan.reasons:
        sequence = DEFAULT_SEQUENCE
        plan.assumptions.append(f"sequences of {sequence} tokens")
    batch = _plan_batch(case, mesh, plan)
    if plan.reasons or batch is None:
        return None
    if precision.get("products") == "fp8_delayed" and (
        recipe not in _DENSE_RECIPES
        or {"accumulate", "zero1", "reduce_dtype"} & {*precision, *optimiser, *batch}
    ):
        precision = {**precision, "products": "fp8"}
        plan.assumptions.append(CURRENT_SCALES)
    if recipe == "bert":
        own = choose_bert_options(case, sequence or 0, int(batch["batch"]), plan.assumptions)
    if attention != "dot_product" and (
        recipe == "t5" or (recipe == "bert" and not names_fused_attention(case))
    ):
        attention = "dot_product"
        plan.assumptions.append("attention by products and a softmax")
    elif compiler is None:
        plan.assumptions.append(
            "attention by products and a softmax, because XLA does not compile this form"
        )
    options = {
        **sizes,
        **precision,
        **optimiser,
        **choose_state_types(case, mesh, plan.assumptions),
        **(
            {
                **choose_operator_options(case, precision, plan.assumptions),
                **choose_weight_padding(case, sizes, mesh, plan.assumptions),
            }
            if recipe in _DENSE_RECIPES
            else {}
        ),
        **(read_vocabulary_tiles(case) if recipe != "bert" else {}),
        **choose_loss_kernels(case, recipe),
        "sequence": str(sequence),
        **batch,
        "remat": remat,
        "attention": attention,
        **choose_score_type(case, recipe, attention),
        "scan": _plan_scan(case, plan, remat),
        **own,
        **changes,
    }
    if recipe in _DENSE_RECIPES and (divides_tokens(case) or _divides_activations(case, mesh)):
        options["sequence_parallel"] = "true"
    return StudyWorkload(recipe, options, mesh, {"id": case.id})


def _plan_resnet(
    case: TrainingCase, depth: str, changes: Mapping[str, str], plan: CasePlan
) -> StudyWorkload | None:
    """Plan the program of a ResNet; None if the case is refused."""
    precision = _plan_precision(case, plan)
    if "products" in precision:
        plan.reasons["precision"] = "no recipe of images computes in 8 bits"
    image = re.fullmatch(r"(\d+)(?:x\1(?:x3)?)?", case.get_text("seq_len") or "224")
    if image is None:
        plan.reasons["sequence"] = f"images of '{case.get_text('seq_len')}' are not squares"
    mesh = _plan_mesh(case, plan) if case.get_text("parallelism") else {"data": case.devices}
    if any(size > 1 for axis, size in mesh.items() if axis != "data"):
        plan.reasons["parallelism"] = "ResNet has data parallelism only"
    batch = _plan_batch(case, {"data": case.devices, "tensor": 1}, plan)
    if batch and "accumulate" in batch:
        plan.reasons["batch"] = "no recipe of images has microbatches"
    if plan.reasons or batch is None or image is None:
        return None
    plan.assumptions.append("batch norm over each device's own images, SGD, version 1.5 of ResNet")
    options = {
        "depth": depth, "image": image[1], **batch, "norm_images": "own",
        "dtype": precision.get("compute_dtype", "bf16"), **changes,
    }  # fmt: skip
    return StudyWorkload("resnet", options, {"data": case.devices}, {"id": case.id})


def _divides_activations(case: TrainingCase, mesh: Mapping[str, int]) -> bool:
    """Return whether tensor parallelism divides the activations between blocks, as in MaxText.

    MaxText divides them by embedding (its rule of the axis ``activation_embed``), the recipes by
    tokens: the sizes of activations and collectives are the same.
    """
    return (
        mesh["tensor"] > 1
        and "tpu" in case.get_text("hardware").lower()
        and read_framework(case).name == MAXTEXT
    )


def _choose_attention(
    case: TrainingCase, precision: Mapping[str, str], compiler: CompilerName | None
) -> str:
    """Return the fused attention of the device: splash on TPUs, cuDNN's for types of 16 bits."""
    if compiler is None or (compiler == "gpu" and precision.get("compute_dtype") == "f32"):
        return "dot_product"
    if not has_fused_attention(case):
        return "dot_product"
    return FUSED_ATTENTION[compiler]


def _plan_scan(case: TrainingCase, plan: CasePlan, remat: str) -> str:
    """Return whether the layers are a loop: as the row says, else as MaxText does by default.

    Without rematerialisation, a loop copies all that the gradients need into stacks. An eager
    framework has no loop and copies nothing, so its layers are unrolled; those of T5X's network for
    GPUs (t5x/contrib/gpu/t5/network.py) and of some experiments of Paxml are too. With
    rematerialisation the stacks hold the inputs of layers only, and a loop compiles faster.
    """
    texts = [case.get_text(column).lower() for column in ("framework", "notes")]
    if any(phrase in text for text in texts for phrase in ("scan off", "scan_layers false")):
        return "false"
    framework, experiment = read_framework(case).name, find_paxml_experiment(case)
    if remat.startswith("eager") or SHARE in remat or framework == T5X:
        return "false"
    if experiment:
        return str(experiment.is_repeated).lower()
    if framework != MAXTEXT:
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
    if published and MODELS[published].expert_mlp == sizes.get("ffn"):
        del sizes["ffn"]  # the width of an expert, where others state that of a dense MLP
    if "hidden" in sizes and "heads" in sizes and "head_dim" not in sizes:
        sizes["head_dim"] = infer_head_dim(family, published, sizes["hidden"], sizes["heads"])
    if "heads" in sizes:
        sizes.setdefault("kv_heads", sizes["heads"])
    options = {RECIPE_SIZES[column]: str(value) for column, value in sizes.items()}
    if family.assumption:
        plan.assumptions.append(family.assumption)
    return {"model": published or family.base, **options, **family.options}


def _plan_precision(case: TrainingCase, plan: CasePlan) -> Mapping[str, str]:
    reading = read_precision(case)
    _add_reading(plan, "precision", reading.reason, reading.assumptions)
    return reading.options


def _plan_mesh(case: TrainingCase, plan: CasePlan) -> dict[str, int]:
    reading = read_mesh(case, find_recipe(case.get_text("model")))
    _add_reading(plan, "parallelism", reading.reason, reading.assumptions)
    if "context" in reading.mesh and read_framework(case).name == MAXTEXT:
        plan.assumptions.append("weights are divided by fsdp, not by the devices of context too")
    return reading.mesh


def _plan_remat(case: TrainingCase, plan: CasePlan) -> str:
    reading = read_rematerialisation(case)
    _add_reading(plan, "remat", reading.reason, filter(None, [reading.assumption]))
    return reading.policy


def _add_reading(plan: CasePlan, kind: str, reason: str, assumptions: Iterable[str]) -> None:
    if reason:
        plan.reasons[kind] = reason
    plan.assumptions += assumptions


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
    shards = math.prod(mesh.values()) // (mesh["tensor"] * mesh.get("context", 1))
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
    stages = read_stage_counts(case, plan.assumptions)
    if stages.ranks > 1 and not accumulated:
        # The default of torchtitan (9dec370: build_pipeline_schedule), whatever its help says
        plan.assumptions.append(f"{stages.ranks} microbatches, as many as ranks of the pipeline")
        accumulated, microbatch = stages.ranks, None
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
