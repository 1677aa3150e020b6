"""``hespas study scale-out``: a training step of Llama 2 7B over 8 to 4,096 devices."""

from __future__ import annotations

from hespas.tools.studies import llama, study
from hespas.tools.studies.command import Command
from hespas.tools.studies.study import Axis, Panel, Study

DESCRIPTION = """\
Train Llama 2 7B on more and more devices, from export to simulation: by FSDP over all of them, and
with tensor parallelism in each node. Work grows with the devices: weak scaling.

  hespas study scale-out --devices 8,64,512 --tensor 8 --plot scale-out.svg

The program is that of hespas study llama.
"""

STUDY = Study(
    name="scale-out",
    title="Scale-out of Llama training",
    description=DESCRIPTION,
    nodes=("H100_80GB",),
    axes=(
        Axis("models", "llama2-7b", "models of the recipe"),
        Axis("devices", ",".join(str(2**n) for n in range(3, 13)), "devices", study.number),
        Axis("tensor", "1,8", llama.TENSOR_HELP, study.number),
    ),
    workloads=llama.workloads,
    columns=(
        study.STEP, study.COMPUTE, study.EXPOSED, study.TOKENS, study.MFU, study.EFFICIENCY,
        study.MEMORY, study.FITS,
    ),
    panels=(
        Panel(("tokens_per_s",), "tokens/s (dashed: ideal)", log=True, ideal=True),
        Panel(("step_time_s", "compute_s"), "step (full), compute (dashed): s"),
        Panel(("mfu", "efficiency"), "MFU (full), efficiency (dashed)", share=True),
    ),
    across="devices",
    series=("model", "node", "tensor"),
)  # fmt: skip
COMMAND = Command(STUDY)
arguments, main = COMMAND.arguments, COMMAND.main
