"""The program of a training case: its recipe, options and mesh, or why there is none.

A case whose model, precision, division or rematerialisation no recipe can express is refused with
all its reasons, and never replaced by a similar program. What a row leaves open and a program needs
becomes an assumption, which the row of the result lists.
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from typing import TYPE_CHECKING

from hespas.frontends.export.program_source import DENSE_DECODERS
from hespas.recipes.published_models import MODELS
from hespas.recipes.remat_policies import SHARE
from hespas.support.errors import HespasError
from hespas.workflows.studies.program_forms import FUSED_ATTENTION
from hespas.workflows.studies.study_definition import StudyWorkload
from hespas.workflows.validation.case_adapters import choose_adapters
from hespas.workflows.validation.case_automodel import (
    choose_automodel_state,
    note_deferred_collectives,
)
from hespas.workflows.validation.case_experts import (
    choose_expert_dispatch,
    choose_expert_sizes,
    choose_weight_division,
    read_expert_sizes,
)
from hespas.workflows.validation.case_flags import (
    choose_gpu_options,
    choose_tpu_options,
    describe_moments,
)
from hespas.workflows.validation.case_frameworks import MAXTEXT, T5X, find_paxml_experiment
from hespas.workflows.validation.case_kernels import (
    choose_expert_operators,
    choose_loss_kernels,
    choose_operator_options,
    choose_score_type,
    has_fused_attention,
    read_vocabulary_tiles,
)
from hespas.workflows.validation.case_meshes import (
    divides_tokens,
    plan_stages,
    read_mesh,
    read_stage_counts,
)
from hespas.workflows.validation.case_models import (
    choose_bert_options,
    find_family,
    find_published_model,
    find_recipe,
    find_resnet_depth,
    infer_head_dim,
    names_fused_attention,
    read_stacks,
)
from hespas.workflows.validation.case_precisions import (
    CURRENT_SCALES,
    choose_optimiser_state,
    choose_state_types,
    choose_stored_products,
    choose_weight_padding,
    read_precision,
)
from hespas.workflows.validation.case_rematerialisation import read_rematerialisation
from hespas.workflows.validation.training_cases import DIMENSIONS, CaseOutcome, TrainingCase

if TYPE_CHECKING:
    from hespas.dialects.xla import CompilerName

RECIPE_SIZES = {
    "layers": "layers", "hidden": "emb", "heads": "heads", "kv_heads": "kv_heads",
    "head_dim": "head_dim", "ffn": "mlp", "vocab": "vocab",
}  # fmt: skip
DEFAULT_SEQUENCE = 4096  # as the recipes


def plan_case_program(
    case: TrainingCase,
    changes: Mapping[str, str],
    *,
    compiler: CompilerName | None,
    is_compiled: bool = True,
) -> CaseOutcome:
    """Plan the program of a case.

    Args:
        case: The case.
        changes: Options of the recipe that replace those of every row.
        compiler: Which of XLA's compilers has a target for the node; None if none has.
        is_compiled: Whether it compiles the program.
    """
    outcome = CaseOutcome(case)
    depth = find_resnet_depth(case.get_text("model"))
    workload = (
        _plan_resnet(outcome, depth, changes)
        if depth
        else _plan_decoder(outcome, changes, FUSED_ATTENTION[compiler])
    )
    products = workload.options.get("products", "") if workload is not None else ""
    if is_compiled and products.startswith("nvfp4"):
        outcome.reasons["compile"] = "XLA has no kernels that convert to 4 bits"
    if workload is None or outcome.reasons:
        return outcome
    try:
        plan_stages(outcome, workload)
    except HespasError as error:
        outcome.reasons["parallelism"] = error.message
        return outcome
    outcome.workload = workload
    if compiler != "tpu":
        outcome.xla_options = choose_gpu_options(outcome, workload, is_compiled=is_compiled)
    else:
        outcome.xla_options = choose_tpu_options(outcome, is_compiled=is_compiled)
        if is_compiled and workload.options.get("moments_dtype", "f32") == "f32":
            outcome.assumptions.append(describe_moments(case))
    return outcome


def _plan_decoder(
    outcome: CaseOutcome, changes: Mapping[str, str], fused_attention: str
) -> StudyWorkload | None:
    """Plan the program of a language model; None if the case is refused."""
    case = outcome.case
    recipe = find_recipe(case.get_text("model"))
    own: dict[str, str] = {}
    if recipe == "t5":
        case, own = read_stacks(outcome)
    sizes = _plan_sizes(case, outcome)
    precision = read_precision(outcome)
    adapters = choose_adapters(outcome, recipe, precision)
    mesh = read_mesh(outcome, recipe)
    if "context" in mesh and case.framework.name == MAXTEXT:
        outcome.assumptions.append("weights are divided by fsdp, not by the devices of context too")
    attention = _choose_attention(case, precision, fused_attention)
    if "context" in mesh and attention == "cudnn" and sizes and MODELS[sizes["model"]].window:
        outcome.reasons["parallelism"] = "no program with context parallelism and windows"
    remat = changes.get("remat") or read_rematerialisation(outcome)
    optimiser = choose_optimiser_state(outcome, precision)
    sequence = _read_count(case, "seq_len", outcome)
    if sequence is None and "sequence" not in outcome.reasons:
        sequence = DEFAULT_SEQUENCE
        outcome.assumptions.append(f"sequences of {sequence} tokens")
    batch = _plan_batch(outcome, mesh)
    if outcome.reasons or batch is None:
        return None
    if precision.get("products") == "fp8_delayed" and (
        recipe not in DENSE_DECODERS
        or adapters
        or {"accumulate", "zero1", "reduce_dtype"} & {*precision, *optimiser, *batch}
    ):
        precision = {**precision, "products": "fp8"}
        outcome.assumptions.append(CURRENT_SCALES)
    if recipe == "bert":
        own = choose_bert_options(outcome, sequence or 0, int(batch["batch"]))
    attention = _settle_attention(outcome, recipe, attention)
    options = {
        **sizes,
        **precision,
        **optimiser,
        **choose_state_types(outcome, mesh),
        **choose_automodel_state(outcome, precision, mesh),
        **_leave_out_clipping(case),
        **adapters,
        **(
            {
                **choose_weight_division(case, mesh),
                **choose_expert_operators(outcome, sizes.get("dispatch", "")),
            }
            if recipe == "moe"
            else {}
        ),
        **(
            {
                **choose_operator_options(outcome, precision),
                **choose_weight_padding(outcome, sizes, mesh),
                **({} if adapters else choose_stored_products(outcome, precision)),
            }
            if recipe in DENSE_DECODERS
            else {}
        ),
        **(read_vocabulary_tiles(case) if recipe != "bert" else {}),
        **choose_loss_kernels(case, recipe),
        "sequence": str(sequence),
        **batch,
        "remat": remat,
        "attention": attention,
        **choose_score_type(case, recipe, attention),
        **(_leave_out_sinks(outcome, sizes["model"]) if attention == "cudnn" else {}),
        "scan": _plan_scan(outcome, remat),
        **own,
        **changes,
    }
    note_deferred_collectives(outcome, options)
    if recipe in DENSE_DECODERS and (divides_tokens(case) or _divides_activations(case, mesh)):
        options["sequence_parallel"] = "true"
    return StudyWorkload(recipe, options, mesh, {"id": case.id})


def _settle_attention(outcome: CaseOutcome, recipe: str, attention: str) -> str:
    """Return the attention that the recipe has; notes what is assumed."""
    is_fused = attention != "dot_product"
    if is_fused and (
        recipe == "t5" or (recipe == "bert" and not names_fused_attention(outcome.case))
    ):
        outcome.assumptions.append("attention by products and a softmax")
        return "dot_product"
    return attention


def _leave_out_sinks(outcome: CaseOutcome, model: str) -> dict[str, str]:
    """Return the option for attention without sinks, which cuDNN's kernel of the recipes lacks."""
    if not MODELS[model].sinks:
        return {}
    outcome.assumptions.append("attention without sinks")
    return {"sinks": "false"}


def _leave_out_clipping(case: TrainingCase) -> dict[str, str]:
    """Return the option for gradients that are not clipped, if a row says so."""
    return {"clip": "0"} if re.search(r"\b(?:no|without) gradient clipping\b", case.words) else {}


def _plan_resnet(
    outcome: CaseOutcome, depth: str, changes: Mapping[str, str]
) -> StudyWorkload | None:
    """Plan the program of a ResNet; None if the case is refused."""
    case, precision = outcome.case, read_precision(outcome)
    if "products" in precision:
        outcome.reasons["precision"] = "no recipe of images computes in 8 bits"
    image = re.fullmatch(r"(\d+)(?:x\1(?:x3)?)?", case.get_text("seq_len") or "224")
    if image is None:
        outcome.reasons["sequence"] = f"images of '{case.get_text('seq_len')}' are not squares"
    mesh: Mapping[str, int] = {"data": case.devices}
    if case.get_text("parallelism"):
        mesh = read_mesh(outcome, "resnet")
    if any(size > 1 for axis, size in mesh.items() if axis != "data"):
        outcome.reasons["parallelism"] = "ResNet has data parallelism only"
    batch = _plan_batch(outcome, {"data": case.devices, "tensor": 1})
    if batch and "accumulate" in batch:
        outcome.reasons["batch"] = "no recipe of images has microbatches"
    if outcome.reasons or batch is None or image is None:
        return None
    outcome.assumptions.append(
        "batch norm over each device's own images, SGD, version 1.5 of ResNet"
    )
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
    return mesh["tensor"] > 1 and case.is_on_tpu and case.framework.name == MAXTEXT


def _choose_attention(case: TrainingCase, precision: Mapping[str, str], fused: str) -> str:
    """Return the attention of a framework on a device; cuDNN's kernel is for types of 16 bits."""
    is_narrow = fused != "cudnn" or precision.get("compute_dtype") != "f32"
    return fused if is_narrow and has_fused_attention(case) else "dot_product"


def _plan_scan(outcome: CaseOutcome, remat: str) -> str:
    """Return whether the layers are a loop: as the row says, else as MaxText does by default.

    Without rematerialisation, a loop copies all that the gradients need into stacks. An eager
    framework has no loop and copies nothing, so its layers are unrolled; those of T5X's network for
    GPUs (t5x/contrib/gpu/t5/network.py) and of some experiments of Paxml are too. With
    rematerialisation the stacks hold the inputs of layers only, and a loop compiles faster.
    """
    words = outcome.case.words
    if "scan off" in words or "scan_layers false" in words:
        return "false"
    framework, experiment = outcome.case.framework.name, find_paxml_experiment(outcome.case)
    if remat.startswith("eager") or SHARE in remat or framework == T5X:
        return "false"
    if experiment:
        return str(experiment.is_repeated).lower()
    if framework != MAXTEXT:
        outcome.assumptions.append("layers in a loop")
    return "true"


def _plan_sizes(case: TrainingCase, outcome: CaseOutcome) -> dict[str, str]:
    """Return the dimensions of the model as options of the recipe."""
    name = case.get_text("model")
    family = find_family(name)
    if family is None:
        outcome.reasons["model"] = f"no recipe builds the model '{name}'"
        return {}
    sizes: dict[str, int] = {}
    expert_words = read_expert_sizes(case.get_text("ffn"))
    for column in DIMENSIONS:
        if column == "ffn" and expert_words:
            continue
        value = _read_count(case, column, outcome)
        if value is not None:
            sizes[column] = value
    published = find_published_model(name)
    if "model" not in outcome.reasons and not published:
        known = (*sizes, "head_dim", "kv_heads", *(["ffn"] if expert_words else []))
        missing = [column for column in DIMENSIONS if column not in known]
        if missing:
            outcome.reasons["model"] = (
                f"the dimensions of '{name}' are not known: {', '.join(missing)} missing"
            )
    if published and MODELS[published].expert_mlp == sizes.get("ffn"):
        del sizes["ffn"]  # the width of an expert, where others state that of a dense MLP
    if "hidden" in sizes and "heads" in sizes and "head_dim" not in sizes:
        sizes["head_dim"] = infer_head_dim(family, published, sizes["hidden"], sizes["heads"])
    if "heads" in sizes:
        sizes.setdefault("kv_heads", sizes["heads"])
    options = {RECIPE_SIZES[column]: str(value) for column, value in sizes.items()}
    if expert_words:
        options |= choose_expert_sizes(outcome, published, family.base)
    if family.recipe == "moe":
        options |= choose_expert_dispatch(outcome)
    return {"model": published or family.base, **options, **family.options}


def _plan_batch(outcome: CaseOutcome, mesh: Mapping[str, int]) -> dict[str, str] | None:
    """Return the options of the batch of each shard, or None if the case is refused."""
    case = outcome.case
    accumulated = _read_count(case, "grad_accum", outcome)
    rows = _read_count(case, "global_batch", outcome)
    per_device = _read_number(case, "per_device_batch", outcome)
    microbatch = _read_count(case, "microbatch", outcome)
    if not mesh:
        return None
    shards = math.prod(mesh.values()) // (mesh["tensor"] * mesh.get("context", 1))
    if rows is None and "batch" not in outcome.reasons:
        if per_device is None:
            outcome.assumptions.append("one sequence for each batch shard")
        total = per_device * case.devices if per_device is not None else shards
        rows = int(total)
        if rows != total:
            outcome.reasons["batch"] = f"{per_device:g} sequences of a device make no whole batch"
    if rows is None or "batch" in outcome.reasons or "parallelism" in outcome.reasons:
        return None
    batch, rest = divmod(rows, shards)
    if rest or not batch:
        outcome.reasons["batch"] = f"{rows} sequences cannot be divided over {shards} batch shards"
        return None
    ranks, _ = read_stage_counts(case, outcome.assumptions)
    if ranks > 1 and not accumulated:
        # The default of torchtitan (9dec370: build_pipeline_schedule), whatever its help says
        outcome.assumptions.append(f"{ranks} microbatches, as many as ranks of the pipeline")
        accumulated, microbatch = ranks, None
    count = accumulated or (-(-batch // microbatch) if microbatch else 1)
    is_short = count == 1 and (microbatch or 0) > batch  # one microbatch of all that there is
    if batch % count or not (is_short or batch // count == (microbatch or batch // count)):
        stated = f"{count} microbatches" + (f" of {microbatch}" if microbatch else "")
        outcome.reasons["batch"] = f"{batch} sequences of a batch shard are not {stated}"
    accumulation = {"accumulate": str(count)} if count > 1 else {}
    return {"batch": str(batch // count), **accumulation}


def _read_count(case: TrainingCase, column: str, outcome: CaseOutcome) -> int | None:
    """Read a whole number; None if the cell is empty, or wrong, which is a reason."""
    value = _read_number(case, column, outcome)
    if value is None:
        return None
    if value != int(value) or value < 1:
        outcome.reasons[_get_reason_kind(column)] = f"{column} is '{case.get_text(column)}'"
        return None
    return int(value)


def _read_number(case: TrainingCase, column: str, outcome: CaseOutcome) -> float | None:
    text = case.get_text(column)
    if not text:
        return None
    try:
        return float(text)
    except ValueError:
        outcome.reasons[_get_reason_kind(column)] = f"{column} is '{text}', not a number"
        return None


def _get_reason_kind(column: str) -> str:
    if column in DIMENSIONS:
        return "model"
    return "sequence" if column == "seq_len" else "batch"
