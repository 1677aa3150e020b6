"""Writes the traces of a custom collective, ``PREFIX.RANK.et``, and the system.json that names
them.

Prefixes are absolute, because ASTRA-sim opens them relative to its working directory. It sends the
bytes that the traces specify, whatever the size of the workload's collective, so a set of traces is
for one collective, one size and one number of ranks.
"""

from __future__ import annotations

import glob
import json
import os
import re
import shutil
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from hespas import configs
from hespas.chakra.record_encoding import (
    IntAttrEncoder,
    encode_int_attr,
    encode_metadata_record,
    encode_node,
    encode_node_name,
    encode_record,
)
from hespas.chakra.schema import NodeType
from hespas.chakra.trace_folder import GROUPS_FILE
from hespas.configs.system_files import FABRIC_FILE
from hespas.configs.system_spec import PER_NODE_KEY, SystemSpec
from hespas.simulators.collectives import per_node
from hespas.simulators.collectives.trace_lowering import CollectiveNode
from hespas.support.errors import HespasError
from hespas.support.folder_manifest import OutputSet
from hespas.support.output_folder import open_output_folder

SYSTEM, FRAGMENT, PER_NODE = "system.json", "custom.json", "per_node.yml"

_ON_DEVICE = encode_int_attr("is_cpu_op", 0, "bool")
_SIZE, _TAG = IntAttrEncoder("comm_size", "int64"), IntAttrEncoder("comm_tag", "int32")
_SOURCE, _TARGET = IntAttrEncoder("comm_src", "int32"), IntAttrEncoder("comm_dst", "int32")
# Newer attributes, from which the size can be adapted to that of the workload's collective.
_COUNT, _INDEX = IntAttrEncoder("msg_chunk_cnt", "int32"), IntAttrEncoder("msg_chunk_idx", "int32")
_PARTS = IntAttrEncoder("total_chunk_cnt", "int32")


@dataclass(frozen=True, slots=True)
class TraceDestination:
    """Where to write a set of traces.

    Attributes:
        folder: The output folder.
        name: The name of the set.
        collective: The kind of collective that it implements.
        nodes: The workload nodes that use it; () for all collectives of that kind.
        system: If set, its files are written too, changed to use the traces.
    """

    folder: Path
    name: str
    collective: str
    nodes: tuple[int, ...] = ()
    system: SystemSpec | None = None

    @property
    def prefix(self) -> str:
        """The absolute prefix of the traces."""
        return os.path.join(os.path.abspath(self.folder), self.name)


def _encode_trace(nodes: Sequence[CollectiveNode], parts: int) -> bytes:
    """Encode a trace file; ``parts`` is the number of chunks of the collective."""
    data = [encode_metadata_record()]
    for n in nodes:
        attrs = _ON_DEVICE
        if n.type != NodeType.COMP_NODE:
            peer = _TARGET if n.type == NodeType.COMM_SEND_NODE else _SOURCE
            attrs += _SIZE(n.size_bytes) + peer(n.peer) + _TAG(n.tag)
            attrs += _COUNT(n.count) + _INDEX(n.index) + _PARTS(parts)
        data.append(
            encode_record(
                encode_node(n.id, encode_node_name(n.name), n.type, n.deps, n.duration_us, attrs)
            )
        )
    return b"".join(data)


def write_traces(
    ranks: Sequence[Sequence[CollectiveNode]], parts: int, place: TraceDestination
) -> list[str]:
    """Write the traces and the configuration that names them.

    An earlier set with the same name is replaced; other sets in the folder stay in its system.json.

    Args:
        ranks: The nodes of each rank.
        parts: The number of chunks of the collective.
        place: Where to write.

    Returns:
        The names of the files besides the traces.
    """
    if re.search(r"[/\\\0]", place.name) or not place.name:
        raise HespasError(f"{place.name!r} is not a valid name for traces")
    if (place.folder / GROUPS_FILE).exists():
        raise HespasError(
            "is a folder of workload traces, which may hold only one set",
            where=str(place.folder),
            remedy="use another folder for the collective",
        )
    if place.system is not None and place.system.preferred_dataset_splits > 1:
        raise HespasError(
            "preferred-dataset-splits is more than 1, with which ASTRA-sim never ends a custom "
            "collective",
            where=str(place.system.folder / SYSTEM),
            remedy="set it to 1",
        )
    stale_traces = re.compile(re.escape(place.name) + r"\.\d+\.et")
    # Read before the output is touched: it may be the system's own folder.
    settings = _collect_settings(place)
    output_set = OutputSet(f"collective {place.name}", stale_traces, keeps_unreserved=True)
    with open_output_folder(place.folder, output_set) as fresh:
        _adopt_system_traces(place, settings, fresh)
        for rank, nodes in enumerate(ranks):
            (fresh / f"{place.name}.{rank}.et").write_bytes(_encode_trace(nodes, parts))
        file_names = []
        if place.nodes:
            (fresh / PER_NODE).write_text(_format_per_node(place), encoding="utf-8")
            file_names.append(PER_NODE)
        if place.system is not None:
            memory = {"memory-type": "NO_MEMORY_EXPANSION"}
            fabric = place.system.fabric.to_json(place.system.network_model)
            (fresh / "network.yml").write_text(place.system.render_network_text(), encoding="utf-8")
            for file_name, data in ((FABRIC_FILE, fabric), ("remote_memory.json", memory)):
                if data:
                    (fresh / file_name).write_text(json.dumps(data) + "\n", encoding="utf-8")
                    file_names.append(file_name)
            file_names.insert(0, "network.yml")
        name = FRAGMENT if place.system is None else SYSTEM
        (fresh / name).write_text(json.dumps(settings, indent=2) + "\n", encoding="utf-8")
        file_names.append(name)
    return file_names


def _collect_settings(place: TraceDestination) -> dict[str, Any]:
    """Return system.json, or its keys that name traces, including those of earlier sets."""
    settings: dict[str, Any] = {}
    if place.system is not None:
        settings = place.system.resolve_settings_paths()
    former = place.folder / (FRAGMENT if place.system is None else SYSTEM)
    if former.exists():
        custom = configs.read_json(former)
        settings |= {key: custom[key] for key in custom if "custom" in key}
    if place.nodes:
        settings[PER_NODE_KEY] = os.path.join(os.path.abspath(place.folder), PER_NODE)
    else:
        settings[f"{place.collective.replace('_', '-')}-implementation-custom"] = [place.prefix]
    return settings


def _adopt_system_traces(place: TraceDestination, settings: dict[str, Any], fresh: Path) -> None:
    """Copy the custom traces of a system in another folder, and name the copies in ``settings``.

    A system names only files of its own folder.

    Raises:
        HespasError: The system has traces for single nodes, or the folder has other ones of a name.
    """
    folder = os.path.abspath(place.folder)
    for key in [key for key in settings if key.endswith("-implementation-custom")]:
        prefixes = settings[key] if isinstance(settings[key], list) else [settings[key]]
        for prefix in filter(None, prefixes):
            source = Path(prefix)
            if source.is_relative_to(folder):
                continue
            if key == PER_NODE_KEY:
                raise HespasError(
                    "the system has traces for single nodes in another folder",
                    where=prefix,
                    remedy=f"write to its folder: --output {source.parent}",
                )
            if source.name == place.name:
                raise HespasError(
                    f"the system has other traces of the name {place.name}",
                    where=prefix,
                    remedy="choose another --name",
                )
            for path in source.parent.glob(f"{glob.escape(source.name)}.*.et"):
                shutil.copyfile(path, fresh / path.name)
            settings[key] = [os.path.join(folder, source.name)]


def _format_per_node(place: TraceDestination) -> str:
    """Format the map from nodes to prefixes, including those of earlier sets."""
    former = place.folder / PER_NODE
    prefixes = per_node.read_prefixes(former) if former.exists() else {}
    return per_node.format_prefixes(prefixes | dict.fromkeys(place.nodes, place.prefix))
