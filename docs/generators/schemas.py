"""Generate the JSON Schemas in ``configs/schemas`` from the models that validate the files."""

from __future__ import annotations

import json
from typing import Any

from pydantic import BaseModel

from hespas.configs.accelerator import Accelerator
from hespas.configs.network_fabric import NetworkFabric
from hespas.configs.node_files import NodeFile
from hespas.configs.remote_memory import RemoteMemoryFile
from hespas.configs.system_files import NetworkFile, SystemFile
from hespas.frontends.export.export_spec import ExportSpec
from hespas.passes.emit.stats_model import ModuleStats
from hespas.workflows.run_config import OUTPUTS, RunConfig
from hespas.workflows.run_results import MemoryTimeline
from hespas.workflows.sweep.sweep_grid import CELLS, RECIPE, TOGETHER

DRAFT = "https://json-schema.org/draft/2020-12/schema"
SCALAR = {"type": ["string", "number", "boolean", "null"]}
MODELS: dict[str, tuple[type[BaseModel], str]] = {
    "accelerator": (Accelerator, "the file of an accelerator: systolic arrays and vector units"),
    "export": (ExportSpec, "the spec file of hespas export"),
    "fabric": (NetworkFabric, "fabric.json of a system: what its network can do beyond ASTRA-sim"),
    "memory-timeline": (MemoryTimeline, "memory_timeline.json, which hespas run writes"),
    "module-stats": (ModuleStats, "module_stats.json, which hespas run writes"),
    "network": (NetworkFile, "network.yml of a system"),
    "node": (NodeFile, "the file of a node: peak rates, memory and other constants of a device"),
    "remote-memory": (RemoteMemoryFile, "remote_memory.json of a system, as ASTRA-sim reads it"),
    "run": (RunConfig, "the configuration file of hespas run"),
    "system": (SystemFile, "system.json of a system, as ASTRA-sim reads it"),
}


def build_schemas() -> dict[str, dict[str, Any]]:
    """Build all schemas by name."""
    schemas_by_name = {
        name: _build_model_schema(model, title) for name, (model, title) in MODELS.items()
    }
    schemas_by_name["sweep"] = _build_sweep_schema()
    return dict(sorted(schemas_by_name.items()))


def format_schema_files() -> dict[str, str]:
    """Format the files by name."""
    return {
        f"{name}.json": json.dumps(schema, indent=2) + "\n"
        for name, schema in build_schemas().items()
    }


def _build_model_schema(model: type[BaseModel], title: str) -> dict[str, Any]:
    schema = model.model_json_schema(by_alias=True)
    for definition in (schema, *schema.get("$defs", {}).values()):
        _clean_model_schema(definition)
    if schema.get("additionalProperties") is False:  # a file may name its schema
        schema["properties"] = {"$schema": {"type": "string"}, **schema["properties"]}
    return {"$schema": DRAFT, **schema, "title": title}


def _clean_model_schema(model: dict[str, Any]) -> None:
    """Convert docstrings to plain text, and remove titles that only repeat the keys."""
    if "description" in model:
        model["description"] = " ".join(model["description"].replace("``", "`").split())
    model.pop("title", None)
    for part in model.get("properties", {}).values():
        part.pop("title", None)


def _build_sweep_schema() -> dict[str, Any]:
    """Build the schema of a sweep: each key of a run has a value, or a list as an axis."""
    run = RunConfig.model_json_schema()["properties"]
    cell: dict[str, Any] = {}
    for key, value in run.items():
        if key in (*OUTPUTS, "setting"):
            continue
        text = value.pop("description", "")
        value.pop("title", None)
        value.pop("default", None)
        cell[key] = {"description": text, "anyOf": [value, {"type": "array", "items": value}]}
    cell[RECIPE] = {
        "description": "instead of mlir: a recipe of hespas export, with recipe.KEY and mesh.AXIS",
        "anyOf": [{"type": "string"}, {"type": "array", "items": {"type": "string"}}],
    }
    cell["system"]["description"] += "; auto: the node's preset for the program's devices"
    cell["node"]["description"] += "; patterns such as A100* too"
    cell["mlir"]["description"] += "; patterns too: step-{layers}.mlir"
    values = {"anyOf": [SCALAR, {"type": "array", "items": SCALAR}]}
    setting = {
        "description": "settings of the estimator, each a value or a list",
        "type": "object",
        "additionalProperties": values,
    }
    listed = {key: cell_schema["anyOf"][0] for key, cell_schema in cell.items()}
    text = {"type": "string"}
    return {
        "$schema": DRAFT,
        "additionalProperties": False,
        "description": "Keys with a list are the axes of a grid.",
        "patternProperties": {r"^(node|setting|let|recipe|mesh)\..+$": values},
        "properties": {
            "$schema": text,
            **cell,
            "setting": setting,
            TOGETHER: {
                "description": "groups of keys whose lists go in step: node system",
                "anyOf": [text, {"type": "array", "items": text}],
            },
            CELLS: {
                "description": "cells one by one, instead of or beside the grid",
                "type": "array",
                "items": {
                    "type": "object",
                    "additionalProperties": False,
                    "patternProperties": {r"^(node|setting|let|recipe|mesh)\..+$": SCALAR},
                    "properties": {
                        **listed,
                        "setting": {"type": "object", "additionalProperties": SCALAR},
                    },
                },
            },
        },
        "title": "the file of hespas sweep",
        "type": "object",
    }
