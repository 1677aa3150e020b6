"""The configuration files and flags of the published tools, read into what hespas does."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Generic, TypeVar

from pydantic import BaseModel, ConfigDict, Field

from hespas.configs.validation import validate_config
from hespas.support.errors import HespasError, UsageError
from hespas.support.suggestions import suggest_nearest
from hespas.tools.published.published_methods import METHODS, PublishedMethod
from hespas.workflows.run_config import RunConfig, load_json_object

if TYPE_CHECKING:
    from hespas.passes.base import Pass
    from hespas.workflows.run_plan import RunPlan

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

HardwareSection = TypeVar("HardwareSection")


class _PublishedModel(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)


class _CachedSection(_PublishedModel):
    disable_cache: bool | None = None
    cache_dir: str | None = None
    in_memory_only_cache: bool | None = None


class PerfEstimatorSection(_CachedSection, Generic[HardwareSection]):
    method: str
    hardware: HardwareSection


class PublishedConfig(_CachedSection, Generic[HardwareSection]):
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
    perf_estimator: PerfEstimatorSection[HardwareSection] | None = None


@dataclass(frozen=True)
class PublishedConfigFile:
    """A configuration, the file it came from, and what has to be said about it.

    ``method`` is its section ``hardware``; None where the file has no ``perf_estimator``.
    """

    config: PublishedConfig[Any]
    path: str
    notes: tuple[str, ...]
    num_npus: int | None = None
    method: PublishedMethod | None = None

    def with_device_count(self, num_npus: int) -> PublishedConfigFile:
        """A copy with another device count than the file's."""
        return replace(self, num_npus=num_npus)


def read_published_config(
    path: str, overrides: dict[str, Any], *, estimates: bool = True
) -> PublishedConfigFile:
    """The configuration file ``path``, with flags that override it; raises HespasError.

    Keys that hespas has no use for (caches, threads) are accepted with a note. A tool that does not
    estimate takes any ``perf_estimator``.
    """
    values = load_json_object(path)
    if not estimates:
        values.pop("perf_estimator", None)
    return parse_published_config(values, path, overrides)


def parse_published_config(
    values: dict[str, Any], path: str, overrides: dict[str, Any]
) -> PublishedConfigFile:
    """As ``read``, for a file that was loaded already."""
    hardware = METHODS[find_method_name(values, path)]
    explicit_overrides = {name: value for name, value in overrides.items() if value is not None}
    config = validate_config(PublishedConfig[hardware], {**values, **explicit_overrides}, path)
    _check_named_choices(config, path)
    method = config.perf_estimator.hardware if config.perf_estimator else None
    num_npus = method.num_npus if method else None
    return PublishedConfigFile(
        config, path, tuple(_describe_ignored_keys(config)), num_npus, method
    )


def find_method_name(values: dict[str, Any], path: str) -> str:
    """The method that a file names, else ``roofline``; raises HespasError for one that is none."""
    estimator = values.get("perf_estimator")
    requested_method = estimator.get("method") if isinstance(estimator, dict) else None
    if not isinstance(requested_method, str):  # which the check of the whole file will say
        return "roofline"
    method = requested_method.lower()
    if method not in METHODS:
        from hespas.estimators import registry

        suggestion = f"hespas run --estimator {method} has it"
        remedy = (
            suggestion
            if method in registry.list_estimator_names()
            else suggest_nearest(requested_method, [*METHODS])
        )
        raise HespasError(
            f"'perf_estimator.method' is '{requested_method}', "
            "which is no estimator of the published tools",
            where=path,
            remedy=remedy,
        )
    return method


def _check_named_choices(config: PublishedConfig[Any], path: str) -> None:
    for key, choices in (
        ("split_strategy", STRATEGIES),
        ("separator", tuple(SEPARATORS)),
        ("separator_policy", POLICIES),
    ):
        value = getattr(config, key)
        if value.lower() not in choices:
            raise HespasError(
                f"'{key}' is '{value}'", where=path, remedy=suggest_nearest(value, list(choices))
            )
    node_type = (config.separator_node_type or "").lower()
    is_comm = config.separator.lower() == "is_communication_op"
    if node_type not in ("", "comm_coll_node" if is_comm else "comp_node"):
        reason = "collectives are communication" if is_comm else "such ops are compute"
        raise HespasError(
            f"'separator_node_type' is '{config.separator_node_type}', but {reason}",
            where=path,
            remedy="leave the key out",
        )


def _describe_ignored_keys(config: PublishedConfig[Any]) -> Iterator[str]:
    estimator = config.perf_estimator
    parts = _list_cache_sections(config)
    cache = [key for key in CACHE_KEYS if any(key in part.model_fields_set for part in parts)]
    if cache and not _has_measuring_estimator(config):
        yield (
            f"{', '.join(cache)}: nothing is cached on disk; equal regions are one function and "
            "are estimated once"
        )
    if "num_threads" in config.model_fields_set:
        yield "num_threads: splitting uses one thread"
    if estimator and estimator.hardware.type is not None:
        yield "type: a label, without effect"
    if estimator:
        yield from estimator.hardware.describe_ignored_keys()
    if config.split_strategy.lower() == "linear_split":
        if config.merge:
            yield "merge: has no effect on linear_split"
    else:
        unused = {"block_lim", "separator", "separator_policy"} & config.model_fields_set
        if unused:
            yield f"{', '.join(sorted(unused))}: no effect on individual_split"


def _list_cache_sections(config: PublishedConfig[Any]) -> list[Any]:
    """The sections that may say how results are kept, the one that counts first."""
    estimator = config.perf_estimator
    return [estimator.hardware, estimator, config] if estimator else [config]


def _has_measuring_estimator(config: PublishedConfig[Any]) -> bool:
    from hespas.estimators import registry

    estimator = config.perf_estimator
    return (
        estimator is not None
        and registry.load_estimator_class(estimator.hardware.estimator).measures
    )


def _select_cache_options(config: PublishedConfig[Any]) -> dict[str, str]:
    """Where the results of an estimator that measures are kept; empty: at the usual place."""
    cache_values = {
        key: next(
            (v for part in _list_cache_sections(config) if (v := getattr(part, key)) is not None),
            None,
        )
        for key in CACHE_KEYS
    }
    if cache_values["disable_cache"] or cache_values["in_memory_only_cache"]:
        return {"cache": "none"}
    return (
        {"cache": str(Path(cache_values["cache_dir"], CACHE_FILE))}
        if cache_values["cache_dir"]
        else {}
    )


def build_split_pass(config: PublishedConfig[Any]) -> Pass:
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


def build_published_plan(
    config_file: PublishedConfigFile, run_flags: RunConfig | None = None
) -> RunPlan:
    """What a configuration asks for, to be run by ``flow.execute``; raises HespasError.

    ``given`` are flags of ``hespas run`` that go before the file's keys, or add to them. A file
    with rates is the node itself; ``given.node`` names another.
    """
    from hespas.workflows import run_plan

    config, run_flags = config_file.config, run_flags or RunConfig.model_validate({})
    if config_file.method is None and not run_flags.node:
        raise HespasError("the key 'perf_estimator' is missing", where=config_file.path)
    method = config_file.method or PublishedMethod()
    run_flags = run_flags.model_copy(update={"estimator": method.estimator})
    measuring_options = {
        **(_select_cache_options(config) if _has_measuring_estimator(config) else {}),
        **run_plan.collect_measuring_options(run_flags),
    }
    node = run_flags.node or (_to_explicit_path(config_file.path) if method.is_node else None)
    emit: dict[str, str | bool] = {"output": config.output_dir} if config.output_dir else {}
    return run_plan.RunPlan(
        mlir=require_config_value(config, "mlir_file", "or give --mlir_file", config_file.path),
        steps=(
            *([run_plan.build_pass_step("fuse", {})] if run_flags.fuse else []),
            build_split_pass(config),
            run_plan.build_annotate_step(
                method.estimator,
                node,
                {**method.to_estimator_settings(), **run_flags.setting},
                measuring_options,
            ),
            run_plan.build_pass_step("emit-chakra", emit),
        ),
        system=run_plan.load_system(run_flags.system),
        devices=config_file.num_npus,
        keep_going=run_flags.keep_going,
        network=run_plan.plan_network(run_flags),
    )


def build_run_from_values(
    values: dict[str, Any], path: str, run_flags: RunConfig
) -> tuple[RunPlan, list[str]]:
    """Build the plan of ``hespas run`` from a published file; see ``build_published_run``."""
    from hespas.workflows import run_plan

    method = METHODS[find_method_name(values, path)]
    if "estimator" in run_flags.model_fields_set and run_flags.estimator != method.estimator:
        raise UsageError(
            f"--estimator {run_flags.estimator} does not go "
            f"with the published configuration {path}",
            remedy="remove the flag; the file selects the estimator with perf_estimator.method",
        )
    run_flags = run_flags.model_copy(update={"estimator": method.estimator})
    overrides: dict[str, Any] = {"mlir_file": run_flags.mlir, "output_dir": run_flags.output}
    if "split" in run_flags.model_fields_set:
        strategy, _, merge = run_plan.select_split(run_flags).partition("-")
        overrides |= {"split_strategy": f"{strategy}_split", "merge": bool(merge)}
    if "block_limit" in run_flags.model_fields_set:
        overrides["block_lim"] = run_flags.block_limit
    config_file = parse_published_config(values, path, overrides)
    notes = list(config_file.notes)
    if config_file.config.clean:
        notes.append("clean: traces are always replaced; other files stay")
    plan = build_published_plan(config_file, run_flags)
    return run_plan.add_requested_figures(plan, run_flags), notes


def _to_explicit_path(path: str) -> str:
    """The path in a form that is not taken for a preset's name."""
    return path if "/" in path or path.endswith(".json") else f"./{path}"


def require_config_value(config: PublishedConfig[Any], key: str, flag: str, path: str) -> str:
    """The value of a key that the tool cannot do without."""
    value = getattr(config, key)
    if not value:
        raise HespasError(f"the key '{key}' is missing", where=path, remedy=flag)
    return value


def remove_stale_outputs(folder: Path, keep: re.Pattern[str]) -> None:
    """Remove outputs of earlier runs but those that ``keep`` matches; other files stay."""
    for pattern in OUTPUTS:
        for path in folder.glob(pattern):
            if path.is_file() and not keep.fullmatch(path.name):
                path.unlink()
