"""The options of an estimate with values to try, for the laws.

Values follow from the types of options. Where they do not, ``VALUES`` has them.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import NoneType, UnionType
from typing import Any, Literal, Union, get_args, get_origin

from hespas.estimators.registry import load_estimator_class
from hespas.support.settings import list_settings
from hespas.workflows.run_config import (
    COMPILE_OPTIONS,
    MEASURING,
    OUTPUTS,
    RunConfig,
    RunOptions,
)
from support.random_programs import render_program

Values = dict[str, Any]
BASE: Values = {"node": "A100_SXM_40GB", "system": "A100_SXM_40GB_4GPU_2", "form": "as-is"}
# Options that name the program or the way it is run, and change no figure. Those of symbolic
# dimensions and of loops of data, which the programs here lack, are in test_symbolic_sizes and
# test_prepare_trips.
NO_CHANGE = {"mlir", "dims", "trip_count", "simulator", "astra_sim", *OUTPUTS, *MEASURING}
# Values of options, beside those that follow from the type.
VALUES: Mapping[str, tuple[Any, ...]] = {
    "node": ("H100_80GB", "TPUv5e"),
    "system": ("ring:8,links=2,link_gb_s=50,latency_ns=500,local_mem_gb_s=100",),
    "estimator": ("roofline", "systolic"),
    "setting": (),  # those of the estimators follow
    "kernel_cost": ("mystery=1000000,2000000",),
    "block_limit": (2,),
    "curves": ("none", "H100_SXM"),
    "slowdown": (0.3, "all_reduce=0.5,other=0.1"),
    "roofline.per_datatype_flops": ("f32=1e13",),
    "roofline.hbm_power_share": (0.5,),
    "roofline.tdp": (300.0,),
    "calibrated.attention": ("flash-attention-2",),
    "xla_optimize": ("async-collectives=remove",),
    "systolic.array": ("TPUv6e",),
    "systolic.rows": (64,),
    "systolic.columns": (64,),
    "systolic.sram_bytes": (100,),
}
MORE: Mapping[str, Values] = {  # what an option, one value of it, or a setting needs beside it
    "estimator=systolic": {"node": "TPUv5e"},
    "fuse=True": {"form": None},
    "overlap=xla": {"form": "xla"},
    "overlap=latency-hiding": {"form": "xla"},
    "overlap=none": {"form": "xla"},
    "xla_optimize=async-collectives=remove": {"form": "xla"},
    "roofline.tdp": {"hbm-power-share": 0.4},
}
BODY = [
    ("op", "tanh"), ("call", 0), ("all_reduce",), ("op", "dot_general"),
    ("loop", 3, [("op", "exponential"), ("all_reduce",)]),
]  # fmt: skip
FUNCTIONS = [[("op", "dot_general"), ("op", "maximum")]]
GAP_OPTIONS = ("keep_going", "kernel_cost")  # they concern ops without a cost
# XLA's compiler reads no asynchronous ops of StableHLO.
FORM_OPTIONS = ("form", "fuse", *COMPILE_OPTIONS)


def render_case_program(option: str) -> str:
    """Render a program for eight devices, whose collectives are between hosts."""
    body = BODY if option in FORM_OPTIONS else [*BODY, ("async", "sine")]
    if option in GAP_OPTIONS:
        body = [*body, ("gap",)]
    text = render_program(body, FUNCTIONS).replace("num_partitions = 2", "num_partitions = 8")
    groups = "[[0, 4], [1, 5], [2, 6], [3, 7]]> :\n    tensor<4x2xi64>"
    return text.replace("[[0, 1]]> :\n    tensor<1x2xi64>", groups)


@dataclass(frozen=True)
class OptionCase:
    """An option with a value that is not its default, and the options of the whole run."""

    option: str
    value: Any
    options: Values

    @property
    def title(self) -> str:
        return f"{self.option}={self.value}"

    def place_program(self, folder: Path) -> Path:
        """Write the program, and return its file."""
        path = folder / f"{self.option or 'default'}.mlir"
        path.write_text(render_case_program(self.option))
        return path


def list_cases() -> Iterator[OptionCase]:
    """List the values to try of each declared option."""
    for name, option in RunConfig.model_fields.items():
        if name not in NO_CHANGE:
            values = _list_values(name, option.annotation, option.default, option.metadata)
            for value in values:
                more = MORE.get(name, MORE.get(f"{name}={value}", {}))
                case = OptionCase(name, value, {**BASE, **more, name: value})
                if case.options != BASE:
                    yield case
    for estimator in ("roofline", "calibrated", "systolic"):
        for setting in list_settings(load_estimator_class(estimator).Config):
            if setting.name == "node":
                continue
            for value in _list_values(f"{estimator}.{setting.name}", setting.type, setting.default):
                name = f"{estimator}.{setting.name}"
                options = {**BASE, **MORE.get(f"estimator={estimator}", {}), "estimator": estimator}
                settings = {**MORE.get(name, {}), setting.spelled: value}
                yield OptionCase(name, value, {**options, "setting": settings})


def _list_values(
    name: str, hint: Any, default: Any, limits: Sequence[object] = ()
) -> tuple[Any, ...]:
    """List values of an option by its type, without its default; numbers on both sides of it.

    A number that has an upper limit is half way between its default and the limit, if the usual one
    is above it.
    """
    if name in VALUES:
        return VALUES[name]
    if get_origin(hint) in (UnionType, Union):
        hint = next(kind for kind in get_args(hint) if kind is not NoneType)
    if get_origin(hint) is Literal:
        return tuple(choice for choice in get_args(hint) if choice != default)
    if hint is bool:
        return (False, True) if default is None else (not default,)
    assert hint in (int, float), f"give the option {name} a value in VALUES"
    if default and hint is float:
        values = (default / 10, default * 10)
    else:
        values = (128,) if hint is int else (1e11,)
    ends = [getattr(limit, "le", getattr(limit, "lt", None)) for limit in limits]
    most = min((end for end in ends if end is not None), default=values[-1])
    return values if values[-1] <= most else (*values[:-1], hint(((default or 0) + most) / 2))


def list_option_values() -> Iterator[tuple[OptionCase, RunOptions]]:
    """List the cases of the options of an estimate, which every command hands on, as values."""
    for case in list_cases():
        if case.option in RunOptions.model_fields or "." in case.option:
            names = [name for name in case.options if name in RunOptions.model_fields]
            yield case, RunOptions(**{name: case.options[name] for name in names})
