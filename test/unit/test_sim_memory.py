"""A simulation from memory: its input is what is read back from the written traces."""

from __future__ import annotations

import random
import tempfile
from pathlib import Path

import pytest
import traces
from hypothesis import given, settings
from hypothesis import strategies as st
from sim_programs import random_system
from test_emit_order import program

from hespas import configs
from hespas.chakra import writer
from hespas.chakra.trace import Collective, Compute, Step, Trace, Transfer
from hespas.dialects.errors import HespasError
from hespas.passes.emit.order import DataFlow, Linear
from hespas.simulators import choose
from hespas.simulators.inputs import Device, Inputs, load
from hespas.simulators.memory import Programs


def both(trace: Trace, folder: Path, system) -> tuple[Inputs, Inputs]:
    """The inputs by way of files, and those from memory."""
    written = writer.write(trace, folder)
    programs = Programs(trace)
    assert programs.counts == written.nodes
    return load(folder, system), programs.on(system)


def seen(device: Device) -> list[tuple]:
    """A device's program in its own names."""
    program = device.program
    rows = []
    for node, step, waits, children in zip(
        program.nodes, program.steps, program.waits, program.children, strict=True
    ):
        own = {"group": device.groups.get(step.group, step.group)} if step.group > 0 else {}
        if step.peer >= 0:
            own = {"peer": device.peers.get(step.peer, step.peer)}
        values = {name: getattr(step, name) for name in step.__slots__} | own
        exact = node.value("num_ops"), node.value("tensor_size"), node.duration_us
        rows.append((node.id, node.name, node.type, node.deps, exact, values, waits, children))
    return rows


@settings(max_examples=60, deadline=None)
@given(st.integers(0, 2**32), st.sampled_from([Linear, DataFlow]))
def test_the_input_is_that_of_the_files(seed, order):
    trace = program(seed, order)
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        random_system(random.Random(seed), folder / "system", [trace.devices], halving=False)
        system = configs.system(str(folder / "system"))
        (folder / "traces").mkdir()
        try:
            read, made = both(trace, folder / "traces", system)
        except HespasError as error:
            with pytest.raises(HespasError) as caught:
                Programs(trace).on(system)
            assert caught.value.message == error.message
            return
    assert read.groups == made.groups
    for one, other in zip(read.devices, made.devices, strict=True):
        assert seen(one) == seen(other)


def test_devices_alike_share_a_program(tmp_path):
    groups = {1 + k: tuple(range(4 * k, 4 * k + 4)) for k in range(64)}
    pairs = tuple((d, d ^ 1) for d in range(256))
    steps = [
        Step(1, (), Compute("a", 5_000_000)),
        Step(2, (1,), Collective("r", 0, 4096, tuple(groups))),
        Step(4, (2,), Transfer("p", 512, pairs)),
    ]
    traces.system(tmp_path / "system", [256])
    made = Programs(Trace(256, groups, steps)).on(configs.system(str(tmp_path / "system")))
    assert len({id(device.program) for device in made.devices}) == 1
    assert made.devices[7].groups == {1: 2} and made.devices[7].peers == {0: 7, 1: 6}


def test_names_that_do_not_map_to_one_make_another_program(tmp_path):
    """Devices 2 and 3 have two communicators where devices 0 and 1 have one twice."""
    groups = {1: (0, 1), 2: (2, 3), 3: (2, 3)}
    steps = [
        Step(1, (), Collective("a", 0, 4096, (1, 2))),
        Step(2, (1,), Collective("b", 0, 4096, (1, 3))),
        Step(3, (2,), Collective("c", 0, 8192, (1, 2))),
    ]
    traces.system(tmp_path / "system", [4])
    (tmp_path / "traces").mkdir()
    trace = Trace(4, groups, steps)
    read, made = both(trace, tmp_path / "traces", configs.system(str(tmp_path / "system")))
    assert len({id(device.program) for device in made.devices}) == 2
    assert [seen(device) for device in read.devices] == [seen(device) for device in made.devices]
    options = choose.Options()
    assert choose.by_embedded(read, options).devices == choose.by_embedded(made, options).devices


def test_another_number_of_devices_is_an_error(tmp_path):
    traces.system(tmp_path / "system", [8])
    with pytest.raises(HespasError, match="of 4 devices, but system system has 8"):
        Programs(Trace(4)).on(configs.system(str(tmp_path / "system")))
