"""Programs of collectives, messages and compute on a system, for tests of the flow-level model."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

from hespas import configs
from hespas.chakra.schema import NodeType
from hespas.chakra.trace_reader import TraceNode
from hespas.configs.system_spec import SystemSpec
from hespas.simulators.embedded import run_event_simulation
from hespas.simulators.simulated_program import ProgramBuilder
from hespas.simulators.simulation_inputs import SimulatedDevice, SimulationInputs
from hespas.simulators.simulation_options import SimulationOptions
from hespas.simulators.simulation_result import SimulationResult

KINDS = {
    "all_reduce": 0, "reduce": 1, "all_gather": 2, "gather": 3, "scatter": 4, "broadcast": 5,
    "all_to_all": 6, "reduce_scatter": 7, "barrier": 9,
}  # fmt: skip
LATENCY_NS = 500
RATES = f"link_gb_s=50,latency_ns={LATENCY_NS},local_mem_gb_s=1000000"


def load_network(name: str) -> SystemSpec:
    """Return a network with links of 50 GB/s and no time for reductions."""
    return configs.load_system(f"{name},{RATES}")


@dataclass
class FlowProgram:
    """Nodes of each device, each after the one before it unless it has no dependencies.

    Attributes:
        devices: The number of devices.
        groups: The devices of each communicator.
        nodes: The nodes of each device.
    """

    devices: int
    groups: dict[int, tuple[int, ...]] = field(default_factory=dict)
    nodes: list[list[TraceNode]] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.nodes = [[] for _ in range(self.devices)]
        self.groups[0] = tuple(range(self.devices))

    def add_compute(self, device: int, micros: int) -> None:
        self._add_node(device, "compute", NodeType.COMP_NODE, {}, micros)

    def add_collective(self, kind: str, size: int, members: Sequence[int]) -> None:
        number = next((n for n, m in self.groups.items() if n and m == tuple(members)), None)
        if number is None:
            number = len(self.groups)
            self.groups[number] = tuple(members)
        attrs = {
            "comm_type": ("int64", KINDS[kind]),
            "comm_size": ("int64", size),
            "pg_name": ("string", str(number)),
        }
        for device in members:
            self._add_node(device, kind, NodeType.COMM_COLL_NODE, attrs)

    def add_message(
        self, source: int, target: int, size: int, tag: int, *, chained: bool = False
    ) -> None:
        attrs = {"comm_size": ("int64", size), "comm_tag": ("int32", tag)}
        for device, peer, name, kind in (
            (source, target, "comm_dst", NodeType.COMM_SEND_NODE),
            (target, source, "comm_src", NodeType.COMM_RECV_NODE),
        ):
            values = attrs | {name: ("int32", peer)}
            self._add_node(device, f"message {tag}", kind, values, chained=chained)

    def _add_node(
        self,
        device: int,
        name: str,
        kind: NodeType,
        attrs: dict,
        micros: int = 0,
        *,
        chained: bool = True,
    ) -> None:
        nodes = self.nodes[device]
        deps = (nodes[-1].id,) if nodes and chained else ()
        all_attrs = {"is_cpu_op": ("bool", False)} | attrs
        nodes.append(TraceNode(len(nodes) + 1, name, kind, deps, (), micros, all_attrs))

    def place_on(self, system: SystemSpec) -> SimulationInputs:
        """Return the inputs of a simulation."""
        builder, devices = ProgramBuilder(system), []
        for rank, nodes in enumerate(self.nodes):
            path = Path(f"dev.{rank}.et")
            own = nodes or [TraceNode(1, "idle", NodeType.COMP_NODE, (), (), 1, {})]
            devices.append(SimulatedDevice(builder.build_program(path, own), path, {}, {}))
        return SimulationInputs(Path(), system, devices, self.groups)

    def simulate(self, system: SystemSpec, **options) -> SimulationResult:
        return run_event_simulation(self.place_on(system), SimulationOptions(**options))


def time_collectives(
    name: str | SystemSpec, kind: str, size: int, groups: Sequence[Sequence[int]], **options
) -> int:
    """Return the nanoseconds of collectives between several groups at once."""
    system = load_network(name) if isinstance(name, str) else name
    program = FlowProgram(system.device_count)
    for members in groups:
        program.add_collective(kind, size, members)
    result = program.simulate(system, **options)
    return max(record.finish_ns for record in result.comms)


def list_blocks(devices: int, size: int) -> list[list[int]]:
    """List groups of consecutive devices."""
    return [list(range(start, start + size)) for start in range(0, devices, size)]


def list_strides(devices: int, size: int) -> list[list[int]]:
    """List groups of devices that are equally far apart."""
    return [list(range(start, devices, devices // size)) for start in range(devices // size)]
