"""The studies whose programs are the grid of a sweep that hespas ships: ``configs/sweeps``.

``hespas sweep gemm`` runs the file as it is; ``hespas study gemm`` has a flag for each of its axes,
and the table and the plot of the paper.
"""

from __future__ import annotations

import dataclasses
import itertools
from collections.abc import Iterator, Sequence
from typing import Any

from hespas.support.errors import UsageError
from hespas.workflows.studies import study_definition as base
from hespas.workflows.studies.operators import parse_product_shape
from hespas.workflows.studies.study_definition import (
    AxisValues,
    ImpossibleWorkload,
    Study,
    StudyAxis,
    StudyPanel,
    StudyWorkload,
)
from hespas.workflows.sweep.sweep_expressions import LET
from hespas.workflows.sweep.sweep_grid import MESH, RECIPE, expand_cells, read_sweep_file
from hespas.workflows.sweep.sweep_runner import make_recipe_workload

KINDS = ("all-gather", "reduce-scatter", "all-reduce", "ring", "summa")
DEPTHS = ("18", "34", "50", "101", "152", "200")
DEVICES = "let.devices"


def _make_grid_study(name: str, axes: Sequence[StudyAxis], **presentation: Any) -> Study:
    """Make the study of a shipped sweep, whose values are the defaults of the flags."""
    file = read_sweep_file(name)
    values = {key: value if isinstance(value, list) else [value] for key, value in file.items()}
    grid = {k: v for k, v in file.items() if k.partition(".")[0] in (RECIPE, MESH, LET[:-1])}
    ordered = sorted(axes, key=lambda axis: list(file).index(axis.key))

    def generate_workloads(
        axis_values: AxisValues,
    ) -> Iterator[StudyWorkload | ImpossibleWorkload]:
        for point in itertools.product(*(axis_values[axis.name] for axis in ordered)):
            changed: dict[str, Any] = {}
            labels: dict[str, Any] = {}
            for axis, value in zip(ordered, point, strict=True):
                changed |= axis.spell(value) if axis.spell else {axis.key: value}
                if axis.key != DEVICES:
                    labels[axis.key.partition(".")[2]] = value
            (keys,) = expand_cells({**grid, **changed})
            try:
                workload = make_recipe_workload(keys)
            except UsageError as error:
                given = {"devices": keys[DEVICES], **labels}
                texts = ", ".join(base.describe_label(*item) for item in given.items())
                reason = f"{error.message}: {texts}"
                yield ImpossibleWorkload(labels, keys[DEVICES], reason)
                continue
            own = {k: v for k, v in workload.options.items() if f"{RECIPE}.{k}" in changed}
            defaults = {k: v for k, v in workload.options.items() if k not in own}
            yield dataclasses.replace(workload, options=own, labels=labels, defaults=defaults)

    return Study(
        name=name,
        nodes=tuple(values["node"]),
        axes=tuple(
            dataclasses.replace(axis, default=",".join(map(str, values[axis.key]))) for axis in axes
        ),
        workloads=generate_workloads,
        **presentation,
    )


def _spell_product(text: str) -> dict[str, Any]:
    sizes = zip("mkn", parse_product_shape(text), strict=True)
    return {"let.size": text, **{f"{RECIPE}.{name}": size for name, size in sizes}}


DEVICE_AXIS = StudyAxis("devices", "", "numbers of devices", base.parse_positive_count, DEVICES)
TRAINING_AXES = (
    StudyAxis("models", "", "models of the recipe", key="recipe.model"),
    DEVICE_AXIS,
    StudyAxis(
        "tensor",
        "",
        "devices that divide each layer's matrices (tensor parallelism)",
        base.parse_positive_count,
        "let.tensor",
    ),
)
RATIO_PANEL = StudyPanel((base.STEP, base.COMPUTE), "step (full), compute (dashed): s")
MFU_PANEL = StudyPanel((base.MFU,), "MFU", share=True)

STUDIES = {
    study.name: study
    for study in (
        _make_grid_study(
            "gemm",
            (
                StudyAxis(
                    "kinds", "", "ways to divide the product", base.make_choice_reader(*KINDS),
                    "recipe.kind",
                ),
                StudyAxis(
                    "sizes", "", "products, MxKxN or M", key="let.size", spell=_spell_product
                ),
                DEVICE_AXIS,
            ),
            title="Distributed matrix products",
            description="""\
Divide one matrix product over more and more devices in several ways, and print the rate that a
device achieves. The product stays the same, so that efficiency is that of strong scaling, relative
to the fewest devices.

  hespas study gemm --devices 1,8,64 --csv gemm.csv --plot gemm.svg

M x K by K x N is MxKxN, or M for a square one. The kinds are those of the recipe `gemm`; summa
uses a grid whose rows are hosts of 8 devices.
""",
            columns=(
                base.STEP, base.COMPUTE, base.EXPOSED, base.RATE, base.PEAK_SHARE, base.EFFICIENCY,
            ),
            panels=(StudyPanel((base.MFU,), "share of peak", share=True),),
            across="devices",
            series=("kind",),
            facet="size",
        ),
        _make_grid_study(
            "resnet",
            (
                StudyAxis(
                    "depths", "", "layers", base.make_choice_reader(*DEPTHS), "recipe.depth"
                ),
                DEVICE_AXIS,
            ),
            title="ResNet training, data-parallel",
            description="""\
Train ResNets of several depths, data-parallel over more and more devices, with the same number of
images for each device: weak scaling.

  hespas study resnet --depths 50,152 --devices 8,64 --set batch=128 --plot resnet.svg

The program is the recipe `resnet`: v1.5, bf16, batch norm over all devices, SGD; 256 images for
each device unless --set batch=N says otherwise.
""",
            columns=(
                base.STEP, base.COMPUTE, base.EXPOSED, base.IMAGES, base.MFU, base.EFFICIENCY,
                base.MEMORY, base.FITS,
            ),
            panels=(StudyPanel((base.IMAGES,), "images/s", log=True), MFU_PANEL),
            across="depth",
            series=("devices",),
            facet="node",
        ),
        _make_grid_study(
            "llama",
            TRAINING_AXES,
            title="Llama training",
            description="""\
Train Llama models of several sizes on several nodes: time, utilisation and cost of a step.

  hespas study llama --models 8b --node H100_80GB B200_180GB --devices 8,16 --plot llama.svg

The program is the recipe `llama`. Groups of --tensor neighbouring devices divide each layer's
matrices, and FSDP divides the rest over the groups. Each device has a sequence of 4096 tokens
(--set batch=N: N sequences for each group). Layers are a loop unless --set scan=false.
""",
            columns=(
                base.STEP, base.COMPUTE, base.EXPOSED, base.TOKENS, base.MFU, base.MEMORY,
                base.FITS, base.ENERGY, base.COST,
            ),
            panels=(StudyPanel((base.TOKENS,), "tokens/s"), MFU_PANEL, RATIO_PANEL),
            across="model",
            series=("node", "tensor", "devices"),
        ),
        _make_grid_study(
            "scale-out",
            TRAINING_AXES,
            title="Scale-out of Llama training",
            description="""\
Train Llama 2 7B on more and more devices, by FSDP over all of them, and with tensor parallelism in
each host. Work grows with the devices: weak scaling.

  hespas study scale-out --devices 8,64,512 --tensor 8 --plot scale-out.svg

The program is that of hespas study llama.
""",
            columns=(
                base.STEP, base.COMPUTE, base.EXPOSED, base.TOKENS, base.MFU, base.EFFICIENCY,
                base.MEMORY, base.FITS,
            ),
            panels=(
                StudyPanel((base.TOKENS,), "tokens/s (dashed: ideal)", log=True, ideal=True),
                RATIO_PANEL,
                StudyPanel(
                    (base.MFU, base.EFFICIENCY), "MFU (full), efficiency (dashed)", share=True
                ),
            ),
            across="devices",
            series=("model", "node", "tensor"),
        ),
    )
}  # fmt: skip
