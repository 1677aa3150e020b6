"""Systems that a name describes in full, such as ``torus:4x4x4,links=6,link_gb_s=50``.

Every device has the same number of links, which are shared out over the dimensions of the network.
Thus a sweep over names asks how many links, and in which topology.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
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

_NUMBERS = ("links", "link_gb_s", "latency_ns", "local_mem_gb_s")
_REDUCTION = "reduction"
_DOWN = "down"


@dataclass(frozen=True, slots=True)
class InlineSystem:
    """The parsed name of a system.

    Attributes:
        name: The name.
        kind: The kind of network, a key of ``KINDS``.
        counts: The number of devices in each dimension, the fastest varying one first.
        links: The links of a device.
        link_gb_s: The bandwidth of a link, in 1e9 bytes per second and direction.
        latency_ns: The latency of a hop.
        local_mem_gb_s: The memory bandwidth of a device, for reductions, in 1e9 bytes per second.
        options: The numbers that only some kinds have, by name.
        down: What is down, as the name spells it.
    """

    name: str
    kind: str
    counts: tuple[int, ...]
    links: int
    link_gb_s: float
    latency_ns: float
    local_mem_gb_s: float
    options: Mapping[str, tuple[float, ...]] = field(default_factory=dict)
    down: tuple[str, ...] = ()

    def share_out_links(self, topology: str) -> list[int]:
        """Return the links of a device in each dimension of a topology.

        A Ring or Mesh takes them in pairs, one for each direction. Pairs that are left over go to
        the first dimensions.

        Raises:
            UsageError: There are too few links, or some are left over.
        """
        unit = 2 if topology in ("Ring", "Mesh") else 1
        units, odd = divmod(self.links, unit)
        each, rest = divmod(units, len(self.counts))
        shares = [unit * (each + (dim < rest)) for dim in range(len(self.counts))]
        if odd or not each:
            raise UsageError(
                f"{self.name}: {self.links} links cannot be shared out over {len(self.counts)} "
                f"dimensions of {topology}, each of which needs a multiple of {unit}"
            )
        if topology == "FullyConnected":
            for share, count in zip(shares, self.counts, strict=True):
                if share % (count - 1):
                    raise UsageError(
                        f"{self.name}: {share} links are no multiple of {count - 1} peers"
                    )
        return shares

    @property
    def device_gb_s(self) -> float:
        """The bandwidth of all links of a device."""
        return self.links * self.link_gb_s

    def build_fabric_data(self) -> dict[str, Any]:
        """Return the contents of fabric.json; raises UsageError if what is down does not exist."""
        data: dict[str, Any] = {}
        if _REDUCTION in self.options:
            data["switch_reductions"] = [
                {
                    "dimension": dim,
                    "bandwidth_share": self.options[_REDUCTION][0],
                    "source": self.name,
                }
                for dim in range(len(self.counts))
            ]
        for text in self.down:
            if text.isdecimal():
                data.setdefault("down_devices", []).append(int(text))
            else:
                data.setdefault("slow_links", []).append(self._parse_down_link(text))
        return data

    def _parse_down_link(self, text: str) -> dict[str, Any]:
        """Parse ``3@1``, the link of device 3 to its switch of dimension 1, or ``0-4``."""
        port, pair = re.fullmatch(r"(\d+)@(\d+)", text), re.fullmatch(r"(\d+)-(\d+)", text)
        if port:
            dim, devices = int(port[2]), [int(port[1])]
        elif pair:
            devices = [int(pair[1]), int(pair[2])]
            dim = self._find_differing_dimension(devices)
        else:
            raise UsageError(
                f"{self.name}: '{text}' is no device (5), no link of two devices (0-4), and no "
                "link of a device to the switch of a dimension (3@1)"
            )
        return {"dimension": dim, "devices": devices, "bandwidth_share": 0.0}

    def _find_differing_dimension(self, devices: Sequence[int]) -> int:
        """Return the highest dimension in which two devices differ."""
        stride, differing = 1, 0
        for dim, count in enumerate(self.counts):
            if devices[0] // stride % count != devices[1] // stride % count:
                differing = dim
            stride *= count
        return differing


@dataclass(frozen=True, slots=True)
class _NetworkKind:
    """A kind of network.

    Attributes:
        build: Builds the dimensions of a system of this kind.
        dims: The least and the most dimensions.
        options: The numbers that it has besides those of all kinds.
        required: Those of them that must be given.
    """

    build: Callable[[InlineSystem], list[SystemDimension]]
    dims: tuple[int, int] = (1, 8)
    options: tuple[str, ...] = ()
    required: tuple[str, ...] = ()


def _make_product_builder(topology: str) -> Callable[[InlineSystem], list[SystemDimension]]:
    """Make the builder of a network with the same topology in all dimensions."""

    def build_product(system: InlineSystem) -> list[SystemDimension]:
        dimensions = []
        for share, count in zip(system.share_out_links(topology), system.counts, strict=True):
            peers = {"Ring": 2, "Mesh": 2, "FullyConnected": count - 1}.get(topology, 1)
            rate_gb_s = share / peers * system.link_gb_s
            dimensions.append(SystemDimension(topology, count, rate_gb_s, system.latency_ns))
        return dimensions

    return build_product


def _build_fat_tree(system: InlineSystem) -> list[SystemDimension]:
    """Build the switches of the devices, and the levels of switches above them.

    The uplinks of a switch have the bandwidth of its downlinks over the oversubscription.
    """
    levels, rate_gb_s = len(system.counts) - 1, system.device_gb_s
    ratios = system.options.get("oversubscription", (1.0,))
    if len(ratios) not in (1, levels):
        raise UsageError(
            f"{system.name}: oversubscription has {len(ratios)} numbers for {levels} levels"
        )
    ratios = (*ratios, *(1.0,) * (levels - len(ratios)))
    dimensions = [SystemDimension("Switch", system.counts[0], rate_gb_s, system.latency_ns)]
    for count, ratio in zip(system.counts[1:], ratios, strict=True):
        rate_gb_s /= ratio
        dimensions.append(SystemDimension("FatTree", count, rate_gb_s, system.latency_ns))
    return dimensions


def _build_rails(system: InlineSystem) -> list[SystemDimension]:
    """Build the switch of a host, and a switch for the devices with equal places in their hosts."""
    latency_ns = system.options.get("nic_latency_ns", (system.latency_ns,))[0]
    nic_gb_s = system.options["nic_gb_s"][0]
    return [
        SystemDimension("Switch", system.counts[0], system.device_gb_s, system.latency_ns),
        SystemDimension("Switch", system.counts[1], nic_gb_s, latency_ns),
    ]


def _build_dragonfly(system: InlineSystem) -> list[SystemDimension]:
    """Build switches of devices, groups of switches, and the links between all groups.

    Each switch has as many links to other groups as ``global_links`` states, or as it has devices.
    """
    devices, switches, groups = system.counts
    links = system.options.get("global_links", (float(devices),))[0]
    if switches * links < groups - 1:
        raise UsageError(
            f"{system.name}: the {switches} switches of a group have {switches * links:g} links "
            f"to {groups - 1} other groups"
        )
    rate, latency_ns = system.device_gb_s, system.latency_ns
    return [
        SystemDimension("Switch", devices, rate, latency_ns),
        SystemDimension("Dragonfly", switches, rate, latency_ns),
        SystemDimension("Dragonfly", groups, rate * switches * links / (groups - 1), latency_ns),
    ]


KINDS = {
    "ring": _NetworkKind(_make_product_builder("Ring"), (1, 1)),
    "torus": _NetworkKind(_make_product_builder("Ring")),
    "mesh": _NetworkKind(_make_product_builder("Mesh")),
    "switch": _NetworkKind(_make_product_builder("Switch"), options=(_REDUCTION,)),
    "fully-connected": _NetworkKind(_make_product_builder("FullyConnected")),
    "fat-tree": _NetworkKind(_build_fat_tree, (2, 3), ("oversubscription",)),
    "rails": _NetworkKind(
        _build_rails, (2, 2), ("nic_gb_s", "nic_latency_ns", _REDUCTION), ("nic_gb_s",)
    ),
    "dragonfly": _NetworkKind(_build_dragonfly, (3, 3), ("global_links",)),
}
FORM = (
    "KIND:NxN,links=L,link_gb_s=B,latency_ns=T,local_mem_gb_s=M, where KIND is "
    + ", ".join(KINDS)
    + "; further keys: "
    + ", ".join(dict.fromkeys(option for kind in KINDS.values() for option in kind.options))
    + f", {_DOWN}"
)
_DESCRIPTION = re.compile(r"[\w-]+:\d+(x\d+)*,\w+=")


def is_inline_name(name: str) -> bool:
    """Return whether a name describes a system, also of a kind that is unknown."""
    return (name.partition(":")[0] in KINDS and ":" in name) or bool(_DESCRIPTION.match(name))


def load_inline_system(name: str) -> SystemSpec:
    """Build the system that a name describes; raises UsageError if it has another form."""
    system = parse_inline_system(name)
    spec = build_system_spec(
        Path(name),
        KINDS[system.kind].build(system),
        system.local_mem_gb_s,
        system.build_fabric_data(),
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
    return render_system_files(load_inline_system(name), provenance)


def parse_inline_system(name: str) -> InlineSystem:
    """Parse the name of a system; raises UsageError if it has another form."""
    kind, _, rest = name.partition(":")
    if kind not in KINDS:
        text = f"{name}: '{kind}' is no kind of network; expanders and HyperX are missing"
        raise UsageError(text, remedy=FORM)
    shape, *pairs = rest.split(",")
    if not re.fullmatch(r"\d+(x\d+)*", shape):
        raise UsageError(f"{name}: '{shape}' is no shape such as 4x4", remedy=FORM)
    counts = tuple(int(side) for side in shape.split("x"))
    texts = _split_pairs(name, pairs)
    down = tuple(texts.pop(_DOWN, "").split("+")) if _DOWN in texts else ()
    values = {key: _parse_numbers(name, key, text) for key, text in texts.items()}
    _check_values(name, kind, counts, values)
    links, link_gb_s, latency_ns, local_mem_gb_s = (values.pop(key)[0] for key in _NUMBERS)
    return InlineSystem(
        name, kind, counts, int(links), link_gb_s, latency_ns, local_mem_gb_s, values, down
    )


def _split_pairs(name: str, pairs: Sequence[str]) -> dict[str, str]:
    kind = KINDS[name.partition(":")[0]]
    texts: dict[str, str] = {}
    for pair in pairs:
        key, _, text = pair.partition("=")
        known = [*_NUMBERS, _DOWN, *(option for one in KINDS.values() for option in one.options)]
        if key not in known or key in texts:
            raise UsageError(f"{name}: '{key}' is unknown or given twice", remedy=FORM)
        if key not in (*_NUMBERS, _DOWN, *kind.options):
            fitting = " and ".join(other for other, one in KINDS.items() if key in one.options)
            raise UsageError(f"{name}: only {fitting} has a {key}")
        texts[key] = text
    return texts


def _parse_numbers(name: str, key: str, text: str) -> tuple[float, ...]:
    """Parse numbers that are joined by ``x``, such as an oversubscription of 2x1."""
    try:
        numbers = tuple(float(part) for part in text.split("x"))
    except ValueError:
        numbers = (math.nan,)
    is_list = key == "oversubscription"
    for number in numbers:
        is_positive = number > 0 or (number == 0 and key == "latency_ns")
        if not math.isfinite(number) or not is_positive or (len(numbers) > 1 and not is_list):
            raise UsageError(f"{name}: '{key}={text}' has no positive number", remedy=FORM)
    return numbers


def _check_values(
    name: str, kind: str, counts: Sequence[int], values: Mapping[str, tuple[float, ...]]
) -> None:
    least, most = KINDS[kind].dims
    if kind == "ring" and len(counts) > 1:
        raise UsageError(
            f"{name}: a ring has one dimension", remedy=f"write torus:{name.partition(':')[2]}"
        )
    if not least <= len(counts) <= most:
        number = f"{least}" if least == most else f"{least} to {most}"
        raise UsageError(f"{name}: a {kind} has {number} dimensions, not {len(counts)}")
    missing = [key for key in (*_NUMBERS, *KINDS[kind].required) if key not in values]
    if missing:
        raise UsageError(f"{name}: '{missing[0]}' is missing", remedy=FORM)
    if not values["links"][0].is_integer():
        raise UsageError(f"{name}: links={values['links'][0]:g} is no whole number")
    if math.prod(counts) < 2 or min(counts) < 2:
        raise UsageError(f"{name}: each dimension needs 2 or more devices")
