"""``hespas study serving``: the steps of a served model, and the load that it can bear."""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

import numpy as np
from pydantic import Field, model_validator
from pydantic.dataclasses import dataclass as options_record

from hespas import configs
from hespas.configs.node_spec import NodeSpec
from hespas.support.errors import HespasError, UsageError
from hespas.support.text_tables import format_percent
from hespas.workflows.run_config import STRICT, Count, Flag, OptionalCount
from hespas.workflows.serving.request_loop import (
    BatchingPolicy,
    ServerLimits,
    ServerRun,
    ServingRequest,
    StepTimes,
    draw_poisson_requests,
    read_request_trace,
    serve_requests,
)
from hespas.workflows.studies import program_forms, study_runner
from hespas.workflows.studies import study_definition as base
from hespas.workflows.studies.study_definition import (
    AxisValues,
    Study,
    StudyAxis,
    StudyColumn,
    StudyPanel,
    StudyWorkload,
    make_count_flag,
    make_list_flag,
    parse_positive_count,
)
from hespas.workflows.studies.study_output import StudyOutput
from hespas.workflows.studies.study_runner import StudyOptions

Row = Mapping[str, Any]
PREFILL, DECODE = "prefill", "decode"
DEFAULTS = {"scan": "false", "cache": "paged", "page": "16"}  # a loop would copy its caches

DESCRIPTION = """\
Serve a language model: estimate its prefill and decode programs for buckets of prompts, batches and
contexts, then run requests through a server that batches continuously, at one load after another.

  hespas study serving --models 8b --node H100_80GB --csv serving.csv --plot serving.svg
  hespas study serving --models 70b --tensor 8 --trace requests.csv --ttft-limit 1 --tpot-limit 0.05

The programs are the recipes `prefill` (one prompt) and `decode`. The server pads a prompt and a
batch to the next bucket; between contexts, a decode step is linear in the tokens of the cache.
A waiting request is prefilled alone if a slot and memory for all its tokens are free, and all
admitted requests are decoded together; --policy says which goes first.
"""
PERCENTILES = (50, 90, 99)
S_PER_HOUR = 3600.0


def _parse_rate(text: str) -> float:
    try:
        rate = float(text)
    except ValueError:
        rate = math.nan
    if not 0 < rate < math.inf:
        raise UsageError(f"'{text}' is not a rate in requests/s")
    return rate


@options_record(frozen=True, config=STRICT)
class LoadOptions:
    """The load of a serving study, and the latencies that a request may have to count as good."""

    trace: Annotated[str, Flag("FILE")] = Field(
        default="",
        description="requests, as CSV with the columns arrival_s,prompt_tokens,output_tokens",
    )
    rates: Annotated[Sequence[float], make_list_flag("rates", _parse_rate)] = Field(
        default=(),
        description="mean rates of arrivals in requests/s, without --trace; default: 25, 50, 75 "
        "and 90 % of what the servers reach if all requests arrive at once",
    )
    clients: Annotated[Sequence[int], make_count_flag("clients")] = Field(
        default=(),
        description="numbers of clients of each server, instead of rates; each sends its next "
        "request when its last one has ended",
    )
    requests: Count = Field(
        default=500, description="requests of each load; with --clients, of each server"
    )
    prompt_tokens: Count = Field(default=1024, description="of each request")
    output_tokens: Count = Field(default=128, description="of each request")
    seed: Annotated[int, Flag("N")] = Field(default=0, description="selects the random arrivals")
    replicas: Count = Field(
        default=1,
        description="equal servers, to which requests are dealt in turn (data parallelism)",
    )
    policy: BatchingPolicy = Field(
        default="alternate",
        description="alternate: a decode step follows each prefill step, the work of a step of "
        "servers that do both in one; prefill-first: waiting requests are prefilled before any "
        "decode step",
    )
    chunk_tokens: OptionalCount = Field(
        default=None,
        description="most tokens of a prompt that one step prefills; default: whole prompts",
    )
    slots: OptionalCount = Field(
        default=None,
        description="most requests that a server runs at once, as max_batch_size of TensorRT-LLM "
        "and max_num_seqs of vLLM; default: the largest of --batches",
    )
    memory_share: Annotated[float, Flag("X")] = Field(
        default=0.9,  # vLLM's gpu_memory_utilization
        gt=0,
        le=1,
        description="share of a device's memory for weights, activations and cache",
    )
    ttft_limit_s: Annotated[float | None, Flag("S", name="ttft-limit")] = Field(
        default=None,
        gt=0,
        description="longest time to the first token of a good request, in seconds",
    )
    tpot_limit_s: Annotated[float | None, Flag("S", name="tpot-limit")] = Field(
        default=None,
        gt=0,
        description="longest time per output token after the first one of a good request, in "
        "seconds",
    )

    @model_validator(mode="after")
    def _check_arrivals(self) -> LoadOptions:
        if sum(map(bool, (self.trace, self.rates, self.clients))) > 1:
            raise ValueError("--trace, --rates and --clients exclude each other")
        return self

    def are_met(self, ttft_s: float, tpot_s: float) -> bool:
        """Return whether the latencies of a request are within the limits."""
        return (self.ttft_limit_s is None or ttft_s <= self.ttft_limit_s) and (
            self.tpot_limit_s is None or tpot_s <= self.tpot_limit_s
        )


def _format_milliseconds(time_s: float) -> str:
    """Format a time so that all times of a column have one unit."""
    return f"{1e3 * time_s:.4g} ms"


TTFT, TPOT = (
    tuple(
        StudyColumn(f"{name.lower()}_p{percent}_s", f"{name} p{percent}", _format_milliseconds)
        for percent in (50, 99)
    )
    for name in ("TTFT", "TPOT")
)
OUTPUT_RATE = StudyColumn(
    "output_tokens_per_s_per_device", "tokens/s/device", lambda value: f"{value:.4g}"
)
LOAD_COLUMNS = (
    StudyColumn("rate_per_s", "requests/s", lambda value: f"{value:.3g}"),
    StudyColumn("clients", "clients"),
    *TTFT,
    *TPOT,
    OUTPUT_RATE,
    base.COST,
    StudyColumn("good_share", "good", format_percent),
    StudyColumn("goodput_per_s", "goodput/s", lambda value: f"{value:.3g}"),
    StudyColumn("mean_batch", "batch", lambda value: f"{value:.1f}"),
    StudyColumn("busy_share", "busy", format_percent),
)
LOAD_LABELS = ("model", "tensor", "node")

SATURATION_SHARES = (0.25, 0.5, 0.75, 0.9)


def make_study(attention: str, across: str = "rate_per_s") -> Study:
    """Make the study of the steps, whose programs have that attention.

    The plot has the figure ``across`` on its horizontal axis.
    """
    return Study(
        name="serving",
        title="Serving, steps",
        description=DESCRIPTION,
        nodes=("H100_80GB",),
        axes=(
            StudyAxis("models", "8b", "models of the recipes prefill and decode"),
            StudyAxis("tensor", "1", "devices that divide each layer's matrices",
                      parse_positive_count),
            StudyAxis("prompts", "128,512,1024,2048", "buckets of prompts, in tokens",
                      parse_positive_count),
            StudyAxis("batches", "1,8,32,128", "buckets of sequences decoded together",
                      parse_positive_count),
            StudyAxis("contexts", "512,4096", "buckets of the tokens of each sequence",
                      parse_positive_count),
        ),
        workloads=functools.partial(_generate_workloads, attention),
        columns=(base.STEP, base.COMPUTE, base.EXPOSED, base.TOKENS, base.MEMORY, base.FITS),
        panels=(
            StudyPanel(TTFT, "TTFT (full: p50, dashed: p99): s", log=True),
            StudyPanel(TPOT, "TPOT (full: p50, dashed: p99): s"),
            StudyPanel((OUTPUT_RATE,), "output tokens/s/device"),
        ),
        across=across,
        series=LOAD_LABELS,
    )  # fmt: skip


def _generate_workloads(attention: str, axis_values: AxisValues) -> Iterator[StudyWorkload]:
    """Generate the prefill step of each prompt, and the decode step of each batch and context."""
    defaults = {**DEFAULTS, "attention": attention}
    for model in axis_values["models"]:
        for tensor in axis_values["tensor"]:
            mesh = {"tensor": tensor}
            labels = {"model": model, "tensor": tensor}
            for prompt in axis_values["prompts"]:
                options = {"model": model, "sequence": str(prompt), "batch": "1"}
                step = {"step": PREFILL, "batch": 1, "tokens": prompt}
                yield StudyWorkload(PREFILL, options, mesh, {**labels, **step}, defaults)
            for batch in axis_values["batches"]:
                for context in axis_values["contexts"]:
                    options = {"model": model, "context": str(context), "batch": str(batch)}
                    step = {"step": DECODE, "batch": batch, "tokens": context}
                    yield StudyWorkload(DECODE, options, mesh, {**labels, **step}, defaults)


def choose_attention(form: str, nodes: Sequence[str]) -> str:
    """Choose cuDNN's kernel if XLA compiles for NVIDIA GPUs only, else products and a softmax."""
    is_gpu = all(program_forms.find_compiler(node) == "gpu" for node in nodes)
    return "cudnn" if is_gpu and form in program_forms.BY_XLA else "dot_product"


STUDY = make_study("cudnn")


@dataclass(frozen=True)
class ServedModel:
    """A model on a node: the times of its steps, and the memory for its cache.

    Attributes:
        labels: What distinguishes it: model, tensor, node.
        devices: The devices of one server.
        times: The times of its steps.
        cache_tokens: The tokens for which there is memory; 0 if the weights do not fit.
        page_tokens: The tokens for which memory is reserved at once.
        price_per_hour: US dollars for an hour of a device; None for the price of the node.
    """

    labels: Mapping[str, Any]
    devices: int
    times: StepTimes
    cache_tokens: int
    page_tokens: int
    price_per_hour: float | None = None


def run_serving_study(
    axis_values: AxisValues,
    options: StudyOptions,
    load: LoadOptions,
    note: Callable[[str], None],
) -> StudyOutput:
    """Estimate the steps, serve the loads, and make the output.

    Raises:
        HespasError: An option is wrong, a step has no time, or a request can never be served.
    """
    across = "clients" if load.clients else "rate_per_s"
    study = make_study(choose_attention(options.form, options.nodes), across)
    fixed_requests = read_request_trace(load.trace) if load.trace else None
    steps = study_runner.run_study(study, axis_values, options, note)
    models = [
        _make_served_model(labels, rows, load.memory_share, options)
        for labels, rows in _group_rows(steps.rows)
    ]
    rows = [row for model in models for row in _serve_loads(model, load, fixed_requests)]
    notes = [*steps.notes, *map(_describe_memory, models), _describe_load(load)]
    labels = [*LOAD_LABELS, "devices"]
    load_table = base.make_labelled_table("Serving, loads", rows, labels, LOAD_COLUMNS)
    return StudyOutput(
        rows=rows,
        data={"study": study.name, "notes": notes, "rows": steps.rows, "loads": rows},
        tables=[steps.tables[0], load_table],
        notes=notes,
        draw=lambda figure: study_runner.draw_study(figure, study, rows),
        size=study_runner.compute_figure_size(study, rows),
    )


def _group_rows(rows: Sequence[Row]) -> Iterator[tuple[dict[str, Any], list[Row]]]:
    """Group the steps by model, tensor and node; raises HespasError for one without a time."""
    groups: dict[tuple[Any, ...], list[Row]] = {}
    for row in rows:
        if row["error"] is not None:
            where = ", ".join(f"{name} {row[name]}" for name in (*LOAD_LABELS, "step", "tokens"))
            raise HespasError(row["error"], where=where)
        groups.setdefault(tuple(row[name] for name in LOAD_LABELS), []).append(row)
    for key, group in groups.items():
        yield dict(zip(LOAD_LABELS, key, strict=True)), group


def _make_served_model(
    labels: Mapping[str, Any],
    rows: Sequence[Row],
    memory_share: float,
    options: StudyOptions,
) -> ServedModel:
    prefill_s = {row["tokens"]: row["step_time_s"] for row in rows if row["step"] == PREFILL}
    decode_s: dict[int, dict[int, float]] = {}
    for row in rows:
        if row["step"] == DECODE:
            decode_s.setdefault(row["batch"], {})[row["tokens"]] = row["step_time_s"]
    devices = rows[0]["devices"]
    recipe_options = {**DEFAULTS, **options.changes}
    longest = max(row["tokens"] for row in rows if row["step"] == DECODE)
    return ServedModel(
        labels,
        devices,
        StepTimes(prefill_s, decode_s),
        _count_cache_tokens(
            rows, options.program_folder, configs.load_node(labels["node"]), memory_share
        ),
        # Each sequence of a contiguous cache has memory for the longest context.
        int(recipe_options["page"]) if recipe_options["cache"] == "paged" else longest,
        options.run.price_per_hour,
    )


def _count_cache_tokens(
    rows: Sequence[Row], folder: Path, node: NodeSpec, memory_share: float
) -> int:
    """Count the tokens for which the memory beside weights and activations suffices.

    The latter are the peak of the step that needs most without its own cache.
    """
    if node.memory_bytes is None:
        raise HespasError(
            f"node {node.name} states no memory", remedy="add memory_bytes to its file"
        )
    token_bytes, other_bytes = 0.0, 0.0
    for row in rows:
        cache_bytes = _read_cache_bytes(folder / row["program"]) / row["devices"]
        other_bytes = max(other_bytes, row["peak_bytes"] - cache_bytes)
        token_bytes = max(token_bytes, cache_bytes / (row["batch"] * row["tokens"]))
    free_bytes = memory_share * node.memory_bytes - other_bytes
    return max(math.floor(free_bytes / token_bytes), 0)


def _read_cache_bytes(path: Path) -> float:
    """Read the bytes of the caches of all devices from the facts of a program."""
    from hespas import frontends
    from hespas.dialects.mlir import make_context
    from hespas.dialects.program_facts import read_program_facts

    return float(read_program_facts(frontends.read_module(path, make_context()))["cache_bytes"])


def _serve_loads(
    model: ServedModel, load: LoadOptions, fixed_requests: Sequence[ServingRequest] | None
) -> Iterator[Row]:
    """Serve the trace, or the requests at each rate, and yield the figures of each load."""
    if fixed_requests is not None:
        span_s = fixed_requests[-1].arrival_s - fixed_requests[0].arrival_s
        rate = (len(fixed_requests) - 1) / span_s if span_s else None
        yield _make_load_row(model, load, rate, fixed_requests)
        return
    if load.clients:
        request = ServingRequest(0.0, load.prompt_tokens, load.output_tokens)
        requests = [request] * (load.requests * load.replicas)
        for clients in load.clients:
            yield _make_load_row(model, load, None, requests, clients)
        return
    for rate in load.rates or _choose_rates(model, load):
        requests = draw_poisson_requests(
            rate, load.requests, load.prompt_tokens, load.output_tokens, load.seed
        )
        yield _make_load_row(model, load, rate, requests)


def _choose_rates(model: ServedModel, load: LoadOptions) -> list[float]:
    """Return shares of the rate at which the servers end requests that all arrive at once."""
    request = ServingRequest(0.0, load.prompt_tokens, load.output_tokens)
    runs = _serve_replicas(model, load, [request] * load.requests)
    end_s = max(one.end_s for run in runs for one in run.served)
    return [share * load.requests / end_s for share in SATURATION_SHARES]


def _serve_replicas(
    model: ServedModel,
    load: LoadOptions,
    requests: Sequence[ServingRequest],
    clients: int | None = None,
) -> list[ServerRun]:
    most = model.times.largest_batch
    slots = min(load.slots or most, most)
    limits = ServerLimits(model.cache_tokens, model.page_tokens, slots, load.chunk_tokens)
    parts = [requests[number :: load.replicas] for number in range(load.replicas)]
    return [
        serve_requests(part, model.times, limits, clients, load.policy) for part in parts if part
    ]


def _make_load_row(
    model: ServedModel,
    load: LoadOptions,
    rate: float | None,
    requests: Sequence[ServingRequest],
    clients: int | None = None,
) -> Row:
    devices = model.devices * load.replicas
    price = model.price_per_hour or configs.load_node(model.labels["node"]).price_per_hour
    runs = _serve_replicas(model, load, requests, clients)
    return {
        **model.labels,
        "devices": devices,
        "replicas": load.replicas,
        "cache_tokens": model.cache_tokens,
        "rate_per_s": rate,
        "clients": clients,
        **compute_load_figures(runs, devices, price, load),
    }


def _describe_memory(model: ServedModel) -> str:
    words = ", ".join(f"{name} {value}" for name, value in model.labels.items())
    return f"{words}: memory for {model.cache_tokens:,} tokens in the cache of a server"


def _describe_load(load: LoadOptions) -> str:
    chunks = f", prompts in chunks of {load.chunk_tokens} tokens" if load.chunk_tokens else ""
    slots = f", at most {load.slots} at once" if load.slots else ""
    servers = f"on {load.replicas} servers, {load.policy}{chunks}{slots}"
    if load.trace:
        return f"requests of {load.trace}, {servers}"
    arrivals = "number of clients" if load.clients else f"rate, Poisson, seed {load.seed}"
    return (
        f"{load.requests} requests of {load.prompt_tokens} + {load.output_tokens} tokens for each "
        f"{arrivals}, {servers}"
    )


def compute_load_figures(
    runs: Sequence[ServerRun],
    devices: int,
    price_per_hour: float | None,
    load: LoadOptions,
) -> dict[str, float | int | None]:
    """Compute the figures of a load that replicas of a server have shared.

    All rates refer to the time from the first arrival to the last token.

    Args:
        runs: What each replica did.
        devices: The devices of all replicas together.
        price_per_hour: The price of a device in USD; None if it is not known.
        load: The load, with the latencies of a good request.

    Returns:
        The percentiles and the mean of the time to the first token (``ttft_p50_s``,
        ``ttft_mean_s``), of the time per output token of requests with more than one
        (``tpot_p50_s``) and of the latency; rates; the cost per million output tokens; the share of
        good requests and their rate.
    """
    served = [request for run in runs for request in run.served]
    span_s = max(one.end_s for one in served) - min(one.request.arrival_s for one in served)
    output_tokens = sum(one.request.output_tokens for one in served)
    good = sum(load.are_met(one.ttft_s, one.tpot_s) for one in served)
    steps = sum(run.decode_steps for run in runs)
    decoded = sum(one.request.output_tokens - 1 for one in served)
    cost_usd = None if price_per_hour is None else price_per_hour * devices * span_s / S_PER_HOUR
    return {
        "requests": len(served),
        **_describe_values("ttft", [one.ttft_s for one in served]),
        **_describe_values("tpot", [one.tpot_s for one in served if one.request.output_tokens > 1]),
        **_describe_values("latency", [one.latency_s for one in served]),
        "requests_per_s": len(served) / span_s,
        "output_tokens_per_s": output_tokens / span_s,
        "output_tokens_per_s_per_device": output_tokens / span_s / devices,
        "usd_per_million_tokens": cost_usd and 1e6 * cost_usd / output_tokens,
        "good_share": good / len(served),
        "goodput_per_s": good / span_s,
        "mean_batch": decoded / steps if steps else None,
        "largest_batch": max(run.largest_batch for run in runs),
        "prefill_share": sum(run.prefill_s for run in runs) / (len(runs) * span_s),
        "busy_share": sum(run.prefill_s + run.decode_s for run in runs) / (len(runs) * span_s),
    }


def _describe_values(name: str, values: Sequence[float]) -> dict[str, float | None]:
    """Compute percentiles, interpolated linearly between requests, and the mean; None of none."""
    names = [*(f"{name}_p{percent}_s" for percent in PERCENTILES), f"{name}_mean_s"]
    if not values:
        return dict.fromkeys(names)
    levels = np.quantile(values, [percent / 100 for percent in PERCENTILES])
    return dict(zip(names, [*map(float, levels), float(np.mean(values))], strict=True))
