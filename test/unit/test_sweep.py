"""The cells that a sweep's file and flags make, and its table."""

from __future__ import annotations

import itertools
import json
import sys
import tempfile
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.budgets import draw_examples

from hespas import configs
from hespas.configs.simple_yaml import split_list_items
from hespas.support.errors import HespasError, UsageError
from hespas.workflows.sweep import sweep_grid, sweep_runner, sweep_summary, sweep_table

KEYS = ("split", "block_limit", "setting.quantise", "node.tdp_w", "curves", "slowdown", "estimator")
values = st.one_of(st.integers(-5, 5), st.booleans(), st.sampled_from("abc"), st.floats(-1, 1))


@draw_examples(60)
@given(
    st.dictionaries(
        st.sampled_from(KEYS), st.lists(values, min_size=1, max_size=4, unique_by=repr)
    ),
    st.integers(0, 2**20),
)
def test_the_cells_are_all_combinations_each_once(axes, seed):
    scalar = {key: seen[0] for key, seen in axes.items() if len(seen) == 1 and seed % 2}
    cells = sweep_grid.expand_cells({"mlir": "a.mlir", **axes, **scalar})
    expected = [
        {"mlir": "a.mlir", **dict(zip(axes, row, strict=True))}
        for row in itertools.product(*axes.values())
    ]
    assert cells == expected
    assert len(cells) == len({repr(cell) for cell in cells})


@given(st.lists(st.tuples(values, values), min_size=1, max_size=5, unique_by=repr))
def test_what_goes_together_is_not_combined(rows):
    first, second = [list(column) for column in zip(*rows, strict=True)]
    keys = {
        "together": "split curves", "split": first, "curves": second, "block_limit": [0, 1],
    }  # fmt: skip
    cells = sweep_grid.expand_cells(keys)
    assert [(c["split"], c["curves"], c["block_limit"]) for c in cells] == [
        (*row, limit) for row in rows for limit in (0, 1)
    ]


def test_equal_cells_are_one_and_types_tell_them_apart():
    assert (
        len(sweep_grid.expand_cells({"split": ["a", "a"], "block_limit": [1, True, 1.0, 1]})) == 3
    )


def test_cells_one_by_one_are_combined_with_axes():
    keys = {"split": ["a", "b"], "cells": [{"node": "A"}, {"node": "B", "system": "S"}]}
    assert sweep_grid.expand_cells(keys) == [
        {"split": "a", "node": "A"}, {"split": "a", "node": "B", "system": "S"},
        {"split": "b", "node": "A"}, {"split": "b", "node": "B", "system": "S"},
    ]  # fmt: skip


def test_yaml_and_json_say_the_same(tmp_path):
    text = """
# a sweep
mlir: a.mlir
node: [A, B]   # two
system:
- X
- Y
together: node system
node.memory_bandwidth_bytes_per_s: [1e12, 2e12]
"""
    (tmp_path / "s.yml").write_text(text)
    same = {
        "mlir": "a.mlir", "node": ["A", "B"], "system": ["X", "Y"], "together": ["node system"],
        "node.memory_bandwidth_bytes_per_s": [1e12, 2e12],
    }  # fmt: skip
    (tmp_path / "s.json").write_text(json.dumps(same))
    read = [
        sweep_grid.expand_cells(sweep_grid.read_sweep_file(str(tmp_path / name)))
        for name in ("s.yml", "s.json")
    ]
    assert read[0] == read[1] and len(read[0]) == 4
    assert {(c["node"], c["system"]) for c in read[0]} == {("A", "X"), ("B", "Y")}


def test_settings_may_be_an_object():
    cells = sweep_grid.expand_cells({"setting": {"quantise": [True, False], "rows": 4}})
    assert cells == [{"setting.quantise": q, "setting.rows": 4} for q in (True, False)]


@pytest.mark.parametrize(
    ("keys", "message"),
    [
        ({"spilt": "linear"}, "unknown key 'spilt'"),
        ({"output": "x"}, "a sweep has no 'output'"),
        ({"node.": 1}, "unknown key 'node.'"),
        ({"split": []}, "'split' is an empty list"),
        ({"split": {"a": 1}}, "'split' holds {'a': 1}"),
        ({"split": [["a"]]}, r"'split' holds \['a'\]"),
        ({"together": "split"}, "a group of 'split' alone"),
        ({"together": ["node", "system"]}, "a group of 'node' alone"),
        ({"together": 3}, "is not a group of keys"),
        ({"together": "split node", "split": ["a"]}, "names 'node', which is not a list"),
        ({"together": "split node", "split": ["a"], "node": "b"}, "'node', which is not a list"),
        ({"together": "split node", "split": ["a"], "node": ["b", "c"]}, "1 of split, 2 of node"),
        ({"together": ["split node", "node split"], "split": ["a"], "node": ["b"]}, "a key twice"),
        ({"cells": 3}, "'cells' is not a list of objects"),
        ({"cells": [{"split": ["a"]}]}, "'split' must be a value, not a list"),
        ({"split": "b", "cells": [{"split": "a"}]}, "is both in 'cells' and outside of it"),
        ({"split": ["a"] * 1, "block_limit": list(range(1001)), "slowdown": list(range(1001))},
         "there are 1,002,001 cells"),
        ({"node": "Z*"}, "no node preset matches 'Z\\*'"),
        ({"mlir": "none-*.mlir"}, "no file matches the pattern"),
        ({"mlir": "none-{1}.mlir"}, "in the pattern is not a valid name"),
        ({"block_limit": "range(1,2,0)"}, r"'range\(1,2,0\)' is not a range"),
        ({"slowdown": ["range(0.1,1)"]}, r"'range\(0.1,1\)' is not a range"),
        ({"block_limit": "range(5,5)"}, "'block_limit' is an empty list"),
        ({"block_limit": "range(9999999)"}, "has 9,999,999 numbers"),
    ],
)  # fmt: skip
def test_wrong_sweeps_are_one_error(keys, message):
    with pytest.raises(HespasError, match=message):
        sweep_grid.expand_cells(keys)


def test_flags_take_the_place_of_keys():
    file = {"mlir": "a", "node": ["A", "B"], "system": ["X", "Y"], "together": "node system"}
    assert sweep_grid.merge_flags(file, {"mlir": ["b"], "split": ["c"]}) == {
        **file, "mlir": ["b"], "split": ["c"],
    }  # fmt: skip
    with pytest.raises(UsageError, match="a flag sets 'node'"):
        sweep_grid.merge_flags(file, {"node": ["C"]})
    with pytest.raises(UsageError, match="a flag sets 'split'"):
        sweep_grid.merge_flags({"cells": [{"split": "a"}]}, {"split": ["b"]})
    with pytest.raises(HespasError, match="'cells' is not a list of objects"):
        sweep_grid.merge_flags({"cells": 3}, {})


def test_patterns_name_programs_and_numbers(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    for name in ("m-2-tp8.mlir", "m-16-tp8.mlir", "m-16-tp2.mlir", "m-x-tp8.mlir", "n[1].mlir"):
        Path(name).write_text("")
    cells = sweep_grid.expand_cells({"mlir": "m-{dp}-tp{tp}.mlir"})
    family = {"family": "m-{dp}-tp{tp}.mlir"}
    assert cells == [
        {"mlir": "m-2-tp8.mlir", "dp": 2, "tp": 8, **family},
        {"mlir": "m-16-tp2.mlir", "dp": 16, "tp": 2, **family},
        {"mlir": "m-16-tp8.mlir", "dp": 16, "tp": 8, **family},
    ]
    assert [c["mlir"] for c in sweep_grid.expand_cells({"mlir": "m-*-tp{n}.mlir"})] == [
        "m-16-tp2.mlir", "m-16-tp8.mlir", "m-2-tp8.mlir", "m-x-tp8.mlir",
    ]  # fmt: skip
    assert sweep_grid.expand_cells({"mlir": "n[1].mlir"}) == [{"mlir": "n[1].mlir"}]
    assert sweep_grid.expand_cells({"mlir": "m-{n}-tp{n}.mlir"} | {"mlir": ["m-2*", "m-x*"]}) == [
        {"mlir": "m-2-tp8.mlir"}, {"mlir": "m-x-tp8.mlir"},
    ]  # fmt: skip
    with pytest.raises(HespasError, match=r"\{split\} in the name of a program is an option"):
        sweep_grid.expand_cells({"mlir": "m-{split}-tp8.mlir"})
    with pytest.raises(HespasError, match=r"\{family\} in the name of a program is a column"):
        sweep_grid.expand_cells({"mlir": "m-{family}-tp8.mlir"})


def test_a_family_is_a_name_apart_from_its_numbers(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    for name in ("a-d2-2.mlir", "a-d4-4.mlir", "b-d4-4.mlir", "b-d4-8.mlir"):
        Path(name).write_text("")
    cells = sweep_grid.expand_cells({"mlir": "*-d{n}-{n}.mlir"})
    assert [(cell["family"], cell["n"]) for cell in cells] == [
        ("a-d{n}-{n}.mlir", 2), ("a-d{n}-{n}.mlir", 4), ("b-d{n}-{n}.mlir", 4),
    ]  # fmt: skip


RATES = {"estimator": "roofline", "derived.tokens_per_s": None, "flops": 100}


def make_row(program: str, devices: int, time_s: float, **cell) -> dict:
    """Make the row of a simulated cell."""
    return {
        "cell.mlir": program, **{f"cell.{key}": value for key, value in cell.items()},
        "devices": devices, "step_time_s": time_s, "compute_s": time_s, "system": "S", **RATES,
    }  # fmt: skip


def test_only_programs_of_a_family_are_compared():
    """Unrelated programs have no efficiency between them, whatever their numbers of devices."""

    def list_scaling(rows) -> list:
        tables = sweep_summary.make_summary_tables(sweep_runner.SweepOutcome(rows), None)
        return [row for t in tables if t.title.startswith("Scaling") for row in t.rows]

    resnet, llama = make_row("resnet.mlir", 4, 1.0), make_row("llama.mlir", 8, 1.0)
    assert list_scaling([resnet, llama]) == []
    resnets = [make_row(f"r{n}.mlir", n, 1.0, n=n, family="r{n}.mlir") for n in (2, 4)]
    llamas = [make_row(f"l{n}.mlir", n, 2.0, n=n, family="l{n}.mlir") for n in (4, 8)]
    rows = list_scaling([resnet, *resnets, *llamas, llama])
    assert [(row[0], row[-1]) for row in rows] == [
        ("r{n}.mlir", "100.0 %"), ("r{n}.mlir", "100.0 %"),
        ("l{n}.mlir", "100.0 %"), ("l{n}.mlir", "100.0 %"),
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("text", "items"),
    [
        ("1,2", ["1", "2"]),
        ("range(64,512,64)", ["range(64,512,64)"]),
        ("a,range(1,3),b", ["a", "range(1,3)", "b"]),
        ("[a,b],{c,d}", ["[a,b]", "{c,d}"]),
        ("'a,b',c", ["'a,b'", "c"]),
        ("don't,stop", ["don't", "stop"]),
        ("a),b", ["a)", "b"]),
        ("", [""]),
    ],
)
def test_lists_are_split_outside_brackets_and_quotes(text, items):
    assert split_list_items(text) == items


def test_ranges_are_lists_of_numbers(tmp_path):
    (tmp_path / "s.yml").write_text("block_limit: [range(64, 257, 64), 1024]\nslowdown: range(2)\n")
    cells = sweep_grid.expand_cells(sweep_grid.read_sweep_file(str(tmp_path / "s.yml")))
    assert [cell["block_limit"] for cell in cells[::2]] == [64, 128, 192, 256, 1024]
    assert [cell["slowdown"] for cell in cells[:2]] == [0, 1]


def test_patterns_name_nodes_and_systems(tmp_path, monkeypatch):
    assert sweep_grid.expand_cells({"node": "A100_SXM*"}) == [
        {"node": "A100_SXM_40GB"}, {"node": "A100_SXM_80GB"},
    ]  # fmt: skip
    assert sweep_grid.find_systems("HGX_*") == [
        "HGX_B200_8",
        "HGX_B300_8",
        "HGX_H100_8",
        "HGX_H200_8",
    ]
    monkeypatch.chdir(tmp_path)
    for name in ("nets/a4", "nets/a8"):
        Path(name).mkdir(parents=True)
        for file, text in configs.read_system_files("HGX_H100_8").items():
            Path(name, file).write_text(text)
    Path("nets/a9").mkdir()
    assert (
        sweep_grid.is_pattern("nets/a*")
        and not sweep_grid.is_pattern("nets/a4")
        and not sweep_grid.is_pattern(None)
    )
    assert sweep_grid.find_systems("nets/a*") == ["nets/a4", "nets/a8"]
    with pytest.raises(HespasError, match=r"has a network\.yml"):
        sweep_grid.find_systems("nets/b*")


names = st.sampled_from(["a", "b.c", "stablehlo.add", "stablehlo.while", "x"])
numbers = st.one_of(st.none(), st.integers(0, 2**70), st.floats(0, 1e30, allow_nan=False))
figures = st.fixed_dictionaries(
    {
        "step_time_s": numbers,
        "estimator": st.text(min_size=1),
        "warnings": st.lists(st.text()),
        "compute_band_s": st.one_of(st.none(), st.tuples(st.floats(0, 1), st.floats(0, 1))),
        "tags": st.dictionaries(st.sampled_from(["assumed", "extrapolated"]), st.integers(0, 99)),
        "compute_s_by": st.fixed_dictionaries(
            {by: st.dictionaries(names, st.floats(0, 1)) for by in ("op", "bound")}
        ),
        "collectives": st.lists(st.fixed_dictionaries({"kind": names, "count": st.integers(0, 9)})),
        "measured": st.one_of(st.none(), st.fixed_dictionaries({"regions": st.integers(0, 9)})),
    }
)


def without_nothing(value):
    """Without None and empty objects, which a table has no cells for; lists for tuples."""
    if isinstance(value, dict):
        entries = {key: without_nothing(inner) for key, inner in value.items()}
        return {k: v for k, v in entries.items() if v is not None and v != {}}
    return list(value) if isinstance(value, tuple) else value


@given(figures)
def test_a_row_gives_the_object_back(run_figures):
    run_figures = json.loads(json.dumps(run_figures))
    row = {
        "cell.node": "A",
        "error": None,
        **sweep_table.flatten_figures(run_figures),
        "provenance.x": 1,
    }
    restored = sweep_table.unflatten_figures(row)
    restored["warnings"] = restored.get("warnings", [])
    assert restored == without_nothing(run_figures)


plain = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\x00"))
cells = st.one_of(
    st.none(), st.booleans(), st.integers(-(2**70), 2**70), plain,
    st.floats(allow_nan=False, allow_infinity=False),
    st.sampled_from(["1", "-1e5", "true", "null", "NaN", '"x"', "", " 7", "1,2", "a\nb", "a\rb"]),
)  # fmt: skip


@draw_examples(60)
@given(
    st.lists(st.dictionaries(st.sampled_from("abcde"), cells), min_size=1, max_size=5),
    st.sampled_from([".csv", ".json"]),
)
def test_a_table_is_read_as_it_was_written(rows, suffix):
    rows = [{"cell.mlir": "m", **row} for row in rows]
    with tempfile.TemporaryDirectory() as folder:
        path = f"{folder}/t{suffix}"
        sweep_table.write_table(path, rows, {})
        table = sweep_table.read_table(path)
    expected = [{k: v for k, v in row.items() if v is not None} for row in rows]
    assert [{k: (type(v), v) for k, v in row.items()} for row in table] == [
        {k: (type(v), v) for k, v in row.items()} for row in expected
    ]


@draw_examples(40)
@given(st.lists(st.dictionaries(st.sampled_from("abcde"), cells), min_size=1, max_size=5))
def test_parquet_has_one_type_in_a_column(rows):
    pytest.importorskip("pyarrow")
    rows = [{"cell.mlir": "m", **row} for row in rows]
    with tempfile.TemporaryDirectory() as folder:
        sweep_table.write_table(f"{folder}/t.parquet", rows, {"who": "me"})
        table = sweep_table.read_table(f"{folder}/t.parquet")
    for row, restored in zip(rows, table, strict=True):
        for name, value in row.items():
            other = restored.get(name)
            if isinstance(other, str) and not isinstance(value, str):
                assert json.loads(other) == value
            elif isinstance(other, str) and other != value:
                assert json.loads(other) == value  # quoted: it would read as a number
            else:
                assert other == value or float(other) == float(value)


def test_columns_are_in_order_and_parents_of_others_go():
    rows = [
        {"cell.a": 1, "error": None, "x": 1, "band": None, "by.z": 1, "y": 2, "provenance.p": 3},
        {"cell.a": 1, "error": "no"},
        {"cell.a": 1, "cell.b": 2, "cell.a.b": 2, "x": 1, "band.0": 1, "band.1": 2, "by.w": 3},
    ]
    assert sweep_table.collect_columns(rows) == [
        "cell.a", "cell.b", "cell.a.b", "error", "x", "band.0", "band.1", "by.z", "by.w", "y",
        "provenance.p",
    ]  # fmt: skip


def test_a_wrong_place_or_form_is_said_first(tmp_path, monkeypatch):
    with pytest.raises(UsageError, match=r"ends in none of \.csv, \.json, \.parquet"):
        sweep_table.check_table_file("x.xlsx")
    with pytest.raises(HespasError, match="its folder does not exist"):
        sweep_table.check_table_file(str(tmp_path / "none" / "x.csv"))
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    with pytest.raises(HespasError) as caught:
        sweep_table.check_table_file(str(tmp_path / "x.parquet"))
    assert str(caught.value).endswith("pip install 'hespas[parquet]'")


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("a.csv", ""), ("a.csv", "x,y\n1,2\n"), ("a.csv", "cell.a\n1,2\n"), ("a.json", "{}"),
        ("a.json", "[1]"), ("a.json", "["), ("a.parquet", "no"), ("a.csv", "\udc80"),
    ],
)  # fmt: skip
def test_what_is_no_table_is_an_error(tmp_path, name, text):
    if name.endswith("parquet"):
        pytest.importorskip("pyarrow")
    path = tmp_path / name
    path.write_bytes(text.encode(errors="surrogateescape"))
    problem = "is not UTF-8 text" if "\udc80" in text else sweep_table.NO_TABLE
    with pytest.raises(HespasError, match=problem):
        sweep_table.read_table(str(path))
    with pytest.raises(HespasError, match="cannot read it"):
        sweep_table.read_table(str(tmp_path / "none.csv"))


def test_the_table_of_a_study_is_read_as_one_of_a_sweep(tmp_path):
    text = """size,kind,node,devices,mesh,system,error,step_time_s,compute_s,mfu,form,program
8x8x8,ring,H100_80GB,4,x=4,HGX,,2e-06,1e-06,0.5,fused,a.mlirbc
8x8x8,ring,H100_80GB,3,x=3,,no system has 3 devices,,,,fused,
"""
    (tmp_path / "study.csv").write_text(text)
    good, failed = sweep_table.read_table(str(tmp_path / "study.csv"))
    assert good["cell.mlir"] == "size 8x8x8, kind ring, devices 4"
    assert (good["cell.kind"], good["cell.node"], good["cell.system"]) == (
        "ring",
        "H100_80GB",
        "HGX",
    )
    assert (good["step_time_s"], good["derived.mfu"], good["devices"]) == (2e-6, 0.5, 4)
    assert failed["error"] == "no system has 3 devices" and "step_time_s" not in failed
    rows = [dict(zip(text.split("\n")[0].split(","), [1] * 12, strict=True))]
    (tmp_path / "study.json").write_text(json.dumps({"study": "gemm", "rows": rows}))
    assert sweep_table.is_table_file(str(tmp_path / "study.json"))
    assert sweep_table.read_table(str(tmp_path / "study.json"))[0]["cell.kind"] == 1
    (tmp_path / "run.json").write_text('{"node": "H100_80GB"}')
    assert not sweep_table.is_table_file(str(tmp_path / "run.json"))
