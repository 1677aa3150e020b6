"""Training cases whose programs exceed a limit of the compiler, and the programs that replace them.

A program that XLA finds too large has its logits in parts, if its framework can compute them so.
One that is too large all the same, or takes too long to compile, is predicted from programs with
fewer layers.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterator, Sequence

from hespas.passes.compile.compiler_process import describe_exceeded_size
from hespas.workflows.studies.study_programs import StudyProgram
from hespas.workflows.validation.case_layers import plan_oversized_extension
from hespas.workflows.validation.case_outcomes import CaseOutcome
from hespas.workflows.validation.case_vocabulary import divide_logits


def divide_oversized_logits(
    outcomes: Sequence[CaseOutcome], note: Callable[[str], None]
) -> list[CaseOutcome]:
    """Let cases whose program XLA finds too large have logits in parts; returns those that can."""
    divided = []
    for outcome, program, message in _generate_failures(outcomes):
        limit = describe_exceeded_size(message)
        workload = divide_logits(outcome.case, program.workload) if limit else None
        if workload is None:
            continue
        outcome.program = dataclasses.replace(program, workload=workload)
        parts = f"logits in {workload.options['vocab_tiles']} parts"
        outcome.plan.assumptions.append(f"{parts}, because with all at once {limit}")
        _plan_again(outcome, f"{limit}: now with {parts}", note)
        divided.append(outcome)
    return divided


def extend_oversized_programs(
    outcomes: Sequence[CaseOutcome], note: Callable[[str], None]
) -> list[CaseOutcome]:
    """Let cases whose program XLA did not compile be predicted from smaller ones; returns these."""
    extended = []
    for outcome, program, message in _generate_failures(outcomes):
        extension = plan_oversized_extension(program, message)
        if extension is None:
            continue
        outcome.extend_layers(extension)
        counts = f"{extension.counts.short} and {extension.counts.long} layers"
        _plan_again(outcome, f"{extension.exceeded_limit}: now with {counts}", note)
        extended.append(outcome)
    return extended


def _generate_failures(
    outcomes: Sequence[CaseOutcome],
) -> Iterator[tuple[CaseOutcome, StudyProgram, str]]:
    """Yield the cases whose whole program was not compiled, with the program and the reason."""
    for outcome in outcomes:
        message = outcome.reasons.get("compile", "")
        if outcome.program is not None and outcome.extension is None and message:
            yield outcome, outcome.program, message


def _plan_again(outcome: CaseOutcome, change: str, note: Callable[[str], None]) -> None:
    """Forget why a program was not compiled, and say what replaces it."""
    del outcome.reasons["compile"]
    note(f"validate: {outcome.case.id}: {change}")
