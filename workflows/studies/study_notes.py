"""The notes of a study: what its figures are based on, and every warning once."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from hespas import configs
from hespas.configs.node_spec import NodeSpec
from hespas.configs.overlap_slowdown import list_slowdown_shares
from hespas.support.text_tables import format_percent
from hespas.workflows.studies.study_definition import Study, StudyWorkload

TAG = "tags."  # prefix of the columns that count kernels with uncertain constants


def collect_notes(study: Study, cells: Sequence[Mapping[str, Any]], measured: bool) -> list[str]:
    """Describe what figures are based on: the estimator, each node, and each warning once."""
    notes = [f"estimator {cell['estimator']}, split {cell['split']}" for cell in cells]
    for node in dict.fromkeys(cell["node"] for cell in cells):
        node_cells = [cell for cell in cells if cell["node"] == node]
        notes.append(
            f"{node}: "
            f"{'; '.join(_describe_basis(study, node_cells, configs.load_node(node), measured))}"
        )
    for cell in cells:
        notes += [f"warning: {cell['node']}: {text}" for text in json.loads(cell["warnings"])]
    return list(dict.fromkeys(notes))


def _describe_basis(
    study: Study, cells: Sequence[Mapping[str, Any]], node: NodeSpec, measured: bool
) -> Iterator[str]:
    """Describe what the figures of one node are based on.

    Args:
        study: The study.
        cells: The rows of the node.
        node: The node.
        measured: Whether measured collectives are used by default.
    """
    yield " / ".join(dict.fromkeys(cell["constants"].partition("; ")[0] for cell in cells))
    tags = {name for cell in cells for name in cell if name.startswith(TAG) and cell[name]}
    if tags:
        yield f"some kernels {', '.join(sorted(name.removeprefix(TAG) for name in tags))}"
    if measured and node.collectives and any(cell.get("simulator") for cell in cells):
        yield f"collectives within a host as measured ({node.collectives}), else modelled"
    if measured and node.overlap_slowdown and any(cell.get("overlap_s") for cell in cells):
        shares = list_slowdown_shares(node.overlap_slowdown)
        slowdown = ", ".join(f"{format_percent(share)} ({kind})" for kind, share in shares.items())
        yield f"compute alongside communication takes longer by {slowdown}"
    if any(column.name == "energy_j" for column in study.columns):
        models = dict.fromkeys(cell.get("derived.energy_model") for cell in cells)
        yield from (f"energy {model}" for model in models if model)


def describe_recipes(
    workloads: Sequence[StudyWorkload], changes: Mapping[str, str]
) -> Iterator[str]:
    """Describe each recipe by the options that are not flags of the study."""
    for recipe in dict.fromkeys(workload.recipe for workload in workloads):
        recipe_workloads = [workload for workload in workloads if workload.recipe == recipe]
        names = dict.fromkeys(
            name for workload in recipe_workloads for name in (*workload.defaults, *changes)
        )
        values = {
            name: dict.fromkeys(workload.options[name] for workload in recipe_workloads)
            for name in names
        }
        if values:
            texts = [f"{name}={','.join(option_values)}" for name, option_values in values.items()]
            yield f"recipe {recipe}: {' '.join(texts)}"
