"""The list of the files that hespas has written to a folder: ``.hespas-files.json``.

A file belongs to hespas if the list names it and its size and time are still those in the list. All
other files belong to the user: hespas neither replaces nor removes them.
"""

from __future__ import annotations

import json
import os
import re
import stat
from collections.abc import Iterable, Mapping
from dataclasses import field
from pathlib import Path

from hespas.support.errors import HespasError
from hespas.support.records import record

MANIFEST = ".hespas-files.json"
VERSION = 1
SECOND_NS = 1_000_000_000

FileStamp = tuple[int, int]  # size in bytes, time of the last change in nanoseconds


@record(frozen=True)
class OutputSet:
    """Files that are written together, and that replace those of an earlier time.

    Attributes:
        name: The name of the set in the list; a folder may hold several sets.
        reserved: The names of all files that a set may have. The user's files may not have them,
            because a reader of the folder would take them for hespas's.
        keeps_unreserved: Whether a file without a reserved name stays if it is not written again.
    """

    name: str
    reserved: re.Pattern[str] | None = None
    keeps_unreserved: bool = False

    def is_reserved(self, name: str) -> bool:
        """Return whether a file name is reserved."""
        return self.reserved is not None and self.reserved.fullmatch(name) is not None


@record(frozen=True)
class FolderManifest:
    """The files that hespas has written to a folder: their stamps by set and name."""

    sets: Mapping[str, Mapping[str, FileStamp]] = field(default_factory=dict)

    @classmethod
    def read(cls, folder: Path) -> FolderManifest:
        """Read the list of a folder; it is empty without one. Raises HespasError."""
        path = folder / MANIFEST
        try:
            if not stat.S_ISREG(os.lstat(path).st_mode):
                raise ValueError
            values = json.loads(path.read_bytes())
            files = [file for rows in values["sets"].values() for file in rows]
            if values["version"] != VERSION or any(os.path.basename(f) != f for f in files):
                raise ValueError
            return cls(
                {
                    str(name): {
                        str(file): (int(size), int(ns)) for file, (size, ns) in rows.items()
                    }
                    for name, rows in values["sets"].items()
                }
            )
        except FileNotFoundError:
            return cls()
        except (ValueError, TypeError, KeyError, AttributeError, RecursionError):
            raise HespasError(
                "is not a list of files that this version of hespas can read",
                where=str(path),
                remedy="name another output folder",
            ) from None

    @property
    def is_empty(self) -> bool:
        """Whether hespas has written nothing to the folder."""
        return not any(self.sets.values())

    def find_own_files(self, folder: Path) -> set[str]:
        """Return the files that are as hespas has written them."""
        return {
            file
            for rows in self.sets.values()
            for file, stamp in rows.items()
            if _is_unchanged(f"{folder}/{file}", stamp)
        }

    def select_replaced_files(
        self, own: set[str], output_set: OutputSet, names: Iterable[str], *, clean: bool
    ) -> set[str]:
        """Select hespas's files that go when a set with these names is written.

        Args:
            own: What ``find_own_files`` has returned.
            output_set: The set.
            names: The names of its new files.
            clean: Whether the files of the other sets go too.
        """
        if clean:
            return set(own)
        replaced = own & self.sets.get(output_set.name, {}).keys()
        if output_set.keeps_unreserved:
            replaced = {name for name in replaced if output_set.is_reserved(name)}
        return replaced | (own & set(names))

    def replace_files(
        self, replaced: Iterable[str], name: str, files: Mapping[str, FileStamp]
    ) -> FolderManifest:
        """Return the list without the replaced files and with new files of the set ``name``."""
        gone = {*replaced, *files}
        sets = {
            other: {file: stamp for file, stamp in rows.items() if file not in gone}
            for other, rows in self.sets.items()
        }
        sets[name] = {**sets.get(name, {}), **files}
        return FolderManifest({other: rows for other, rows in sets.items() if rows})

    def to_bytes(self) -> bytes:
        """Format the list as JSON."""
        sets = {name: dict(sorted(rows.items())) for name, rows in self.sets.items()}
        return (json.dumps({"version": VERSION, "sets": sets}) + "\n").encode()


def _is_unchanged(path: str, stamp: FileStamp) -> bool:
    try:
        status = os.lstat(path)
    except OSError:
        return False
    size, recorded_ns = stamp
    if not stat.S_ISREG(status.st_mode) or status.st_size != size:
        return False
    time_ns = status.st_mtime_ns  # archives and some file systems keep whole seconds only
    rounded = time_ns % SECOND_NS == 0 and time_ns == recorded_ns // SECOND_NS * SECOND_NS
    return time_ns == recorded_ns or rounded


def read_file_stamps(folder: Path) -> dict[str, FileStamp]:
    """Return the stamps of all files in a folder of hespas's own."""
    stamps = {}
    for entry in os.scandir(folder):
        if entry.name != MANIFEST:
            status = entry.stat(follow_symlinks=False)
            stamps[entry.name] = (status.st_size, status.st_mtime_ns)
    return stamps


def check_free_names(
    folder: Path, own: set[str], output_set: OutputSet, names: Iterable[str]
) -> None:
    """Check that a set can be written to a folder without touching the user's files.

    Args:
        folder: The folder.
        own: Its files that hespas has written.
        output_set: The set.
        names: The names of its files, as far as they are known.

    Raises:
        HespasError: A file of the user has one of ``names`` or a reserved name.
    """
    wanted = set(names)
    users_files = sorted(
        entry
        for entry in os.listdir(folder)
        if entry not in own and (entry in wanted or output_set.is_reserved(entry))
    )
    if users_files:
        more = f" and {len(users_files) - 1} more" if len(users_files) > 1 else ""
        raise HespasError(
            f"hespas does not replace this file{more}: it did not write it, "
            "or it has changed since",
            where=str(folder / users_files[0]),
            remedy="name another output folder, or move the file away",
        )
