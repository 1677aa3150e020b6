"""The division of a row: its mesh with the devices of each axis, and the stages of a pipeline.

A row without sizes is divided by fsdp over all its devices, or as many as divide the width
of its model. What no recipe can divide is a reason.
"""

from __future__ import annotations

import dataclasses
import math
import re
from collections.abc import Mapping
from typing import TYPE_CHECKING

from hespas.frontends.export.program_source import DECODERS
from hespas.frontends.export.slice_mesh import is_in_device_order, order_devices
from hespas.recipes.published_models import MODELS
from hespas.support.errors import HespasError
from hespas.workflows.pipelines.schedules import INTERLEAVED, build_schedule
from hespas.workflows.pipelines.stage_workloads import place_on_rank, plan_stage_workloads
from hespas.workflows.validation.case_automodel import find_automodel_benchmark
from hespas.workflows.validation.case_frameworks import TORCHTITAN
from hespas.workflows.validation.case_models import find_published_model
from hespas.workflows.validation.case_systems import HOST_DEVICES
from hespas.workflows.validation.training_cases import (
    NO_DEVICES,
    TrainingCase,
    read_axis_sizes,
    read_fsdp_strategy,
    read_slice_parts,
)

if TYPE_CHECKING:
    from hespas.workflows.studies.study_definition import StudyWorkload
    from hespas.workflows.validation.training_cases import CaseOutcome

_TITLES = {
    "pp": "pipeline parallelism", "vp": "several stages for each rank",
    "cp": "context parallelism", "ep": "expert parallelism",
    "sp": "sequence parallelism", "tensor_sequence": "sequence parallelism",
    "sequence": "a sequence axis", "fsdp_transpose": "weights that two axes of fsdp divide",
    "tensor_transpose": "weights that two axes of tensor divide", "diloco": "DiLoCo",
    "autoregressive": "autoregressive parallelism",
    "etp": "tensor parallelism of the experts' own",
}  # fmt: skip
_REFERENCE = re.compile(r"\(?(?:see|per|as in) .*|default|not (?:stated|given|known).*|unknown|\?")
# Divisions by their names alone
_UNSIZED = {
    "fsdp": re.compile(r"fsdp2?|full[-_ ]shard(?:ing)?|zero[-_ ]?3"),
    "dp": re.compile(r"d?dp|data[- ]parallel(?:ism)?|pure dp"),
}
_SCHEDULES = (  # by the words of a row
    (r"\bzb-?h1\b|zero.?bubble", "zb-h1"),
    (r"\bgpipe\b", "gpipe"),
    (r"interleaved", INTERLEAVED),
    (r"\b1f1b\b", "1f1b"),
)
_SHARDED = ("FULL_SHARD", "SHARD_GRAD_OP")  # strategies of PyTorch's FSDP over all its devices
_HYBRID = ("HYBRID_SHARD", "_HYBRID_SHARD_ZERO2")  # over those of a host


def read_mesh(outcome: CaseOutcome, recipe: str) -> dict[str, int]:
    """Read the mesh of a case on the devices of one rank of a pipeline, major axis first.

    The axes are data (between hosts first), fsdp, and those of the recipe. {} if there is a reason
    against it.
    """
    case = outcome.case
    text, sizes = case.get_text("parallelism"), case.read_axis_sizes()
    if not text or _REFERENCE.fullmatch(text.lower()):
        width = _find_width(case)
        fsdp = math.gcd(case.devices, width) if width else case.devices
        sizes = {"dp": case.devices // fsdp, "fsdp": fsdp}
        if case.devices > 1:
            quoted = f" ('{text}')" if text else ""
            share = f"all {fsdp}" if fsdp == case.devices else f"{fsdp} of {case.devices}"
            outcome.assumptions.append(f"fsdp over {share} devices{quoted}")
    elif unsized := [axis for axis, words in _UNSIZED.items() if words.fullmatch(text.lower())]:
        sizes = {unsized[0]: case.devices}
        outcome.assumptions.append(f"{unsized[0]} over all {case.devices} devices ('{text}')")
    elif not sizes:
        outcome.reasons["parallelism"] = f"'{text}' states no sizes such as dp=2;fsdp=8"
        return {}
    if problems := _list_problems(case, sizes, recipe):
        outcome.reasons["parallelism"] = f"no program with {', '.join(problems)}"
        return {}
    mesh = _build_mesh(case, sizes, recipe)
    try:
        outcome.dcn = _read_mesh_parts(text, sizes, mesh)
    except HespasError as error:
        outcome.reasons["parallelism"] = error.message
        return {}
    count = math.prod(mesh.values()) * sizes.get("pp", 1)
    if count != case.devices:
        outcome.reasons["parallelism"] = f"'{text}' makes {count} devices, not {case.devices}"
        return {}
    return mesh


def _find_width(case: TrainingCase) -> int:
    """Find the width of the model of a case: that of the row, or of its name; 0 if unknown."""
    text = case.get_text("hidden")
    if text.isdecimal():
        return int(text)
    published = find_published_model(case.get_text("model"))
    return MODELS[published].emb if published else 0


def _list_problems(case: TrainingCase, sizes: Mapping[str, int], recipe: str) -> list[str]:
    """List what no recipe can express."""
    known = {"dp", "fsdp", "tp"}
    if recipe not in ("bert", "t5"):
        known |= {"sp", "tensor_sequence", "ep" if recipe == "moe" else "cp"}
    if recipe in DECODERS:
        known |= {"pp", "vp"}
    problems = [
        f"{_TITLES[axis]} ({axis}={size})"
        for axis, size in sizes.items()
        if axis not in known and size != 1
    ]
    expert, shards = sizes.get("ep", 1), sizes.get("dp", 1) * sizes.get("fsdp", 1)
    if recipe == "moe" and _shares_devices_of_experts(case, sizes) and shards % expert:
        problems.append(f"experts over {expert} of {shards} devices of data parallelism")
    strategy = read_fsdp_strategy(case)
    if strategy not in ("", "NO_SHARD", *_SHARDED, *_HYBRID):
        problems.append(f"FSDP's strategy {strategy}")
    return problems


def _build_mesh(case: TrainingCase, sizes: Mapping[str, int], recipe: str) -> dict[str, int]:
    data, fsdp, expert = (sizes.get(axis, 1) for axis in ("dp", "fsdp", "ep"))
    strategy, text = read_fsdp_strategy(case), case.get_text("parallelism").lower()
    if strategy == "NO_SHARD":
        data, fsdp = data * fsdp, 1
    elif strategy in _HYBRID and data == 1 and fsdp > HOST_DEVICES:
        data, fsdp = fsdp // HOST_DEVICES, HOST_DEVICES
    elif re.search(r"\bzero[-_ ]?3\b", text) and fsdp == 1:
        data, fsdp = 1, data
    if recipe == "moe" and _shares_devices_of_experts(case, sizes):
        shared = math.gcd(expert, data)
        data, fsdp = data // shared, fsdp * shared // expert
    mesh = {"data": data, "fsdp": fsdp}
    if recipe == "moe":
        mesh["expert"] = expert
    elif sizes.get("cp", 1) > 1:
        mesh["context"] = sizes["cp"]
    return {**mesh, "tensor": sizes.get("tp", 1) * sizes.get("tensor_sequence", 1)}


def _shares_devices_of_experts(case: TrainingCase, sizes: Mapping[str, int]) -> bool:
    """Return whether experts are divided over devices of data parallelism, not over others besides.

    Megatron and torchtitan state the sizes in this way: ``dp=8;ep=4`` is 8 devices.
    """
    others = math.prod(size for axis, size in sizes.items() if axis not in (*NO_DEVICES, "ep"))
    return others == case.devices


def divides_tokens(case: TrainingCase) -> bool:
    """Return whether the devices of tensor parallelism divide the tokens too, as ``sp=8;tp=8``.

    They always do in torchtitan (``parallelize_llama``: SequenceParallel norms), and a benchmark of
    NeMo Automodel with asynchronous tensor parallelism sets it. In Megatron Core
    ``sp`` is not a size but the option ``sequence_parallel``, so that ``sp=1`` sets it too.
    """
    sizes = read_axis_sizes(case.get_text("parallelism"), 1)
    framework = case.framework.name
    if sizes.get("tensor_sequence", 1) > 1:
        return True
    if sizes.get("tp", 1) == 1:
        return False
    benchmark = find_automodel_benchmark(case)
    if framework == TORCHTITAN or (benchmark and benchmark.is_asynchronous):
        return True
    is_option = case.framework.is_megatron and "core" in case.get_text("framework").lower()
    return sizes.get("sp", 0) in ((1, sizes["tp"]) if is_option else (sizes["tp"],))


_MESH_AXES = {"dp": "data", "fsdp": "fsdp", "cp": "context", "ep": "expert", "tp": "tensor"}


def _read_mesh_parts(
    text: str, sizes: Mapping[str, int], mesh: Mapping[str, int]
) -> dict[str, int]:
    """Read the part of each axis of a mesh that lies between slices.

    JAX's hybrid mesh, which MaxText uses, numbers the devices of an axis by slice and then within
    the slice, so that the devices of a program may have another order than its mesh.

    Raises:
        HespasError: A part contradicts the size of its axis, or ranks of a pipeline have devices
            in another order than that of the mesh, which no program of a stage has.
    """
    stated = read_slice_parts(text, sizes)
    parts = {_MESH_AXES[axis]: part for axis, part in stated.items() if axis in _MESH_AXES}
    order_devices(mesh, parts)  # it checks them
    ranks = {"pipeline": sizes.get("pp", 1)}
    rank_parts = {"pipeline": stated.get("pp", 1), **parts}
    if ranks["pipeline"] > 1 and not is_in_device_order({**ranks, **mesh}, rank_parts):
        raise HespasError("no pipeline whose slices divide an axis inside of one within slices")
    return parts


def read_stage_counts(case: TrainingCase, assumptions: list[str] | None = None) -> tuple[int, int]:
    """Read the ranks of a pipeline and the stages of each; one of each without a pipeline.

    Args:
        case: The case.
        assumptions: The list to which assumptions are added; None for none.
    """
    sizes = case.read_axis_sizes()
    ranks, stages_per_rank = sizes.get("pp", 1), sizes.get("vp")
    if stages_per_rank is None and ranks > 1 and _find_named_schedule(case) == INTERLEAVED:
        stages_per_rank = 2
        if assumptions is not None:
            assumptions.append("two stages for each rank")
    return ranks, stages_per_rank or 1


def _find_named_schedule(case: TrainingCase) -> str:
    """Return the schedule that a row names, or ""."""
    text = case.join_words("framework", "parallelism", "notes")
    return next((name for words, name in _SCHEDULES if re.search(words, text)), "")


def _divides_updates(model: StudyWorkload) -> bool:
    """Return whether devices update parts of the weights of a decoder, all of which are trained."""
    options = model.options
    is_divided = options.get("zero1") == "true" and model.mesh.get("data", 1) > 1
    return is_divided and model.recipe in DECODERS and "lora_rank" not in options


def plan_stages(outcome: CaseOutcome, model: StudyWorkload) -> None:
    """Plan the schedule and the stages of a case that has a pipeline.

    Args:
        outcome: The case.
        model: The whole model on the mesh of a rank; ``accumulate`` counts the microbatches.

    Raises:
        HespasError: The schedule cannot run, or there are fewer layers than stages.
    """
    framework = outcome.case.framework
    ranks, stages_per_rank = read_stage_counts(outcome.case)
    if ranks == 1:
        if not (framework.overlaps_updates and _divides_updates(model)):
            return
        # Megatron Core gathers and reduces buckets of the weights of about a layer.
        stages_per_rank = int(model.options.get("layers", MODELS[model.options["model"]].layers))
    name = INTERLEAVED if ranks == 1 else _find_named_schedule(outcome.case)
    if not name:
        name = INTERLEAVED if stages_per_rank > 1 else "1f1b"
        outcome.assumptions.append(f"schedule {name}")
    microbatches = int(model.options.get("accumulate", "1"))
    outcome.schedule = build_schedule(name, ranks, microbatches, stages_per_rank)
    if outcome.schedule.has_split_backward:  # the gradients of a loop cannot be divided
        model = dataclasses.replace(model, options={**model.options, "scan": "false"})
    if model.mesh.get("fsdp", 1) > 1:
        outcome.assumptions.append(
            "weights gathered, and gradients reduce-scattered, once in a step"
        )
    if model.options.get("clip") != "0":
        one = "stage" if ranks > 1 else "layer"
        outcome.assumptions.append(f"gradients are clipped by the norm of each {one}")
    if framework.fuses_sums:
        model = dataclasses.replace(model, options={**model.options, "fused_sums": "true"})
    outcome.stage_workloads = plan_stage_workloads(place_on_rank(model), outcome.schedule)
