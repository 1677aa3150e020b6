"""A folder of traces as it is, for ASTRA-sim: files, communicators, and the nodes by name."""

from __future__ import annotations

from pathlib import Path

from hespas.chakra.files import GROUPS_FILE, find
from hespas.chakra.reader import Node, TraceError, has_metadata, parse_node, records
from hespas.configs import read_json
from hespas.dialects.errors import HespasError


class Traces:
    """A folder of Chakra traces. ``groups``: devices by communicator, without that of all.

    Records that devices have in common, most of them in one program, are parsed once.
    """

    def __init__(self, folder: Path | str, prefix: str | None = None) -> None:
        self.folder = Path(folder)
        self.files = find(self.folder, prefix)
        path = self.folder / GROUPS_FILE
        found = read_json(path) if path.exists() else {}
        try:
            self.groups = {int(key): tuple(ranks) for key, ranks in found.items()}
        except (TypeError, ValueError):
            raise HespasError("is no table of communicators", where=str(path)) from None
        self._parsed: dict[bytes, Node] = {}

    def nodes(self, device: int) -> dict[int, Node]:
        """The nodes of a device by id; raises HespasError."""
        if device not in self.files:
            raise HespasError(f"there is no trace of device {device}", where=str(self.folder))
        path = self.files[device]
        nodes: dict[int, Node] = {}
        for count, record in enumerate(records(path.read_bytes(), path)):
            if count == 0 and has_metadata(record):
                continue
            node = self._parsed.get(record)
            if node is None:
                try:
                    node = self._parsed[record] = parse_node(record)
                except ValueError:
                    raise TraceError(f"record {count} is no Chakra node", path, count) from None
            nodes[node.id] = node
        return nodes
