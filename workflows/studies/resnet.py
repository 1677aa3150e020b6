"""``hespas study resnet``: data-parallel training of ResNets of several depths."""

from __future__ import annotations

from collections.abc import Iterator

from hespas.workflows.studies import study_definition as base
from hespas.workflows.studies.study_definition import (
    AxisValues,
    Study,
    StudyAxis,
    StudyPanel,
    StudyWorkload,
)

BATCH = {"batch": "256"}
DEPTHS = ("18", "34", "50", "101", "152", "200")

DESCRIPTION = """\
Train ResNets of several depths, data-parallel over more and more devices, with the same number of
images for each device: weak scaling.

  hespas study resnet --depths 50,152 --devices 8,64 --set batch=128 --plot resnet.svg

The program is the recipe `resnet`: v1.5, bf16, batch norm over all devices, SGD; 256 images for
each device unless --set batch=N says otherwise.
"""


def _generate_workloads(axis_values: AxisValues) -> Iterator[StudyWorkload]:
    for depth in axis_values["depths"]:
        for devices in axis_values["devices"]:
            labels = {"depth": depth}
            yield StudyWorkload("resnet", {"depth": depth}, {"data": devices}, labels, BATCH)


STUDY = Study(
    name="resnet",
    title="ResNet training, data-parallel",
    description=DESCRIPTION,
    nodes=("H100_80GB",),
    axes=(
        StudyAxis("depths", "18,34,50,101,152", "layers", base.make_choice_reader(*DEPTHS)),
        StudyAxis("devices", "8,64", "numbers of devices", base.parse_positive_count),
    ),
    workloads=_generate_workloads,
    columns=(
        base.STEP, base.COMPUTE, base.EXPOSED, base.IMAGES, base.MFU, base.EFFICIENCY,
        base.MEMORY, base.FITS,
    ),
    panels=(
        StudyPanel(("samples_per_s",), "images/s", log=True),
        StudyPanel(("mfu",), "MFU", share=True),
    ),
    across="depth",
    series=("devices",),
    facet="node",
)  # fmt: skip
