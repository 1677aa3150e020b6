"""Repetitions and clocks: what is said of times, and how a GPU's are read off its profile."""

from __future__ import annotations

import itertools

import pytest

from hespas.dialects.pjrt import extract_kernel_times_ns
from hespas.estimators.measure.timing import (
    MIN_REPETITIONS,
    RepetitionPlan,
    compute_relative_spread,
    summarise_times,
    time_batches,
)
from hespas.estimators.xla.clock import compute_device_times_s


def test_the_figures_of_a_batch():
    summary = summarise_times([5.0, 1.0, 2.0, 3.0, 4.0, 100.0, 6.0, 7.0, 8.0, 9.0, 10.0])
    assert summary == {
        "median_s": 6.0, "min_s": 1.0, "mad_s": 3.0, "low_s": 2.0, "high_s": 10.0,
        "repetitions": 11,
    }  # fmt: skip
    assert compute_relative_spread([0.0, 0.0]) == 0.0


def scripted(batches):
    """A batch function that gives the warm-ups 1 s each, then these, repeated to the count."""
    waiting = iter(batches)
    seen = []

    def batch(count):
        seen.append(count)
        if len(seen) == 1:
            return [1.0] * count
        return list(itertools.islice(itertools.cycle(next(waiting)), count))

    return batch, seen


def test_a_steady_batch_is_enough():
    batch, seen = scripted([[1.0, 1.01]])
    assert time_batches(batch, RepetitionPlan(warmups=3, repetitions=20))["batches"] == 1
    assert seen[0] == 3
    assert seen[1] >= 20


def test_the_steadiest_batch_counts():
    batch, _ = scripted([[1.0, 2.0, 3.0], [2.0, 2.2, 2.4], [1.0, 5.0, 9.0]])
    summary = time_batches(batch, RepetitionPlan(repetitions=4, batches=3))
    assert summary["batches"] == 3
    assert summary["min_s"] == 2.0
    assert summary["host_load"] >= 0


def test_no_batch_is_begun_past_the_budget():
    batch, seen = scripted([[1.0, 3.0]] * 5)
    assert time_batches(batch, RepetitionPlan(batches=5, budget_s=0.0))["batches"] == 1
    assert seen[1] == MIN_REPETITIONS


def test_kernels_of_a_profile():
    from jaxlib._profile_data import ProfileData

    plane = """
      planes {{ name: "{name}" event_metadata {{ key: 1 value {{ id: 1 name: "gemm" }} }}
        lines {{ name: "{line}" timestamp_ns: 1000
          events {{ metadata_id: 1 offset_ps: 2000000 duration_ps: 3000000 }}
          events {{ metadata_id: 1 offset_ps: 0 duration_ps: 1500000 }} }} }}"""
    text = "".join(
        plane.format(name=name, line=line)
        for name, line in (
            ("/device:GPU:1", "Stream #13(Compute)"),
            ("/device:GPU:0", "Stream #13(Compute)"),
            ("/device:GPU:0-other", "XLA Ops"),
            ("/host:CPU", "Stream of something"),
        )
    )
    space = ProfileData.text_proto_to_serialized_xspace(text)
    assert extract_kernel_times_ns(space) == [(1000.0, 2500.0), (3000.0, 6000.0)]
    assert extract_kernel_times_ns(ProfileData.text_proto_to_serialized_xspace("")) == []


def test_device_time_is_when_any_kernel_runs():
    run = [(0.0, 10.0), (5.0, 8.0), (8.0, 20.0), (30.0, 40.0)]  # two streams, and a gap
    later = [(start + 100.0, end + 100.0) for start, end in run]
    assert compute_device_times_s(run + later, 2) == pytest.approx([30e-9, 30e-9])
    assert compute_device_times_s(run + later[:-1], 2) == []
    assert compute_device_times_s([], 2) == []
