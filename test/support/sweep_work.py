"""A sweep's worker that crashes, hangs or fails on some cells, told by their block limit."""

from __future__ import annotations

import os
import time
from os.path import exists
from typing import Any

from hespas.workflows.sweep import sweep_worker

CRASH, HANG, BUG = 7777, 8888, 9999
WAIT = 5000  # and more: as long as the file WAITING is in the current folder
WAITING = "waiting"
ENVIRONMENT = {"hespas": "1", "source": "of a test", "jaxlib": "2"}


def work(cell: dict[str, Any], scratch: str) -> dict[str, Any]:
    limit = cell.get("config", {}).get("block_limit")
    if limit == CRASH:
        os.abort()
    if limit == HANG or (limit is not None and WAIT <= limit < CRASH and exists(WAITING)):
        time.sleep(60)
    if limit == BUG:
        raise RuntimeError("a mistake of ours")
    return sweep_worker.compute_cell(cell, scratch)


def probe(settings: dict[str, Any]) -> dict[str, Any]:
    return {"device": "", **ENVIRONMENT}


def other_probe(settings: dict[str, Any]) -> dict[str, Any]:
    return {**probe(settings), "jaxlib": "1"}
