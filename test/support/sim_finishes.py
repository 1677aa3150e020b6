"""When the devices of one collective finish."""

from __future__ import annotations

from collections.abc import Sequence

from hespas.configs.system_spec import SystemSpec
from hespas.simulators.embedded.chunk_phases import QueueTurn
from hespas.simulators.embedded.collective_plan import CollectivePlanner
from hespas.simulators.embedded.collective_timing import CollectiveFinish, CollectiveTimer
from hespas.simulators.embedded.network import AnalyticalNetwork
from hespas.simulators.simulation_options import SimulationOptions


def compute_finishes(
    system: SystemSpec,
    kind: str,
    size: int,
    members: Sequence[int],
    options: SimulationOptions,
    *,
    starts: Sequence[int] = (),
    by_message: bool = False,
) -> list[CollectiveFinish]:
    """Return when each device finishes; raises HespasError.

    Args:
        starts: When each device starts, in nanoseconds; () if all start at 0.
    """
    network = AnalyticalNetwork.from_system(system, options.by_dimension)
    planner = CollectivePlanner(system, network, options)
    part = len(members) < system.device_count
    communicator = planner.plan_communicator(1, kind, tuple(members), part, ())
    plan = planner.plan_collective(kind, size, communicator, QueueTurn())
    return CollectiveTimer(planner, by_message).compute_finishes(
        communicator, starts or [0] * len(members), [plan] * len(members)
    )
