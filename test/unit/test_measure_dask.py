"""Regions on a Dask cluster of two workers; a worker that is killed costs a try."""

from __future__ import annotations

import sys

import pytest
from support.measuring import PROGRAM, Fake, FakeConfig, calls

from hespas import passes
from hespas.estimators.measure.measurement_job import MeasureError
from hespas.estimators.measure.measurement_run import MeasureOptions
from hespas.passes.annotate.traverse import annotate_module
from hespas.passes.base import PassRun
from hespas.support.errors import HespasError

pytestmark = pytest.mark.slow

distributed = pytest.importorskip("distributed")


@pytest.fixture(scope="module")
def cluster():
    with distributed.LocalCluster(
        n_workers=2, threads_per_worker=2, processes=True, dashboard_address=":0"
    ) as cluster:
        yield cluster.scheduler_address


def measure(parse, address: str, keep_going: bool = False, options=None, cls=Fake, **config):
    module = parse(PROGRAM)
    passes.run_pipeline(module, "prepare,split-linear")
    run = PassRun(note=lambda text: None)
    settings = {"cache": "none", "timeout": 20.0, **(options or {})}
    annotation = annotate_module(
        module, cls(FakeConfig(**config)), run,
        keep_going=keep_going, options=MeasureOptions(dask=address, **settings),
    )  # fmt: skip
    return module, annotation.measured


def test_the_results_are_those_of_this_machine(parse, cluster, tmp_path):
    log = tmp_path / "log"
    # A fast region might be done, and its worker be free again, before the next one is sent.
    there, statistics = measure(parse, cluster, act="slow", log=str(log))
    assert (statistics.measured, statistics.failed, statistics.device) == (2, 0, "a fake device")
    assert len({line.split()[0] for line in calls(log)}) == 2, "one on each worker"
    here, _ = measure(parse, "", act="slow", log=str(log))
    assert str(there) == str(here)


def test_a_killed_worker_costs_a_try(parse, cluster, tmp_path):
    _, statistics = measure(
        parse, cluster, act="once kill grandparent", where="sine", mark=str(tmp_path / "mark")
    )
    assert (statistics.measured, statistics.failed) == (2, 0)
    assert (tmp_path / "mark").exists()


@pytest.mark.parametrize(
    ("act", "message"), [("exit", "exited with code 7"), ("hang", "it took more than 1 s")]
)
def test_a_crash_and_a_hang_cost_the_region(parse, cluster, act, message):
    options = {"timeout": 1.0}
    with pytest.raises(MeasureError, match=message):
        measure(parse, cluster, act=act, where="sine", options=options)
    _, statistics = measure(parse, cluster, act=act, where="sine", options=options, keep_going=True)
    assert (statistics.measured, statistics.failed, statistics.retried) == (1, 1, 1)


def test_workers_that_cannot_measure_say_why(parse, cluster):
    with pytest.raises(HespasError, match="cannot measure: RuntimeError: there is no such device"):
        measure(parse, cluster, act="no device")


def test_workers_must_be_equal(parse, cluster):
    class Unequal(Fake):
        probe = "support.measuring_work:unequal_probe"

    with pytest.raises(HespasError, match="the Dask workers differ in device: device of "):
        measure(parse, cluster, cls=Unequal)


def test_no_scheduler_and_no_package(parse, monkeypatch):
    with pytest.raises(HespasError, match=r"there is no Dask scheduler at tcp://127\.0\.0\.1:9"):
        monkeypatch.setattr("hespas.estimators.measure.cluster.CONNECT_TIMEOUT_S", 1)
        measure(parse, "tcp://127.0.0.1:9")
    monkeypatch.setitem(sys.modules, "distributed", None)
    with pytest.raises(HespasError) as caught:
        measure(parse, "tcp://127.0.0.1:9")
    assert "pip install 'hespas[dask]'" in str(caught.value)


def test_a_cluster_without_workers(parse):
    with (
        distributed.LocalCluster(n_workers=0, processes=True, dashboard_address=":0") as empty,
        pytest.raises(HespasError, match="has no worker"),
    ):
        measure(parse, empty.scheduler_address)
