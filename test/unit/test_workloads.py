"""Every shared program through the whole flow, by both ways to split it; what must hold of each.

Small programs are tested a folder at a time, large ones alone; a failure names the file.
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from support.budgets import PROFILE, thin_out
from support.output_files import read_output_files
from support.paths import find_workloads

from hespas import frontends, passes
from hespas.chakra import trace_reader
from hespas.chakra.check_traces import check_trace_folder
from hespas.chakra.schema import NodeType
from hespas.dialects.attrs import Cost
from hespas.dialects.mlir import clone_module, ir, make_context
from hespas.dialects.verify_attrs import collect_attribute_problems
from hespas.passes.annotate.traverse import Annotation
from hespas.passes.base import PassRun

pytestmark = pytest.mark.slow

ANNOTATE = "roofline-annotate{node=A100_SXM_40GB}"
SPLITS = ("split-linear", "split-individual{merge}")
GAPS = {  # what a program does not tell
    "zoo/control_flow": "trip count 1 assumed: it depends on data",
    "zoo/host_callback": "@xla_ffi_python_cpu_callback runs on the host, whose time is not known",
}
ASSUMED = {"zoo/misc/symbolic_shapes.mlir": "sizes assumed for symbolic dimensions: b=128, s=128"}


def batches() -> dict[str, list[str]]:
    """The programs, without ``.xz``: those of a folder of the zoo together, others one by one.

    ``make test`` takes every second program of a folder, from the first and the second in turn.
    """
    folder = find_workloads()
    names_by_batch: dict[str, list[str]] = {}
    if folder is not None:
        for path in sorted(folder.rglob("*.mlir*")):
            name = path.relative_to(folder).as_posix().removesuffix(".xz")
            batch = name.rpartition("/")[0] if name.startswith("zoo/") else name
            names_by_batch.setdefault(batch, []).append(name)
    folders = {batch: names for batch, names in names_by_batch.items() if len(names) > 1}
    for number, (batch, names) in enumerate(folders.items()):
        names_by_batch[batch] = thin_out(names[number % 2 :], 2) if PROFILE != "nightly" else names
    return names_by_batch


BATCHES = batches()
# Many devices, layers or sizes of programs that are also tested with fewer.
NIGHTLY = {
    "llama3/llama3-1b-opt-h100.mlir", "llama3/llama3-3b-opt-a100.mlir",
    "llama3/llama3-500m-opt-a100.mlir", "llama3/llama3-500m.mlir",
    "resnet/resnet18_inference_4_devices-opt-a100.mlir",
    "resnet/resnet50_inference_4_devices-opt-cudnn-a100.mlir",
    "resnet/resnet50_inference_4_devices.mlir", "resnet/resnet50_train_4_devices-opt-a100.mlir",
    "resnet/resnet50_train_4_devices.mlir", "scaling/llama2-7b-L1-fsdp128-tp8.mlir",
    "scaling/llama2-7b-L32-fsdp32-tp8.mlir", "scaling/llama2-7b-L32-fsdp8-tp8.mlir",
    "scaling/llama2-7b-L32-fsdp8.mlir", "scaling/llama2-7b-L32-scan-fsdp32-tp8.mlir",
}  # fmt: skip
SMALL = [batch for batch in BATCHES if batch.startswith("zoo/")]


def through(path: Path, pipeline: str, context: ir.Context) -> tuple[ir.Module, PassRun]:
    module, run = frontends.read_module(path, context), PassRun(note=lambda text: None)
    passes.run_pipeline(module, pipeline, run)
    return module, run


def prepare_copies(path: Path, context: ir.Context) -> tuple[list[ir.Module], list[str]]:
    """The prepared program, once for each split, and the warnings: it is divided only once."""
    module, run = through(path, "prepare", context)
    return [clone_module(module) for _ in SPLITS], run.warnings


def emit(folder: Path) -> str:
    return f'emit-chakra{{output="{folder}" clean}}'


def computed_ns(trace: Path) -> tuple[int, int]:
    """How many compute nodes a trace has, and their time as ASTRA-sim's roofline mode has it."""
    nodes = [
        node for node in trace_reader.read_trace_nodes(trace) if node.type == NodeType.COMP_NODE
    ]
    return len(nodes), sum(node.get_attr_value("num_ops") // 1000 for node in nodes)


def faults(module: ir.Module, run: PassRun, folder: Path) -> Iterator[str]:
    """What is wrong with a module and its traces."""
    if not module.operation.verify():
        yield "the module is not valid"
    yield from map(str, collect_attribute_problems(module))
    yield from (
        str(problem)
        for problem in check_trace_folder(folder).problems
        if problem.severity == "error"
    )
    cost: Cost = run.get_artefact(Annotation).total
    count, time_ns = computed_ns(folder / "dev.0.et")
    # A simulator takes no less than 1 ns for a node.
    if abs(time_ns - max(cost.latency_ns, count)) > 1:
        yield f"the trace computes {time_ns} ns in {count} nodes, the program {cost.latency_ns} ns"
    stats = json.loads((folder / "module_stats.json").read_text())
    totals, shares = stats["totals"], stats["utilisation"] or {}
    if not math.isclose(totals["time_ns"], cost.latency_ns, rel_tol=1e-9):
        yield f"the statistics count {totals['time_ns']} ns, the program {cost.latency_ns} ns"
    if (totals["flops"], totals["read_bytes"]) != (cost.flops, cost.read_bytes):
        yield "the statistics count other operations or bytes"
    if not all(0 <= share <= 1 for share in shares.values()):
        yield f"shares of the peak are {shares}"


@pytest.mark.parametrize("batch", BATCHES)
def test_programs_hold_together(
    batch: str, workload: Callable[[str], Path], context: ir.Context, tmp_path: Path
) -> None:
    if batch in NIGHTLY and PROFILE != "nightly":
        pytest.skip("tested nightly")
    problems: list[str] = []
    for name in BATCHES[batch]:
        totals = []
        copies, warnings = prepare_copies(workload(name), context)
        for split, module in zip(SPLITS, copies, strict=True):
            run = PassRun(note=lambda text: None)
            try:
                pipeline = f"{split},{ANNOTATE},{emit(tmp_path / 'out')}"
                passes.run_pipeline(module, pipeline, run)
                problems += [
                    f"{name} {split}: {problem}"
                    for problem in faults(module, run, tmp_path / "out")
                ]
            except Exception as error:
                error.add_note(f"in {name}, {split}")
                raise
            totals.append(run.get_artefact(Annotation).total)
            if GAPS.get(batch) != totals[-1].gap:
                problems.append(f"{name} {split}: the gap is {totals[-1].gap!r}")
            if name in ASSUMED and not any(ASSUMED[name] in text for text in warnings):
                problems.append(f"{name} {split}: the warnings are {warnings}")
        if totals[0] != totals[1]:
            problems.append(f"{name}: the cost is {totals[0]} or, by {SPLITS[1]}, {totals[1]}")
    assert problems == []


@pytest.mark.parametrize("batch", thin_out(SMALL, 2))
def test_passes_commute_and_repeat(
    batch: str, workload: Callable[[str], Path], tmp_path: Path
) -> None:
    """On a file of each folder: annotating before splitting changes nothing, nor does a rerun.

    The rerun begins with the file, and the other order with a copy of the prepared program.
    """
    name = BATCHES[batch][len(batch) % len(BATCHES[batch])]
    first, rerun = (through(workload(name), "prepare", make_context())[0] for _ in range(2))
    copy = clone_module(first)
    outcomes = []
    for k, (module, order) in enumerate(
        (
            (first, f"{SPLITS[1]},{ANNOTATE}"),
            (rerun, f"{SPLITS[1]},{ANNOTATE}"),
            (copy, f"{ANNOTATE},{SPLITS[1]}"),
        )
    ):
        folder, run = tmp_path / str(k), PassRun(note=lambda text: None)
        passes.run_pipeline(module, f"{order},{emit(folder)}", run)
        files = read_output_files(folder)
        outcomes.append((files, run.get_artefact(Annotation).total, str(module)))
    assert outcomes[0] == outcomes[1], name
    assert outcomes[0][:2] == outcomes[2][:2], name


# Step times on four devices that the published Hespas was compared with (arXiv 2604.12090), in
# seconds. No launches and no communication are in ours: it must be less, and not by much.
MEASURED_S = {
    ("llama3/llama3-100m-opt-a100.mlir", "A100_SXM_40GB"): 0.09,
    ("llama3/llama3-500m-opt-a100.mlir", "A100_SXM_40GB"): 0.39,
    ("llama3/llama3-1b-opt-a100.mlir", "A100_SXM_40GB"): 0.75,
    ("llama3/llama3-500m-opt-h100.mlir", "H100_80GB"): 0.14,
    ("llama3/llama3-1b-opt-h100.mlir", "H100_80GB"): 0.28,
    ("resnet/resnet18_train_4_devices-opt-cudnn-a100.mlir", "A100_SXM_40GB"): 0.03865,
    ("resnet/resnet50_train_4_devices-opt-cudnn-a100.mlir", "A100_SXM_40GB"): 0.10120,
}


@pytest.mark.parametrize(("name", "node"), thin_out(MEASURED_S, 2))
def test_below_measured_steps(
    name: str, node: str, workload: Callable[[str], Path], context: ir.Context
) -> None:
    _, run = through(workload(name), f"roofline-annotate{{node={node}}}", context)
    assert 0.5 < run.get_artefact(Annotation).total.time_ns * 1e-9 / MEASURED_S[name, node] < 0.75


@pytest.mark.parametrize(("name", "flops"), [("train", 6.079e12), ("inference", 2.0401e12)])
def test_resnet_has_the_operations_that_xla_counts(
    name: str, flops: float, workload: Callable[[str], Path], context: ir.Context
) -> None:
    """XLA's cost analysis of ResNet-50 at 256 images per device, before optimisation."""
    path = workload(f"resnet/resnet50_{name}_4_devices.mlir")
    _, run = through(path, ANNOTATE, context)
    assert run.get_artefact(Annotation).total.flops == pytest.approx(flops, rel=1e-4)
