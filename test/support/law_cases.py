"""A finished run of a random program, and the figures of each place that shows them.

The places are what users see: files, the JSON and the text of commands, the page, and Python.
"""

from __future__ import annotations

import json
import math
import re
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

from hespas.chakra.trace_reader import read_trace_nodes
from hespas.dialects.attrs import Cost
from hespas.dialects.mlir import ir
from hespas.dialects.op_kinds import find_entry_function
from hespas.estimators.aggregate import aggregate_costs
from hespas.passes.emit.module_stats import combine_bands
from hespas.workflows.gate.step_comparison import StepProfile, profile_result
from hespas.workflows.kernel_rows import KernelRow
from hespas.workflows.program_estimate import rank_compute_time
from hespas.workflows.program_replay import StepReplay
from hespas.workflows.run_config import RunConfig
from hespas.workflows.run_results import RunResult
from support.random_costs import NAME
from support.tool_commands import ToolCommand, run_command

NODE = "A100_SXM_40GB"
SYSTEM = "ring:2,links=2,link_gb_s=50,latency_ns=500,local_mem_gb_s=1000"
ALL = "1000000"  # rows of a table

Figures = Iterator[tuple[str, float | None]]
"""Names of places, and the figure that each shows."""


@dataclass(frozen=True)
class LawCase:
    """The output folder of a run.

    Attributes:
        folder: The folder.
        printed: What the command printed.
    """

    folder: str
    printed: str

    @cached_property
    def result(self) -> RunResult:
        return RunResult.load_folder(self.folder)

    @cached_property
    def module(self) -> ir.Module:
        return self.result.annotated_module

    @cached_property
    def rows(self) -> list[KernelRow]:
        return self.result.kernel_rows

    @cached_property
    def stats(self) -> dict[str, Any]:
        return json.loads(Path(self.folder, "module_stats.json").read_text())

    @cached_property
    def shown(self) -> dict[str, Any]:
        return json.loads(run_tool("hespas", "show", self.folder, "--json", "--top", ALL))

    @cached_property
    def changes(self) -> dict[str, Any]:
        words = ("hespas", "compare", self.folder, self.folder, "--changes", "--json", "--top", ALL)
        return json.loads(run_tool(*words))

    @cached_property
    def profile(self) -> StepProfile:
        return profile_result(self.result)

    @cached_property
    def entry_sum(self) -> Cost:
        """The sum of the costs that stand on the ops of the entry function."""
        ops = [view.operation for view in find_entry_function(self.module).regions[0].blocks[0]]
        return aggregate_costs([cost for op in ops if (cost := Cost.read_from_op(op)) is not None])


def run_program(folder: Path, text: str, split: str = "linear", **options: Any) -> LawCase:
    """Run a program with random costs on a network, as the command line does."""
    program, output = folder / "step.mlir", folder / f"out-{split}-{options['setting']['seed']}"
    program.write_text(text)
    values = {
        "mlir": program, "node": NODE, "system": SYSTEM, "estimator": NAME, "form": "as-is",
        "split": split, "output": output, "keep_going": True, "memory": False, **options,
    }  # fmt: skip
    return LawCase(str(output), run_tool("hespas", "run", *format_flags(values)))


def format_flags(options: Mapping[str, Any]) -> list[str]:
    """Format the options of a run as flags."""
    flags: list[str] = []
    for name, value in options.items():
        flag = name.replace("_", "-")
        if name == "setting":
            for key, entry in value.items():
                flags += ["--setting", f"{key}={str(entry).lower() if entry is True else entry}"]
        elif isinstance(value, bool):
            if value != RunConfig.model_fields[name].default:
                flags.append(f"--{flag}" if value else f"--no-{flag}")
        else:
            flags += [f"--{flag}", str(value)]
    return flags


def run_tool(*words: str) -> str:
    """Run a command that must succeed, and return what it prints on stdout."""
    done = run_command(ToolCommand(list(words), False, False))
    assert done.code == 0, f"{words}: {done.err}"
    return done.out


def list_times_ns(case: LawCase) -> Figures:
    """Yield the compute time of a device, in nanoseconds."""
    stats, figures = case.stats, case.result.figures
    yield "module_stats.json", stats["totals"]["time_ns"]
    yield "costs on the entry function", case.entry_sum.time_ns
    yield "kernel rows", math.fsum(row.time_ns for row in case.rows)
    for table in ("kinds", "dtypes", "bounds", "classes"):
        yield (
            f"module_stats.json, {table}",
            math.fsum(row["time_ns"] for row in stats[table].values()),
        )
    yield (
        "module_stats.json, regions",
        math.fsum(row["time_ns"] * row["runs"] for row in stats["regions"]),
    )
    yield "run.json", 1e9 * figures["compute_s"]
    for by, shares in figures["compute_s_by"].items():
        yield f"run.json by {by}", 1e9 * math.fsum(shares.values())
    yield "show", 1e9 * case.shown["compute_s"]
    yield "show, kernels", 1e9 * math.fsum(row["total_s"] for row in case.shown["kernels"])
    for by in filter(re.compile("by_").match, case.shown):
        yield f"show {by}", 1e9 * math.fsum(row["time_s"] for row in case.shown[by])
    yield "compare", 1e9 * case.changes["totals"]["compute_s"]["a"]
    for table in ("kinds", "kernels", "layers"):
        yield f"compare, {table}", 1e9 * math.fsum(row["a_s"] for row in case.changes[table])
    yield "gate", 1e9 * case.profile.compute_s
    yield "gate, kernels", 1e9 * math.fsum(r.count * r.time_s for r in case.profile.kernels)
    for by in ("kernel", "op", "line", "layer"):
        ranking = rank_compute_time(case.module, 10**6, by)
        yield f"ranking by {by}", 1e9 * math.fsum(row.time_s for row in ranking)
    replay = StepReplay(case.module, None)
    yield "sensitivity", 1e9 * replay.compute_step_s(replay.base_kernels_ns)


def list_simulated_times_ns(case: LawCase) -> Figures:
    """Yield the compute time of a device in whole nanoseconds of the trace."""
    durations = [
        (node.get_attr_value("num_ops") - 500) / 1000
        for node in read_trace_nodes(Path(case.folder, "dev.0.et"))
        if node.get_attr_value("num_ops") is not None
    ]
    yield "trace", math.fsum(durations)
    simulation = case.result.simulation
    assert simulation is not None
    yield "simulation.json", 1e9 * simulation["compute_s"]
    yield (
        "run.json, step less exposed",
        1e9 * (case.result.figures["step_time_s"] - case.result.figures["exposed_comm_s"]),
    )


def list_counts(case: LawCase, field: str) -> Figures:
    """Yield the sum of an amount that every cost has, such as ``flops``."""
    stats, figures = case.stats, case.result.figures
    yield "module_stats.json", stats["totals"][field]
    yield "costs on the entry function", getattr(case.entry_sum, field)
    yield "kernel rows", sum(row.count * getattr(row.cost, field) for row in case.rows)
    for table in ("kinds", "dtypes", "bounds", "classes"):
        yield f"module_stats.json, {table}", sum(row[field] for row in stats[table].values())
    yield "module_stats.json, regions", sum(row[field] * row["runs"] for row in stats["regions"])
    yield "run.json", figures[field]
    yield "show", sum(row["count"] * row[field] for row in case.shown["kernels"])
    yield (
        "trace",
        sum(
            node.get_attr_value(field, 0)
            for node in read_trace_nodes(Path(case.folder, "dev.0.et"))
        ),
    )
    if field == "flops":
        yield "gate", sum(row.count * row.flops for row in case.profile.kernels)


def list_other_amounts(case: LawCase, field: str) -> Figures:
    """Yield the sum of an amount that some costs have, such as an energy."""
    yield "module_stats.json", case.stats["totals"][field] or 0.0
    yield "costs on the entry function", getattr(case.entry_sum, field) or 0.0
    amounts = (row.count * (getattr(row.cost, field) or 0.0) for row in case.rows)
    yield "kernel rows", math.fsum(amounts)
    if field == "energy_nj":
        yield "run.json", 1e9 * (case.result.figures["energy_j"] or 0.0)


def list_maxima(case: LawCase, field: str) -> Figures:
    """Yield the largest value of a field that does not add up."""
    yield "module_stats.json", case.stats["totals"][field]
    yield "costs on the entry function", getattr(case.entry_sum, field)
    executed = [row for row in case.rows if row.count]
    values = [value for row in executed if (value := getattr(row.cost, field)) is not None]
    yield "kernel rows", max(values, default=None)


def list_bands_ns(case: LawCase, end: int) -> Figures:
    """Yield an end of the 80 % band of the compute time of a device: 0 the low, 1 the high one."""
    name = ("low_ns", "high_ns")[end]
    yield "module_stats.json", case.stats["totals"][name]
    band = combine_bands((row.cost, row.count) for row in case.rows)
    yield "kernel rows", band[end] if band else None
    band = case.result.figures["compute_band_s"]
    yield "run.json", 1e9 * band[end] if band else None


def list_gap_counts(case: LawCase) -> Figures:
    """Yield the number of executed ops without a cost."""
    yield "module_stats.json", case.stats["totals"]["gaps"]
    yield "kernel rows", sum(row.count for row in case.rows if row.cost.gap)
    yield "run.json", case.result.figures["gaps"]
    yield "show", sum(row["count"] for row in case.shown["kernels"] if row["gap"])


def list_tag_counts(case: LawCase) -> Iterator[tuple[str, dict[str, int]]]:
    """Yield the number of executed ops by tag."""
    yield "module_stats.json", case.stats["totals"]["tags"]
    counts: Counter[str] = Counter()
    for row in case.rows:
        counts.update(dict.fromkeys((row.cost.tag or "").split(), row.count))
    yield "kernel rows", dict(sorted(counts.items()))
    yield "run.json", case.result.figures["tags"]
