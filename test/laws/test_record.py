"""The record: run.json of the examples, digests of their traces and IR, and training runs."""

from __future__ import annotations

import csv
import hashlib
import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from support.budgets import PROFILE
from support.law_cases import run_tool
from support.paths import ROOT
from support.record import check_record, list_differences, read_record

from hespas.workflows.run_results import read_annotated_module
from hespas.workflows.sweep.sweep_table import flatten_figures

pytestmark = pytest.mark.slow

EXAMPLES, SEEDS = ROOT / "docs" / "examples", ROOT / "test" / "seeds"
PLACES = ("program", "output", "timeline", "warnings")  # where a run was, and texts that name it
TPU = ("TPUv3_core", "TPUv3_4_2")
H100, A100 = ("H100_80GB", "H100_80GB_4GPU"), ("A100_SXM_40GB", "A100_SXM_40GB_4GPU")


def list_run_cases() -> dict[str, list[str]]:
    """List the runs that are recorded: their flags by name."""
    cases = {}
    for path in sorted(EXAMPLES.rglob("*.mlir.xz")):
        name = path.name.removesuffix(".mlir.xz")
        node, system = H100 if "h100" in name else TPU if "8_devices" in name else A100
        form = "as-is" if "-opt-" in name else "fuse"
        flags = ["--mlir", str(path), "--node", node, "--system", system]
        cases[f"{name}, {form}"] = [*flags, "--form", form]
    path = EXAMPLES / "llama3-100m.mlir.xz"
    for estimator, node, system in (
        ("roofline", *A100), ("calibrated", *H100), ("systolic", "TPUv5e", "TPUv5e_2x2"),
    ):  # fmt: skip
        cases[f"llama3-100m, {estimator} on {node}"] = [
            "--mlir", str(path), "--node", node, "--system", system, "--estimator", estimator,
            "--form", "as-is",
        ]  # fmt: skip
    for path in sorted(SEEDS.glob("*.mlir")):
        cases[f"seeds/{path.stem}"] = [
            "--mlir", str(path), "--node", A100[0], "--keep-going", "--form", "as-is",
        ]  # fmt: skip
    return cases


CASES = list_run_cases()
# `make test` leaves these out, because others are like them and smaller.
LARGE = (
    "llama3-1b, fuse", "llama3-500m, fuse", "llama3-500m-opt-h100, as-is",
    "llama3-500m_8_devices, fuse", "resnet101_train_4_devices, fuse",
)  # fmt: skip
ZOO = (
    "adamw_update", "allgather_matmul", "bert_embedding_mlm_loss", "collectives_all",
    "control_flow", "conv_block_grad", "conv_variants_spatial", "decode_step", "elementwise_all",
    "fft_signal", "gather_scatter", "gnn_message_passing", "lstm_scan", "mlp_dp_train",
    "mlp_fsdp_tp_grad", "mlp_tp_shardmap", "moe_all_to_all", "moe_einsum_gspmd",
    "pipeline_ppermute", "pooling_windows", "reshard_transpose", "rng_dropout", "shape_ops",
    "sort_topk", "summa_like_matmul", "transformer_block_fwd", "transformer_scan_train",
    "transformer_unrolled_train", "zero_rs_ag",
)  # fmt: skip


@pytest.mark.parametrize("name", CASES)
def test_runs(name: str, tmp_path: Path) -> None:
    if name in LARGE and PROFILE != "nightly":
        pytest.skip("a large program, for make nightly")
    run_tool("hespas", "run", *CASES[name], "--output", str(tmp_path / "out"))
    check_record("runs", name, summarise_run(tmp_path / "out"))


@pytest.mark.parametrize("name", ZOO)
def test_workloads(name: str, workload: Callable[[str], Path], tmp_path: Path) -> None:
    """Small programs of JAX that hespas partitions, fuses and simulates."""
    flags = ["--node", "H100_80GB", "--system", "HGX_H100_8", "--form", "fuse", "--keep-going"]
    program = str(workload(f"zoo/{name}/spmd.mlir"))
    run_tool("hespas", "run", "--mlir", program, *flags, "--output", str(tmp_path / "out"))
    check_record("workloads", name, summarise_run(tmp_path / "out"))


def summarise_run(folder: Path) -> dict[str, Any]:
    """Return the figures of a run, and digests of its traces and of its annotated module."""
    figures = flatten_figures(json.loads((folder / "run.json").read_text()))
    traces = hashlib.sha256()
    for path in sorted([*folder.glob("dev.*.et"), folder / "comm_group.json"]):
        traces.update(path.name.encode() + b"\0" + path.read_bytes())
    # The places of programs, which attributes name, differ between checkouts.
    module = re.sub(r'"/[^"]*/', '"', str(read_annotated_module(str(folder))))
    digests = {"traces": traces.hexdigest(), "module": hashlib.sha256(module.encode()).hexdigest()}
    kept = {name: value for name, value in figures.items() if value is not None}
    return {
        **{name: value for name, value in kept.items() if name not in PLACES},
        "warnings": len(json.loads(figures["warnings"])),
        **{name: digest[:16] for name, digest in digests.items()},
    }


ROWS = (
    "t0206", "t0235", "t0711", "t0731", "t0773", "t0779", "t0786", "t0806", "t0830", "t0858",
)  # fmt: skip
ROW_FIGURES = (
    "predicted_s", "low_s", "high_s", "compute_s", "product_s", "attention_s", "stream_s",
    "exposed_comm_s", "overlapped_comm_s", "peak_bytes",
)  # fmt: skip


def test_training_runs(tmp_path: Path) -> None:
    """Ten published runs in CI, all of them in ``make nightly``, as hespas fuses their programs."""
    pytest.importorskip("jax")
    table = ROOT / "docs" / "data" / "training-cases.csv"
    rows = [] if PROFILE == "nightly" else ["--rows", ",".join(ROWS)]
    run_tool(
        "hespas", "validate", str(table), *rows, "--form", "fused", "--cache", "none",
        "--work-dir", str(tmp_path / "programs"), "--csv", str(tmp_path / "rows.csv"),
    )  # fmt: skip
    with open(tmp_path / "rows.csv") as file:
        for row in csv.DictReader(file):
            figures = {name: float(row[name]) for name in ROW_FIGURES if row.get(name)}
            reason = row.get("reason", "")
            assert not re.match(r"\w+Error: ", reason), f"{row['id']} is a fault: {reason}"
            check_record("training runs", row["id"], figures or {"reason": reason})


def test_a_changed_figure_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    recorded = read_record()["runs"]["llama3-100m, fuse"]
    changed = {**recorded, "compute_s": recorded["compute_s"] * (1 + 1e-9), "new_s": 1.0}
    assert len([*list_differences(recorded, changed)]) == 2
