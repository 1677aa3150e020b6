"""The configuration files and flags of the published tools, read into what hespas does."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pydantic import BaseModel, ConfigDict, Field

from hespas.configs.checked import checked
from hespas.configs.models import PublishedHardware
from hespas.dialects.errors import HespasError
from hespas.passes.base import nearest
from hespas.tools.commands.config import load_json

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
METHODS_ELSEWHERE = ("xla", "iree", "cocossim", "onnxim", "zigzag_onnx")
# What hespas and the published tools write into an output folder; ``clean`` removes nothing else.
OUTPUTS = (
    "dev.*.et", "comm_group.json", "module_stats.json", "mini_module_*.mlir",
    "mini_module_*.json", "private_functions.mlir", "dependency_graph.*",
)  # fmt: skip
CACHE_KEYS = ("disable_cache", "cache_dir", "in_memory_only_cache")


class _Strict(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)


class _Cached(_Strict):
    disable_cache: bool | None = None
    cache_dir: str | None = None
    in_memory_only_cache: bool | None = None


class PerfEstimator(_Cached):
    method: str
    hardware: PublishedHardware


class Config(_Cached):
    """A published configuration file."""

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
    perf_estimator: PerfEstimator | None = None


@dataclass(frozen=True)
class Read:
    """A configuration, the file it came from, and what has to be said about it."""

    config: Config
    path: str
    notes: tuple[str, ...]
    num_npus: int | None = None

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
    _check_method(values, path)
    given = {name: value for name, value in overrides.items() if value is not None}
    config = checked(Config, {**values, **given}, path)
    _check_choices(config, path)
    estimator = config.perf_estimator
    num_npus = estimator.hardware.num_npus if estimator else None
    return Read(config, path, tuple(_notes(config)), num_npus)


def _check_method(values: dict[str, Any], path: str) -> None:
    """Refuse other estimators before their keys are called unknown."""
    estimator = values.get("perf_estimator")
    method = estimator.get("method") if isinstance(estimator, dict) else None
    if not isinstance(method, str) or method.lower() == "roofline":
        return
    elsewhere = method.lower() in METHODS_ELSEWHERE
    why = "is not built yet" if elsewhere else "is no estimator"
    remedy = "use 'roofline'" if elsewhere else nearest(method, ["roofline", *METHODS_ELSEWHERE])
    message = f"'perf_estimator.method' is '{method}', which {why}"
    raise HespasError(message, where=path, remedy=remedy)


def _check_choices(config: Config, path: str) -> None:
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


def _notes(config: Config) -> Iterator[str]:
    estimator = config.perf_estimator
    parts: list[BaseModel] = [config]
    if estimator:
        parts += [estimator, estimator.hardware]
    cache = [key for key in CACHE_KEYS if any(key in part.model_fields_set for part in parts)]
    if cache:
        yield (
            f"{', '.join(cache)}: nothing is cached on disk; equal regions are one function and "
            "are estimated once"
        )
    if "num_threads" in config.model_fields_set:
        yield "num_threads: splitting uses one thread"
    if estimator and estimator.hardware.type is not None:
        yield "type: a label, without effect"
    if estimator and not estimator.hardware.warn_on_unknown_type:
        yield "warn_on_unknown_type: a type without a rate of its own is said at any rate"
    if config.split_strategy.lower() == "linear_split":
        if config.merge:
            yield "merge: has no effect on linear_split"
    else:
        unused = {"block_lim", "separator", "separator_policy"} & config.model_fields_set
        if unused:
            yield f"{', '.join(sorted(unused))}: no effect on individual_split"


def split_pass(config: Config) -> Pass:
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


def plan(found: Read, *, node: str = "", output: str = "", **more: Any) -> Plan:
    """What a configuration asks for, to be run by ``flow.execute``; raises HespasError.

    The file itself is the node, as it holds the rates; ``node`` names another.
    """
    from hespas.passes.annotate.roofline_annotate import RooflineAnnotatePass
    from hespas.passes.emit.emit_chakra import EmitChakraPass
    from hespas.tools.commands.flow import Plan

    config = found.config
    if config.perf_estimator is None and not node:
        raise HespasError("the key 'perf_estimator' is missing", where=found.path)
    return Plan(
        mlir=required(config, "mlir_file", "or give --mlir_file", found.path),
        steps=(
            split_pass(config),
            RooflineAnnotatePass(node=node or _as_path(found.path)),
            EmitChakraPass(output=output or config.output_dir or ""),
        ),
        devices=found.num_npus,
        **more,
    )


def _as_path(path: str) -> str:
    """The path in a form that is not taken for a preset's name."""
    return path if "/" in path or path.endswith(".json") else f"./{path}"


def required(config: Config, key: str, flag: str, path: str) -> str:
    """The value of a key that the tool cannot do without."""
    value = getattr(config, key)
    if not value:
        raise HespasError(f"the key '{key}' is missing", where=path, remedy=flag)
    return value


def clean(folder: Path, keep: re.Pattern[str] | None = None) -> None:
    """Remove outputs of earlier runs but those that ``keep`` matches; other files stay."""
    for pattern in OUTPUTS:
        for path in folder.glob(pattern):
            if path.is_file() and not (keep and keep.fullmatch(path.name)):
                path.unlink()
