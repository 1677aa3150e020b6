"""The kernels of a training case whose framework compiles nothing."""

from __future__ import annotations

import re

from hespas.workflows.validation.case_frameworks import read_framework
from hespas.workflows.validation.case_pipelines import read_stage_counts
from hespas.workflows.validation.training_cases import TrainingCase

# What turns PyTorch's operators into larger kernels.
_COMPILERS = re.compile(r"compil|inductor|nvfuser|torchscript|\bjit\b|\bxla\b")


def choose_operator_options(case: TrainingCase, assumptions: list[str]) -> dict[str, str]:
    """Return the options of a decoder whose operators run one by one; {} if they do not.

    The programs of pipelines have no such options.

    Args:
        case: The case.
        assumptions: The list to which assumptions are added.
    """
    framework = read_framework(case)
    text = f"{case.get_text('framework')}; {case.get_text('notes')}".lower()
    if not framework.is_unfused or _COMPILERS.search(text) or read_stage_counts(case).ranks > 1:
        return {}
    options = {"eager": "true"}
    if framework.loss_metrics:
        options["loss_metrics"] = str(framework.loss_metrics)
    assumptions.append("no operator is fused with others, as without torch.compile")
    return options
