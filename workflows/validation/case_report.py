"""The result of predicted training cases: rows for CSV and JSON, scores by group, and tables."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict
from typing import Any

from hespas.configs.kernel_families import find_kernel_family
from hespas.dialects.attrs import LIMITS
from hespas.support.text_tables import (
    TextTable,
    format_count,
    format_scaled,
    format_seconds,
    format_time_range,
)
from hespas.workflows.validation.prediction_scores import (
    SCORE_TITLES,
    PredictionScore,
    score_predictions,
)
from hespas.workflows.validation.training_cases import CaseOptions, CaseOutcome

WORST_COUNT = 10
FAMILIES = ("product", "attention", "stream")  # of classes of kernels
STATED = (
    "id", "source", "model", "seq_len", "global_batch", "hardware", "network", "precision",
    "parallelism", "remat", "framework", "tier", "uncertain", "notes",
)  # fmt: skip
GROUPS: Mapping[str, Callable[[CaseOutcome], str]] = {
    "all": lambda outcome: "rows",
    "hardware": lambda outcome: outcome.case.get_text("hardware"),
    "devices": lambda outcome: str(outcome.case.devices),
    "precision": lambda outcome: outcome.case.get_text("precision"),
    "framework": lambda outcome: outcome.case.get_text("framework").partition(" (")[0],
    "model": lambda outcome: outcome.case.get_text("model"),
    "tier": lambda outcome: outcome.case.get_text("tier"),
}


def build_case_row(outcome: CaseOutcome) -> dict[str, Any]:
    """Build the row of a case: what the table states, what was run, and the result."""
    case, prediction = outcome.case, outcome.prediction
    figures, workload = outcome.figures, outcome.workload
    counts = outcome.extension and outcome.extension.counts
    return {
        **{name: case.get_text(name) or None for name in STATED},
        "id": case.id,
        "devices": case.devices,
        "node": outcome.node or None,
        "system": outcome.system.title if outcome.system else None,
        "form": outcome.form,
        "recipe": workload.recipe if workload else None,
        "mesh": workload.mesh_text if workload else None,
        "options": " ".join(f"{k}={v}" for k, v in workload.options.items()) if workload else None,
        "extended_from_layers": f"{counts.short} {counts.long}" if counts else None,
        "exceeded_limit": (outcome.extension and outcome.extension.exceeded_limit) or None,
        "xla_options": outcome.program.xla_options if outcome.program else None,
        "measured_s": case.measured_s,
        "predicted_s": prediction and prediction.step_s,
        "low_s": prediction and prediction.low_s,
        "high_s": prediction and prediction.high_s,
        "error": prediction and prediction.relative_error,
        "in_band": prediction and prediction.is_inside_band,
        "compute_s": prediction and prediction.compute_s,
        "exposed_comm_s": prediction and prediction.exposed_s,
        "overlapped_comm_s": figures.get("overlap_s"),
        **{f"{bound}_bound_s": figures.get(f"compute_s_by.bound.{bound}") for bound in LIMITS},
        **{f"{family}_s": _sum_family_s(figures, family) for family in FAMILIES},
        "mfu": figures.get("derived.mfu"),
        "peak_bytes": figures.get("memory.peak_bytes"),
        "fits": figures.get("memory.fits"),
        "compile_s": outcome.compile_s,
        "reason": "; ".join(outcome.reasons.values()) or None,
        "reason_kinds": " ".join(outcome.reasons) or None,
        "assumptions": "; ".join(outcome.assumptions) or None,
        "warnings": "; ".join(outcome.warnings) or None,
        "program": prediction and prediction.program,
    }


def _sum_family_s(figures: Mapping[str, Any], family: str) -> float | None:
    """Return the compute time of a family of kernels; None without times by class."""
    prefix = "compute_s_by.class."
    times_s = {
        name.removeprefix(prefix): value
        for name, value in figures.items()
        if name.startswith(prefix) and value is not None
    }
    if not times_s:
        return None
    return sum(value for name, value in times_s.items() if find_kernel_family(name) == family)


def score_groups(
    outcomes: Sequence[CaseOutcome], at_least_s: float
) -> dict[str, dict[str, tuple[int, PredictionScore | None]]]:
    """Score each group: by the name of the group and its value, the rows and the score."""
    scores: dict[str, dict[str, tuple[int, PredictionScore | None]]] = {}
    for name, get_value in GROUPS.items():
        members: dict[str, list[CaseOutcome]] = {}
        for outcome in outcomes:
            members.setdefault(get_value(outcome) or "not stated", []).append(outcome)
        scores[name] = {
            value: (
                len(group),
                score_predictions(
                    [o.prediction for o in group if o.prediction is not None],
                    at_least_s=at_least_s,
                ),
            )
            for value, group in sorted(members.items(), key=lambda item: _make_sort_key(item[0]))
        }
    return scores


def _make_sort_key(value: str) -> tuple[bool, int, str]:
    """Return a key that sorts numbers by size, before names."""
    return (not value.isdecimal(), int(value) if value.isdecimal() else 0, value)


def count_reasons(outcomes: Sequence[CaseOutcome]) -> dict[str, dict[str, Any]]:
    """Count the rows without a prediction by the kind of the reason, most frequent first.

    Returns:
        By kind, the ``rows`` that have it, those that have it ``alone``, and an ``example``.
    """
    members: dict[str, list[CaseOutcome]] = {}
    for outcome in outcomes:
        for kind in outcome.reasons:
            members.setdefault(kind, []).append(outcome)
    counts: dict[str, dict[str, Any]] = {}
    for kind, group in members.items():
        alone = sum(len(outcome.reasons) == 1 for outcome in group)
        example = min(group, key=lambda outcome: len(outcome.reasons))
        text = f"{example.case.id}: {example.reasons[kind]}"
        counts[kind] = {"rows": len(group), "alone": alone, "example": text}
    return dict(sorted(counts.items(), key=lambda item: -item[1]["rows"]))


def build_case_json(
    outcomes: Sequence[CaseOutcome], options: CaseOptions, at_least_s: float
) -> dict[str, Any]:
    """Build the object that ``--json`` prints."""
    return {
        "form": options.form,
        "estimator": options.run.estimator,
        "at_least_s": at_least_s,
        "scores": {
            name: {
                value: {"rows": count, "score": None if score is None else asdict(score)}
                for value, (count, score) in group.items()
            }
            for name, group in score_groups(outcomes, at_least_s).items()
        },
        "reasons": count_reasons(outcomes),
        "rows": [build_case_row(outcome) for outcome in outcomes],
    }


def build_case_tables(outcomes: Sequence[CaseOutcome], at_least_s: float) -> list[TextTable]:
    """Build the tables: predicted rows, scores by group, the worst rows, and the reasons."""
    predicted = [outcome for outcome in outcomes if outcome.prediction is not None]
    tables = []
    if predicted:
        header = ("id", "model", "devices", "node", "measured", "predicted", "band", "error",
                  "in band")  # fmt: skip
        lines = [_format_case_line(outcome) for outcome in predicted]
        extended = sum(outcome.extension is not None for outcome in predicted)
        remark = f", {extended} extended from programs with fewer layers" if extended else ""
        tables.append(TextTable(f"predicted rows{remark}", lines, header, left=2))
        rows = list(_generate_score_lines(score_groups(outcomes, at_least_s)))
        title = f"scores of rows of {1e3 * at_least_s:g} ms and more"
        tables.append(
            TextTable(title, rows, ("group", "", "rows", "predicted", *SCORE_TITLES), left=2)
        )
        tables.append(_build_worst_table(predicted))
    if len(predicted) < len(outcomes):
        tables.append(_build_reason_table(outcomes))
    return tables


def _format_case_line(outcome: CaseOutcome) -> tuple[str, ...]:
    case, prediction = outcome.case, outcome.prediction
    assert prediction is not None
    band = "-"
    if prediction.low_s is not None and prediction.high_s is not None:
        band = format_time_range(prediction.low_s, prediction.high_s)
    return (
        case.id,
        case.get_text("model"),
        str(case.devices),
        outcome.node,
        format_seconds(case.measured_s),
        format_seconds(prediction.step_s),
        band,
        f"{100 * prediction.relative_error:+.1f} %",
        {True: "yes", False: "no", None: "-"}[prediction.is_inside_band],
    )


def _generate_score_lines(
    scores: Mapping[str, Mapping[str, tuple[int, PredictionScore | None]]],
) -> Iterator[tuple[str, ...]]:
    """Yield a line for each group with a score; one with a single value is that of all rows."""
    for name, group in scores.items():
        if name != "all" and len(group) == 1:
            continue
        for value, (count, score) in group.items():
            if score is None:
                continue
            yield (name, value, str(count), *score.format_figures())


def _build_worst_table(predicted: Sequence[CaseOutcome]) -> TextTable:
    """Tabulate the rows with the largest errors, and where their time goes."""

    def get_error(outcome: CaseOutcome) -> float:
        return abs(outcome.prediction.relative_error) if outcome.prediction else 0.0

    header = ("id", "assumptions and warnings", "error", "compute", "of memory", "exposed",
              "overlapped", "peak", "fits")  # fmt: skip
    lines = []
    for outcome in sorted(predicted, key=get_error, reverse=True)[:WORST_COUNT]:
        prediction, figures = outcome.prediction, outcome.figures
        assert prediction is not None
        peak, overlap = figures.get("memory.peak_bytes"), figures.get("overlap_s")
        fits = figures.get("memory.fits")
        count = len(outcome.warnings)
        remarks = [
            *outcome.assumptions,
            *([format_count(count, "warning")] if count else []),
        ]
        lines.append(
            (
                outcome.case.id,
                "; ".join(remarks) or "-",
                f"{100 * prediction.relative_error:+.1f} %",
                format_seconds(prediction.compute_s),
                format_seconds(figures.get("compute_s_by.bound.memory", 0.0)),
                format_seconds(prediction.exposed_s),
                "-" if overlap is None else format_seconds(overlap),
                "-" if peak is None else format_scaled(peak, "B"),
                "-" if fits is None else "yes" if fits else "no",
            )
        )
    return TextTable("largest errors", lines, header, left=2)


def _build_reason_table(outcomes: Sequence[CaseOutcome]) -> TextTable:
    """Tabulate why rows have no prediction; a row may have several reasons."""
    lines = [
        (kind, count["example"], str(count["rows"]), str(count["alone"]))
        for kind, count in count_reasons(outcomes).items()
    ]
    refused = sum(outcome.prediction is None for outcome in outcomes)
    header = ("reason", "for example", "rows", "no other reason")
    return TextTable(f"{format_count(refused, 'row')} without a prediction", lines, header, left=2)
