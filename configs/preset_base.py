"""Presets and files that name another preset as their ``base`` and state only the differences.

Objects are merged key by key; any other value replaces that of the base. Three keys are special:
``name`` and ``description`` belong to one preset only, and ``calibration`` is stated as a whole,
because constants that were measured on the base were not measured on this device.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

BASE = "base"
OWN_KEYS = ("name", "description")


def merge_base(data: Mapping[str, Any], base: Mapping[str, Any]) -> dict[str, Any]:
    """Merge the JSON object of a preset or file with that of its base.

    A source of the base is kept, after the name of the base, unless ``data`` replaces its number.
    Without a calibration of its own, ``data`` gets one that is transferred from the base.
    """
    name, replaced = data[BASE], {*_list_leaf_keys(data)}
    inherited = {key: value for key, value in base.items() if key not in OWN_KEYS}
    inherited["sources"] = {
        key: f"{name}: {source}"
        for key, source in base.get("sources", {}).items()
        if key not in replaced
    }
    if "calibration" in base:
        inherited["calibration"] = data.get("calibration", {"like": name})
    return _merge_objects(inherited, {key: data[key] for key in data if key != BASE})


def _list_leaf_keys(data: Mapping[str, Any], prefix: str = "") -> Iterator[str]:
    """Yield the keys of all values that are not objects, as ``sources`` spells them."""
    for key, value in data.items():
        if isinstance(value, Mapping):
            yield from _list_leaf_keys(value, f"{prefix}{key}.")
        else:
            yield f"{prefix}{key}"


def _merge_objects(inherited: Mapping[str, Any], data: Mapping[str, Any]) -> dict[str, Any]:
    merged = dict(inherited)
    for key, value in data.items():
        old = inherited.get(key)
        if isinstance(old, Mapping) and isinstance(value, Mapping):
            value = _merge_objects(old, value)
        merged[key] = value
    return merged
