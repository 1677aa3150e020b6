"""Flags that several commands have."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from typing import Any

from hespas.support import packed_data
from hespas.support.errors import UsageError
from hespas.tools.commands.command_parser import parse_count, parse_positive, parse_row_limit

FlagContainer = argparse.ArgumentParser | argparse._ArgumentGroup


def add_module_flags(container: FlagContainer, *, selects_form: bool = False) -> None:
    """Add the input module, the output file, and the form of the output.

    Args:
        selects_form: Whether the name of the output file selects text or bytecode, and text
            includes locations by default.
    """
    forms = ": .mlirbc bytecode, else text" if selects_form else ""
    container.add_argument(
        "input", nargs="?", default="-", help="module to read; - for stdin (default)"
    )
    container.add_argument(
        "-o", dest="output", default="-", metavar="FILE",
        help=f"file to write{forms}, optionally .xz or .gz; - for stdout (default)",
    )  # fmt: skip
    any_name = " for any file name" if selects_form else ""
    container.add_argument(
        "--emit-bytecode", action="store_true", help=f"write MLIR bytecode{any_name}"
    )
    if selects_form:
        container.add_argument(
            "--mlir-print-debuginfo",
            action=argparse.BooleanOptionalAction,
            default=True,
            help="print names and locations, which lines, layers and memory refer to (default)",
        )
    else:
        container.add_argument(
            "--mlir-print-debuginfo", action="store_true", help="print locations"
        )
    add_reading_flags(container)


class _UnpackedLimitAction(argparse.Action):
    """Sets the limit for the process instead of storing it, because workers read files too."""

    def __call__(self, parser: Any, namespace: Any, values: Any, option_string: Any = None) -> None:
        packed_data.set_unpacked_limit(values)


class _UnregisteredAction(argparse.Action):
    """Accepts unregistered ops in this process instead of storing it: workers read files too."""

    def __call__(self, parser: Any, namespace: Any, values: Any, option_string: Any = None) -> None:
        from hespas.dialects.mlir import accept_unregistered_ops

        accept_unregistered_ops()


def add_reading_flags(container: FlagContainer) -> None:
    """Add how programs are read: the limit of their unpacked size, and ops of unknown dialects."""
    container.add_argument(
        packed_data.LIMIT_FLAG, dest=argparse.SUPPRESS, action=_UnpackedLimitAction,
        type=parse_positive, metavar="MB",
        help="megabytes that a file may have, also after it is unpacked (default "
        f"{packed_data.DEFAULT_LIMIT_MB:g})",
    )  # fmt: skip
    container.add_argument(
        "--allow-unregistered-dialect", dest=argparse.SUPPRESS, action=_UnregisteredAction, nargs=0,
        help="accept ops of unknown dialects",
    )  # fmt: skip


class KeyValueAction(argparse.Action):
    """Collects the values ``KEY=VALUE`` of a flag that may be repeated; the last of a key wins."""

    def __call__(self, parser: Any, namespace: Any, values: Any, option_string: Any = None) -> None:
        key, equals, value = values.partition("=")
        if not equals or not key:
            raise UsageError(f"{option_string}: '{values}' is not KEY=VALUE")
        setattr(namespace, self.dest, {**(getattr(namespace, self.dest) or {}), key: value})


def add_key_value_flag(container: FlagContainer, name: str, description: str) -> None:
    """Add a flag ``KEY=VALUE`` that may be repeated."""
    container.add_argument(
        name, action=KeyValueAction, default={}, metavar="KEY=VALUE",
        help=f"{description}; may be repeated",
    )  # fmt: skip


def split_value_lists(flag: str, texts: Sequence[str]) -> dict[str, list[str]]:
    """Split the items ``KEY=A,B`` of a flag to lists by key; raises UsageError."""
    from hespas.configs.simple_yaml import split_list_items

    lists: dict[str, list[str]] = {}
    for text in texts:
        key, equals, values = text.partition("=")
        if not equals or not key or not values:
            raise UsageError(f"{flag}: '{text}' is not KEY=VALUE[,VALUE...]")
        lists[key] = split_list_items(values)
    return lists


def add_json_flag(
    container: FlagContainer, description: str = "print one JSON object instead of tables"
) -> None:
    """Add ``--json``."""
    container.add_argument("--json", action="store_true", help=description)


def add_trace_flags(container: FlagContainer) -> None:
    """Add what tells the files of a folder of traces apart."""
    container.add_argument(
        "--prefix", help="name of the traces, if the folder contains several trace sets"
    )
    container.add_argument(
        "--comm-groups", metavar="FILE",
        help="file of the communicators (default: comm_group.json in the folder)",
    )  # fmt: skip


def add_top_flag(container: FlagContainer, rows: str, default: int) -> None:
    """Add ``--top``; ``rows`` describes the N rows that are shown."""
    container.add_argument(
        "--top", type=parse_row_limit, default=default, metavar="N",
        help=f"show the N {rows}; 0: all (default {default})",
    )  # fmt: skip


def add_depth_flag(container: FlagContainer) -> None:
    """Add ``--depth``."""
    container.add_argument(
        "--depth", type=parse_count, default=2, metavar="N",
        help="number of components of a framework's name that make a layer (default 2)",
    )  # fmt: skip


def add_keep_going_flag(container: FlagContainer) -> None:
    """Add ``--keep-going``, for a command whose rows may have errors."""
    container.add_argument(
        "--keep-going", action="store_true", help="exit with 0 even if rows have errors"
    )


def read_jobs(command_line: argparse.Namespace) -> int:
    """Read the number of workers of ``PoolOptions``, by default one for each core.

    Raises:
        UsageError: The workers are those of a cluster.
    """
    from hespas.estimators.measure import host

    if command_line.dask and command_line.jobs:
        raise UsageError("--jobs does not go with --dask: the cluster has its own workers")
    return command_line.jobs or host.count_usable_cores()


def add_cache_flag(container: FlagContainer, contents: str, *, allows_none: bool = True) -> None:
    """Add ``--cache``.

    Args:
        container: The parser or group of flags to extend.
        contents: What the file stores, for the help text.
        allows_none: Whether the command accepts ``none`` for no cache.
    """
    container.add_argument(
        "--cache", default="", metavar="FILE",
        help=f"file for {contents}{', or none' if allows_none else ''}; default: $HESPAS_CACHE, "
        "or the cache of the user",
    )  # fmt: skip
