"""``hespas study llama``: a training step of Llama models on several nodes."""

from __future__ import annotations

from collections.abc import Iterator

from hespas.workflows.studies import study_definition as base
from hespas.workflows.studies.study_definition import (
    AxisValues,
    ImpossibleWorkload,
    Study,
    StudyAxis,
    StudyPanel,
    StudyWorkload,
)

DESCRIPTION = """\
Train Llama models of several sizes on several nodes: time, utilisation and cost of a step.

  hespas study llama --models 8b --node H100_80GB B200_180GB --devices 8,16 --plot llama.svg

The program is the recipe `llama`. Groups of --tensor neighbouring devices divide each layer's
matrices, and FSDP divides the rest over the groups. Each device has a sequence of 4096 tokens
(--set batch=N: N sequences for each group). Layers are a loop unless --set scan=false.
"""
# The published programs are MaxText's, whose scores have the type of the activations.
MAXTEXT_SCORES = {"wide_scores": "false", "late_division": "true"}
TENSOR_HELP = "devices that divide each layer's matrices (tensor parallelism)"


def generate_workloads(axis_values: AxisValues) -> Iterator[StudyWorkload | ImpossibleWorkload]:
    """Generate the training steps; ``tensor`` must divide the number of devices."""
    for model in axis_values["models"]:
        for tensor in axis_values["tensor"]:
            for devices in axis_values["devices"]:
                labels = {"model": model, "tensor": tensor}
                if devices % tensor:
                    reason = f"{devices} devices do not make groups of {tensor} (--tensor)"
                    yield ImpossibleWorkload(labels, devices, reason)
                    continue
                mesh = {"fsdp": devices // tensor, "tensor": tensor}
                defaults = {"scan": "true", "batch": str(tensor), **MAXTEXT_SCORES}
                yield StudyWorkload("llama", {"model": model}, mesh, labels, defaults)


STUDY = Study(
    name="llama",
    title="Llama training",
    description=DESCRIPTION,
    nodes=("A100_SXM_40GB", "H100_80GB", "H200_141GB", "B200_180GB"),
    axes=(
        StudyAxis("models", "1b,3b,8b", "models of the recipe"),
        StudyAxis("devices", "8", "numbers of devices", base.parse_positive_count),
        StudyAxis("tensor", "1", TENSOR_HELP, base.parse_positive_count),
    ),
    workloads=generate_workloads,
    columns=(
        base.STEP, base.COMPUTE, base.EXPOSED, base.TOKENS, base.MFU, base.MEMORY, base.FITS,
        base.ENERGY, base.COST,
    ),
    panels=(
        StudyPanel(("tokens_per_s",), "tokens/s"),
        StudyPanel(("mfu",), "MFU", share=True),
        StudyPanel(("step_time_s", "compute_s"), "step (full), compute (dashed): s"),
    ),
    across="model",
    series=("node", "tensor", "devices"),
)  # fmt: skip
