"""``hespas study gemm``: distributed matrix products, divided in several ways."""

from __future__ import annotations

import math
from collections.abc import Iterator

from hespas.workflows.studies import study_definition as base
from hespas.workflows.studies.operators import parse_product_shape
from hespas.workflows.studies.study_definition import (
    AxisValues,
    Study,
    StudyAxis,
    StudyPanel,
    StudyWorkload,
)

KINDS = ("all-gather", "reduce-scatter", "all-reduce", "ring", "summa")
HOST_DEVICES = 8

DESCRIPTION = """\
Divide one matrix product over more and more devices in several ways, and print the rate that a
device achieves. The product stays the same, so that efficiency is that of strong scaling, relative
to the fewest devices.

  hespas study gemm --devices 1,8,64 --csv gemm.csv --plot gemm.svg

M x K by K x N is MxKxN, or M for a square one. The kinds are those of the recipe `gemm`; summa
uses a grid whose rows are hosts of 8 devices.
"""


def _generate_workloads(axis_values: AxisValues) -> Iterator[StudyWorkload]:
    for size in axis_values["sizes"]:
        m, k, n = parse_product_shape(size)
        shape = {"m": str(m), "k": str(k), "n": str(n)}
        for kind in axis_values["kinds"]:
            for devices in axis_values["devices"]:
                labels = {"size": size, "kind": kind}
                yield StudyWorkload(
                    "gemm", {"kind": kind, **shape}, _make_gemm_mesh(kind, devices), labels
                )


def _make_gemm_mesh(kind: str, devices: int) -> dict[str, int]:
    """Make a line; for summa, a grid whose rows are hosts, or the squarest grid."""
    if kind != "summa":
        return {"x": devices}
    if devices > HOST_DEVICES and devices % HOST_DEVICES == 0:
        return {"x": devices // HOST_DEVICES, "y": HOST_DEVICES}
    rows = max(n for n in range(1, math.isqrt(devices) + 1) if devices % n == 0)
    return {"x": rows, "y": devices // rows}


STUDY = Study(
    name="gemm",
    title="Distributed matrix products",
    description=DESCRIPTION,
    nodes=("H100_80GB",),
    axes=(
        StudyAxis("kinds", ",".join(KINDS), "ways to divide the product",
                  base.make_choice_reader(*KINDS)),
        StudyAxis("sizes", "8192,16384", "products, MxKxN or M"),
        StudyAxis("devices", "1,8,16,32,64", "numbers of devices", base.parse_positive_count),
    ),
    workloads=_generate_workloads,
    columns=(
        base.STEP, base.COMPUTE, base.EXPOSED, base.RATE, base.PEAK_SHARE, base.EFFICIENCY,
    ),
    panels=(StudyPanel(("mfu",), "share of peak", share=True),),
    across="devices",
    series=("kind",),
    facet="size",
)  # fmt: skip
