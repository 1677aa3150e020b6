"""Devices that run a chain in lockstep, against the event queue."""

from __future__ import annotations

from dataclasses import asdict

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hespas import configs
from hespas.chakra.schema import CollectiveCommType
from hespas.chakra.trace_steps import CollectiveContent, ComputeContent, ProgramTrace, TraceStep
from hespas.simulators import simulator_choice
from hespas.simulators.embedded import event_simulation
from hespas.simulators.in_memory_programs import InMemoryPrograms
from hespas.simulators.simulation_options import SimulationOptions, SimulatorChoice
from hespas.simulators.simulation_result import SimulationResult

GROUPS = {1: (0, 1), 2: (2, 3), 3: (0, 2), 4: (1, 3)}
SYSTEMS = [
    "A100_SXM_40GB_4GPU",
    "TPUv5e_2x2",
    "torus:2x2,links=4,link_gb_s=5,latency_ns=50,local_mem_gb_s=100",
]
KINDS = [
    CollectiveCommType.ALL_REDUCE, CollectiveCommType.ALL_GATHER,
    CollectiveCommType.REDUCE_SCATTER, CollectiveCommType.ALL_TO_ALL,
]  # fmt: skip
OPTIONS = [
    SimulationOptions(network_model="astra"),
    SimulationOptions(network_model="astra", slowdown=0.1),
    SimulationOptions(curves="A100_SXM", network_model="astra"),
]
computes = st.builds(ComputeContent, st.just("op"), st.integers(1, 10**13))
collectives = st.builds(
    CollectiveContent,
    st.just("collective"),
    st.sampled_from([int(kind) for kind in KINDS]),
    st.sampled_from([1 << 10, 1 << 20, 12_345_678]),
    st.sampled_from([(0,), (1, 2), (3, 4)]),
)


def simulate(trace: ProgramTrace, system: str, options: SimulationOptions) -> SimulationResult:
    inputs = InMemoryPrograms(trace).place_on_system(configs.load_system(system))
    return simulator_choice.simulate_inputs(inputs, SimulatorChoice("embedded", options))


@given(
    st.lists(computes | collectives, min_size=1, max_size=25),
    st.sampled_from(SYSTEMS),
    st.sampled_from(OPTIONS),
)
def test_a_chain_ends_as_with_events(contents, system, options):
    steps = [
        TraceStep(i, (i - 1,) if i > 1 else (), content) for i, content in enumerate(contents, 1)
    ]
    trace = ProgramTrace(4, {0: (0, 1, 2, 3), **GROUPS}, steps)
    runs = []
    with pytest.MonkeyPatch.context() as patch:
        run = event_simulation.run_in_lockstep
        patch.setattr(
            event_simulation, "run_in_lockstep", lambda engine: runs.append(1) or run(engine)
        )
        fast = simulate(trace, system, options)
        assert runs
        patch.setattr(event_simulation, "can_run_in_lockstep", lambda engine: False)
        slow = simulate(trace, system, options)
    assert asdict(fast) == asdict(slow)


def test_nodes_alongside_each_other_need_events(monkeypatch):
    monkeypatch.setattr(event_simulation, "run_in_lockstep", None)
    first = ComputeContent("op", 10**12)
    sent = CollectiveContent("collective", int(KINDS[0]), 1 << 20, (0,))
    steps = [TraceStep(1, (), first), TraceStep(2, (1,), sent), TraceStep(3, (1,), first)]
    trace = ProgramTrace(4, {0: (0, 1, 2, 3)}, steps)
    for system in SYSTEMS:
        assert simulate(trace, system, OPTIONS[0]).step_time_ns >= 2_000_000
