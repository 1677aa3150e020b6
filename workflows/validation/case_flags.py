"""The options of xla-optimize for a training case: presets of flags, thresholds and slices."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from hespas.configs.framework_flags import (
    CUBLAS_EPILOGUES,
    CUBLAS_ONLY,
    FRAMEWORK_FLAGS,
    LATENCY_HIDING,
    NO_REMATERIALISATION,
    NO_SCHEDULER_LIMIT,
    T5X_THRESHOLD,
)
from hespas.passes.optimize.xla_flags import DISABLE_ASYNC, SERIAL_FLAG
from hespas.recipes.published_models import MODELS
from hespas.workflows.studies.study_definition import StudyWorkload
from hespas.workflows.validation.case_frameworks import (
    AUTOMODEL,
    AXLEARN,
    MAXTEXT,
    MEGATRON,
    PAXML,
    T5X,
    choose_paxml_preset,
    find_paxml_experiment,
)
from hespas.workflows.validation.case_systems import HOST_DEVICES, read_slice_count

if TYPE_CHECKING:
    from hespas.workflows.validation.training_cases import CaseOutcome, TrainingCase

# FSDP gathers the weights of a block at once, ahead of their use. XLA's default thresholds make
# several collectives of them, each with the latency of all devices.
PYTORCH_FSDP_PRESET = "pytorch-fsdp"
# Megatron waits for every collective: --overlap-grad-reduce, --overlap-param-gather and
# --overlap-moe-expert-parallel-comm are off by default. Only the collectives of tensor parallelism
# run alongside the products of the backward pass (LinearWithGradAccumulationAndAsyncCommunication).
IN_PROGRAM_ORDER = SERIAL_FLAG
# NeMo Automodel's exchanges of tokens run in the stream of its kernels (async_finish of
# megatron/fused_a2a.py is moe_deepep_async_dispatch of TokenDispatcherConfig, false by default, in
# NVIDIA-NeMo/Automodel@36044ad nemo_automodel/components/moe/megatron/token_dispatcher.py).
SERIAL_EXCHANGES = f"{DISABLE_ASYNC}=ALLTOALL"
# AXLearn sets flags for GPUs on GCP only (axlearn/cloud/gcp/job.py). On EC2 its runs have XLA's own
# defaults, without the latency-hiding scheduler.
EC2_HOST = re.compile(r"\bp[45][a-z]*\.\d+xlarge")
# With tensor parallelism, XLA would pipeline the all-gathers of activations between blocks too, and
# compute attention and its projections once more for them in the backward pass.
NO_PIPELINED_GATHER = "--xla_gpu_enable_pipelined_all_gather=false"
# A whole list of flags in notes, as ``parity flags: latency hiding scheduler, autotune 0``, and the
# flags by their words there. Later ones replace earlier ones.
_FLAG_LIST = re.compile(r"\b(?:flags|defaults)\b[^;:]*: (latency hiding scheduler[^;]*)")
_SWITCH = r"[ =](on|off|true|false)"
_LISTED_FLAGS = (
    (r"memory_limit_slop_factor=(\d+)", "--xla_gpu_memory_limit_slop_factor="),
    (rf"triton_gemm{_SWITCH}", "--xla_gpu_enable_triton_gemm="),
    (rf"cublaslt{_SWITCH}", "--xla_gpu_enable_cublaslt="),
    (r"autotune (\d)", "--xla_gpu_autotune_level="),
    (rf"AG combine_by_dim{_SWITCH}", "--xla_gpu_enable_all_gather_combine_by_dim="),
    (r"command buffers off()", "--xla_gpu_enable_command_buffer="),
    (rf"latency hiding scheduler(?:{_SWITCH})?", "--xla_gpu_enable_latency_hiding_scheduler="),
)
_COMBINERS = {"AR": "all_reduce", "AG": "all_gather", "RS": "reduce_scatter"}
_UNITS = {"B": 1, "KiB": 2**10, "MiB": 2**20, "GiB": 2**30}


def choose_gpu_options(
    outcome: CaseOutcome, workload: StudyWorkload, *, is_compiled: bool = True
) -> str:
    """Return the options for a GPU: flags of the row, of its framework, and thresholds.

    A program that is not compiled follows those about collectives.
    """
    case = outcome.case
    stated, framework = case.get_text("xla_flags"), case.framework
    if stated:
        return f'flags="{stated}"'
    if listed := _FLAG_LIST.search(case.get_text("notes")):
        return _format_options("", "", _read_listed_flags(outcome, listed[1]))
    hosts = -(-case.devices // HOST_DEVICES)
    is_fp8 = workload.options.get("products", "").startswith("fp8")
    thresholds = read_combine_flags(case.get_text("notes"), hosts, is_fp8=is_fp8)
    if framework.name == T5X and not thresholds:
        thresholds = [T5X_THRESHOLD]
    flags = [_choose_scheduler(case, workload), *thresholds]
    if framework.name == AUTOMODEL and workload.mesh.get("expert", 1) > 1:
        flags.append(SERIAL_EXCHANGES)
    name = case.get_text("framework")
    if is_compiled and name and not framework.uses_xla:
        outcome.assumptions.append(f"compiled by XLA, not by {name}")
        flags.append(NO_REMATERIALISATION)
    is_eager = workload.options.get("eager") == "true"
    if is_eager or framework.name in (MEGATRON, T5X):
        flags.append(CUBLAS_ONLY)
    if is_eager:
        flags += [CUBLAS_EPILOGUES, NO_SCHEDULER_LIMIT]
    preset = _choose_preset(case, workload.mesh)
    if experiment := find_paxml_experiment(case):
        flags += experiment.flags
    if preset == PYTORCH_FSDP_PRESET and workload.options.get("scan") == "false":
        flags += _build_block_flags(workload)
    elif preset == PYTORCH_FSDP_PRESET and workload.mesh.get("tensor", 1) > 1:
        flags.append(NO_PIPELINED_GATHER)
    if not thresholds and not preset:
        scheduler = "latency-hiding scheduler" if LATENCY_HIDING in flags else "no overlap"
        outcome.assumptions.append(f"XLA flags: default thresholds, {scheduler}")
    return _format_options(framework.name, preset, flags)


def _read_listed_flags(outcome: CaseOutcome, text: str) -> list[str]:
    """Read a list of flags in words; what is not known of it becomes an assumption."""
    flags: list[str] = []
    unknown: list[str] = []
    for words in re.sub(r" \([^()]*\)", "", text).strip().split(", "):
        words = words.removeprefix("but ")
        if words == "nothing else":
            continue
        found = read_combine_flags(words, 1) or _read_listed_flag(words)
        flags += found
        if not found:
            unknown.append(words)
    if unknown:
        outcome.assumptions.append(
            f"flags that are not known by these words left out: {', '.join(unknown)}"
        )
    return flags


def _read_listed_flag(words: str) -> list[str]:
    """Read one flag of a list, or one size for all collectives that are combined; [] if unknown."""
    if size := re.fullmatch(r"combine thresholds of (\d+) ((?:[KMG]i)?B)", words):
        bytes_ = int(size[1]) * _UNITS[size[2]]
        return [
            f"--xla_gpu_{kind}_combine_threshold_bytes={bytes_}" for kind in _COMBINERS.values()
        ]
    for pattern, flag in _LISTED_FLAGS:
        if match := re.fullmatch(pattern, words):
            value = "true" if match[1] is None else match[1]
            return [flag + {"on": "true", "off": "false"}.get(value, value)]
    return []


def _format_options(framework: str, preset: str, flags: Sequence[str]) -> str:
    """Format the options of xla-optimize; the framework stands for the flags that are its own."""
    own = FRAMEWORK_FLAGS.get(framework)
    options = [f"preset={preset}"] if preset else []
    if own is not None and own.preset == preset and set(own.flags) <= set(flags):
        options = [f"framework={framework}"]
        flags = [flag for flag in flags if flag not in own.flags]
    return ",".join([*options, *([f'flags="{" ".join(flags)}"'] if flags else [])])


def _choose_scheduler(case: TrainingCase, workload: StudyWorkload) -> str:
    """Return the flag that lets collectives run alongside compute, or not."""
    texts = case.join_words("framework", "parallelism", "notes")
    framework = case.framework.name
    is_blocking = framework == MEGATRON and "overlap" not in texts
    if is_blocking and workload.mesh.get("tensor", 1) == 1:
        return IN_PROGRAM_ORDER
    if framework == AXLEARN and EC2_HOST.search(case.get_text("network")):
        return IN_PROGRAM_ORDER
    return LATENCY_HIDING


def _choose_preset(case: TrainingCase, mesh: Mapping[str, int]) -> str:
    """Return the preset of XLA flags whose collectives are those of a framework, or ""."""
    framework = case.framework
    if framework.name == MAXTEXT:
        return FRAMEWORK_FLAGS[MAXTEXT].preset
    if framework.name == PAXML:
        return choose_paxml_preset(case)
    return PYTORCH_FSDP_PRESET if framework.is_pytorch and mesh.get("fsdp", 1) > 1 else ""


def _build_block_flags(workload: StudyWorkload) -> list[str]:
    """Return the flags that replace those of the preset if layers are unrolled.

    A collective has at most the weights of one block, because no loop separates the blocks. XLA
    pipelines collectives over iterations; of a loop over microbatches with unrolled layers, it
    would repeat the products of the layers.
    """
    model = MODELS[workload.options["model"]]
    emb, heads, head_dim, mlp = (
        int(workload.options.get(name, getattr(model, name)))
        for name in ("emb", "heads", "head_dim", "mlp")
    )
    products = 2 if workload.recipe == "gpt" else 3
    weights = emb * (4 * heads * head_dim + products * mlp)
    gradient_bytes = 4 if workload.options.get("reduce_dtype") == "f32" else 2
    shard_bytes = weights * gradient_bytes // workload.mesh["fsdp"]
    return [
        f"--xla_gpu_all_gather_combine_threshold_bytes={2 * weights}",
        f"--xla_gpu_reduce_scatter_combine_threshold_bytes={shard_bytes}",
        NO_PIPELINED_GATHER,
        "--xla_gpu_enable_pipelined_reduce_scatter=false",
    ]


def choose_tpu_options(outcome: CaseOutcome, *, is_compiled: bool = True) -> str:
    """Return the options for a TPU: the slices of the row, and its flags."""
    case = outcome.case
    slices = read_slice_count(case.describe_network())
    options = [f"slices={slices}"] if slices > 1 else []
    stated = case.get_text("xla_flags")
    script = re.search(r"\bconfigs/(v5e|v5p)/", case.get_text("notes"))
    if stated:
        options.append(f'flags="{stated}"')
    elif script:
        options.append(f"preset=maxtext-{script[1]}")
    elif is_compiled:
        outcome.assumptions.append("libtpu's default flags")
    return ",".join(options)


def describe_moments(case: TrainingCase) -> str:
    """Return the assumption about the types of AdamW's moments, which recipes keep alike."""
    stated = re.search(r"\bmu_dtype (\w+)", case.get_text("notes"))
    return "AdamW's moments in f32" + (f", not the first in {stated[1]}" if stated else "")


def read_combine_flags(notes: str, hosts: int, *, is_fp8: bool = False) -> list[str]:
    """Read the thresholds of combined collectives from notes, as XLA flags.

    Understands ``AR/AG combine 2 GiB, RS 8 GiB/256 (8 GiB/512 from 64 nodes)``, ``RS 8 GiB/256,
    from 64 nodes /512`` and ``RS 8/4 MiB``, whose second size holds from 64 nodes. Text after
    ``fp8:`` is about rows in 8 bits, that before it about the others.
    """
    others, _, fp8 = notes.partition("fp8:")
    text = fp8 if is_fp8 and fp8 else others
    text = re.sub(r"(\d+)/(\d+) ([KMG]iB)", rf"\{2 if hosts >= 64 else 1} \3", text)
    limit = r"(\d+) ([KMG]iB)(?:/(\d+))?"
    larger = r"(?: \(\d+ [KMG]iB/(\d+) from (\d+) nodes\)|, from (\d+) nodes /(\d+))?"
    flags: dict[str, str] = {}
    for match in re.finditer(
        rf"\b((?:AR|AG|RS)(?:(?:/| and )(?:AR|AG|RS))*)(?: combine)? {limit}{larger}", text
    ):
        names, count, unit, divisor, divisor_a, hosts_a, hosts_b, divisor_b = match.groups()
        if (least := hosts_a or hosts_b) and hosts >= int(least):
            divisor = divisor_a or divisor_b
        size = int(count) * _UNITS[unit] // int(divisor or 1)
        for name in re.split("/| and ", names):
            kind = _COMBINERS[name]
            flags.setdefault(kind, f"--xla_gpu_{kind}_combine_threshold_bytes={size}")
    return list(flags.values())
