"""Reads the configuration files of the published tools and builds the plans of their runs."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Generic, TypeVar

from pydantic import Field

from hespas import configs
from hespas.configs.node_files import CacheKeys, describe_published_node, has_node_form
from hespas.configs.validation import validate_config
from hespas.support.errors import HespasError, UsageError
from hespas.support.output_folder import check_writable_folder
from hespas.support.suggestions import suggest_nearest
from hespas.tools.published.published_methods import (
    METHODS,
    NodeFileMethod,
    PublishedMethod,
    RooflineSection,
)
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
CACHE_FILE = "measurements.sqlite"  # in cache_dir

HardwareSection = TypeVar("HardwareSection")


class PerfEstimatorSection(CacheKeys, Generic[HardwareSection]):
    method: str
    hardware: HardwareSection


class PublishedConfig(CacheKeys, Generic[HardwareSection]):
    """A published configuration file; its method selects the model of ``hardware``."""

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
    """A configuration that was read from a file.

    Attributes:
        config: The content.
        path: The name of the file.
        notes: One note for each key that has no effect or another effect.
        num_npus: The number of devices; None if the file has none.
        method: The section ``hardware``; None if the file has no ``perf_estimator``.
    """

    config: PublishedConfig[Any]
    path: str
    notes: tuple[str, ...]
    num_npus: int | None = None
    method: PublishedMethod | None = None


def find_config_file(file_or_name: str) -> str:
    """Return the path of a configuration.

    Args:
        file_or_name: A file; the path ``configs/nodes/...`` of a shipped one; or the name of a
            preset, ``NAME`` for its roofline or ``NAME/METHOD``.

    Raises:
        UsageError: No preset has this name.
    """
    path = configs.find_shipped_path(file_or_name)
    if Path(path).exists() or path.endswith(".json"):
        return path
    for method in ("", "/roofline"):
        file = configs.find_shipped_file(f"nodes/{file_or_name}{method}/config.json")
        if file is not None:
            return str(file)
    if "/" in file_or_name:
        return path
    raise configs.build_unknown_name_error(
        "preset", file_or_name, configs.list_node_presets(), "or give a configuration file"
    )


def read_published_config(
    path: str, overrides: dict[str, Any], *, estimates: bool = True
) -> PublishedConfigFile:
    """Read a configuration file; keys without effect in hespas are accepted with a note.

    Args:
        path: The file, or the name of a preset; see ``find_config_file``.
        overrides: Values of flags, which replace keys of the file unless they are None.
        estimates: Whether the tool uses ``perf_estimator``; otherwise it is not checked.

    Raises:
        HespasError: The file cannot be read, or has a wrong key or value.
    """
    path = find_config_file(path)
    values = load_json_object(path)
    if not estimates:
        values.pop("perf_estimator", None)
    return parse_published_config(values, path, overrides)


def parse_published_config(
    values: dict[str, Any], path: str, overrides: dict[str, Any]
) -> PublishedConfigFile:
    """Check the content of a configuration file; see ``read_published_config``."""
    explicit_overrides = {name: value for name, value in overrides.items() if value is not None}
    if has_node_form(values):
        configs.load_node(path)
        config = validate_config(PublishedConfig[RooflineSection], explicit_overrides, path)
        return PublishedConfigFile(config, path, (), method=NodeFileMethod())
    hardware = METHODS[find_method_name(values, path)]
    config = validate_config(PublishedConfig[hardware], {**values, **explicit_overrides}, path)
    _check_named_choices(config, path)
    method = config.perf_estimator.hardware if config.perf_estimator else None
    num_npus = method.num_npus if method else None
    return PublishedConfigFile(
        config, path, tuple(_describe_config(config, path)), num_npus, method
    )


def find_method_name(values: dict[str, Any], path: str) -> str:
    """Return the method that a file names, by default ``roofline``; raises HespasError."""
    estimator = values.get("perf_estimator")
    requested_method = estimator.get("method") if isinstance(estimator, dict) else None
    if not isinstance(requested_method, str):  # the check of the whole file reports it
        return "roofline"
    method = requested_method.lower()
    if method not in METHODS:
        from hespas.estimators import registry

        remedy = suggest_nearest(requested_method, [*METHODS])
        if method in registry.list_estimator_names():
            remedy = f"hespas run --estimator {method} uses it"
        message = (
            f"'perf_estimator.method' is '{requested_method}', which is not an estimator of the "
            "published tools"
        )
        raise HespasError(message, where=path, remedy=remedy)
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
        reason = "collectives are communication" if is_comm else "these ops are compute"
        raise HespasError(
            f"'separator_node_type' is '{config.separator_node_type}', but {reason}",
            where=path,
            remedy="leave the key out",
        )


def _describe_config(config: PublishedConfig[Any], path: str) -> Iterator[str]:
    """Yield the notes of a configuration."""
    node = describe_published_node(path)
    if node:
        yield node
    yield from _describe_ignored_keys(config)


def _describe_ignored_keys(config: PublishedConfig[Any]) -> Iterator[str]:
    estimator = config.perf_estimator
    parts = _list_cache_sections(config)
    cache = [
        key for key in CacheKeys.model_fields if any(key in part.model_fields_set for part in parts)
    ]
    if cache and not _has_measuring_estimator(config):
        yield (
            f"{', '.join(cache)}: no effect, because equal regions are one function and are "
            "estimated once"
        )
    if "num_threads" in config.model_fields_set:
        yield "num_threads: no effect, because splitting uses one thread"
    if estimator and estimator.hardware.type is not None:
        yield "type: a label without effect"
    if estimator:
        yield from estimator.hardware.describe_ignored_keys()
    if config.split_strategy.lower() == "linear_split":
        if config.merge:
            yield "merge: no effect on linear_split"
    else:
        unused = {"block_lim", "separator", "separator_policy"} & config.model_fields_set
        if unused:
            yield f"{', '.join(sorted(unused))}: no effect on individual_split"


def _list_cache_sections(config: PublishedConfig[Any]) -> list[Any]:
    """List the sections that may have cache keys, the one with the highest precedence first."""
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
    """Return the cache option of a measuring estimator; empty for the default cache."""
    cache_values = {
        key: next(
            (v for part in _list_cache_sections(config) if (v := getattr(part, key)) is not None),
            None,
        )
        for key in CacheKeys.model_fields
    }
    if cache_values["disable_cache"] or cache_values["in_memory_only_cache"]:
        return {"cache": "none"}
    return (
        {"cache": str(Path(cache_values["cache_dir"], CACHE_FILE))}
        if cache_values["cache_dir"]
        else {}
    )


def build_split_pass(config: PublishedConfig[Any]) -> Pass:
    """Build the split pass of a configuration."""
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
    """Build the plan of a configuration.

    Args:
        config_file: The configuration. If its method has peak rates, the file itself is the node.
        run_flags: The flags of ``hespas run``; they override or add to the keys of the file.

    Raises:
        HespasError: A key is missing, or a preset does not exist.
    """
    from hespas.passes.emit.emit_chakra import TRACES, EmitChakraPass
    from hespas.workflows import run_plan
    from hespas.workflows.program_form import (
        FUSE,
        XLA,
        FormRequest,
        build_pass_step,
        choose_fusion_options,
    )

    config, run_flags = config_file.config, run_flags or RunConfig.model_validate({})
    if config_file.method is None and not run_flags.node:
        raise HespasError("the key 'perf_estimator' is missing", where=config_file.path)
    method = config_file.method or PublishedMethod()
    run_flags = run_flags.model_copy(update={"estimator": method.estimator})
    annotate_options = {
        **(_select_cache_options(config) if _has_measuring_estimator(config) else {}),
        **run_plan.collect_annotate_options(run_flags),
    }
    node = run_flags.node or (_to_explicit_path(config_file.path) if method.is_node else None)
    system = run_plan.load_system(run_flags.system)
    form = run_plan.request_program_form(run_flags.model_copy(update={"node": node}), system)
    fusion = ()
    if form.form == FUSE:
        fusion = (build_pass_step("fuse", {**choose_fusion_options(form.target_node)}),)
    if config.output_dir:
        check_writable_folder(config.output_dir, TRACES)
    return run_plan.RunPlan(
        mlir=require_config_value(config, "mlir_file", "or give --mlir_file", config_file.path),
        steps=(
            *(
                [build_pass_step("prepare", {"replicas": str(config_file.num_npus)})]
                if config_file.num_npus
                else []
            ),
            *fusion,
            build_split_pass(config),
            run_plan.build_annotate_step(
                method.estimator,
                node,
                {**method.to_estimator_settings(), **run_flags.setting},
                annotate_options,
            ),
        ),
        emit=EmitChakraPass(output=config.output_dir or "", clean=config.clean),
        form=form if form.form == XLA or form.compile_flags else FormRequest(),
        system=system,
        devices=config_file.num_npus,
        keep_going=run_flags.keep_going,
        network=run_plan.plan_network(run_flags, system),
        network_settings=run_plan.select_network_settings(run_flags),
    )


def build_run_from_values(
    values: dict[str, Any], path: str, run_flags: RunConfig
) -> tuple[RunPlan, list[str]]:
    """Build the plan of ``hespas run`` from a published file; see ``build_published_run``."""
    from hespas.workflows import run_plan

    method = METHODS[find_method_name(values, path)]
    if "estimator" in run_flags.model_fields_set and run_flags.estimator != method.estimator:
        raise UsageError(
            f"--estimator {run_flags.estimator} does not go with the published file {path}",
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
        notes.append("clean: only outputs of hespas are removed; other files are kept")
    plan = build_published_plan(config_file, run_flags)
    return run_plan.add_requested_figures(plan, run_flags), notes


def _to_explicit_path(path: str) -> str:
    """Return the path in a form that cannot be the name of a preset."""
    return path if "/" in path or path.endswith(".json") else f"./{path}"


def require_config_value(config: PublishedConfig[Any], key: str, flag: str, path: str) -> str:
    """Return the value of a required key; raises HespasError if it is missing."""
    value = getattr(config, key)
    if not value:
        raise HespasError(f"the key '{key}' is missing", where=path, remedy=flag)
    return value
