"""Every estimator by name. A package adds its own by the entry point ``hespas.estimators``."""

from __future__ import annotations

import functools
import importlib
from collections.abc import Mapping
from typing import Any

from hespas.configs.node_spec import NodeSpec
from hespas.estimators.base import Estimator
from hespas.support.errors import UsageError
from hespas.support.suggestions import suggest_nearest

_ENTRY_POINT_GROUP = "hespas.estimators"
ESTIMATORS = {
    "accelsim": "hespas.estimators.accelerators.accelsim:AccelsimEstimator",
    "calibrated": "hespas.estimators.calibrated.calibrated_estimator:CalibratedEstimator",
    "cocossim": "hespas.estimators.accelerators.cocossim:CocossimEstimator",
    "iree": "hespas.estimators.iree.iree_estimator:IreeEstimator",
    "onnxim": "hespas.estimators.accelerators.onnxim:OnnximEstimator",
    "roofline": "hespas.estimators.roofline:RooflineEstimator",
    "scalesim": "hespas.estimators.accelerators.scalesim:ScalesimEstimator",
    "systolic": "hespas.estimators.accelerators.systolic:SystolicEstimator",
    "xla": "hespas.estimators.xla.xla_estimator:XlaEstimator",
    "zigzag": "hespas.estimators.accelerators.zigzag:ZigzagEstimator",
}


def list_estimator_names() -> list[str]:
    """The names of all estimators, alphabetical."""
    return sorted(collect_import_paths())


def load_estimator_class(name: str) -> type[Estimator]:
    """The estimator class; raises UsageError that suggests the near name."""
    # A built-in name needs no search through the installed packages.
    import_path = ESTIMATORS.get(name) or collect_import_paths().get(name)
    if import_path is None:
        raise UsageError(
            f"no estimator is named '{name}'", remedy=suggest_nearest(name, list_estimator_names())
        )
    module, _, cls = import_path.partition(":")
    return getattr(importlib.import_module(module), cls)


def list_config_fields(cls: type[Estimator]) -> list[str]:
    """The fields of an estimator's configuration."""
    return list(getattr(cls.Config, "model_fields", None) or cls.Config.__dataclass_fields__)


def build_estimator(name: str, node: NodeSpec | None, settings: Mapping[str, Any]) -> Estimator:
    """The estimator with its configuration, from text or values.

    Raises UsageError for a wrong setting.
    """
    from pydantic import TypeAdapter, ValidationError

    cls = load_estimator_class(name)
    fields = list_config_fields(cls)
    values: dict[str, Any] = {"node": node} if "node" in fields else {}
    for key, value in settings.items():
        spelled = key.replace("-", "_")
        if spelled not in fields or spelled == "node":
            known = [field.replace("_", "-") for field in fields if field != "node"]
            raise UsageError(f"{name} has no setting '{key}'", remedy=suggest_nearest(key, known))
        values[spelled] = value
    try:
        return cls(TypeAdapter(cls.Config).validate_python(values))
    except ValidationError as error:
        first = error.errors()[0]
        key = ".".join(str(part) for part in first["loc"]).replace("_", "-")
        raise UsageError(f"{name}: setting '{key}': {first['msg']}") from None


@functools.cache
def collect_import_paths() -> dict[str, str]:
    from importlib.metadata import entry_points

    import_paths = dict(ESTIMATORS)
    for point in entry_points(group=_ENTRY_POINT_GROUP):
        if import_paths.setdefault(point.name, point.value) != point.value:
            raise UsageError(f"two packages define the estimator '{point.name}'")
    return import_paths
