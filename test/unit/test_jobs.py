"""Several jobs on one network: what they share slows them down, and nothing else does."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from support.tool_commands import parse_pipe, run_command

from hespas import configs
from hespas.simulators.simulation_options import SimulationOptions
from hespas.support.errors import HespasError
from hespas.workflows.variation.job_interference import compare_jobs, place_jobs
from support import traces as t

RING = "ring:8,links=2,link_gb_s=50,latency_ns=500,local_mem_gb_s=3350"
MESSAGE_BYTES = 1 << 24
MESSAGE_NS = MESSAGE_BYTES / 50


def write_jobs(folder: Path, size: int = MESSAGE_BYTES) -> list[str]:
    """Write two jobs of two devices, in which the first device sends a message to the second."""
    ranks = [[t.send(1, 1, size=size)], [t.recv(1, 0, size=size)]]
    for name in ("a", "b"):
        t.save(folder / name, ranks)
    return [str(folder / name) for name in ("a", "b")]


def compare(folders: list[str], placement: str, *, network_model: str = "flows") -> list[dict]:
    options = SimulationOptions(network_model=network_model)
    return compare_jobs(place_jobs(folders, placement), configs.load_system(RING), options)


def test_jobs_on_links_of_their_own_do_not_meet(tmp_path: Path) -> None:
    for time in compare(write_jobs(tmp_path), "packed"):
        assert time["slowdown"] == 0
        assert time["alone_s"] == pytest.approx(1e-9 * MESSAGE_NS, rel=0.01)


def test_a_message_shares_a_link_with_that_of_another_job(tmp_path: Path) -> None:
    """Devices 0 and 2 belong to one job, 1 and 3 to the other: both cross from 1 to 2.

    The message of the second job is twice as long. Both have half of the link until the first one
    has arrived, and the rest of the second one then has all of it.
    """
    folders = write_jobs(tmp_path)
    long = [[t.send(1, 1, size=2 * MESSAGE_BYTES)], [t.recv(1, 0, size=2 * MESSAGE_BYTES)]]
    t.save(tmp_path / "b", long)
    first, second = compare(folders, "spread")
    assert (first["devices"], second["devices"]) == ([0, 2], [1, 3])
    assert first["slowdown"] == pytest.approx(1, abs=0.01)
    assert second["slowdown"] == pytest.approx(0.5, abs=0.01)
    unaware = compare(folders, "spread", network_model="astra")
    assert all(time["slowdown"] == 0 for time in unaware)


def test_collectives_of_packed_jobs_do_not_meet(tmp_path: Path) -> None:
    for name in ("a", "b"):
        t.save(tmp_path / name, [[t.coll(1, size=MESSAGE_BYTES)]] * 4)
    folders = [str(tmp_path / name) for name in ("a", "b")]
    assert all(time["slowdown"] == 0 for time in compare(folders, "packed"))
    assert all(time["slowdown"] >= 0 for time in compare(folders, "spread"))


def test_jobs_of_unlike_devices_and_idle_ones(tmp_path: Path) -> None:
    """A job with the default communicator runs on the last devices; others stay idle."""
    t.save(tmp_path / "a", [[t.comp(1, micros=100), t.coll(2, [1], group=0)]] * 2)
    t.save(tmp_path / "b", [[t.comp(1, micros=300), t.coll(2, [1])]] * 4)
    small, large = compare([str(tmp_path / "a"), str(tmp_path / "b")], "packed")
    assert (small["devices"], large["devices"]) == ([0, 1], [2, 3, 4, 5])
    assert large["together_s"] - small["together_s"] > 190e-6


def test_jobs_beside_a_device_that_is_down(tmp_path: Path) -> None:
    """The second job is on places 3 and 4, so that its message crosses from 3 to 4."""
    system = configs.load_system(f"{RING},down=0")
    jobs = place_jobs(write_jobs(tmp_path), "packed")
    times = compare_jobs(jobs, system, SimulationOptions(network_model="flows"))
    assert [time["devices"] for time in times] == [[0, 1], [2, 3]]
    assert all(time["alone_s"] == pytest.approx(1e-9 * MESSAGE_NS, rel=0.01) for time in times)


def test_jobs_that_do_not_fit(tmp_path: Path) -> None:
    with pytest.raises(HespasError, match="do not fit the 8"):
        compare(write_jobs(tmp_path) * 3, "packed")


def test_the_command(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    write_jobs(Path())
    commands = parse_pipe(f"hespas study jobs a b --system {RING} --json --csv j.csv --plot j.svg")
    assert commands is not None
    done = run_command(commands[0])
    assert done.code == 0, done.err
    assert [job["slowdown"] for job in json.loads(done.out)["jobs"]] == [0, 0]
    assert len(Path("j.csv").read_text().splitlines()) == 3 and Path("j.svg").exists()
