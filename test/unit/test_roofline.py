"""The roofline's arithmetic: time, bound, utilisation, power, fallbacks, and the registry."""

from __future__ import annotations

import sys
from dataclasses import replace
from types import SimpleNamespace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hespas import configs
from hespas.configs.node_spec import UNITS, NodeSpec
from hespas.dialects.attrs import Cost
from hespas.estimators import registry
from hespas.estimators.aggregate import (
    aggregate_costs,
    find_main_bound,
    find_main_dtype,
    repeat_cost,
)
from hespas.estimators.roofline import RooflineConfig, RooflineEstimator
from hespas.estimators.work import OpWork, WorkPart
from hespas.support.errors import HespasError, UsageError

SMALL = NodeSpec(
    "small",
    100.0,
    {"matrix": {"bf16": 1000.0}, "vector": {"f32": 10.0}},
    tdp_w=50.0,
    hbm_power_share=0.4,
)


def roofline(node: NodeSpec) -> RooflineEstimator:
    return RooflineEstimator(RooflineConfig(node))


def work(*parts: WorkPart, read: int = 0, write: int = 0) -> OpWork:
    return OpWork("loop", read, write, parts)


def test_compute_bound_adds_the_parts():
    parts = WorkPart("matrix", "bf16", 4000), WorkPart("vector", "f32", 10)
    cost = roofline(SMALL).compute_cost(work(*parts, read=100, write=100))
    assert cost.latency_ns == 5e9  # 4 s on the matrix unit and 1 s on the vector unit
    assert (cost.bound, cost.dtype, cost.flops) == ("compute", "bf16", 4010)


def test_memory_bound():
    cost = roofline(SMALL).compute_cost(work(WorkPart("vector", "f32", 10), read=300, write=100))
    assert (cost.latency_ns, cost.bound) == (4e9, "memory")


def test_free():
    cost = roofline(SMALL).compute_cost(work())
    assert (cost.latency_ns, cost.bound, cost.dtype, cost.energy_nj) == (0.0, "none", "none", 0.0)


@pytest.mark.parametrize(
    ("flops", "read", "watts"),
    [(40, 400, 50), (40, 0, 30), (0, 400, 20), (20, 400, 35)],
)
def test_power_is_shared_by_what_is_busy(flops, read, watts):
    parts = (WorkPart("vector", "f32", flops),) if flops else ()
    cost = roofline(SMALL).compute_cost(work(*parts, read=read))
    assert cost.latency_ns == 4e9
    assert cost.energy_nj == pytest.approx(watts * 4e9)


def test_no_energy_without_both_constants():
    node = replace(SMALL, hbm_power_share=None)
    assert roofline(node).compute_cost(work(read=1)).energy_nj is None


def test_fallbacks_are_told_and_counted():
    estimator = roofline(SMALL)
    assert estimator.describe_provenance() == "small"
    for _ in range(2):
        estimator.compute_cost(work(WorkPart("matrix", "f8", 10), WorkPart("vector", "i32", 1)))
    assert estimator.describe_provenance() == (
        "small; rates of other types: matrix.f8 at matrix.bf16 (distinct ops: 2), "
        "vector.i32 at vector.f32 (distinct ops: 2)"
    )
    with pytest.raises(HespasError, match="small has no peak rate for f64"):
        estimator.compute_cost(work(WorkPart("vector", "f64", 1)))


@pytest.mark.slow
@given(
    st.sampled_from(configs.list_node_presets()),
    st.lists(
        st.tuples(
            st.sampled_from(UNITS),
            st.sampled_from(["f32", "tf32", "bf16", "f16", "f8", "i8", "i1"]),
            st.integers(0, 10**18),
        ),
        max_size=4,
    ),
    st.integers(0, 10**15),
    st.integers(0, 10**15),
)
def test_utilisation_is_at_most_one(name, parts, read, write):
    node = replace(configs.load_node(name), tdp_w=400.0, hbm_power_share=0.4)
    cost = roofline(node).compute_cost(work(*(WorkPart(*p) for p in parts), read=read, write=write))
    seconds = cost.latency_ns * 1e-9
    busy = sum(flops / node.find_peak_rate(unit, dtype).flops_per_s for unit, dtype, flops in parts)
    assert busy <= seconds * (1 + 1e-12)
    assert (read + write) / node.memory_bandwidth_bytes_per_s <= seconds * (1 + 1e-12)
    assert cost.energy_nj is not None
    assert cost.energy_nj <= 400.0 * cost.latency_ns * (1 + 1e-12)
    assert cost.find_schema_violation() == ""


COSTS = st.lists(
    st.builds(
        Cost,
        st.just("e"),
        st.integers(0, 10**15),
        st.integers(0, 10**12),
        st.integers(0, 10**12),
        st.floats(0, 1e9),
        st.sampled_from(["compute", "memory"]),
        st.sampled_from(["f32", "bf16"]),
        energy_nj=st.none() | st.floats(0, 1e9),
        gap=st.none() | st.sampled_from(["a", "b", "c", "d"]),
    ),
    max_size=12,
)


@given(COSTS, st.randoms())
def test_aggregate_does_not_depend_on_order(costs, random):
    shuffled = list(costs)
    random.shuffle(shuffled)
    assert aggregate_costs(shuffled, "e") == aggregate_costs(costs, "e")


def test_a_sum_has_neither_the_bound_nor_the_type_of_one_of_its_ops():
    a = Cost("e", 10, 1, 1, 5.0, "compute", "bf16")
    b = Cost("e", 6, 1, 1, 3.0, "memory", "f32")
    assert aggregate_costs([a, b, b]) == Cost("e", 22, 3, 3, 11.0)
    free = Cost("e", 0, 0, 0, 0.0, "none", "none")
    assert aggregate_costs([a, free]) == Cost("e", 10, 1, 1, 5.0)
    assert aggregate_costs([], "e") == free
    unknown = Cost("e", 0, 0, 0, 0.0, "unknown", "none", gap="no rule")
    assert aggregate_costs([a, unknown]).gap == "no rule"


def test_the_main_bound_has_the_most_time_and_the_main_type_the_most_operations():
    a = Cost("e", 10, 1, 1, 5.0, "compute", "bf16")
    b = Cost("e", 6, 1, 1, 3.0, "memory", "f32")
    unknown = Cost("e", 0, 0, 0, 0.0, "unknown", "none", gap="no rule")
    assert find_main_bound([(a, 1), (b, 2)]) == "memory"
    assert find_main_dtype([(a, 1), (b, 2)]) == "f32"
    assert find_main_bound([(a, 2), (b, 2)]) == "compute"
    assert find_main_dtype([(unknown, 1)]) == "none"
    assert find_main_bound([(unknown, 1)]) == "unknown"
    assert find_main_bound([]) == "none"


def test_repeated():
    a = Cost("e", 10, 1, 2, 5.0, "compute", "bf16", energy_nj=3.0)
    three = repeat_cost(a, 3, "assumed")
    assert three == Cost("e", 30, 3, 6, 15.0, "compute", "bf16", 3, 9.0, "assumed")
    assert repeat_cost(a, 0).latency_ns == 0.0


def test_the_band_of_a_sum_is_the_sum_of_the_bands():
    a = Cost("e", 0, 0, 0, 5.0, "none", "none", low_ns=4.0, high_ns=7.0)
    b = Cost("e", 0, 0, 0, 3.0, "none", "none")
    assert (aggregate_costs([a, a, b]).low_ns, aggregate_costs([a, a, b]).high_ns) == (11.0, 17.0)
    assert aggregate_costs([b, b]).low_ns is None
    assert (repeat_cost(a, 3).low_ns, repeat_cost(a, 3).high_ns) == (12.0, 21.0)
    assert replace(a, high_ns=None).find_schema_violation() == "low_ns and high_ns come together"
    assert (
        replace(a, high_ns=1.0).find_schema_violation() == "low_ns is 4.0, more than high_ns, 1.0"
    )


def test_registry(monkeypatch):
    assert registry.load_estimator_class("roofline") is RooflineEstimator
    assert "roofline" in registry.list_estimator_names()
    with pytest.raises(UsageError, match="did you mean 'roofline'"):
        registry.load_estimator_class("rofline")
    assert (RooflineEstimator.granularity, RooflineEstimator.measures) == ("op", False)


def test_plugins_and_clashes(monkeypatch):
    class Point:
        def __init__(self, name, value):
            self.name, self.value = name, value

    class MyEstimator(RooflineEstimator):
        name = "mine"

    monkeypatch.setitem(sys.modules, "my_package", SimpleNamespace(MyEstimator=MyEstimator))
    entry_points = [Point("mine", "my_package:MyEstimator")]
    monkeypatch.setattr("importlib.metadata.entry_points", lambda group: entry_points)
    registry.find_plugins.cache_clear()
    try:
        assert registry.list_estimator_names() == sorted([*registry.ESTIMATORS, "mine"])
        assert registry.load_estimator_class("mine") is MyEstimator
        entry_points.append(Point("roofline", "other:Roofline"))
        registry.find_plugins.cache_clear()
        with pytest.raises(UsageError, match="a package defines the estimator 'roofline'"):
            registry.list_estimator_names()
    finally:
        registry.find_plugins.cache_clear()
