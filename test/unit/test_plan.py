"""``hespas plan``: bounds, the search against all layouts, memory, resuming, and the output."""

from __future__ import annotations

import csv
import json

import pytest

import hespas as package
from hespas.support.errors import HespasError, UsageError
from hespas.tools import hespas

pytestmark = pytest.mark.slow
pytest.importorskip("jax")

SMALL = {
    "node": "H100_80GB",
    "devices": 8,
    "global_batch": 16,
    "options": {"model": "tiny", "emb": 2048, "mlp": 8192, "heads": 16, "kv_heads": 4,
                "head_dim": 128, "sequence": 1024, "remat": "full", "accumulate": 1},
    "compile_count": 0,
}  # fmt: skip


@pytest.fixture(scope="module")
def plan(tmp_path_factory):
    """Makes plans whose programs and estimates are kept for the module."""
    folder = tmp_path_factory.mktemp("plan")
    places = {"work_dir": str(folder / "programs"), "cache": str(folder / "cells")}

    def make_plan(**changes):
        lines = []
        options = {**SMALL["options"], **changes.pop("options", {})}
        result = package.plan(
            "llama", **{**SMALL, **places, **changes, "options": options}, note=lines.append
        )
        return result, lines

    return make_plan


@pytest.fixture(scope="module")
def all_layouts(plan):
    """The plan of which every layout has both a bound and an estimate."""
    return plan(top=1000)[0]


@pytest.mark.long
def test_no_bound_is_above_its_estimate(all_layouts):
    rows = [row for row in all_layouts.rows if row.bound and row.fused]
    assert len(rows) >= 7
    for row in rows:
        assert row.bound.step_time_s <= row.fused.step_time_s, row.candidate
        assert row.bound.compute_s <= row.fused.get("compute_s")
        assert row.bound.resident_bytes <= row.fused.get("peak_bytes")


@pytest.mark.long
def test_the_winner_is_that_of_all_layouts(plan, all_layouts):
    best = min(row.fused.step_time_s for row in all_layouts.ranked)
    single_best, lines = plan(top=1)
    assert single_best.winner.fused.step_time_s == best
    assert lines[0].startswith(f"{len(single_best.rows)} layouts: 10 meshes")


@pytest.mark.long
def test_a_second_plan_estimates_nothing_again(plan, all_layouts, monkeypatch):
    from hespas.estimators.measure.processes import LocalWorkerPool

    sent = []
    run_payloads = LocalWorkerPool.run_payloads

    def record(self, payloads):
        sent.extend(payloads)
        return run_payloads(self, payloads)

    monkeypatch.setattr(LocalWorkerPool, "run_payloads", record)
    again, _ = plan(top=1000)
    assert again == all_layouts
    tasks = {cell["task"] for payload in sent for cell in payload["cells"]}
    assert tasks == {"interface", "meshes", "specs"}


@pytest.mark.long
def test_a_mesh_that_does_not_divide_is_a_row(all_layouts):
    rows = [row for row in all_layouts.rows if row.status == "impossible"]
    assert rows
    assert all("cannot be divided" in row.reason and row.rank == 0 for row in rows)


def test_what_does_not_fit_is_a_row_without_an_estimate(plan):
    result, lines = plan(options={"layers": 1200}, mesh={"tensor": 1})
    assert result.winner is None
    assert {row.status for row in result.rows} == {"too large"}
    assert all("needs at least" in row.reason for row in result.rows)
    assert any("0 layouts to estimate" in line for line in lines)


@pytest.mark.long
def test_the_winner_can_be_built(all_layouts):
    winner = all_layouts.winner
    mesh = ",".join(f"{axis}={size}" for axis, size in winner.candidate.mesh.items())
    assert f"hespas export llama --mesh {mesh} --set" in all_layouts.export_command
    assert set(all_layouts.partition_specs) >= {"params.embedding", "params.layers.wq", "tokens"}
    assert {"remat_policy=full", "max_target_length=1024"} <= {*all_layouts.maxtext_flags}
    differences_s = sum(d.next_s - d.winner_s for d in all_layouts.differences)
    first, second = all_layouts.ranked[:2]
    gain_s = second.fused.step_time_s - first.fused.step_time_s
    assert differences_s == pytest.approx(gain_s, abs=0.01 * first.fused.step_time_s)


@pytest.mark.long
def test_the_command_writes_every_layout(plan, all_layouts, tmp_path, capsys, monkeypatch):
    monkeypatch.setattr(
        "hespas.workflows.planning.plan_search.plan_layouts", lambda *_: all_layouts
    )
    file = tmp_path / "layouts.csv"
    arguments = ["plan", "llama", "--node", "H100_80GB", "--devices", "8", "--global-batch", "16"]
    page = tmp_path / "layouts.html"
    files = ["--csv", str(file), "--page", str(page)]
    assert hespas.main([*arguments, "--set", "remat=full,none", *files]) == 0
    text = capsys.readouterr().out
    assert "Why rank 1 wins over rank 2" in text and "hespas export llama" in text
    assert page.read_text().count("<circle") == 2 * len(all_layouts.ranked)  # wide and narrow
    with file.open() as stream:
        assert len(list(csv.DictReader(stream))) == len(all_layouts.rows)
    assert hespas.main([*arguments, "--json"]) == 0
    assert json.loads(capsys.readouterr().out) == json.loads(json.dumps(all_layouts.to_json()))


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"options": {"modle": "tiny"}}, "has no option 'modle'"),
        ({"options": {"model": "9t"}}, "'model' takes"),
        ({"mesh": {"tensor": 3}}, "multiply to 8 devices"),
        ({"top": 0}, "'top' is 0"),
        ({"compile_minutes": -1}, "'compile_minutes' is -1"),
        ({"tops": 3}, "unknown key 'tops'; did you mean 'top'"),
        ({"devices": 7}, "has 7 devices"),
    ],
)
def test_a_wrong_option_is_an_error(plan, changes, message):
    with pytest.raises(HespasError, match=message) as caught:
        plan(**changes)
    assert isinstance(caught.value, UsageError)


def test_a_call_stands_for_the_fused_attention_of_other_nodes(plan):
    """A node that XLA has no target for has a kernel of attention, too."""
    result, lines = plan(node="MI300X", mesh={"tensor": 1, "fsdp": 8})
    assert {row.candidate.options["attention"] for row in result.ranked} == {"cudnn"}
    assert "note: the call of cudnn stands for the fused attention of MI300X" in lines
    plain = plan(
        node="MI300X", mesh={"tensor": 1, "fsdp": 8}, options={"attention": "dot_product"}
    )[0]
    assert plain.winner.fused.step_time_s > 1.1 * result.winner.fused.step_time_s
