"""The configuration files and flags of the published tools, read into what hespas does."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Generic, TypeVar

from pydantic import BaseModel, ConfigDict, Field

from hespas.configs.checked import checked
from hespas.dialects.errors import HespasError
from hespas.passes.base import nearest
from hespas.tools.commands.config import RunConfig, load_json
from hespas.tools.published_methods import METHODS, Method

if TYPE_CHECKING:
    from hespas.passes.base import Pass
    from hespas.tools.commands.flow import Plan

KEYS = ("mlir_file", "output_dir", "split_strategy", "perf_estimator", "block_lim")

STRATEGIES = ("linear_split", "individual_split")
SEPARATORS = {
    "is_communication_op": "communication",
    "is_convolution_op": "convolution",
    "is_dot_general_op": "dot-general",
    "is_reduce_op": "reduce",
    "is_return_op": "return",
}
POLICIES = ("isolated", "end_block", "start_block")
# What hespas and the published tools write into an output folder; ``clean`` removes nothing else.
OUTPUTS = (
    "dev.*.et", "comm_group.json", "module_stats.json", "mini_module_*.mlir",
    "mini_module_*.json", "private_functions.mlir", "dependency_graph.*",
)  # fmt: skip
CACHE_KEYS = ("disable_cache", "cache_dir", "in_memory_only_cache")
CACHE_FILE = "measurements.sqlite"  # in cache_dir

Hardware = TypeVar("Hardware")


class _Strict(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)


class _Cached(_Strict):
    disable_cache: bool | None = None
    cache_dir: str | None = None
    in_memory_only_cache: bool | None = None


class PerfEstimator(_Cached, Generic[Hardware]):
    method: str
    hardware: Hardware


class Config(_Cached, Generic[Hardware]):
    """A published configuration file; the method decides what its ``hardware`` is."""

    mlir_file: str | None = None
    output_dir: str | None = None
    split_strategy: str = "linear_split"
    clean: bool = False
    num_threads: int | None = None
    block_lim: int = Field(1024, ge=0)
    merge: bool = False
    separator: str = "is_communication_op"
    separator_policy: str = "isolated"
    separator_node_type: str | None = None
    perf_estimator: PerfEstimator[Hardware] | None = None


@dataclass(frozen=True)
class Read:
    """A configuration, the file it came from, and what has to be said about it.

    ``method`` is its section ``hardware``; None where the file has no ``perf_estimator``.
    """

    config: Config[Any]
    path: str
    notes: tuple[str, ...]
    num_npus: int | None = None
    method: Method | None = None

    def with_devices(self, num_npus: int) -> Read:
        """A copy with another device count than the file's."""
        return replace(self, num_npus=num_npus)


def is_published(values: dict[str, Any]) -> bool:
    """Whether a configuration is in the published form, told by its keys."""
    return any(key in values for key in KEYS)


def read(path: str, overrides: dict[str, Any], *, estimates: bool = True) -> Read:
    """The configuration file ``path``, with flags that override it; raises HespasError.

    Keys that hespas has no use for (caches, threads) are accepted with a note. A tool that does not
    estimate takes any ``perf_estimator``.
    """
    values = load_json(path)
    if not estimates:
        values.pop("perf_estimator", None)
    return interpret(values, path, overrides)


def interpret(values: dict[str, Any], path: str, overrides: dict[str, Any]) -> Read:
    """As ``read``, for a file that was loaded already."""
    hardware = METHODS[method_of(values, path)]
    given = {name: value for name, value in overrides.items() if value is not None}
    config = checked(Config[hardware], {**values, **given}, path)
    _check_choices(config, path)
    method = config.perf_estimator.hardware if config.perf_estimator else None
    num_npus = method.num_npus if method else None
    return Read(config, path, tuple(_notes(config)), num_npus, method)


def method_of(values: dict[str, Any], path: str) -> str:
    """The method that a file names, else ``roofline``; raises HespasError for one that is none."""
    estimator = values.get("perf_estimator")
    given = estimator.get("method") if isinstance(estimator, dict) else None
    if not isinstance(given, str):  # which the check of the whole file will say
        return "roofline"
    method = given.lower()
    if method not in METHODS:
        from hespas.estimators import registry

        ours = f"hespas run --estimator {method} has it"
        remedy = ours if method in registry.names() else nearest(given, [*METHODS])
        message = f"'perf_estimator.method' is '{given}', which is no estimator of the published"
        raise HespasError(f"{message} tools", where=path, remedy=remedy)
    return method


def _check_choices(config: Config[Any], path: str) -> None:
    for key, choices in (
        ("split_strategy", STRATEGIES),
        ("separator", tuple(SEPARATORS)),
        ("separator_policy", POLICIES),
    ):
        value = getattr(config, key)
        if value.lower() not in choices:
            raise HespasError(
                f"'{key}' is '{value}'", where=path, remedy=nearest(value, list(choices))
            )
    node_type = (config.separator_node_type or "").lower()
    is_comm = config.separator.lower() == "is_communication_op"
    if node_type not in ("", "comm_coll_node" if is_comm else "comp_node"):
        what = "collectives are communication" if is_comm else "such ops are compute"
        raise HespasError(
            f"'separator_node_type' is '{config.separator_node_type}', but {what}",
            where=path,
            remedy="leave the key out",
        )


def _notes(config: Config[Any]) -> Iterator[str]:
    estimator = config.perf_estimator
    parts = _parts(config)
    cache = [key for key in CACHE_KEYS if any(key in part.model_fields_set for part in parts)]
    if cache and not _measures(config):
        yield (
            f"{', '.join(cache)}: nothing is cached on disk; equal regions are one function and "
            "are estimated once"
        )
    if "num_threads" in config.model_fields_set:
        yield "num_threads: splitting uses one thread"
    if estimator and estimator.hardware.type is not None:
        yield "type: a label, without effect"
    if estimator:
        yield from estimator.hardware.notes()
    if config.split_strategy.lower() == "linear_split":
        if config.merge:
            yield "merge: has no effect on linear_split"
    else:
        unused = {"block_lim", "separator", "separator_policy"} & config.model_fields_set
        if unused:
            yield f"{', '.join(sorted(unused))}: no effect on individual_split"


def _parts(config: Config[Any]) -> list[Any]:
    """The sections that may say how results are kept, the one that counts first."""
    estimator = config.perf_estimator
    return [estimator.hardware, estimator, config] if estimator else [config]


def _measures(config: Config[Any]) -> bool:
    from hespas.estimators import registry

    estimator = config.perf_estimator
    return estimator is not None and registry.get(estimator.hardware.estimator).measures


def _cache(config: Config[Any]) -> dict[str, str]:
    """Where the results of an estimator that measures are kept; empty: at the usual place."""
    found = {
        key: next((v for part in _parts(config) if (v := getattr(part, key)) is not None), None)
        for key in CACHE_KEYS
    }
    if found["disable_cache"] or found["in_memory_only_cache"]:
        return {"cache": "none"}
    return {"cache": str(Path(found["cache_dir"], CACHE_FILE))} if found["cache_dir"] else {}


def split_pass(config: Config[Any]) -> Pass:
    """The pass that does the configured split."""
    from hespas.passes.split.split_individual import SplitIndividualPass
    from hespas.passes.split.split_linear import SplitLinearPass

    if config.split_strategy.lower() == "individual_split":
        return SplitIndividualPass(merge=config.merge)
    return SplitLinearPass(
        block_limit=config.block_lim,
        separator=SEPARATORS[config.separator.lower()],
        separator_policy=config.separator_policy.lower().replace("_", "-"),
    )


def plan(found: Read, given: RunConfig | None = None) -> Plan:
    """What a configuration asks for, to be run by ``flow.execute``; raises HespasError.

    ``given`` are flags of ``hespas run`` that go before the file's keys, or add to them. A file
    with rates is the node itself; ``given.node`` names another.
    """
    from hespas.tools.commands import flow

    config, given = found.config, given or RunConfig.model_validate({})
    if found.method is None and not given.node:
        raise HespasError("the key 'perf_estimator' is missing", where=found.path)
    method = found.method or Method()
    given = given.model_copy(update={"estimator": method.estimator})
    measuring = {**(_cache(config) if _measures(config) else {}), **flow.measuring_of(given)}
    node = given.node or (_as_path(found.path) if method.is_node else None)
    emit: dict[str, str | bool] = {"output": config.output_dir} if config.output_dir else {}
    return flow.Plan(
        mlir=required(config, "mlir_file", "or give --mlir_file", found.path),
        steps=(
            *([flow.step("fuse", {})] if given.fuse else []),
            split_pass(config),
            flow.annotate_step(
                method.estimator, node, {**method.settings(), **given.setting}, measuring
            ),
            flow.step("emit-chakra", emit),
        ),
        system=flow.system_of(given.system),
        devices=found.num_npus,
        keep_going=given.keep_going,
        network=flow.network_of(given),
    )


def _as_path(path: str) -> str:
    """The path in a form that is not taken for a preset's name."""
    return path if "/" in path or path.endswith(".json") else f"./{path}"


def required(config: Config[Any], key: str, flag: str, path: str) -> str:
    """The value of a key that the tool cannot do without."""
    value = getattr(config, key)
    if not value:
        raise HespasError(f"the key '{key}' is missing", where=path, remedy=flag)
    return value


def clean(folder: Path, keep: re.Pattern[str]) -> None:
    """Remove outputs of earlier runs but those that ``keep`` matches; other files stay."""
    for pattern in OUTPUTS:
        for path in folder.glob(pattern):
            if path.is_file() and not keep.fullmatch(path.name):
                path.unlink()
