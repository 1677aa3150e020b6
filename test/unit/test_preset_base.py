"""Presets and files that state only what differs from their base."""

import json

import pytest

from hespas import configs
from hespas.configs.preset_base import merge_base
from hespas.support.errors import HespasError

BASE = {
    "name": "old",
    "description": "a device",
    "peaks_flops": {"matrix": {"bf16": 2.0, "f8": 4.0}},
    "tdp_w": 700,
    "calibration": {"like": "older", "fits": {}},
    "sources": {"peaks_flops.matrix.bf16": "sheet", "tdp_w": "sheet"},
}


def test_differences_replace_numbers_and_their_sources():
    data = {"name": "new", "base": "old", "peaks_flops": {"matrix": {"bf16": 3.0}}}
    merged = merge_base(data, BASE)
    assert merged == {
        "name": "new",
        "peaks_flops": {"matrix": {"bf16": 3.0, "f8": 4.0}},
        "tdp_w": 700,
        "calibration": {"like": "old"},
        "sources": {"tdp_w": "old: sheet"},  # that of the replaced rate is gone
    }
    assert BASE["peaks_flops"]["matrix"]["bf16"] == 2.0


def test_a_calibration_is_stated_as_a_whole():
    data = {"name": "new", "base": "old", "calibration": {"like": "old", "same_silicon": True}}
    assert merge_base(data, BASE)["calibration"] == data["calibration"]


def test_a_file_has_what_its_base_has(tmp_path):
    path = tmp_path / "mine.json"
    path.write_text(json.dumps({"name": "mine", "base": "H100_80GB", "tdp_w": 500}))
    derived, base = configs.load_node(str(path)), configs.load_node("H100_80GB")
    assert (derived.name, derived.tdp_w, derived.peaks_flops) == ("mine", 500, base.peaks_flops)
    assert derived.sources["memory_bytes"] == f"H100_80GB: {base.sources['memory_bytes']}"
    assert "tdp_w" not in derived.sources and derived.calibration == {"like": "H100_80GB"}


@pytest.mark.parametrize("base", ["H100", "./mine.json", 3, None])
def test_a_base_is_a_preset(base, tmp_path):
    path = tmp_path / "mine.json"
    path.write_text(json.dumps({"name": "mine", "base": base}))
    with pytest.raises(HespasError, match="'base' is not the name of a preset"):
        configs.load_node(str(path))
