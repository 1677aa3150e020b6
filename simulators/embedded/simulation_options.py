"""What a simulation may vary beside the system's own files; the defaults are ASTRA-sim's."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class SimulationOptions:
    """``queues_per_dim``, ``injection_scale`` and ``rendezvous`` are options of ASTRA-sim too.

    ``congestion``: messages share links. ``by_dimension``: collectives between some devices that
    make a grid go dimension by dimension, as those between all do, and a message pays for every
    dimension in which its ends differ; else ASTRA-sim's rules hold, one ring over such devices and
    the first dimension. ``curves``: the device whose measured curves give a collective's time, ""
    for the network model. ``slowdown``: the share by which computing takes longer while
    communication runs, 0.18 for 18 %. ``symmetry``: devices that behave alike are simulated once.
    ``intervals``: keep what ran when, for timelines and critical paths.
    """

    queues_per_dim: int = 1
    injection_scale: float = 1.0
    rendezvous: bool = False
    congestion: bool = False
    by_dimension: bool = False
    curves: str = ""
    slowdown: float = 0.0
    symmetry: bool = True
    intervals: bool = True
