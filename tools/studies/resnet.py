"""``hespas study resnet``: data-parallel training of ResNets of several depths."""

from __future__ import annotations

from collections.abc import Iterator

from hespas.tools.studies import study
from hespas.tools.studies.command import Command
from hespas.tools.studies.study import Axis, Given, Panel, Study, Workload

BATCH = {"batch": "256"}
DEPTHS = ("18", "34", "50", "101", "152", "200")

DESCRIPTION = """\
Train ResNets of several depths, data-parallel over more and more devices, each with the same number
of images: weak scaling.

  hespas study resnet --depths 50,152 --devices 8,64 --set batch=128 --plot resnet.svg

The program is the recipe `resnet`: v1.5, bf16, batch norm over all devices, SGD; 256 images for
each device unless --set batch=N says otherwise.
"""


def workloads(given: Given) -> Iterator[Workload]:
    for depth in given["depths"]:
        for devices in given["devices"]:
            labels = {"depth": depth}
            yield Workload("resnet", {"depth": depth}, {"data": devices}, labels, BATCH)


STUDY = Study(
    name="resnet",
    title="ResNet training, data-parallel",
    description=DESCRIPTION,
    nodes=("H100_80GB",),
    axes=(
        Axis("depths", "18,34,50,101,152", "layers", study.one_of(*DEPTHS)),
        Axis("devices", "8,64", "numbers of devices", study.number),
    ),
    workloads=workloads,
    columns=(
        study.STEP, study.COMPUTE, study.EXPOSED, study.IMAGES, study.MFU, study.EFFICIENCY,
        study.MEMORY, study.FITS,
    ),
    panels=(
        Panel(("samples_per_s",), "images/s", log=True),
        Panel(("mfu",), "MFU", share=True),
    ),
    across="depth",
    series=("devices",),
    facet="node",
)  # fmt: skip
COMMAND = Command(STUDY)
arguments, main = COMMAND.arguments, COMMAND.main
