"""Baselines of programs: their profiles in a file that is committed beside the tests."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from hespas.configs import read_json
from hespas.configs.validation import validate_config
from hespas.support.errors import HespasError
from hespas.support.output_file import write_atomically
from hespas.workflows.gate.step_profile import StepProfile


def read_baseline(path: Path, name: str) -> StepProfile | None:
    """Read the profile of one program; None if the file does not exist or lacks it.

    Raises:
        HespasError: The file is damaged.
    """
    values = _read_baselines(path).get(name)
    return None if values is None else validate_config(StepProfile, values, f"{path}: {name}")


def write_baseline(path: Path, name: str, profile: StepProfile) -> None:
    """Write the profile of one program and keep those of the others; raises HespasError."""
    baselines = {**_read_baselines(path), name: profile.model_dump(mode="json", exclude_none=True)}
    write_atomically(str(path), _format_baselines(baselines).encode())


def _read_baselines(path: Path) -> dict[str, Any]:
    return read_json(str(path)) if path.exists() else {}


def _format_baselines(baselines: Mapping[str, Mapping[str, Any]]) -> str:
    """Format as JSON with a line for each row, so that a change shows as few changed lines."""
    programs = []
    for name, profile in sorted(baselines.items()):
        fields = [f"  {json.dumps(key)}: {_format_rows(value)}" for key, value in profile.items()]
        programs.append(f" {json.dumps(name)}: {{\n" + ",\n".join(fields) + "\n }")
    return "{\n" + ",\n".join(programs) + "\n}\n"


def _format_rows(value: Any) -> str:
    if not isinstance(value, list) or not value:
        return json.dumps(value)
    return "[\n" + ",\n".join(f"   {json.dumps(row)}" for row in value) + "\n  ]"


def check_equal_settings(baseline: StepProfile, profile: StepProfile) -> None:
    """Check that a program was estimated as its baseline was.

    Raises:
        HespasError: A setting differs, so that a difference would not be the program's.
    """
    for name, value in profile.settings.items():
        old, new = (_drop_counts(v) for v in (baseline.settings.get(name), value))
        if old != new:
            raise HespasError(
                f"the baseline was made with {name} {json.dumps(old)}, and this is "
                f"{json.dumps(new)}",
                remedy="make it again with pytest --hespas-update",
            )


def _drop_counts(setting: Any) -> Any:
    """Drop the counts of kernels that follow the provenance of constants."""
    return setting.partition(";")[0] if isinstance(setting, str) else setting
