"""A folder of traces for ASTRA-sim: files, communicators, and nodes by id."""

from __future__ import annotations

import os
from pathlib import Path

from hespas.chakra.trace_folder import find_groups_file, find_trace_files
from hespas.chakra.trace_reader import (
    TraceFileError,
    TraceNode,
    is_metadata_record,
    parse_trace_node,
    split_records,
)
from hespas.configs import read_json
from hespas.support.data_files import read_file_bytes
from hespas.support.errors import HespasError


class TraceFolder:
    """A folder of Chakra traces.

    ``groups`` holds the devices of each communicator except that of all devices, as
    ``groups_file`` lists them. Records that
    devices have in common, which are most records of a program, are parsed once.
    """

    def __init__(
        self,
        folder: Path | str,
        prefix: str | None = None,
        groups_file: str | os.PathLike[str] | None = None,
    ) -> None:
        self.folder = Path(folder)
        self.files = find_trace_files(self.folder, prefix)
        self.groups_file = path = find_groups_file(self.folder, groups_file)
        communicators = read_json(path) if path is not None else {}
        try:
            self.groups = {int(key): tuple(ranks) for key, ranks in communicators.items()}
        except (TypeError, ValueError):
            raise HespasError("is not a table of communicators", where=str(path)) from None
        self._parsed: dict[bytes, TraceNode] = {}

    def load_device_nodes(self, device: int) -> dict[int, TraceNode]:
        """Read the nodes of a device by id; raises HespasError if the trace is missing or wrong."""
        if device not in self.files:
            raise HespasError(f"there is no trace of device {device}", where=str(self.folder))
        path = self.files[device]
        nodes: dict[int, TraceNode] = {}
        for count, record in enumerate(split_records(read_file_bytes(path, unpacks=False), path)):
            if count == 0 and is_metadata_record(record):
                continue
            node = self._parsed.get(record)
            if node is None:
                try:
                    node = self._parsed[record] = parse_trace_node(record)
                except ValueError:
                    raise TraceFileError(
                        f"record {count} is not a Chakra node", path, count
                    ) from None
            nodes[node.id] = node
        return nodes
