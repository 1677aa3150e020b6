"""Every estimator by name. A package adds its own by the entry point ``hespas.estimators``."""

from __future__ import annotations

import functools
import importlib
from collections.abc import Mapping
from typing import Any

from hespas.configs.node import Node
from hespas.dialects.errors import UsageError
from hespas.estimators.base import Estimator
from hespas.passes.base import nearest

GROUP = "hespas.estimators"
ESTIMATORS = {
    "accelsim": "hespas.estimators.accelerators.accelsim:Accelsim",
    "calibrated": "hespas.estimators.calibrated.model:Calibrated",
    "cocossim": "hespas.estimators.accelerators.cocossim:Cocossim",
    "iree": "hespas.estimators.iree.estimator:Iree",
    "onnxim": "hespas.estimators.accelerators.onnxim:Onnxim",
    "roofline": "hespas.estimators.roofline:Roofline",
    "scalesim": "hespas.estimators.accelerators.scalesim:Scalesim",
    "systolic": "hespas.estimators.accelerators.systolic:Systolic",
    "xla": "hespas.estimators.xla.estimator:Xla",
    "zigzag": "hespas.estimators.accelerators.zigzag:Zigzag",
}


def names() -> list[str]:
    """The names of all estimators, alphabetical."""
    return sorted(_all())


def get(name: str) -> type[Estimator]:
    """The estimator class; raises UsageError that suggests the near name."""
    # A built-in name needs no search through the installed packages.
    place = ESTIMATORS.get(name) or _all().get(name)
    if place is None:
        raise UsageError(f"no estimator is named '{name}'", remedy=nearest(name, names()))
    module, _, cls = place.partition(":")
    return getattr(importlib.import_module(module), cls)


def keys(cls: type[Estimator]) -> list[str]:
    """The fields of an estimator's configuration."""
    return list(getattr(cls.Config, "model_fields", None) or cls.Config.__dataclass_fields__)


def build(name: str, node: Node | None, settings: Mapping[str, Any]) -> Estimator:
    """The estimator with its configuration, from text or values.

    Raises UsageError for a wrong setting.
    """
    from pydantic import TypeAdapter, ValidationError

    cls = get(name)
    fields = keys(cls)
    values: dict[str, Any] = {"node": node} if "node" in fields else {}
    for key, value in settings.items():
        spelled = key.replace("-", "_")
        if spelled not in fields or spelled == "node":
            known = [field.replace("_", "-") for field in fields if field != "node"]
            raise UsageError(f"{name} has no setting '{key}'", remedy=nearest(key, known))
        values[spelled] = value
    try:
        return cls(TypeAdapter(cls.Config).validate_python(values))
    except ValidationError as error:
        first = error.errors()[0]
        key = ".".join(str(part) for part in first["loc"]).replace("_", "-")
        raise UsageError(f"{name}: setting '{key}': {first['msg']}") from None


@functools.cache
def _all() -> dict[str, str]:
    from importlib.metadata import entry_points

    found = dict(ESTIMATORS)
    for point in entry_points(group=GROUP):
        if found.setdefault(point.name, point.value) != point.value:
            raise UsageError(f"two packages define the estimator '{point.name}'")
    return found
