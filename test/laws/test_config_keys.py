"""Keys of configuration files: each is read, and a boolean is no number."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from dataclasses import MISSING, fields
from pathlib import Path
from typing import Any, get_args

import pytest
from pydantic import BaseModel

from docs.generators import schemas
from hespas.configs.node_files import NodeFile
from hespas.configs.node_spec import NodeSpec
from hespas.configs.preset_base import BASE
from hespas.configs.system_files import NetworkFile, SystemFile
from hespas.configs.system_spec import COLLECTIVES
from hespas.configs.validation import validate_config
from hespas.support.errors import HespasError

ROOT = Path(__file__).parents[2]
# What hespas states of a node without a file saying so.
NODE_STATE = {"warn_default", "is_anonymous", "changed"}
OUTPUTS = ("memory-timeline", "module-stats")  # hespas writes these files
ASTRA = "ASTRA-sim reads the file, too; it changes no time"
READ_IN_A_LOOP = {
    f"{prefix}{name.replace('-', '_')}" for name in COLLECTIVES for prefix in ("", "custom_")
}
UNREAD = {
    **dict.fromkeys(
        ("boost_mode", "trace_enabled", "local_reduction_delay", "local_mem_trace_filename"), ASTRA
    ),
    **dict.fromkeys(("intra_dimension_scheduling", "inter_dimension_scheduling"), ASTRA),
    **dict.fromkeys(("model_shared_bus", "replay_only"), "only the value that turns it off"),
    "backward_source": "a source",
    "coverage": "how good a fit is; `hespas calibrate` prints it",
}


def iterate_models(model: type[BaseModel]) -> Iterator[type[BaseModel]]:
    """Yield a model, and the models of its fields."""
    yield model
    for field in model.__pydantic_fields__.values():
        pending: list[Any] = [field.annotation]
        while pending:
            kind = pending.pop()
            pending += get_args(kind)
            if isinstance(kind, type) and issubclass(kind, BaseModel):
                yield from iterate_models(kind)


def collect_read_names() -> set[str]:
    """Collect the attributes and keys that the product reads."""
    names: set[str] = set()
    for room in sorted(p.name for p in ROOT.iterdir() if (p / "__init__.py").exists()):
        for path in (ROOT / room).rglob("*.py"):
            for node in ast.walk(ast.parse(path.read_text())):
                if isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Load):
                    names.add(node.attr)
                elif isinstance(node, ast.Subscript) and isinstance(node.slice, ast.Constant):
                    names.add(str(node.slice.value))
                elif isinstance(node, ast.Call) and ast.unparse(node.func).endswith(".get"):
                    names.update(str(a.value) for a in node.args if isinstance(a, ast.Constant))
    return names


def test_each_key_of_a_file_is_read() -> None:
    models = {
        model
        for name, (root, _) in schemas.MODELS.items()
        if name not in OUTPUTS
        for model in iterate_models(root)
    }
    keys = {name: model.__name__ for model in models for name in model.__pydantic_fields__}
    unread = keys.keys() - collect_read_names() - READ_IN_A_LOOP
    assert unread == UNREAD.keys(), {name: keys.get(name) for name in unread ^ UNREAD.keys()}


def test_a_node_has_the_keys_of_its_file() -> None:
    """Files are checked by a model of pydantic, which takes long to import; presets are not."""
    values = {f.name: f for f in fields(NodeSpec) if f.name not in NODE_STATE}
    keys = {name: f for name, f in NodeFile.__pydantic_fields__.items() if name != BASE}
    assert values.keys() == keys.keys()
    for name, field in values.items():
        is_required = field.default is MISSING and field.default_factory is MISSING
        assert is_required == keys[name].is_required(), name
        if field.default is not MISSING:
            assert field.default == keys[name].default, name


NODE = {
    "name": "mine",
    "memory_bandwidth_bytes_per_s": 1e12,
    "peaks_flops": {"matrix": {"bf16": 1e14}},
}
SYSTEM = {"scheduling-policy": "LIFO", "preferred-dataset-splits": 4}
NETWORK = {"topology": ["Ring"], "npus_count": [2], "bandwidth": [50.0], "latency": [500.0]}


@pytest.mark.parametrize(
    ("model", "valid", "key", "value"),
    [
        (NodeFile, NODE, "memory_bandwidth_bytes_per_s", True),
        (NodeFile, NODE, "memory_bytes", True),
        (NodeFile, NODE, "tdp_w", True),
        (NodeFile, NODE, "peaks_flops.matrix.bf16", {"matrix": {"bf16": True}}),
        (NodeFile, NODE, "silicon.leakage_w", {"leakage_w": False}),
        (
            NodeFile,
            NODE,
            "calibration.fits.attention.band.0.2",
            {"fits": {"attention": {"fixed_s": 0, "bandwidth": 1, "band": [[1, 0, False]]}}},
        ),
        (SystemFile, SYSTEM, "preferred-dataset-splits", True),
        (SystemFile, SYSTEM, "local-mem-bw", True),
        (NetworkFile, NETWORK, "latency.0", [False]),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_a_boolean_is_no_number(
    model: type[BaseModel], valid: dict[str, Any], key: str, value: object
) -> None:
    validate_config(model, valid, "file.json")
    data = {**valid, key.partition(".")[0]: value}
    with pytest.raises(HespasError) as caught:
        validate_config(model, data, "file.json")
    expected = f"file.json: error: '{key}' is a number, not true or false; write the number"
    assert str(caught.value) == expected


def test_flags_of_astra_sim_may_be_booleans() -> None:
    keys = validate_config(SystemFile, {**SYSTEM, "roofline-enabled": True}, "system.json")
    assert keys.roofline_enabled is True
