"""``hespas study llama``: a training step of Llama models, node by node."""

from __future__ import annotations

from collections.abc import Iterator

from hespas.dialects.errors import UsageError
from hespas.tools.studies import study
from hespas.tools.studies.command import Command
from hespas.tools.studies.study import Axis, Given, Panel, Study, Workload

DESCRIPTION = """\
Train Llama models of several sizes on several nodes: what a step takes, achieves and costs.

  hespas study llama --models 8b --node H100_80GB B200_180GB --devices 8,16 --plot llama.svg

The program is the recipe `llama`: --tensor devices, neighbours, divide each layer's matrices, and
fsdp what is left of them. For each device there is a sequence of 4096 tokens (--set batch=N: N for
each group of tensor devices). Layers are a loop; --set scan=false writes them out.
"""
TENSOR_HELP = "devices that divide each layer's matrices (tensor parallelism)"


def workloads(given: Given) -> Iterator[Workload]:
    """Training steps; raises UsageError where devices do not make groups of ``tensor``."""
    for model in given["models"]:
        for tensor in given["tensor"]:
            for devices in given["devices"]:
                if devices % tensor:
                    raise UsageError(f"{devices} devices do not make groups of {tensor} (--tensor)")
                mesh = {"fsdp": devices // tensor, "tensor": tensor}
                labels = {"model": model, "tensor": tensor}
                defaults = {"scan": "true", "batch": str(tensor)}
                yield Workload("llama", {"model": model}, mesh, labels, defaults)


STUDY = Study(
    name="llama",
    title="Llama training",
    description=DESCRIPTION,
    nodes=("A100_SXM_40GB", "H100_80GB", "H200_141GB", "B200_180GB"),
    axes=(
        Axis("models", "1b,3b,8b", "models of the recipe"),
        Axis("devices", "8", "numbers of devices", study.number),
        Axis("tensor", "1", TENSOR_HELP, study.number),
    ),
    workloads=workloads,
    columns=(
        study.STEP, study.COMPUTE, study.EXPOSED, study.TOKENS, study.MFU, study.MEMORY, study.FITS,
        study.ENERGY, study.COST,
    ),
    panels=(
        Panel(("tokens_per_s",), "tokens/s"),
        Panel(("mfu",), "MFU", share=True),
        Panel(("step_time_s", "compute_s"), "step (full), compute (dashed): s"),
    ),
    across="model",
    series=("node", "tensor", "devices"),
)  # fmt: skip
COMMAND = Command(STUDY)
arguments, main = COMMAND.arguments, COMMAND.main
