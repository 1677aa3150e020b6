"""The constants of NCCL's tuning model, ``nccl_tuning.json``."""

from __future__ import annotations

import functools
from pathlib import Path
from typing import Any

from hespas import configs

_PATH = Path(__file__).parent / "nccl_tuning.json"


@functools.cache
def read_nccl_constants() -> dict[str, Any]:
    """Read the constants of all generations."""
    return configs.read_json(_PATH)


def find_nccl_generation(device: str) -> str:
    """Return the generation of a device of ``configs/collectives``; "" if it has no constants."""
    for name, limits in read_nccl_constants()["generations"].items():
        if device in limits["devices"]:
            return name
    return ""
