"""The cache of measurements: kept at once, shared by processes, and never a wrong file."""

from __future__ import annotations

import json
import sqlite3
import subprocess
import sys
from contextlib import closing
from pathlib import Path

import pytest

from hespas.estimators.measure import measurement_cache
from hespas.estimators.measure.failure import WorkerFailure
from hespas.estimators.measure.measurement_cache import (
    MeasurementCache,
    compute_cache_key,
    locate_default_file,
)
from hespas.support.errors import HespasError
from hespas.tools import console_scripts, hespas

BY = {"estimator": "fake", "version": "1", "device": "a device", "name": "@region_0"}


def test_what_is_put_is_there_again(tmp_path):
    file = str(tmp_path / "new" / "cache.sqlite")
    failure = WorkerFailure("unsupported", "no such type", ("a", "b"))
    with MeasurementCache(file) as cache:
        assert cache.find_outcome("k") is None
        cache.store_outcome("k", {"median_s": 0.1 + 0.2, "note": "é"}, **BY)
        cache.store_outcome("bad", failure, **BY)
    with MeasurementCache(file) as cache:
        assert cache.find_outcome("k") == {"median_s": 0.1 + 0.2, "note": "é"}
        assert cache.find_outcome("bad") == failure
        cache.store_outcome("k", {"median_s": 1.0}, **BY)
        assert cache.find_outcome("k") == {"median_s": 0.1 + 0.2, "note": "é"}, "the first stays"
        assert cache.count_grouped_outcomes() == [("fake", "1", "a device", 2, 1)]
        assert cache.remove_outcomes("other") == 0 and cache.remove_outcomes("fake") == 2
        assert cache.find_outcome("k") is None


def test_none_is_no_file(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    with MeasurementCache("none") as cache:
        cache.store_outcome("k", {"median_s": 1.0}, **BY)
        assert cache.find_outcome("k") == {"median_s": 1.0}
    assert not list(tmp_path.iterdir())


def test_the_key_depends_on_every_part():
    parts = ("xla", "1", {"module": "m", "repetitions": 3}, {"device": "d", "versions": {"a": "1"}})
    other = (
        "iree",
        "2",
        {"module": "m", "repetitions": 4},
        {"device": "d", "versions": {"a": "2"}},
    )
    keys = {compute_cache_key(*parts)}
    for i in range(4):
        keys.add(compute_cache_key(*parts[:i], other[i], *parts[i + 1 :]))
    assert len(keys) == 5
    assert compute_cache_key(
        "xla", "1", {"repetitions": 3, "module": "m"}, parts[3]
    ) == compute_cache_key(*parts)


def test_the_place(monkeypatch, tmp_path):
    monkeypatch.setenv("HESPAS_CACHE", str(tmp_path / "mine"))
    assert locate_default_file() == tmp_path / "mine"
    monkeypatch.delenv("HESPAS_CACHE")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    if sys.platform == "linux":
        assert locate_default_file() == tmp_path / "hespas" / "measurements.sqlite"


def text(file: Path) -> None:
    file.write_text("this is a text file, longer than the header of a database\n" * 40)


def damaged(file: Path) -> None:
    with MeasurementCache(str(file)) as cache:
        for number in range(400):
            cache.store_outcome(f"key {number}", {"median_s": 1.0, "filler": "x" * 100}, **BY)
    data = bytearray(file.read_bytes())
    data[4096:] = b"\xff" * (len(data) - 4096)
    file.write_bytes(data)


def foreign(file: Path) -> None:
    db = sqlite3.connect(file)
    db.execute("CREATE TABLE results (key TEXT)")
    db.commit()
    db.close()


def later(file: Path) -> None:
    with MeasurementCache(str(file)):
        pass
    db = sqlite3.connect(file)
    db.execute("PRAGMA user_version = 99")
    db.commit()
    db.close()


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (text, "is damaged, or not a cache: file is not a database; remove it, or use another"),
        (damaged, "is damaged, or not a cache: "),
        (foreign, "not a cache of measurements of this version"),
        (later, "not a cache of measurements of this version"),
        (Path.mkdir, "cannot be used: unable to open database file; use another"),
    ],
)
def test_a_file_that_is_no_cache_is_refused_and_left_alone(tmp_path, make, message):
    file = tmp_path / "cache.sqlite"
    make(file)
    before = file.read_bytes() if file.is_file() else b""
    with pytest.raises(HespasError) as caught, MeasurementCache(str(file)) as cache:
        cache.find_outcome("key 7")
        cache.store_outcome("more", {"median_s": 1.0}, **BY)
    assert message in str(caught.value) and caught.value.where == str(file)
    assert make is damaged or not before or file.read_bytes() == before


def test_many_processes_at_once(tmp_path):
    file = tmp_path / "cache.sqlite"
    script = """
import sys
from hespas.estimators.measure.measurement_cache import MeasurementCache
by = dict(estimator="fake", version="1")
for turn in range(5):
    with MeasurementCache(sys.argv[1]) as cache:
        for number in range(20):
            cache.store_outcome(f"shared {turn} {number}", {"median_s": 1.0}, **by)
            cache.store_outcome(f"{sys.argv[2]} {turn} {number}", {"median_s": 2.0}, **by)
            assert cache.find_outcome(f"{sys.argv[2]} {turn} {number}") == {"median_s": 2.0}
"""
    command = [sys.executable, "-c", script, str(file)]
    running = [
        subprocess.Popen([*command, str(i)], stderr=subprocess.PIPE, text=True) for i in range(6)
    ]
    errors = [process.communicate(timeout=60)[1] for process in running]
    assert [process.returncode for process in running] == [0] * 6, errors
    with MeasurementCache(str(file)) as cache:
        assert cache.count_grouped_outcomes() == [("fake", "1", "", 700, 0)]


@pytest.fixture
def writer(tmp_path, monkeypatch):
    """A connection to a new file that is in a transaction, as that of another process."""
    monkeypatch.setattr(MeasurementCache, "_check_schema", lambda self: None)
    file = tmp_path / "cache.sqlite"
    with closing(sqlite3.connect(file, isolation_level=None)) as connection:
        connection.execute("BEGIN IMMEDIATE")
        yield connection


def test_a_new_file_that_another_process_writes_is_waited_for(tmp_path, monkeypatch, writer):
    """SQLite's own timeout does not apply while the journal of a file changes its mode."""
    waits_s = []

    def commit_meanwhile(wait_s: float) -> None:
        waits_s.append(wait_s)
        if len(waits_s) == 2:
            writer.execute("COMMIT")

    monkeypatch.setattr("time.sleep", commit_meanwhile)
    with MeasurementCache(str(tmp_path / "cache.sqlite")):
        assert len(waits_s) == 2


def test_the_wait_for_another_process_has_an_end(tmp_path, monkeypatch, writer):
    monkeypatch.setattr(measurement_cache, "BUSY_TIMEOUT_S", 0.05)
    with pytest.raises(HespasError, match="is locked"):
        MeasurementCache(str(tmp_path / "cache.sqlite"))


def test_the_command(tmp_path, monkeypatch, capsys):
    monkeypatch.setenv("HESPAS_CACHE", str(tmp_path / "cache.sqlite"))
    assert console_scripts.run_tool_main(hespas.main, ["measure", "cache"]) == 1
    assert "the cache does not exist" in capsys.readouterr().err
    with MeasurementCache() as cache:
        cache.store_outcome("k", {"median_s": 1.0}, **BY)
        cache.store_outcome("m", WorkerFailure("unsupported", "no"), **{**BY, "estimator": "other"})
    assert console_scripts.run_tool_main(hespas.main, ["measure", "cache"]) == 0
    out = capsys.readouterr().out
    assert "cache.sqlite: " in out and " kB" in out and "a device" in out
    assert console_scripts.run_tool_main(hespas.main, ["measure", "cache", "--json"]) == 0
    data = json.loads(capsys.readouterr().out)
    assert [group["failures"] for group in data["groups"]] == [0, 1] and data["bytes"] > 0
    assert (
        console_scripts.run_tool_main(
            hespas.main, ["measure", "cache", "clear", "--estimator", "other"]
        )
        == 0
    )
    assert capsys.readouterr().out.endswith("1 results removed\n")
    assert console_scripts.run_tool_main(hespas.main, ["measure", "cache", "clear", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["removed"] == 1
    assert console_scripts.run_tool_main(hespas.main, ["measure", "cache", "tidy"]) == 2
