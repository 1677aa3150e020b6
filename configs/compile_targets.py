"""The devices that XLA can compile for: ``targets/<NAME>.json``.

Of a GPU, ``config`` has the keys of XLA's GpuTargetConfigProto (openxla/xla,
``xla/stream_executor/device_description.proto``); of a TPU, ``tpu`` describes the chip. A target
has the name of its node.
"""

from __future__ import annotations

import functools
import json
import math
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Annotated, Any

from pydantic import BaseModel, ConfigDict, Field, model_validator

from hespas.configs import (
    build_unknown_name_error,
    is_preset_name,
    list_node_presets,
    list_preset_names,
    load_node,
    read_preset_or_file,
)
from hespas.configs.node_spec import NodeSpec
from hespas.configs.tpu_targets import TpuTarget
from hespas.configs.validation import Positive, validate_config
from hespas.support.data_files import read_file_text
from hespas.support.errors import HespasError

CPU = "cpu"
XLA_DUMP = ".gpu_target_config.pbtxt"  # end of the file that XLA writes with --xla_dump_to
MEMORY_SIZE = re.compile(r"device_memory_size: *(\d+)")
XLA_MEMORY_PERCENT = 80
ENUMS = frozenset(("feature_extension",))  # keys whose values are enum names, without quotes

Count = Annotated[int, Field(gt=0, strict=True)]


class _CudaComputeCapability(BaseModel):
    model_config = ConfigDict(extra="forbid")

    major: Count
    minor: Annotated[int, Field(ge=0, strict=True)] = 0
    feature_extension: str | None = None


class _GpuDeviceInfo(BaseModel):
    """The keys that XLA's passes and cost models need; XLA checks other keys."""

    model_config = ConfigDict(extra="allow")

    threads_per_block_limit: Count
    threads_per_warp: Count
    shared_memory_per_block: Count
    shared_memory_per_core: Count
    shared_memory_per_block_optin: Count
    threads_per_core_limit: Count
    core_count: Count
    fpus_per_core: Count
    block_dim_limit_x: Count
    block_dim_limit_y: Count
    block_dim_limit_z: Count
    registers_per_core_limit: Count
    registers_per_block_limit: Count
    memory_bandwidth: Count
    l2_cache_size: Count
    clock_rate_ghz: Positive
    device_memory_size: Count
    cuda_compute_capability: _CudaComputeCapability


class _TargetConfig(BaseModel):
    model_config = ConfigDict(extra="allow")

    gpu_device_info: _GpuDeviceInfo
    platform_name: str
    device_description_str: str


class TargetFile(BaseModel):
    """A target file, such as ``configs/targets/*.json``.

    Attributes:
        nearest: The device whose description by XLA was adapted, if XLA has none of this one.
    """

    model_config = ConfigDict(extra="forbid")

    name: str
    config: _TargetConfig | None = None
    tpu: TpuTarget | None = None
    description: str = ""
    nearest: str = ""
    sources: dict[str, str] = Field(default_factory=dict)

    @model_validator(mode="after")
    def _check_kind(self) -> TargetFile:
        if (self.config is None) == (self.tpu is None):
            raise ValueError("a target has either 'config' (of a GPU) or 'tpu'")
        return self


@dataclass(frozen=True)
class CompileTarget:
    """A device to compile for.

    Attributes:
        proto: The GpuTargetConfigProto of a GPU as text; None for other devices.
        tpu: The chip of a TPU; None for other devices.
        nearest: The device whose description by XLA was adapted; "" if XLA has one of this device.
    """

    name: str
    proto: str | None
    description: str = ""
    tpu: TpuTarget | None = None
    nearest: str = ""

    @property
    def is_cpu(self) -> bool:
        return self.proto is None and self.tpu is None

    @property
    def platform(self) -> str:
        """The platform that JAX lowers for."""
        return "tpu" if self.tpu else "cuda" if self.proto else CPU

    def compute_memory_limit(self, fraction: float) -> int:
        """Return a share of a GPU's memory in bytes; 0 if the target does not state the memory."""
        size = MEMORY_SIZE.search(self.proto or "")
        return int(int(size[1]) * fraction) if size else 0

    def limit_memory(self, fraction: float) -> str | None:
        """Return ``proto`` for a program that may use a share of the memory.

        Without a client, XLA schedules for 80 % of ``device_memory_size`` (GetSchedulerMemoryLimit
        of ``xla/service/gpu/gpu_hlo_schedule.cc``) and uses the size for nothing else. With a
        client, it schedules for the limit of the client's allocator.
        """
        limit_bytes = self.compute_memory_limit(fraction)
        if not limit_bytes or self.proto is None:
            return self.proto
        stated = -(-limit_bytes * 100 // XLA_MEMORY_PERCENT)
        return MEMORY_SIZE.sub(f"device_memory_size: {stated}", self.proto)

    def describe_device(self) -> tuple[str, int]:
        """Return the name of a device as its driver states it, and the number of its cores.

        Raises:
            HespasError: The description of a GPU lacks one of them.
        """
        if self.tpu is not None:
            return self.tpu.device_kind, self.tpu.cores
        kind = re.search(r'^\s*device_description_str: *"(.*)"', self.proto or "", re.M)
        cores = re.search(r"^\s*core_count: *(\d+)", self.proto or "", re.M)
        if kind is None or cores is None:
            key = "core_count" if kind else "device_description_str"
            raise HespasError(f"the target has no '{key}'", where=self.name)
        return kind[1], int(cores[1])


def list_target_presets() -> list[str]:
    """Return the names of all targets except ``cpu`` in alphabetical order."""
    return list_preset_names("targets")


def find_node_target(node: NodeSpec) -> str:
    """Return the target to compile for a node: its own, or the nearest one of a GPU of NVIDIA.

    Nearest is the node that has the least difference of the peak rate of products in 16 bits and of
    the memory bandwidth, both as logarithms. Returns "" if there is none.
    """
    if node.name in list_target_presets():
        return node.name
    if node.vendor != "NVIDIA":
        return ""
    distances = {
        other.name: abs(math.log(_find_product_rate(node) / _find_product_rate(other)))
        + abs(math.log(node.memory_bandwidth_bytes_per_s / other.memory_bandwidth_bytes_per_s))
        for other in _load_target_nodes()
        if other.vendor == node.vendor and _find_product_rate(other)
    }
    return min(distances, key=distances.__getitem__, default="") if _find_product_rate(node) else ""


@functools.cache
def _load_target_nodes() -> tuple[NodeSpec, ...]:
    """Load the nodes that have a target, once: a sweep asks for the nearest at each node."""
    nodes = list_node_presets()
    return tuple(load_node(name) for name in list_target_presets() if name in nodes)


def _find_product_rate(node: NodeSpec) -> float:
    """Return the peak rate of products in 16 bits; 0 if the node has none."""
    rates = node.peaks_flops.get("matrix", {})
    return rates.get("f16", rates.get("bf16", 0.0))


def load_compile_target(name_or_path: str) -> CompileTarget:
    """Load ``cpu``, a target preset, or a target from a ``.json`` or ``.txtpb`` file.

    A file that XLA dumped for the device of a preset is named after the preset.

    Raises:
        UsageError: No target has this name.
        HespasError: The file is wrong.
    """
    if name_or_path == CPU:
        return CompileTarget(CPU, None, "XLA's CPU compiler for this machine")
    path = Path(name_or_path)
    if path.suffix in (".txtpb", ".pbtxt", ".textproto"):
        target = CompileTarget(path.stem, read_file_text(path))
        return _name_dumped_target(target) if path.name.endswith(XLA_DUMP) else target
    data = read_target_json(name_or_path)
    proto = "".join(_format_proto_fields(data["config"])) if "config" in data else None
    tpu = TpuTarget.model_validate(data["tpu"]) if "tpu" in data else None
    description, nearest = data.get("description", ""), data.get("nearest", "")
    return CompileTarget(data["name"], proto, description, tpu, nearest)


def _name_dumped_target(target: CompileTarget) -> CompileTarget:
    """Return a target that XLA dumped for a device with the name of the preset of this device."""
    device = target.describe_device()
    for name in list_target_presets():
        if load_compile_target(name).describe_device() == device:
            return replace(target, name=name)
    return target


def read_target_json(name_or_path: str) -> dict[str, Any]:
    """Return the validated JSON object of a target; raises like ``load_compile_target``."""
    if is_preset_name(name_or_path) and name_or_path not in list_target_presets():
        known = [CPU, *list_target_presets()]
        alternative = "or give a .json or .txtpb file"
        raise build_unknown_name_error("target", name_or_path, known, alternative)
    data = read_preset_or_file("targets", name_or_path, "target")
    validate_config(TargetFile, data, name_or_path)
    return data


def read_xla_flags(name: str) -> list[str]:
    """Return a named set of XLA flags.

    Raises:
        UsageError: No set has this name.
    """
    known = list_preset_names("xla_flags")
    if name not in known:
        raise build_unknown_name_error("set of XLA flags", name, known)
    return read_preset_or_file("xla_flags", name, "set of XLA flags")["flags"]


def _format_proto_fields(message: Mapping[str, Any], indent: str = "") -> Iterator[str]:
    """Yield the fields of a message in protobuf's text format, one on each line."""
    for name, value in message.items():
        for item in value if isinstance(value, list) else [value]:
            if isinstance(item, Mapping):
                yield f"{indent}{name} {{\n"
                yield from _format_proto_fields(item, indent + "  ")
                yield f"{indent}}}\n"
            elif isinstance(item, str) and name not in ENUMS:
                yield f"{indent}{name}: {json.dumps(item)}\n"
            else:
                yield f"{indent}{name}: {str(item).lower() if isinstance(item, bool) else item}\n"
