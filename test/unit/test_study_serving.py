"""``hespas study serving``: from the recipes to the figures of loads, on tiny models."""

from __future__ import annotations

import csv
import dataclasses
import json

import pytest

from hespas import configs
from hespas.support.errors import HespasError, UsageError
from hespas.tools import hespas
from hespas.workflows.serving.request_loop import ServedRequest, StepTimes
from hespas.workflows.studies import serving
from hespas.workflows.studies.serving import LoadOptions, ServedModel

pytest.importorskip("jax")

LABELS = {"model": "tiny", "tensor": 1, "node": "H100_80GB"}
MODEL = ServedModel(
    LABELS, 1, StepTimes({64: 0.01}, {1: {128: 0.002}, 8: {128: 0.004}}), 10_000, 16
)


def serve(load, model=MODEL):
    return list(serving._serve_loads(model, load, None))


def test_loads_are_shares_of_the_saturated_server():
    load = LoadOptions(requests=200, prompt_tokens=60, output_tokens=9)
    rows = serve(load)
    # Saturated: 8 prefills, then 8 steps of 8 sequences, again and again.
    saturated = 8 / (8 * 0.01 + 8 * 0.004)
    shares = [row["rate_per_s"] / saturated for row in rows]
    assert shares == pytest.approx(serving.SATURATION_SHARES, rel=0.01)
    busy = [row["busy_share"] for row in rows]
    assert busy == sorted(busy) and busy[-1] > 0.9
    assert [row["requests"] for row in rows] == [200] * 4
    costs = [row["usd_per_million_tokens"] for row in rows]
    assert costs == sorted(costs, reverse=True)
    per_second = rows[-1]["output_tokens_per_s_per_device"]
    assert costs[-1] == pytest.approx(10.8 / 3600 / per_second * 1e6)


def test_replicas_share_a_load():
    load = LoadOptions(rates=(40.0,), requests=400, prompt_tokens=60, output_tokens=9)
    (alone,) = serve(load)
    (shared,) = serve(dataclasses.replace(load, replicas=2, rates=(80.0,)))
    assert shared["devices"] == 2
    name = "output_tokens_per_s_per_device"
    assert shared[name] == pytest.approx(alone[name], rel=0.1)


def test_good_requests_meet_both_limits():
    load = LoadOptions(requests=300, prompt_tokens=60, output_tokens=9)
    (loose, *_), (tight, *_) = (
        serve(dataclasses.replace(load, ttft_limit_s=10.0, tpot_limit_s=tpot_limit_s))
        for tpot_limit_s in (10.0, 0.00201)
    )
    assert loose["good_share"] == 1 and 0 < tight["good_share"] < 1
    assert tight["goodput_per_s"] == pytest.approx(tight["good_share"] * tight["requests_per_s"])


def test_latencies_of_a_request():
    request = serving.ServingRequest(1.0, 10, 5)
    served = ServedRequest(request, 1.5, 3.5)
    assert (served.ttft_s, served.tpot_s, served.latency_s) == (0.5, 0.5, 2.5)


ARGUMENTS = (
    "--models", "tiny", "--form", "fused", "--prompts", "32", "--batches", "1,4", "--contexts",
    "64,128", "--prompt-tokens", "30", "--output-tokens", "10", "--requests", "40", "--jobs", "1",
)  # fmt: skip


@pytest.fixture(scope="module")
def places(tmp_path_factory):
    """The flags of folders that the tests of this module share, so that each step is made once."""
    folder = tmp_path_factory.mktemp("serving")
    return ("--work-dir", str(folder / "programs"), "--cache", str(folder / "cells"))


@pytest.mark.long
def test_from_recipes_to_loads(places, tmp_path, capsys):
    table, page = tmp_path / "loads.csv", tmp_path / "loads.html"
    command = ["study", "serving", *ARGUMENTS, *places, "--rates", "5,50"]
    assert hespas.main([*command, "--csv", str(table), "--page", str(page)]) == 0
    printed = capsys.readouterr()
    assert "Serving, steps" in printed.out and "Serving, loads" in printed.out
    assert "memory for" in printed.err
    assert "TTFT p99" in page.read_text()
    assert hespas.main([*command, "--json"]) == 0
    data = json.loads(capsys.readouterr().out)
    assert [row["step"] for row in data["rows"]] == ["prefill"] + ["decode"] * 4
    rows = list(csv.DictReader(table.open()))
    assert [row["rate_per_s"] for row in rows] == ["5.0", "50.0"]
    assert float(rows[1]["ttft_p99_s"]) == data["loads"][1]["ttft_p99_s"]
    # An idle server prefills a request at once, and decodes it alone.
    prefill_s, decode_s, *_ = (row["step_time_s"] for row in data["rows"])
    assert data["loads"][0]["ttft_p50_s"] == pytest.approx(prefill_s)
    assert data["loads"][0]["tpot_p50_s"] == pytest.approx(decode_s, rel=0.01)
    # The cache has what the weights and activations of the tiny model leave, 256 bytes a token:
    # 2 layers, keys and values, 2 heads of 16, 2 bytes.
    assert data["loads"][0]["cache_tokens"] == pytest.approx(0.9 * 80e9 / 256, rel=1e-3)
    price = configs.load_node("H100_80GB").price_per_hour
    assert hespas.main([*command, "--json", "--price-per-hour", str(10 * price)]) == 0
    dear = json.loads(capsys.readouterr().out)["loads"][0]["usd_per_million_tokens"]
    assert dear == pytest.approx(10 * data["loads"][0]["usd_per_million_tokens"])


@pytest.mark.slow
def test_a_trace_and_what_is_refused(places, tmp_path, capsys):
    trace = tmp_path / "trace.csv"
    trace.write_text("arrival_s,prompt_tokens,output_tokens\n0,30,4\n0.5,20,1\n")
    command = ["study", "serving", *ARGUMENTS, *places]
    assert hespas.main([*command, "--trace", str(trace), "--json"]) == 0
    (row,) = json.loads(capsys.readouterr().out)["loads"]
    assert row["requests"] == 2 and row["rate_per_s"] == 2
    with pytest.raises(UsageError, match="exclude each other"):
        hespas.main([*command, "--trace", str(trace), "--rates", "1"])
    for flags, message in (
        (("--prompt-tokens", "33"), "33 tokens is longer than the largest bucket, 32"),
        (("--output-tokens", "100"), "130 tokens is longer than the largest bucket, 128"),
        (("--memory-share", "0"), "--memory-share is 0.0: input should be greater than 0"),
        (("--rates", "0"), "'0' is not a rate"),
        (("--ttft-limit", "0"), "--ttft-limit is 0.0: input should be greater than 0"),
        (("--tensor", "3"), "no system of node H100_80GB has 3 devices"),
    ):
        with pytest.raises(HespasError, match=message):
            hespas.main([*command, *flags])
