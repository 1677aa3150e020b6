"""``hespas study gemm``: distributed matrix multiplications, by how they are divided."""

from __future__ import annotations

import math
from collections.abc import Iterator

from hespas.tools.studies import study
from hespas.tools.studies.command import Command
from hespas.tools.studies.operators import shape_of
from hespas.tools.studies.study import Axis, Given, Panel, Study, Workload

KINDS = ("all-gather", "reduce-scatter", "all-reduce", "ring", "summa")
NODE = 8  # devices of one

DESCRIPTION = """\
Divide one matrix product over more and more devices, by each way of doing so, and tell what a
device achieves: the same product each time, so that efficiency is that of strong scaling, against
the fewest devices.

  hespas study gemm --devices 1,8,64 --csv gemm.csv --plot gemm.svg

M x K by K x N is MxKxN, or M for a square one. The kinds are those of the recipe `gemm`; summa is
over a grid whose rows are nodes of 8.
"""


def workloads(given: Given) -> Iterator[Workload]:
    for size in given["sizes"]:
        m, k, n = shape_of(size)
        shape = {"m": str(m), "k": str(k), "n": str(n)}
        for kind in given["kinds"]:
            for devices in given["devices"]:
                labels = {"size": size, "kind": kind}
                yield Workload("gemm", {"kind": kind, **shape}, mesh(kind, devices), labels)


def mesh(kind: str, devices: int) -> dict[str, int]:
    """A line; for summa a grid whose rows are nodes, or the one nearest to a square of fewer."""
    if kind != "summa":
        return {"x": devices}
    if devices > NODE and devices % NODE == 0:
        return {"x": devices // NODE, "y": NODE}
    rows = max(n for n in range(1, math.isqrt(devices) + 1) if devices % n == 0)
    return {"x": rows, "y": devices // rows}


STUDY = Study(
    name="gemm",
    title="Distributed matrix products",
    description=DESCRIPTION,
    nodes=("H100_80GB",),
    axes=(
        Axis("kinds", ",".join(KINDS), "ways to divide the product", study.one_of(*KINDS)),
        Axis("sizes", "8192,16384", "products, MxKxN or M"),
        Axis("devices", "1,8,16,32,64", "numbers of devices", study.number),
    ),
    workloads=workloads,
    columns=(
        study.STEP, study.COMPUTE, study.EXPOSED, study.RATE, study.PEAK_SHARE, study.EFFICIENCY,
    ),
    panels=(Panel(("mfu",), "share of peak", share=True),),
    across="devices",
    series=("kind",),
    facet="size",
)  # fmt: skip
COMMAND = Command(STUDY)
arguments, main = COMMAND.arguments, COMMAND.main
