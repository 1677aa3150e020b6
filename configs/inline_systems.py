"""Systems that a name describes in full, such as ``torus:4x4x4,links=6,link_gb_s=50``.

Every device has the same number of links, which are shared out over the dimensions of the network.
Thus a sweep over names asks how many links, and in which topology.
"""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from hespas.configs.system_layout import (
    UNITS,
    SystemDimension,
    build_system_spec,
    render_system_files,
)
from hespas.configs.system_spec import SystemSpec
from hespas.support.errors import UsageError

_KINDS = {
    "ring": "Ring",
    "torus": "Ring",
    "mesh": "Mesh",
    "switch": "Switch",
    "fully-connected": "FullyConnected",
}
_NUMBERS = ("links", "link_gb_s", "latency_ns", "local_mem_gb_s")
_REDUCTION = "reduction"
FORM = (
    "KIND:NxN,links=L,link_gb_s=B,latency_ns=T,local_mem_gb_s=M, where KIND is "
    + ", ".join(_KINDS)
    + "; a switch may have reduction=SHARE"
)


@dataclass(frozen=True, slots=True)
class InlineSystem:
    """The parsed name of a system.

    Attributes:
        name: The name.
        kind: The kind of all dimensions, a key of ``_KINDS``.
        counts: The number of devices in each dimension, the fastest varying one first.
        links: The links of a device.
        link_gb_s: The bandwidth of a link, in 1e9 bytes per second and direction.
        latency_ns: The latency of a hop.
        local_mem_gb_s: The memory bandwidth of a device, for reductions, in 1e9 bytes per second.
        reduction: The share of the bandwidth that collectives in the switch reach; None without.
    """

    name: str
    kind: str
    counts: tuple[int, ...]
    links: int
    link_gb_s: float
    latency_ns: float
    local_mem_gb_s: float
    reduction: float | None = None

    def share_out_links(self) -> list[int]:
        """Return the links of a device in each dimension.

        A Ring or Mesh takes them in pairs, one for each direction. Pairs that are left over go to
        the first dimensions.

        Raises:
            UsageError: There are too few links, or some are left over.
        """
        unit = 2 if _KINDS[self.kind] in ("Ring", "Mesh") else 1
        units, odd = divmod(self.links, unit)
        each, rest = divmod(units, len(self.counts))
        shares = [unit * (each + (dim < rest)) for dim in range(len(self.counts))]
        if odd or not each:
            raise UsageError(
                f"{self.name}: {self.links} links cannot be shared out over {len(self.counts)} "
                f"dimensions of {_KINDS[self.kind]}, each of which needs a multiple of {unit}"
            )
        if self.kind == "fully-connected":
            for share, count in zip(shares, self.counts, strict=True):
                if share % (count - 1):
                    raise UsageError(
                        f"{self.name}: {share} links are no multiple of {count - 1} peers"
                    )
        return shares

    def build_dimensions(self) -> list[SystemDimension]:
        """Build the dimensions, each with the bandwidth of its links."""
        topology = _KINDS[self.kind]
        dimensions = []
        for share, count in zip(self.share_out_links(), self.counts, strict=True):
            peers = {"Ring": 2, "Mesh": 2, "FullyConnected": count - 1}.get(topology, 1)
            rate_gb_s = share / peers * self.link_gb_s
            dimensions.append(SystemDimension(topology, count, rate_gb_s, self.latency_ns))
        return dimensions

    def build_fabric_data(self) -> dict[str, Any]:
        """Return the contents of fabric.json; empty without extensions of ASTRA-sim's model."""
        data: dict[str, Any] = {}
        if self.kind in ("ring", "torus", "mesh"):
            data["dimensions_at_once"] = len(self.counts) > 1
            data["directions_at_once"] = self.kind != "mesh"
        if self.reduction is not None:
            data["switch_reductions"] = [
                {"dimension": dim, "bandwidth_share": self.reduction, "source": self.name}
                for dim in range(len(self.counts))
            ]
        return data


def is_inline_name(name: str) -> bool:
    """Return whether a name describes a system."""
    return name.partition(":")[0] in _KINDS and ":" in name


def load_inline_system(name: str) -> SystemSpec:
    """Build the system that a name describes; raises UsageError if it has another form."""
    system = parse_inline_system(name)
    spec = build_system_spec(
        Path(name), system.build_dimensions(), system.local_mem_gb_s, system.build_fabric_data()
    )
    return replace(spec, name=name)


def render_inline_files(name: str) -> dict[str, str]:
    """Return the texts of the files of the system that a name describes."""
    source = "given by the name of the system"
    keys = ("topology", "npus_count", "bandwidth", "latency", "local-mem-bw")
    provenance = {
        "description": name,
        "sources": {
            **dict.fromkeys(keys, source),
            "implementations": "the usual one of the topology",
            "other keys of system.json": "as in hespas's own presets",
        },
        "units": UNITS,
    }
    fabric_data = parse_inline_system(name).build_fabric_data()
    return render_system_files(load_inline_system(name), provenance, fabric_data)


def parse_inline_system(name: str) -> InlineSystem:
    """Parse the name of a system; raises UsageError if it has another form."""
    kind, _, rest = name.partition(":")
    shape, *pairs = rest.split(",")
    if not re.fullmatch(r"\d+(x\d+)*", shape):
        raise UsageError(f"{name}: '{shape}' is no shape such as 4x4", remedy=FORM)
    counts = tuple(int(side) for side in shape.split("x"))
    values = _parse_values(name, pairs)
    if kind == "ring" and len(counts) > 1:
        raise UsageError(f"{name}: a ring has one dimension", remedy=f"write torus:{rest}")
    if _REDUCTION in values and kind != "switch":
        raise UsageError(f"{name}: only a switch has a {_REDUCTION}")
    if not values["links"].is_integer():
        raise UsageError(f"{name}: links={values['links']:g} is no whole number")
    if math.prod(counts) < 2 or min(counts) < 2:
        raise UsageError(f"{name}: each dimension needs 2 or more devices")
    return InlineSystem(
        name, kind, counts, int(values["links"]), values["link_gb_s"], values["latency_ns"],
        values["local_mem_gb_s"], values.get(_REDUCTION),
    )  # fmt: skip


def _parse_values(name: str, pairs: Sequence[str]) -> dict[str, float]:
    values: dict[str, float] = {}
    for pair in pairs:
        key, _, text = pair.partition("=")
        if key not in (*_NUMBERS, _REDUCTION) or key in values:
            raise UsageError(f"{name}: '{key}' is unknown or given twice", remedy=FORM)
        try:
            value = float(text)
        except ValueError:
            value = math.nan
        if not math.isfinite(value) or value < 0 or (value == 0 and key != "latency_ns"):
            raise UsageError(f"{name}: '{pair}' has no positive number", remedy=FORM)
        values[key] = value
    missing = [key for key in _NUMBERS if key not in values]
    if missing:
        raise UsageError(f"{name}: '{missing[0]}' is missing", remedy=FORM)
    return values
