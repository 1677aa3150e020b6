"""``hespas study scale-out``: a training step of Llama 2 7B over 8 to 4,096 devices."""

from __future__ import annotations

from hespas.workflows.studies import llama
from hespas.workflows.studies import study_definition as base
from hespas.workflows.studies.study_definition import Study, StudyAxis, StudyPanel

DESCRIPTION = """\
Train Llama 2 7B on more and more devices, by FSDP over all of them, and with tensor parallelism in
each host. Work grows with the devices: weak scaling.

  hespas study scale-out --devices 8,64,512 --tensor 8 --plot scale-out.svg

The program is that of hespas study llama.
"""

STUDY = Study(
    name="scale-out",
    title="Scale-out of Llama training",
    description=DESCRIPTION,
    nodes=("H100_80GB",),
    axes=(
        StudyAxis("models", "llama2-7b", "models of the recipe"),
        StudyAxis("devices", ",".join(str(2**n) for n in range(3, 13)), "devices",
                  base.parse_positive_count),
        StudyAxis("tensor", "1,8", llama.TENSOR_HELP, base.parse_positive_count),
    ),
    workloads=llama.generate_workloads,
    columns=(
        base.STEP, base.COMPUTE, base.EXPOSED, base.TOKENS, base.MFU, base.EFFICIENCY,
        base.MEMORY, base.FITS,
    ),
    panels=(
        StudyPanel(("tokens_per_s",), "tokens/s (dashed: ideal)", log=True, ideal=True),
        StudyPanel(("step_time_s", "compute_s"), "step (full), compute (dashed): s"),
        StudyPanel(("mfu", "efficiency"), "MFU (full), efficiency (dashed)", share=True),
    ),
    across="devices",
    series=("model", "node", "tensor"),
)  # fmt: skip
