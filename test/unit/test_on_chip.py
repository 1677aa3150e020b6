"""Values that stay in the on-chip memory: that they fit, and what a run moves."""

from __future__ import annotations

import itertools
import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.budgets import draw_examples
from support.random_programs import programs

import hespas
from hespas.dialects.attrs import Cost, OnChipAttr
from hespas.dialects.mlir import ir
from hespas.passes import run_pipeline
from hespas.passes.annotate.traverse import Annotation
from hespas.passes.base import PassRun
from hespas.passes.memory.on_chip_values import Stay, place_stays
from hespas.tools import hespas as command_line
from hespas.workflows.run_config import RunConfig
from hespas.workflows.run_flow import run_program
from hespas.workflows.sweep.sweep_table import read_table

CHIP = {
    "name": "chip",
    "memory_bandwidth_bytes_per_s": 1e12,
    "accelerator": {
        "rows": 128, "columns": 128, "clock_hz": 1e9, "lanes": 1024, "sram_bytes": 1 << 20,
    },
}  # fmt: skip
MIB = 1 << 20


@st.composite
def draw_stays(draw: st.DrawFn) -> tuple[list[Stay], list[int]]:
    """Draw kernels, and values with uses by some of them; a value may end in another's place."""
    kernels = draw(st.integers(2, 12))
    held = draw(st.lists(st.integers(0, 50), min_size=kernels, max_size=kernels))
    stays = []
    for place in range(draw(st.integers(1, 6))):
        uses = sorted(draw(st.sets(st.integers(0, kernels - 1), min_size=2, max_size=4)))
        size = draw(st.integers(1, 100))
        stays += [Stay(a, b, size, place, place) for a, b in itertools.pairwise(uses)]
        last = uses[-1]
        if last < kernels - 1 and draw(st.booleans()):  # a result is written over it
            stays.append(Stay(last, kernels - 1, size, place, 100 + place))
    return stays, held


def find_used_bytes(
    stays: list[Stay], held: list[int], needs: list[int], memory_bytes: int
) -> list[int]:
    """Return the bytes in use at each kernel, by a definition of its own: distinct places."""
    kept = [stay for stay, need in zip(stays, needs, strict=True) if need <= memory_bytes]
    used = []
    for kernel, held_bytes in enumerate(held):
        places: dict[Any, int] = {}
        for number, stay in enumerate(kept):
            if stay.start <= kernel <= stay.end:
                place: Any = ("inside", number)
                if kernel == stay.start:
                    place = stay.start_place
                elif kernel == stay.end:
                    place = stay.end_place
                places[place] = stay.size
        used.append(
            held_bytes * any(s.start <= kernel <= s.end for s in kept) + sum(places.values())
        )
    return used


@draw_examples(300)
@given(draw_stays(), st.integers(0, 400))
def test_what_stays_fits(case, memory_bytes):
    """Together with what the kernels hold, at each kernel, for any size of the memory."""
    stays, held = case
    needs = list(place_stays(stays, held))
    assert max(find_used_bytes(stays, held, needs, memory_bytes)) <= memory_bytes
    for stay, need in zip(stays, needs, strict=True):  # and not in less than it takes alone
        assert need >= stay.size + max(held[stay.start : stay.end + 1])
    unlimited = sum(stay.size for stay in stays) + max(held)
    assert max(needs) <= unlimited


def test_the_shortest_stay_goes_first():
    """The short stay of 60 bytes, not the long one of 50. What does not fit is in nobody's way."""
    stays = [Stay(0, 9, 50, 0, 0), Stay(4, 5, 60, 1, 1), Stay(3, 6, 4000, 2, 2)]
    assert place_stays(stays, [0] * 10) == [110, 60, 4110]


# Programs


def annotate(text: str) -> ir.Module:
    """Prepare a program, and write what stays."""
    module = hespas.read(text)
    run_pipeline(module, "on-chip-annotate", PassRun(note=lambda _: None))
    return module


def list_attrs(module: ir.Module) -> list[OnChipAttr]:
    """List what stays, by kernel."""
    attrs: list[OnChipAttr] = []

    def visit(op: ir.Operation) -> ir.WalkResult:
        attr = OnChipAttr.read_from_op(op)
        attrs.extend([attr] if attr else [])
        return ir.WalkResult.ADVANCE

    module.operation.walk(visit)
    return attrs


def estimate(tmp_path: Path, text: str, sram_bytes: int, **settings: Any) -> Cost:
    """Return the cost of a program with an SRAM of a size."""
    path = tmp_path / "chip.json"
    path.write_text(json.dumps(CHIP))
    module = annotate(text)
    options = {
        "node": path, "sram-bytes": sram_bytes, "memory-bandwidth": 1e10, **settings
    }  # fmt: skip
    step = " ".join(f"{name}={value}" for name, value in options.items())
    run = run_pipeline(module, f"systolic-annotate{{{step}}}", PassRun(note=lambda _: None))
    return run.get_artefact(Annotation).total


@pytest.mark.slow
@draw_examples(20)
@given(programs(gaps=False, branches=False))
def test_more_memory_never_moves_more(tmp_path_factory, text):
    folder = tmp_path_factory.mktemp("chip")
    costs = [estimate(folder, text, size) for size in (100, 1 << 14, 1 << 16, 1 << 20, 1 << 40)]
    for small, large in itertools.pairwise(costs):
        assert large.read_bytes <= small.read_bytes and large.write_bytes <= small.write_bytes
        assert large.latency_ns <= small.latency_ns * (1 + 1e-9)
    assert costs[-1].read_bytes >= 0 and costs[-1].write_bytes >= 0


@draw_examples(20)
@given(programs(gaps=False))
def test_savings_are_at_most_the_work(text):
    """An op saves no more than it reads and writes."""
    module = annotate(text)
    run_pipeline(module, "roofline-annotate{peak-flops=1e12 memory-bandwidth=1e12}")

    def visit(op: ir.Operation) -> ir.WalkResult:
        attr, cost = OnChipAttr.read_from_op(op), Cost.read_from_op(op)
        if attr is not None:
            assert cost is not None
            assert attr.read_bytes[-1] <= cost.read_bytes
            assert attr.write_bytes[-1] <= cost.write_bytes
        return ir.WalkResult.ADVANCE

    module.operation.walk(visit)


CHAIN = """
func.func @main(%x: tensor<2048x2048xbf16>, %w: tensor<2048x2048xbf16>,
                %v: tensor<2048x2048xbf16>) -> tensor<2048x2048xbf16> {
  %0 = stablehlo.dot_general %x, %w, contracting_dims = [1] x [0]
    : (tensor<2048x2048xbf16>, tensor<2048x2048xbf16>) -> tensor<2048x2048xbf16>
  %1 = stablehlo.dot_general %0, %v, contracting_dims = [1] x [0]
    : (tensor<2048x2048xbf16>, tensor<2048x2048xbf16>) -> tensor<2048x2048xbf16>
  %2 = stablehlo.dot_general %1, %w, contracting_dims = [1] x [0]
    : (tensor<2048x2048xbf16>, tensor<2048x2048xbf16>) -> tensor<2048x2048xbf16>
  return %2 : tensor<2048x2048xbf16>
}
"""


def test_a_chain_of_products_by_hand(tmp_path):
    """Of the issue: 377 MB are moved with 1 MiB; with 64 MiB, each matrix once: 4 of 9."""
    matrix = 2 * 2048 * 2048
    small = estimate(tmp_path, CHAIN, MIB)
    assert small.read_bytes + small.write_bytes == pytest.approx(377.5e6, rel=0.2)
    held = estimate(tmp_path, CHAIN, 16 * MIB)  # the products alone
    assert (held.read_bytes, held.write_bytes) == (6 * matrix, 3 * matrix)
    fitting = estimate(tmp_path, CHAIN, 64 * MIB)
    assert (fitting.read_bytes, fitting.write_bytes) == (3 * matrix, matrix)
    assert fitting.latency_ns < held.latency_ns < small.latency_ns
    unlimited = estimate(tmp_path, CHAIN, 1 << 50)
    assert unlimited.read_bytes == fitting.read_bytes  # more memory does not help


def test_scalesim_has_no_memory_between_kernels(tmp_path):
    sizes = [
        estimate(tmp_path, CHAIN, size, variant="scalesim").read_bytes
        for size in (64 * MIB, 1 << 40)
    ]
    assert sizes == [6 * 2 * 2048 * 2048] * 2


@draw_examples(10)
@given(programs(gaps=False), st.sampled_from(["split-linear", "split-individual{merge=true}"]))
def test_a_split_moves_what_stays_with_its_ops(text, split):
    """The annotation of a program is that of its parts, so that both orders have equal costs."""
    module = annotate(text)
    before = sorted(map(repr, list_attrs(module)))
    run_pipeline(module, split)
    assert sorted({*map(repr, list_attrs(module))}) == sorted({*before})


def run(tmp_path: Path, **options: Any) -> dict[str, Any]:
    """Return the figures of a run on the chip."""
    (tmp_path / "chip.json").write_text(json.dumps(CHIP))
    (tmp_path / "chain.mlir").write_text(CHAIN)
    config = {"mlir": str(tmp_path / "chain.mlir"), "node": str(tmp_path / "chip.json"),
              "estimator": "systolic", "split": "linear", "output": str(tmp_path / "out"),
              **options}  # fmt: skip
    run_program(RunConfig.model_validate(config))
    return json.loads((tmp_path / "out" / "module_stats.json").read_text())


@pytest.mark.parametrize("split", ["linear", "individual", "individual-merge"])
def test_a_run_shows_what_is_moved(tmp_path, split):
    totals = run(tmp_path, split=split, setting={"sram_bytes": 64 * MIB})["totals"]
    matrix = 2 * 2048 * 2048
    assert (totals["read_bytes"], totals["write_bytes"]) == (3 * matrix, matrix)


def test_cells_of_a_sweep_share_what_stays(tmp_path):
    """Cells with other SRAMs, which are replayed, move what runs of their own do."""
    sizes = [size * MIB for size in (1, 16, 64)]
    runs = [run(tmp_path, setting={"sram_bytes": size})["utilisation"] for size in sizes]
    cells = {
        "mlir": str(tmp_path / "chain.mlir"),
        "node": str(tmp_path / "chip.json"),
        "estimator": "systolic",
        "split": "linear",
        "setting.sram_bytes": sizes,
    }
    (tmp_path / "cells.json").write_text(json.dumps(cells))
    table = tmp_path / "table.json"
    words = ["sweep", str(tmp_path / "cells.json"), "--output", str(table), "--cache", "none"]
    assert command_line.main([*words, "--jobs", "1"]) == 0
    shares = [row["bandwidth_utilisation"] for row in read_table(str(table))]
    assert shares == pytest.approx([each["bandwidth"] for each in runs])
    assert len(set(shares)) == 3
