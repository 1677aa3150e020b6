"""The files of a trace set: ``PREFIX.RANK.et`` for each rank, and the communicators."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from pathlib import Path
from typing import TypeGuard

from hespas.chakra.node_rules import ERROR, WARNING
from hespas.chakra.schema import MAX_TAG
from hespas.configs import read_json
from hespas.support.data_files import check_link
from hespas.support.errors import HespasError
from hespas.support.text_tables import format_count

GROUPS_FILE = "comm_group.json"
MAX_GROUP = 499
TRACE = re.compile(r"(.+)\.(0|[1-9]\d*)\.et")


def find_trace_files(folder: Path, prefix: str | None = None) -> dict[int, Path]:
    """Return the trace files of a folder by rank, ascending.

    Raises:
        HespasError: The folder has no traces, or several prefixes and ``prefix`` is None; or a
            trace is a link that leaves the folder.
    """
    if not folder.is_dir():
        raise HespasError("the folder does not exist", where=str(folder))
    files_by_prefix: dict[str, dict[int, Path]] = {}
    for entry in os.scandir(folder):
        match = TRACE.fullmatch(entry.name)
        if match:
            if entry.is_symlink():
                check_link(folder / entry.name)
            files_by_prefix.setdefault(match[1], {})[int(match[2])] = folder / entry.name
    if prefix is None and len(files_by_prefix) > 1:
        names = ", ".join(sorted(files_by_prefix))
        raise HespasError(
            f"there are traces of several programs: {names}",
            where=str(folder),
            remedy="name one",
        )
    files = (
        files_by_prefix.get(prefix, {})
        if prefix is not None
        else next(iter(files_by_prefix.values()), {})
    )
    if not files:
        is_run = (folder / "run.json").exists()
        raise HespasError(
            f"there are no traces {prefix or '*'}.N.et",
            where=str(folder),
            remedy="hespas run --output FOLDER writes traces" if is_run else "",
        )
    return dict(sorted(files.items()))


def find_groups_file(folder: Path, named: str | os.PathLike[str] | None = None) -> Path | None:
    """Return the file of the communicators: the named one, or that of the folder if it exists."""
    if named is not None:
        return Path(named)
    path = folder / GROUPS_FILE
    check_link(path)
    return path if path.exists() else None


def read_trace_communicators(path: Path | None, devices: int) -> dict[int, tuple[int, ...]]:
    """Return the ranks of each communicator in a file, and those of the default one (0).

    Raises:
        HespasError: A collective on a communicator could not finish.
    """
    communicators = {0: tuple(range(devices))}
    for key, members in (read_json(path) if path is not None else {}).items():
        for severity, text in find_group_problems(key, members, devices):
            if severity == ERROR:
                raise HespasError(text, where=str(path))
        communicators[int(key)] = tuple(members)
    return communicators


def find_group_problems(key: str, members: object, devices: int) -> Iterator[tuple[str, str]]:
    """Iterate over the problems, as (severity, text), of one entry of comm_group.json."""
    if not key.isdecimal():
        yield ERROR, f"the communicator id {key!r} is not a number"
        return
    if int(key) == 0:
        yield ERROR, "communicator id 0 is reserved for the default communicator"
    if int(key) > MAX_GROUP:
        text = f"communicator ids exceed {MAX_GROUP}: tags of collectives may wrap at {MAX_TAG}"
        yield WARNING, text
    if not is_rank_list(members):
        yield ERROR, f"communicator {key!r} is not a list of ranks"
        return
    if len(members) < 2:
        count = format_count(len(members), "member")
        yield WARNING, f"communicator {key!r} has {count}: a collective on it never finishes"
    if len(set(members)) < len(members):
        yield ERROR, f"communicator {key!r} has a rank twice: it never finishes"
    if any(not 0 <= m < devices for m in members):
        yield ERROR, f"communicator {key!r} has a rank outside 0 to {devices - 1}"
    if members != sorted(members):
        yield WARNING, f"communicator {key!r} is not in ascending order"


def is_rank_list(members: object) -> TypeGuard[list[int]]:
    """Return whether an entry of comm_group.json is a list of integers."""
    return isinstance(members, list) and all(type(m) is int for m in members)
