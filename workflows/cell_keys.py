"""The keys of cells in the store: hashes of everything that an answer depends on."""

from __future__ import annotations

import functools
import hashlib
import json
import os
from collections.abc import Callable, Mapping
from dataclasses import asdict
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

import hespas
from hespas.configs.kernel_costs import parse_kernel_costs
from hespas.configs.node_spec import NodeSpec
from hespas.configs.system_spec import SystemSpec
from hespas.support.errors import HespasError
from hespas.workflows.run_config import MEASURING, RunConfig

# Options that the key does not contain by value: it has the contents of the files that they name,
# and those of measurements do not change a result.
NAMED = ("mlir", "node", "system", "output", "timeline", "astra_sim", *MEASURING)


@functools.cache
def collect_environment(
    folders: tuple[str, ...] = ("",), packages: tuple[str, ...] = ("jaxlib",)
) -> dict[str, str | None]:
    """Return what a result depends on besides its inputs: versions, and the files of hespas.

    Args:
        folders: The folders of hespas whose files the result depends on; "" for all.
        packages: The packages whose versions it depends on; None if one is not installed.
    """
    root = Path(next(iter(hespas.__path__)))
    return {
        "hespas": hespas.__version__,
        "source": "-".join(compute_source_digest(root / folder) for folder in folders),
        **{package: _find_version(package) for package in packages},
    }


def _find_version(package: str) -> str | None:
    try:
        return version(package)
    except PackageNotFoundError:
        return None


def compute_source_digest(folder: Path) -> str:
    """Hash the files of a package, so that a change of any of them invalidates the cache."""
    hasher = hashlib.sha256()
    for place, folders, files in os.walk(folder, followlinks=True):
        folders[:] = sorted(name for name in folders if name != "__pycache__")
        for name in sorted(files):
            path = Path(place, name)
            hasher.update(f"{path.relative_to(folder)}\0".encode())
            hasher.update(hashlib.sha256(path.read_bytes()).digest())
    return hasher.hexdigest()[:16]


def compute_digest(values: Any) -> str:
    """Hash plain data."""
    return hashlib.sha256(json.dumps(values, sort_keys=True).encode()).hexdigest()


def compute_program_digest(path: str) -> str:
    """Hash the file of a program; raises HespasError."""
    try:
        with open(path, "rb") as file:
            return hashlib.file_digest(file, "sha256").hexdigest()
    except (OSError, ValueError) as error:
        reason = error.strerror if isinstance(error, OSError) else error
        raise HespasError(f"cannot read it: {reason}", where=str(path)) from None


def compute_system_digest(system: SystemSpec) -> str:
    """Hash a system: its numbers, and the files of its custom collectives."""
    values = {k: v for k, v in system.to_values().items() if k != "folder"}
    files = {}
    if system.custom or system.per_node_custom:
        for path in sorted(p for p in system.folder.rglob("*") if p.is_file()):
            files[str(path.relative_to(system.folder))] = compute_program_digest(str(path))
    return compute_digest([values, files])


def compute_node_digest(node: NodeSpec) -> str:
    """Hash the numbers of a node."""
    return compute_digest(_to_plain_data(asdict(node)))


def _to_plain_data(value: Any) -> Any:
    if isinstance(value, Mapping):
        return {key: _to_plain_data(inner) for key, inner in value.items()}
    return value


def describe_options(
    config: RunConfig, digest_file: Callable[[str], str] = compute_program_digest
) -> dict[str, Any]:
    """Describe all options of a run for the key of its result, with the contents of files."""
    files = {
        name: digest_file(value)
        for name, value in config.setting.items()
        if isinstance(value, str) and os.path.isfile(value)
    }
    values = inline_kernel_costs(config).model_dump(exclude=set(NAMED))
    return {"values": values, "files": files}


def inline_kernel_costs(config: RunConfig) -> RunConfig:
    """Replace a file of kernel costs by its contents, which need no file in keys and workers."""
    if not config.kernel_cost:
        return config
    costs = parse_kernel_costs(config.kernel_cost).to_text()
    return config.model_copy(update={"kernel_cost": costs})
