"""Inputs built in memory equal those that are read back from written traces."""

from __future__ import annotations

import random
import tempfile
import tracemalloc
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.budgets import draw_examples
from support.sim_programs import random_system
from support.trace_programs import random_trace

from hespas import configs
from hespas.chakra import trace_writer
from hespas.chakra.trace_steps import (
    CollectiveContent,
    ComputeContent,
    ProgramTrace,
    TraceStep,
    TransferContent,
)
from hespas.configs.system_layout import SystemDimension, build_system_spec
from hespas.passes.emit.trace_order import DataFlowOrder, LinearOrder
from hespas.simulators import simulator_choice
from hespas.simulators.embedded import run_event_simulation
from hespas.simulators.in_memory_programs import InMemoryPrograms
from hespas.simulators.simulation_inputs import SimulatedDevice, SimulationInputs, load_inputs
from hespas.simulators.simulation_options import SimulatorChoice
from hespas.support.errors import HespasError
from support import traces


def both(trace: ProgramTrace, folder: Path, system) -> tuple[SimulationInputs, SimulationInputs]:
    """Return the inputs read from files and those built in memory."""
    written = trace_writer.write_traces(trace, folder)
    programs = InMemoryPrograms(trace)
    assert programs.node_counts == written.nodes
    return load_inputs(folder, system), programs.place_on_system(system)


def seen(device: SimulatedDevice) -> list[tuple]:
    """Return the program of a device with its own names."""
    program = device.program
    rows = []
    for node, step, waits, children in zip(
        program.nodes, program.steps, program.waits, program.children, strict=True
    ):
        own = {"group": device.groups.get(step.group, step.group)} if step.group > 0 else {}
        if step.peer >= 0:
            own = {"peer": device.peers.get(step.peer, step.peer)}
        values = {name: getattr(step, name) for name in step.__slots__} | own
        exact = node.get_attr_value("num_ops"), node.get_attr_value("tensor_size"), node.duration_us
        rows.append(
            (node.id, node.name, node.type, node.dependency_ids, exact, values, waits, children)
        )
    return rows


@draw_examples(60)
@given(st.integers(0, 2**32), st.sampled_from([LinearOrder, DataFlowOrder]))
def test_the_input_is_that_of_the_files(seed, order):
    trace = random_trace(seed, order)
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        random_system(random.Random(seed), folder / "system", [trace.devices], halving=False)
        system = configs.load_system(str(folder / "system"))
        (folder / "traces").mkdir()
        try:
            read, in_memory = both(trace, folder / "traces", system)
        except HespasError as error:
            with pytest.raises(HespasError) as caught:
                InMemoryPrograms(trace).place_on_system(system)
            assert caught.value.message == error.message
            return
    assert read.groups == in_memory.groups
    for one, other in zip(read.devices, in_memory.devices, strict=True):
        assert seen(one) == seen(other)


def test_devices_alike_share_a_program(tmp_path):
    groups = {1 + k: tuple(range(4 * k, 4 * k + 4)) for k in range(64)}
    pairs = tuple((d, d ^ 1) for d in range(256))
    steps = [
        TraceStep(1, (), ComputeContent("a", 5_000_000)),
        TraceStep(2, (1,), CollectiveContent("r", 0, 4096, tuple(groups))),
        TraceStep(4, (2,), TransferContent("p", 512, pairs)),
    ]
    traces.system(tmp_path / "system", [256])
    inputs = InMemoryPrograms(ProgramTrace(256, groups, steps)).place_on_system(
        configs.load_system(str(tmp_path / "system"))
    )
    assert len({id(device.program) for device in inputs.devices}) == 1
    assert inputs.devices[7].groups == {1: 2} and inputs.devices[7].peers == {0: 7, 1: 6}


def test_names_that_do_not_map_to_one_make_another_program(tmp_path):
    """Devices 2 and 3 have two communicators where devices 0 and 1 use one twice."""
    groups = {1: (0, 1), 2: (2, 3), 3: (2, 3)}
    steps = [
        TraceStep(1, (), CollectiveContent("a", 0, 4096, (1, 2))),
        TraceStep(2, (1,), CollectiveContent("b", 0, 4096, (1, 3))),
        TraceStep(3, (2,), CollectiveContent("c", 0, 8192, (1, 2))),
    ]
    traces.system(tmp_path / "system", [4])
    (tmp_path / "traces").mkdir()
    trace = ProgramTrace(4, groups, steps)
    read, in_memory = both(
        trace, tmp_path / "traces", configs.load_system(str(tmp_path / "system"))
    )
    assert len({id(device.program) for device in in_memory.devices}) == 2
    assert [seen(device) for device in read.devices] == [
        seen(device) for device in in_memory.devices
    ]
    choice = SimulatorChoice("embedded")
    assert (
        simulator_choice.simulate_inputs(read, choice).devices
        == simulator_choice.simulate_inputs(in_memory, choice).devices
    )


def test_another_number_of_devices_is_an_error(tmp_path):
    traces.system(tmp_path / "system", [8])
    with pytest.raises(HespasError, match="on 4 devices, but system system has 8"):
        InMemoryPrograms(ProgramTrace(4)).place_on_system(
            configs.load_system(str(tmp_path / "system"))
        )


@pytest.mark.slow
def test_rings_of_many_devices_need_linear_memory():
    """Shards over every second of 8,192 devices; a matrix of their links would have 134 MB."""
    count, half = 8192, 4096
    groups = {1 + k: tuple(range(2 * k, 2 * k + 2)) for k in range(half)}
    shards = (1 + half, 2 + half)
    groups |= {shards[k]: tuple(range(k, count, 2)) for k in range(2)}
    steps = [
        TraceStep(1, (), ComputeContent("a", 5_000_000)),
        TraceStep(2, (1,), CollectiveContent("b", 0, 4096, tuple(range(1, 1 + half)))),
        TraceStep(3, (2,), CollectiveContent("c", 2, 4096, shards)),
    ]
    dimensions = [SystemDimension("Switch", 2, 400, 500), SystemDimension("Switch", half, 50, 2000)]
    system = build_system_spec(Path("large"), dimensions, 3000)
    inputs = InMemoryPrograms(ProgramTrace(count, groups, steps)).place_on_system(system)
    tracemalloc.start()
    result = run_event_simulation(inputs)
    peak_bytes = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert len(result.classes) == 1 and peak_bytes < 40e6
