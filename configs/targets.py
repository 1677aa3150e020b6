"""What XLA's GPU compiler compiles for: ``targets/<NAME>.json``, in XLA's own terms.

``config`` mirrors the GpuTargetConfigProto that XLA reads, key by key (openxla/xla
``xla/stream_executor/device_description.proto``). A target has the name of the node that it is.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

from pydantic import BaseModel, ConfigDict, Field

from hespas.configs import is_preset_name, preset_names, preset_or_file, unknown
from hespas.configs.checked import Positive, checked
from hespas.configs.text import read_text

CPU = "cpu"
ENUMS = frozenset(("feature_extension",))  # whose values are names, not strings

Count = Annotated[int, Field(gt=0, strict=True)]


class _CudaComputeCapability(BaseModel):
    model_config = ConfigDict(extra="forbid")

    major: Count
    minor: Annotated[int, Field(ge=0, strict=True)] = 0
    feature_extension: str | None = None


class _GpuDeviceInfo(BaseModel):
    """What XLA's passes and cost models ask of a device; other keys are XLA's to check."""

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


class _Config(BaseModel):
    model_config = ConfigDict(extra="allow")

    gpu_device_info: _GpuDeviceInfo
    platform_name: str
    device_description_str: str


class _TargetFile(BaseModel):
    """A target file, of the form of ``configs/targets/*.json``."""

    model_config = ConfigDict(extra="forbid")

    name: str
    config: _Config
    description: str = ""
    sources: dict[str, str] = Field(default_factory=dict)


@dataclass(frozen=True)
class Target:
    """A device to compile for: ``proto`` is the text of its GpuTargetConfigProto, None of a CPU."""

    name: str
    proto: str | None
    description: str = ""


def target_names() -> list[str]:
    """The names of all GPU targets, alphabetical."""
    return preset_names("targets")


def target(name_or_path: str) -> Target:
    """``cpu``, the GPU target of that name, or the one in a ``.json`` or ``.txtpb`` file.

    Raises UsageError with the near name, HespasError for what is wrong in a file.
    """
    if name_or_path == CPU:
        return Target(CPU, None, "XLA's CPU compiler for the machine that runs it")
    path = Path(name_or_path)
    if path.suffix in (".txtpb", ".pbtxt", ".textproto"):
        return Target(path.stem, read_text(path))
    data = target_data(name_or_path)
    return Target(data["name"], text_proto(data["config"]), data.get("description", ""))


def target_data(name_or_path: str) -> dict[str, Any]:
    """The JSON object of a GPU target, checked; raises as ``target`` does."""
    if is_preset_name(name_or_path) and name_or_path not in target_names():
        other = "give a .json or .txtpb file for another"
        raise unknown("target", name_or_path, [CPU, *target_names()], other)
    data = preset_or_file("targets", name_or_path, "target")
    checked(_TargetFile, data, name_or_path)
    return data


def xla_flag_sets() -> list[str]:
    """The names of the sets of XLA flags, alphabetical."""
    return preset_names("xla_flags")


def xla_flags(name: str) -> list[str]:
    """The set of XLA flags of that name; raises UsageError with the near name."""
    if name not in xla_flag_sets():
        raise unknown("set of XLA flags", name, xla_flag_sets())
    return preset_or_file("xla_flags", name, "set of XLA flags")["flags"]


def text_proto(message: Mapping[str, Any]) -> str:
    """A message in protobuf's text format, one field a line."""
    return "".join(_fields(message, ""))


def _fields(message: Mapping[str, Any], indent: str) -> Iterator[str]:
    for name, value in message.items():
        for item in value if isinstance(value, list) else [value]:
            if isinstance(item, Mapping):
                yield f"{indent}{name} {{\n"
                yield from _fields(item, indent + "  ")
                yield f"{indent}}}\n"
            elif isinstance(item, str) and name not in ENUMS:
                yield f"{indent}{name}: {json.dumps(item)}\n"
            else:
                yield f"{indent}{name}: {str(item).lower() if isinstance(item, bool) else item}\n"
