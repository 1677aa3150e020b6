"""The models of system files, and their conversion to ``SystemSpec``."""

from __future__ import annotations

import itertools
import math
import os
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import Field, model_validator

from hespas.configs import read_json
from hespas.configs.collective_algorithms import build_name_pattern
from hespas.configs.network_fabric import parse_fabric_file
from hespas.configs.remote_memory import parse_remote_memory
from hespas.configs.simple_yaml import read_yaml_or_json
from hespas.configs.system_spec import COLLECTIVES, SystemSpec
from hespas.configs.validation import StrictModel, validate_config
from hespas.support.errors import HespasError

Implementation = Annotated[str, Field(pattern=build_name_pattern())]
Implementations = Annotated[list[Implementation], Field(min_length=1)] | None
Custom = Annotated[list[str], Field(min_length=1, max_length=1)] | None  # a prefix of traces

NETWORK_FILES = ("network.yml", "network.yaml", "network.json")
FABRIC_FILE = "fabric.json"
ASTRA_FOLDER = "astra-sim"  # of a published system, which contains its files
_ENDPOINT_DELAY_NS = 10  # ASTRA-sim's default
# Bounds that no real system reaches. Within them, times in nanoseconds fit into 64 bits.
_MAX_DEVICES = 1 << 24
_MAX_CHUNKS = 1 << 20
_MAX_LATENCY_NS = 1e12
_MAX_RATE_GB_S = 1e9
RateGbS = Annotated[float, Field(ge=1e-6, le=_MAX_RATE_GB_S)]  # in 1e9 or 2**30 bytes per second
ChunkCount = Annotated[int, Field(gt=0, le=_MAX_CHUNKS)]
_Flag = int | bool  # ASTRA-sim reads both
_OPTIMIZATION = "localBWAware"


class NetworkFile(StrictModel):
    """``network.yml``: each key lists one entry for each dimension."""

    topology: Annotated[
        list[Literal["Ring", "FullyConnected", "Switch", "Mesh", "FatTree", "Dragonfly"]],
        Field(min_length=1),
    ]
    npus_count: list[Annotated[int, Field(gt=1, le=_MAX_DEVICES)]]
    bandwidth: list[RateGbS]
    latency: list[Annotated[float, Field(ge=0, le=_MAX_LATENCY_NS)]]

    @model_validator(mode="after")
    def _check_lengths_agree(self) -> NetworkFile:
        for name in ("npus_count", "bandwidth", "latency"):
            count = len(getattr(self, name))
            if count != len(self.topology):
                raise ValueError(
                    f"{name} has {count}, not {len(self.topology)} entries, one for each dimension"
                )
        problem = find_topology_problem(self.topology)
        if problem:
            raise ValueError(problem)
        if math.prod(self.npus_count) > _MAX_DEVICES:
            raise ValueError(f"npus_count has a product of more than {_MAX_DEVICES} devices")
        return self


def find_topology_problem(topology: Sequence[str]) -> str:
    """Describe why dimensions cannot follow each other; "" if they can."""
    for below, kind in itertools.pairwise(["", *topology]):
        if kind == "FatTree" and below not in ("Switch", "FatTree"):
            return "a FatTree joins the switches of the dimension before it, which is no Switch"
        if kind == "Dragonfly" and below not in ("Switch", "Dragonfly"):
            return "a Dragonfly joins the switches of the dimension before it, which is no Switch"
    if " ".join(["Dragonfly"] * 3) in " ".join(topology):
        return "a Dragonfly has two dimensions: the switches of a group, and the groups"
    return ""


class SystemFile(StrictModel):
    """``system.json``: the keys that ASTRA-sim reads.

    Keys for which ASTRA-sim has no useful default are required. Of the keys that change no time
    here, some are ignored, and others only have the value that turns their feature off.
    """

    scheduling_policy: Annotated[
        Literal["LIFO", "FIFO", "EXPLICIT"], Field(alias="scheduling-policy")
    ]
    collective_optimization: Annotated[
        Literal["localBWAware", "baseline"] | None, Field(alias="collective-optimization")
    ] = None
    preferred_dataset_splits: Annotated[ChunkCount, Field(alias="preferred-dataset-splits")]
    active_chunks: Annotated[ChunkCount, Field(alias="active-chunks-per-dimension")] = 1
    endpoint_delay: Annotated[
        int | None, Field(gt=0, le=_MAX_LATENCY_NS, alias="endpoint-delay")
    ] = None
    local_mem_bw: Annotated[RateGbS | None, Field(alias="local-mem-bw")] = None
    all_reduce: Implementations = Field(None, alias="all-reduce-implementation")
    all_gather: Implementations = Field(None, alias="all-gather-implementation")
    reduce_scatter: Implementations = Field(None, alias="reduce-scatter-implementation")
    all_to_all: Implementations = Field(None, alias="all-to-all-implementation")
    boost_mode: Annotated[_Flag, Field(alias="boost-mode")] = 0
    trace_enabled: Annotated[_Flag, Field(alias="trace-enabled")] = 1
    roofline_enabled: Annotated[_Flag, Field(alias="roofline-enabled")] = 0
    peak_perf: Annotated[RateGbS | None, Field(alias="peak-perf")] = None  # in 1e12 operations/s
    custom_all_reduce: Custom = Field(None, alias="all-reduce-implementation-custom")
    custom_all_gather: Custom = Field(None, alias="all-gather-implementation-custom")
    custom_reduce_scatter: Custom = Field(None, alias="reduce-scatter-implementation-custom")
    custom_all_to_all: Custom = Field(None, alias="all-to-all-implementation-custom")
    per_node_custom: Annotated[str, Field(alias="per-node-custom-implementation")] = ""
    local_reduction_delay: Annotated[int | None, Field(alias="local-reduction-delay")] = None
    model_shared_bus: Annotated[Literal[0], Field(alias="model-shared-bus")] = 0
    replay_only: Annotated[Literal[0], Field(alias="replay-only")] = 0
    track_local_mem: Annotated[_Flag, Field(alias="track-local-mem")] = 0
    local_mem_trace_filename: Annotated[str, Field(alias="local-mem-trace-filename")] = ""
    intra_dimension_scheduling: Annotated[str, Field(alias="intra-dimension-scheduling")] = ""
    inter_dimension_scheduling: Annotated[str, Field(alias="inter-dimension-scheduling")] = ""


def read_system_folder(folder: Path, settings: str = "system.json") -> SystemSpec:
    """Read and validate the system in a folder.

    Args:
        folder: The folder, or one whose files are in ``astra-sim``, as those of published systems.
        settings: The name of the file that is used as system.json.

    Raises:
        HespasError: A file cannot be read, or a key or value is wrong.
    """
    if not (folder / settings).exists() and (folder / ASTRA_FOLDER).is_dir():
        folder = folder / ASTRA_FOLDER
    remote = folder / "remote_memory.json"
    network_path = find_network_file(folder)
    network = read_yaml_or_json(network_path)
    keys = read_json(folder / settings)
    fabric = folder / FABRIC_FILE
    system = parse_system_files(
        folder / settings,
        network,
        keys,
        str(network_path),
        read_json(fabric) if fabric.exists() else None,
    )
    if not remote.exists():
        return system
    memory = parse_remote_memory(read_json(remote), str(remote), system.device_count)
    return replace(system, remote_memory=memory)


def find_network_file(folder: Path) -> Path:
    """Return the file of the network in a folder of a system: YAML, or JSON with the same keys.

    Raises:
        HespasError: There is none.
    """
    for name in NETWORK_FILES:
        if (folder / name).exists():
            return folder / name
    if not folder.is_dir():
        raise HespasError("there is no such folder of a system", where=str(folder))
    raise HespasError(f"there is no {' or '.join(NETWORK_FILES)}", where=str(folder))


def parse_system_files(
    path: Path,
    network_data: dict[str, Any],
    settings: dict[str, Any],
    network_place: str,
    fabric_data: dict[str, Any] | None = None,
) -> SystemSpec:
    """Convert the contents of system.json, network.yml and fabric.json.

    Args:
        path: The path of system.json; its folder is that of the system.
        network_data: The contents of network.yml.
        settings: The contents of system.json.
        network_place: The path of network.yml, for error messages.
        fabric_data: The contents of fabric.json; None if there is none, as in a folder of
            ASTRA-sim's files.

    Raises:
        HespasError: A key or value is wrong.
    """
    place, folder = str(path), path.parent
    network = validate_config(NetworkFile, network_data, network_place)
    keys = validate_config(SystemFile, settings, place)
    implementations = _collect_implementations(keys, len(network.topology), place)
    custom = {
        name: traces[0]
        for name in COLLECTIVES
        if (traces := getattr(keys, f"custom_{name.replace('-', '_')}"))
    }
    optimization, notes = _choose_optimization(keys, implementations, place)
    if keys.track_local_mem:
        notes.append(f"{place}: track-local-mem has no effect here")
    if keys.endpoint_delay is None:
        notes.append(
            f"{place}: endpoint-delay is missing: {_ENDPOINT_DELAY_NS} ns, as in ASTRA-sim"
        )
    if keys.local_mem_bw is None and keys.roofline_enabled:
        raise HespasError("roofline-enabled needs the key 'local-mem-bw'", where=place)
    if keys.local_mem_bw is None:
        notes.append(f"{place}: local-mem-bw is missing: reductions take no time, as in ASTRA-sim")
    return SystemSpec(
        name=_find_system_name(folder),
        folder=folder,
        topology=tuple(network.topology),
        npus_count=tuple(network.npus_count),
        bandwidth_gib_s=tuple(network.bandwidth),
        latency_ns=tuple(network.latency),
        implementations=implementations,
        scheduling_policy=keys.scheduling_policy,
        collective_optimization=optimization,
        active_chunks_per_dimension=keys.active_chunks,
        preferred_dataset_splits=keys.preferred_dataset_splits,
        endpoint_delay_ns=keys.endpoint_delay or _ENDPOINT_DELAY_NS,
        local_mem_bw_gb_s=keys.local_mem_bw or _MAX_RATE_GB_S,
        roofline_enabled=bool(keys.roofline_enabled),
        peak_perf_tflops=keys.peak_perf,
        custom=custom,
        per_node_custom=keys.per_node_custom,
        settings=settings,
        fabric=parse_fabric_file(
            fabric_data or {}, str(folder / FABRIC_FILE), list(network.topology), network.npus_count
        ),
        network_model="astra" if fabric_data is None else fabric_data.get("network_model", "flows"),
        notes=tuple(notes),
    )


def _find_system_name(folder: Path) -> str:
    """Return the name of a system's folder, also if its files are in ``astra-sim``."""
    if folder.name != ASTRA_FOLDER:
        return folder.name
    return Path(os.path.abspath(folder)).parent.name


def _collect_implementations(keys: SystemFile, dims: int, place: str) -> dict[str, tuple[str, ...]]:
    """Return the algorithms of each collective by dimension.

    A list may end with an algorithm for all dimensions, such as ``oneRing``: ASTRA-sim ignores
    what follows it.

    Raises:
        HespasError: A list has too many or too few entries.
    """
    implementations = {}
    for name in COLLECTIVES:
        algorithms: list[str] | None = getattr(keys, name.replace("-", "_"))
        if algorithms is None:
            continue
        spans_rest = any(algorithm.startswith("one") for algorithm in algorithms)
        if len(algorithms) > dims or (len(algorithms) < dims and not spans_rest):
            raise HespasError(
                f"{name}-implementation has {len(algorithms)}, not {dims} entries, one for each "
                "dimension of network.yml",
                where=place,
            )
        implementations[name] = tuple(algorithms)
    return implementations


def _choose_optimization(
    keys: SystemFile, implementations: dict[str, tuple[str, ...]], place: str
) -> tuple[str, list[str]]:
    """Return the collective optimisation, and a note if system.json has none.

    Raises:
        HespasError: system.json has none, and the time of an all-reduce depends on it.
    """
    if keys.collective_optimization is not None:
        return keys.collective_optimization, []
    algorithms = implementations.get("all-reduce", ())
    if len(algorithms) > 1 and not algorithms[0].startswith("one"):
        raise HespasError(
            "the key 'collective-optimization' is missing, on which an all-reduce over several "
            "dimensions depends",
            where=place,
            remedy='add "collective-optimization": "localBWAware", or "baseline"',
        )
    return _OPTIMIZATION, [f"{place}: collective-optimization is missing, but has no effect here"]
