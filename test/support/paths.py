"""Folders that the tests read."""

from __future__ import annotations

import os
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
DATA = ROOT / "test" / "data"


def find_workloads() -> Path | None:
    """Return the folder of shared workloads: ``HESPAS_WORKLOADS``, or ``../shared/workloads``."""
    folder = Path(os.environ.get("HESPAS_WORKLOADS", ROOT.parent / "shared" / "workloads"))
    return folder if folder.is_dir() else None
