"""Benchmarks: ``make bench`` or ``python -m benchmarks``."""

from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
DATA = ROOT / "docs" / "data"
"""The measurements that documentation and calibration read."""
