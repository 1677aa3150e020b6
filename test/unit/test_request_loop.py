"""Requests to a server: continuous batching against closed forms, and what always holds."""

from __future__ import annotations

import math
import random
from dataclasses import replace
from typing import get_args

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.budgets import draw_examples

from hespas.support.errors import HespasError, UsageError
from hespas.workflows.serving.request_loop import (
    BatchingPolicy,
    ServerLimits,
    ServingRequest,
    StepTimes,
    draw_poisson_requests,
    read_request_trace,
    serve_requests,
)
from hespas.workflows.studies.serving import LoadOptions, compute_load_figures

TIMES = StepTimes(
    {64: 0.01, 256: 0.04},
    {1: {64: 0.002, 512: 0.003}, 4: {64: 0.004, 512: 0.008}, 16: {64: 0.005, 512: 0.02}},
)
AMPLE = ServerLimits(1 << 20, 1, 16)


def test_prompts_and_batches_are_padded_and_contexts_interpolated():
    assert [TIMES.get_prefill_s(n) for n in (1, 64, 65, 256)] == [0.01, 0.01, 0.04, 0.04]
    with pytest.raises(UsageError, match="257 tokens is longer than the largest bucket, 256"):
        TIMES.get_prefill_s(257)
    assert TIMES.interpolate_decode_s(1, 64) == 0.002
    assert TIMES.interpolate_decode_s(1, 288) == pytest.approx(0.0025)
    assert TIMES.interpolate_decode_s(2, 4 * 288) == pytest.approx(0.006)  # padded to 4 rows
    assert TIMES.interpolate_decode_s(3, 30) == 0.004  # never less than the smallest context


def test_requests_without_decoding_wait_as_in_a_queue_with_fixed_service():
    """M/D/1: with load r and service time D, the mean wait is r D / (2 (1 - r))."""
    service_s = TIMES.prefill_s[64]
    for load in (0.3, 0.7):
        requests = draw_poisson_requests(load / service_s, 20_000, 64, 1, seed=7)
        waits_s = [one.ttft_s - service_s for one in serve_requests(requests, TIMES, AMPLE).served]
        expected_s = load * service_s / (2 * (1 - load))
        assert np.mean(waits_s) == pytest.approx(expected_s, rel=0.08)


def test_requests_that_arrive_together_are_prefilled_in_turn_then_decoded_together():
    requests = [ServingRequest(1.0, 64, 5)] * 4
    run = serve_requests(requests, TIMES, AMPLE)
    firsts_s = [1.0 + 0.01 * n for n in (1, 2, 3, 4)]
    assert [one.first_token_s for one in run.served] == pytest.approx(firsts_s)
    steps_s = [TIMES.interpolate_decode_s(4, 4 * (64 + n)) for n in (1, 2, 3, 4)]
    assert [one.end_s for one in run.served] == pytest.approx([1.04 + sum(steps_s)] * 4)
    assert run.decode_steps == 4 and run.largest_batch == 4
    figures = compute_load_figures([run], 2, 36.0, LoadOptions(ttft_limit_s=0.025))
    span_s = 0.04 + sum(steps_s)
    assert figures["output_tokens_per_s_per_device"] == pytest.approx(20 / span_s / 2)
    assert figures["usd_per_million_tokens"] == pytest.approx(0.02 * span_s / 20e-6)
    assert figures["good_share"] == 0.5 and figures["mean_batch"] == 4
    assert figures["ttft_p50_s"] == figures["ttft_mean_s"] == pytest.approx(0.025)
    assert figures["busy_share"] == pytest.approx(1.0)


def test_a_client_without_a_slot_waits_for_a_turn():
    """With one slot fewer than clients, one request always waits: Little's law gives its wait."""
    requests = [ServingRequest(0.0, 64, 33)] * 600
    few, enough = (
        serve_requests(requests, TIMES, replace(AMPLE, slots=slots), 4, "alternate").served[200:]
        for slots in (3, 4)
    )
    latency_s = np.mean([one.latency_s for one in few])
    prefills_s = np.mean([one.ttft_s for one in enough])  # without a wait for a slot
    assert np.mean([one.ttft_s for one in few]) == pytest.approx(
        latency_s / 4 + prefills_s, rel=0.1
    )
    assert prefills_s < 0.3 * latency_s / 4


def test_alternate_steps():
    """Each prefill step is followed by a decode step of those that were admitted before."""
    run = serve_requests([ServingRequest(0.0, 64, 3)] * 3, TIMES, AMPLE, policy="alternate")
    prefill_s = TIMES.prefill_s[64]
    one_s, *pairs_s = (
        TIMES.interpolate_decode_s(*step) for step in ((1, 65), (2, 66 + 65), (2, 66 + 65), (1, 66))
    )
    firsts_s = [prefill_s, 2 * prefill_s + one_s, 3 * prefill_s + one_s + pairs_s[0]]
    assert [served.first_token_s for served in run.served] == pytest.approx(firsts_s)
    assert run.decode_steps == 4
    assert run.served[-1].end_s == pytest.approx(3 * prefill_s + one_s + sum(pairs_s))


def test_prompts_in_chunks_let_others_decode_in_between():
    limits = replace(AMPLE, chunk_tokens=128)
    requests = [ServingRequest(0.0, 64, 4), ServingRequest(0.0, 256, 1)]
    whole, chunked = (
        serve_requests(requests, TIMES, one, policy="alternate") for one in (AMPLE, limits)
    )
    steps_s = [TIMES.interpolate_decode_s(1, 64 + n) for n in (1, 2, 3)]
    assert whole.served[0].end_s == pytest.approx(0.05 + sum(steps_s))
    first_s, second_s = (TIMES.interpolate_chunk_s(*ends) for ends in ((0, 128), (128, 256)))
    assert (first_s, second_s) == pytest.approx((0.02, 0.02))
    assert chunked.served[1].first_token_s == pytest.approx(0.05 + sum(steps_s[:2]))
    assert chunked.prefill_s == pytest.approx(whole.prefill_s)
    assert chunked.served[0].end_s == pytest.approx(whole.served[0].end_s)
    assert TIMES.interpolate_chunk_s(255, 256) == TIMES.prefill_s[64]


def test_clients_that_wait_for_answers():
    """With c clients, the mean latency is c times the time between two ends (Little's law)."""
    requests = [ServingRequest(0.0, 64, 9)] * 60
    alone = serve_requests(requests, TIMES, AMPLE, 1)
    latency_s = alone.served[0].latency_s
    ends_s = [(number + 1) * latency_s for number in range(60)]
    assert [one.end_s for one in alone.served] == pytest.approx(ends_s)
    run = serve_requests(requests, TIMES, AMPLE, 4)
    assert run.largest_batch == 4
    spans = [(one.request.arrival_s, one.end_s) for one in run.served]
    ends = {end_s for _, end_s in spans}
    assert all(start_s in ends for start_s, _ in spans[4:])
    middle = run.served[8:-8]
    between_s = (middle[-1].end_s - middle[0].end_s) / (len(middle) - 1)
    assert np.mean([one.latency_s for one in middle]) == pytest.approx(4 * between_s, rel=0.1)
    assert serve_requests(requests, TIMES, AMPLE, 60) == serve_requests(requests, TIMES, AMPLE)


def test_slots_and_memory_limit_what_runs_together():
    requests = [ServingRequest(0.0, 60, 5)] * 6
    assert serve_requests(requests, TIMES, replace(AMPLE, slots=2)).largest_batch == 2
    # 65 tokens take 80 in pages of 16
    assert serve_requests(requests, TIMES, ServerLimits(250, 16, 16)).largest_batch == 3
    with pytest.raises(UsageError, match="memory for 79"):
        serve_requests(requests, TIMES, ServerLimits(79, 16, 16))
    with pytest.raises(UsageError, match="600 tokens is longer"):
        serve_requests([ServingRequest(0.0, 100, 500)], TIMES, AMPLE)


REQUESTS = st.lists(
    st.builds(
        ServingRequest,
        st.floats(0, 1),
        st.integers(1, 256),
        st.integers(1, 40),
    ),
    min_size=1,
    max_size=30,
)


@draw_examples(60)
@given(
    REQUESTS,
    st.integers(1, 6),
    st.integers(300, 1500),
    st.integers(1, 32),
    st.sampled_from(get_args(BatchingPolicy)),
    st.sampled_from([None, 50, 100]),
)
def test_invariants(requests, slots, tokens, page, policy, chunk):
    limits = ServerLimits(max(tokens, 320), page, slots, chunk)
    run = serve_requests(requests, TIMES, limits, policy=policy)
    served = run.served
    assert sorted((one.request for one in served), key=repr) == sorted(requests, key=repr)
    assert run.largest_batch <= slots
    for one in served:  # whose memory is reserved beside that of all that run then
        running = [x for x in served if x.first_token_s <= one.first_token_s < x.end_s or x is one]
        assert sum(limits.reserve_tokens(x.request) for x in running) <= limits.cache_tokens
    firsts = [one.first_token_s for one in served]
    assert firsts == sorted(firsts)  # none overtakes another
    least_s = TIMES.interpolate_decode_s(1, 1)
    for one in served:
        request = one.request
        if chunk is None or request.prompt_tokens <= chunk:
            assert one.ttft_s >= TIMES.get_prefill_s(request.prompt_tokens) - 1e-12
        assert one.ttft_s >= TIMES.interpolate_chunk_s(0, request.prompt_tokens) - 1e-12
        assert one.end_s >= one.first_token_s + (request.output_tokens - 1) * least_s - 1e-9
    decoded = sum(request.output_tokens - 1 for request in requests)
    assert run.decode_steps <= decoded <= run.decode_steps * slots
    end_s = max(one.end_s for one in served)
    start_s = min(request.arrival_s for request in requests)
    assert run.prefill_s + run.decode_s <= end_s - start_s + 1e-9
    if chunk is None:
        assert run.prefill_s == pytest.approx(
            math.fsum(TIMES.get_prefill_s(request.prompt_tokens) for request in requests)
        )
    if decoded:
        figures = compute_load_figures([run], 1, None, LoadOptions(tpot_limit_s=1e-9))
        assert figures["good_share"] == sum(r.output_tokens == 1 for r in requests) / len(requests)
        assert figures["tpot_p50_s"] <= figures["tpot_p90_s"] <= figures["tpot_p99_s"]


def test_arrivals_have_the_rate_and_follow_the_seed():
    drawn = draw_poisson_requests(5.0, 20_000, 10, 10, seed=1)
    assert drawn == draw_poisson_requests(5.0, 20_000, 10, 10, seed=1)
    assert drawn != draw_poisson_requests(5.0, 20_000, 10, 10, seed=2)
    gaps_s = np.diff([request.arrival_s for request in drawn])
    assert gaps_s.mean() == pytest.approx(0.2, rel=0.03)
    assert gaps_s.std() == pytest.approx(0.2, rel=0.03)  # as an exponential distribution has
    with pytest.raises(UsageError, match="rate of 0"):
        draw_poisson_requests(0.0, 1, 1, 1, seed=0)


def test_a_trace_is_read_in_the_order_of_arrival(tmp_path):
    path = tmp_path / "trace.csv"
    path.write_text("id,arrival_s,prompt_tokens,output_tokens\na,2.5,10,3\nb,0,7,1\n")
    assert read_request_trace(str(path)) == [
        ServingRequest(0.0, 7, 1),
        ServingRequest(2.5, 10, 3),
    ]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("arrival_s,prompt_tokens\n0,1\n", "no column output_tokens"),
        ("arrival_s,prompt_tokens,output_tokens\n", "no requests"),
        ("arrival_s,prompt_tokens,output_tokens\n0,1,1\n-1,1,1\n", r"csv:3: .*arrival_s is '-1'"),
        ("arrival_s,prompt_tokens,output_tokens\nnan,1,1\n", "arrival_s is 'nan'"),
        ("arrival_s,prompt_tokens,output_tokens\n0,1.5,1\n", r"csv:2: .*prompt_tokens is '1.5'"),
        ("arrival_s,prompt_tokens,output_tokens\n0,1\n", "output_tokens is ''"),
        ("arrival_s,prompt_tokens,output_tokens\n0,1,0\n", "output_tokens is '0'"),
    ],
)
def test_what_is_no_trace(tmp_path, text, message):
    path = tmp_path / "trace.csv"
    path.write_text(text)
    with pytest.raises(HespasError, match=message):
        read_request_trace(str(path))


def test_no_trace(tmp_path):
    with pytest.raises(HespasError, match="No such file"):
        read_request_trace(str(tmp_path / "none.csv"))


def test_ends_do_not_depend_on_the_order_of_the_list():
    requests = draw_poisson_requests(100.0, 50, 64, 8, seed=3)
    shuffled = random.Random(0).sample(requests, len(requests))
    assert serve_requests(shuffled, TIMES, AMPLE) == serve_requests(requests, TIMES, AMPLE)
