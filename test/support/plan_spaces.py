"""Small spaces of layouts, drawn with a seed, which are searched with bounds and without.

    PYTHONPATH=test python -P -m support.plan_spaces 50

prints a line for each of 50 spaces, and exits with 1 if winners are more than 2 % slower than the
best layout in more than 4 % of them, or if a bound is above its estimate. A line begins with the
number of its space; a second argument continues with the space after that number.
"""

from __future__ import annotations

import itertools
import random
import sys
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from hespas.workflows.planning.layout_space import LayoutRequest
from hespas.workflows.planning.plan_result import LayoutPlan, LayoutRow
from hespas.workflows.planning.plan_search import PlanOptions, plan_layouts

DEVICES: Mapping[str, Sequence[int]] = {
    "H100_80GB": (8, 16, 64),
    "A100_SXM_40GB": (8, 32),
    "H200_141GB": (8, 16),
    "B200_180GB": (8, 16),
    "MI300X": (8,),
}
MODELS: Mapping[str, str] = {
    "llama": "tiny", "gpt": "tiny-gpt", "gemma": "tiny-gemma", "moe": "tiny-moe",
}  # fmt: skip
MAX_EXCESS, MIN_SHARE = 0.02, 0.96
REMATS = ("none", "minimal", "save_qkv_proj", "full")
WIDTHS, HEAD_SIZE = (1024, 2048, 4096, 8192), 128


@dataclass(frozen=True)
class SpaceOutcome:
    """How a space was searched.

    Attributes:
        number: The number of the space among those that were drawn, from 1.
        request: The space.
        layouts: The number of its layouts that can be built and estimated.
        estimated: How many of them the search with bounds estimated.
        excess: By how much of the best step time the winner is slower than the best layout.
        largest_share: The largest bound of a layout as a share of its estimate.
    """

    number: int
    request: LayoutRequest
    layouts: int
    estimated: int
    excess: float
    largest_share: float

    def format_row(self) -> str:
        """Format the outcome as one line."""
        request = self.request
        width = request.options["emb"][0]
        return (
            f"{self.number}: {request.program} emb={width} on {request.devices} {request.node}, "
            f"{request.global_batch} sequences of {request.options['sequence'][0]}: "
            f"{self.estimated} of {self.layouts} estimated, winner {100 * self.excess:.2f} % "
            f"slower than the best, bounds at most {100 * self.largest_share:.1f} %"
        )


def draw_requests(seed: int) -> Iterator[LayoutRequest]:
    """Draw requests with a program, a width, a machine, a batch, and what is searched."""
    source = random.Random(seed)
    while True:
        node = source.choice(list(DEVICES))
        devices = source.choice(DEVICES[node])
        program = source.choice(list(MODELS))
        width = source.choice(WIDTHS)
        heads = width // HEAD_SIZE
        options = {
            "model": MODELS[program], "layers": "4", "emb": str(width), "heads": str(heads),
            "mlp": str(4 * width), "vocab": "32000", "head_dim": str(HEAD_SIZE),
            "kv_heads": str(heads // source.choice((1, 1 if program == "gpt" else 4))),
            "sequence": str(source.choice((1024, 2048, 4096))),
        }  # fmt: skip
        count = source.choice((1, 2, 4))
        varied = {"remat": [source.choice(REMATS)], "accumulate": [str(count)]}
        axes = {"tensor": [1, 2, 4], "data": [1, 2, 4]}
        if program == "moe":
            axes["expert"] = [source.choice((1, 2))]
        yield LayoutRequest(
            program, node, devices, devices * count * source.choice((1, 2)), axes,
            {**{name: [value] for name, value in options.items()}, **varied},
        )  # fmt: skip


def survey_spaces(count: int, skipped: int = 0, seed: int = 0) -> Iterator[SpaceOutcome]:
    """Search spaces both ways, until ``count`` of them had two layouts that fit.

    The first ``skipped`` spaces of the seed are drawn and not searched.
    """
    numbered = itertools.islice(enumerate(draw_requests(seed), 1), skipped, None)
    outcomes = (_search_space(number, request) for number, request in numbered)
    yield from itertools.islice((outcome for outcome in outcomes if outcome), count)


def is_search_exact(outcomes: Sequence[SpaceOutcome]) -> bool:
    """Return whether winners are within 2 % in 96 % of the spaces, and no bound is too high."""
    near = sum(outcome.excess <= MAX_EXCESS for outcome in outcomes)
    return near >= MIN_SHARE * len(outcomes) and all(o.largest_share <= 1 for o in outcomes)


def _search_space(number: int, request: LayoutRequest) -> SpaceOutcome | None:
    """Search a space with bounds for the best layout, then estimate all; None as of the next."""
    with tempfile.TemporaryDirectory() as folder:
        options = PlanOptions(
            top=1, compile_count=0, work_dir=f"{folder}/programs", cache=f"{folder}/cells",
        )  # fmt: skip
        searched, complete = (
            plan_layouts(request, one, lambda _: None, explain=False)
            for one in (options, replace(options, exhaustive=True))
        )
    return compare_searches(number, request, searched, complete)


def compare_searches(
    number: int, request: LayoutRequest, searched: LayoutPlan, complete: LayoutPlan
) -> SpaceOutcome | None:
    """Compare the searches of a space; None if fewer than two layouts fit."""
    step_s = {_identify_row(row): _get_step_s(row) for row in complete.rows if row.fused}
    possible = [row for row in complete.rows if row.status == "estimated"]
    if len(possible) < 2 or searched.winner is None:
        return None
    bounds = [
        row.bound.step_time_s / step_s[_identify_row(row)]
        for row in searched.rows
        if row.bound and _identify_row(row) in step_s
    ]
    best_s = min(map(_get_step_s, possible))
    return SpaceOutcome(
        number,
        request,
        len(step_s),
        sum(row.fused is not None for row in searched.rows),
        step_s[_identify_row(searched.winner)] / best_s - 1,
        max(bounds, default=0.0),
    )


def _identify_row(row: LayoutRow) -> tuple[tuple[str, str | int], ...]:
    return (*row.candidate.mesh.items(), *row.candidate.options.items())


def _get_step_s(row: LayoutRow) -> float:
    assert row.fused is not None
    return row.fused.step_time_s


if __name__ == "__main__":
    outcomes = []
    for outcome in survey_spaces(*map(int, sys.argv[1:3])):
        outcomes.append(outcome)
        print(outcome.format_row(), flush=True)
    sys.exit(0 if is_search_exact(outcomes) else 1)
