"""An estimator of random costs with every field set, for laws that hold whatever the costs are.

The fields come from the declaration of ``Cost``, so that a new field is drawn, too.
"""

from __future__ import annotations

import math
import os
import random
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar

from hespas.configs.node_spec import NodeSpec
from hespas.dialects.attr_schema import AttrField, list_attr_fields
from hespas.dialects.attrs import Cost
from hespas.estimators import registry
from hespas.estimators.base import ChipFigures, CostItem, Estimator, build_zero_cost
from hespas.estimators.work import UnknownCost, is_free_op
from hespas.support.settings import setting

NAME = "random"
UNKNOWN = "mystery"  # a custom call that no estimate knows
DTYPES = ("bf16", "f32", "i32")
NOT_DRAWN = ("estimator", "digest", "trips", "gap")  # set by the estimator and by the walk


@dataclass(frozen=True)
class RandomConfig:
    """The settings; the memory bandwidth of the node scales every time."""

    node: NodeSpec | None
    seed: int = setting(0, "seed of the random costs")


class RandomEstimator(Estimator):
    """Draw the cost of an op from its name, its types and a seed, with every field set."""

    name: ClassVar[str] = NAME
    version: ClassVar[str] = "1"
    Config: ClassVar[type] = RandomConfig

    def __init__(self, config: RandomConfig) -> None:
        self.config = config

    def estimate(self, item: CostItem) -> Cost:
        if is_free_op(item.op):
            return build_zero_cost(NAME)
        if item.op.name == "stablehlo.custom_call":
            raise UnknownCost("nobody knows", op=item.op)
        types = [str(value.type) for value in (*item.op.operands, *item.op.results)]
        source = random.Random(f"{self.config.seed} {item.op.name} {types}")
        scale = self.config.node.memory_bandwidth_bytes_per_s / 1e12 if self.config.node else 1.0
        return draw_cost(source, scale)

    def describe_chip(self) -> ChipFigures:
        return ChipFigures(area_mm2=400.0, leakage_w=5.0, link_pj_per_byte=8.0)


def draw_cost(source: random.Random, scale: float = 1.0) -> Cost:
    """Draw a cost with every field set; ``scale`` divides its times."""
    values = {
        field.name: _draw_value(source, field)
        for field in list_attr_fields(Cost)
        if field.name not in NOT_DRAWN
    }
    times = [name for name in values if name.endswith("_ns")]
    values |= {name: values[name] / scale for name in times}
    time_ns = Cost(estimator=NAME, **values).time_ns
    for low, high in (("low_ns", "high_ns"), ("shared_low_ns", "shared_high_ns")):
        # The ends of a band lie around the time, and its shared part lies inside.
        inside = 0.5 if low.startswith("shared") else 1.0
        values[low] = time_ns * (1 - 0.3 * inside * source.random())
        values[high] = time_ns * (1 + 0.3 * inside * source.random())
    # The parts of an energy add up to it.
    parts = [name for name in values if name.endswith("_nj") and name != "energy_nj"]
    values["energy_nj"] = math.fsum(values[name] for name in parts)
    values |= {"tag": source.choice(("assumed", "extrapolated", "assumed transferred"))}
    return Cost(estimator=NAME, **values)


def _draw_value(source: random.Random, field: AttrField) -> Any:
    if field.choices:
        return source.choice(field.choices)
    if field.kind.name == "int":
        return source.randint(1, 1 << 30)
    if field.kind.name == "float":
        return math.exp(source.uniform(5, 12))
    return (
        source.choice(DTYPES) if field.name == "dtype" else f"{field.name}.{source.randint(0, 3)}"
    )


def install_random_estimator(folder: Path, monkeypatch: Any) -> None:
    """Install the estimator as a package in a folder, for this process and those that it starts."""
    package = folder / "random_costs-1.dist-info"
    package.mkdir()
    (package / "METADATA").write_text("Metadata-Version: 2.1\nName: random-costs\nVersion: 1\n")
    (package / "entry_points.txt").write_text(
        f"[hespas.estimators]\n{NAME} = {__name__}:{RandomEstimator.__name__}\n"
    )
    tests = Path(__file__).parents[1]
    paths = (str(folder), str(tests), *filter(None, [os.environ.get("PYTHONPATH")]))
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join(paths))
    monkeypatch.syspath_prepend(folder)
    registry.find_plugins.cache_clear()
