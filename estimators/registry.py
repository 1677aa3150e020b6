"""Every estimator by name. A package adds its own by the entry point ``hespas.estimators``.

An estimator module is imported when its class is first used.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Iterable, Mapping
from dataclasses import MISSING, is_dataclass
from typing import TYPE_CHECKING, Annotated, Any, Literal, get_args, get_origin

from hespas import configs
from hespas.support.entry_points import (
    CORRECTION,
    collect_entry_points,
    load_subclass,
    report_raised_errors,
)
from hespas.support.errors import UsageError
from hespas.support.settings import Setting, list_settings
from hespas.support.suggestions import suggest_nearest

if TYPE_CHECKING:
    from hespas.configs.node_spec import NodeSpec
    from hespas.estimators.base import Estimator

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
GRANULARITIES = ("op", "kernel", "region")
JOB_DEVICES = "job_devices"
"""The setting of estimators that need the number of devices of the program."""


def list_estimator_names() -> list[str]:
    """List the names of all estimators, in alphabetical order."""
    return sorted(collect_import_paths())


def load_estimator_class(name: str) -> type[Estimator]:
    """Import the class of an estimator. Raises UsageError that suggests a similar name."""
    # A built-in name needs no search through the installed packages.
    import_path = ESTIMATORS.get(name) or collect_import_paths().get(name)
    if import_path is None:
        raise UsageError(
            f"no estimator is named '{name}'", remedy=suggest_nearest(name, list_estimator_names())
        )
    from hespas.estimators.base import Estimator  # the class derives from it, so it is loaded

    cls = load_subclass(import_path, Estimator, "estimator")
    problem = "" if name in ESTIMATORS else _find_declaration_problem(cls, name)
    if problem:
        raise UsageError(f"the estimator {import_path} {problem}", remedy=CORRECTION)
    return cls


@functools.cache
def _find_declaration_problem(cls: type[Estimator], name: str) -> str:
    """Say what is missing or wrong in the class of an estimator of a package, or ""."""
    if cls.__abstractmethods__:
        return f"does not define {min(cls.__abstractmethods__)}"
    for attribute, kind in (("name", str), ("version", str), ("Config", type)):
        if not isinstance(getattr(cls, attribute, None), kind):
            return f"defines no {attribute} that is a {kind.__name__}"
    if cls.name != name:  # costs that it writes would be estimated again by another one
        return f"is named '{cls.name}', but its entry point '{name}'"
    if not (is_dataclass(cls.Config) or hasattr(cls.Config, "model_fields")):
        return "has a Config that is no dataclass and no pydantic model"
    try:
        list_settings(cls.Config)
    except Exception as error:
        return f"has a Config with a type that cannot be read: {type(error).__name__}: {error}"
    if cls.granularity not in GRANULARITIES:
        return f"has the granularity '{cls.granularity}', not one of {', '.join(GRANULARITIES)}"
    return ""


def find_settings(name: str, keys: Iterable[str]) -> list[Setting]:
    """Find settings of the estimator ``name``, as command lines or as Python spells them.

    Raises UsageError for an unknown setting.
    """
    config = load_estimator_class(name).Config
    known = {setting.name: setting for setting in list_settings(config) if setting.name != "node"}
    settings = []
    for key in keys:
        setting = known.get(key.replace("-", "_"))
        if setting is None:
            spellings = [setting.spelled for setting in known.values()]
            raise UsageError(
                f"{name} has no setting '{key}'", remedy=suggest_nearest(key, spellings)
            )
        settings.append(setting)
    return settings


def convert_settings(name: str, settings: Mapping[str, Any]) -> dict[str, Any]:
    """Convert the values of settings from text, by the names of the fields of ``Config``.

    Raises UsageError for an unknown setting, and for a value of the wrong type.
    """
    pairs = zip(find_settings(name, settings), settings.values(), strict=True)
    if not is_dataclass(load_estimator_class(name).Config):  # a pydantic model converts its fields
        return {setting.name: value for setting, value in pairs}
    return {setting.name: _convert_value(name, setting, value) for setting, value in pairs}


def _convert_value(name: str, setting: Setting, value: Any) -> Any:
    origin, arguments = get_origin(setting.type), get_args(setting.type)
    if type(value) is setting.type or (origin is Literal and value in arguments):
        return value
    if origin not in (Annotated, Literal) and type(value) in arguments:
        return value
    from pydantic import TypeAdapter, ValidationError  # slow to import, so only where it is needed

    try:
        converted = TypeAdapter(setting.type).validate_python(value)
    except ValidationError as error:
        message = error.errors()[0]["msg"]
        raise UsageError(f"{name}: setting '{setting.spelled}': {message}") from None
    if isinstance(converted, float) and not math.isfinite(converted):
        subject = f"{name}: setting '{setting.spelled}'"
        raise UsageError(f"{subject} takes a finite number, not '{value}'")
    return converted


def build_config(
    name: str, node: NodeSpec | None, settings: Mapping[str, Any], devices: int = 1
) -> Any:
    """Build the configuration of an estimator. Raises UsageError for a wrong or missing setting.

    Args:
        name: The estimator.
        node: The value of its setting ``node``, if it has one.
        settings: The values of its other settings.
        devices: The devices of the program: the value of ``job_devices``, if it has this setting
            and it is not set, or 0.
    """
    cls = load_estimator_class(name)
    values = convert_settings(name, settings)
    for setting in list_settings(cls.Config):
        if setting.name == "node":
            values["node"] = node
        elif setting.name == JOB_DEVICES:
            values[JOB_DEVICES] = values.get(JOB_DEVICES) or devices
        elif setting.default is MISSING and setting.name not in values:
            raise UsageError(f"{name} needs the setting '{setting.spelled}'")
    try:
        return cls.Config(**values)
    except ValueError as error:  # pydantic's ValidationError is one too
        details = getattr(error, "errors", list)()
        if not details:
            raise UsageError(f"{name}: {error}") from None
        spelled = ".".join(str(part) for part in details[0]["loc"]).replace("_", "-")
        raise UsageError(f"{name}: setting '{spelled}': {details[0]['msg']}") from None


def check_single_settings(name: str, settings: Mapping[str, Any]) -> None:
    """Raise UsageError for a setting that is wrong whatever the values of the others are.

    Each is checked with the defaults of the others, and with the values of those that have none.
    """
    declared = list_settings(load_estimator_class(name).Config)
    required = {setting.name for setting in declared if setting.default is MISSING} - {"node"}
    node = configs.load_node(configs.DEFAULT_NODE)
    common = {key: value for key, value in settings.items() if key.replace("-", "_") in required}
    for key, value in settings.items():
        build_config(name, node, {**common, key: value})


def build_estimator(
    name: str, node: NodeSpec | None, settings: Mapping[str, Any], devices: int = 1
) -> Estimator:
    """Build an estimator with the configuration of ``build_config``; raises UsageError."""
    cls = load_estimator_class(name)
    with report_raised_errors(f"estimator '{name}'", cls):
        return cls(build_config(name, node, settings, devices))


def collect_import_paths() -> dict[str, str]:
    """Map the name of each estimator to ``module:Class``. Raises UsageError for a clash."""
    return ESTIMATORS | find_plugins()


@functools.cache
def find_plugins() -> dict[str, str]:
    """Map each estimator of a package to ``module:Class``. Raises UsageError for a clash."""
    return collect_entry_points("hespas.estimators", "estimator", ESTIMATORS)
