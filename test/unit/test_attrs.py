"""Every stored form of a module preserves its records; violations of the schema are named."""

from __future__ import annotations

import io
import math
import subprocess
import sys
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.budgets import draw_examples

from hespas.dialects import attr_codec, attr_schema, attrs, typed_attrs
from hespas.dialects.attr_schema import AttrRecord, list_attr_fields
from hespas.dialects.attrs import (
    COMMUNICATORS,
    RECORDS,
    CommAttr,
    Cost,
    KernelAttr,
    MemoryAttr,
    OnChipAttr,
    RegionAttr,
    TargetAttr,
)
from hespas.dialects.mlir import ir, make_context
from hespas.support.errors import HespasError

PROGRAM = """
func.func @main(%arg0: tensor<4xf32>) -> tensor<4xf32> {
  %0 = stablehlo.add %arg0, %arg0 : tensor<4xf32>
  return %0 : tensor<4xf32>
}
"""
CONTEXT = make_context()
I64 = st.integers(0, 2**63 - 1)
I31 = st.integers(0, 2**31 - 1)
TEXT = st.text(st.characters(codec="utf-8"), max_size=20)
VALUES = {
    "int": I64,
    "float": st.floats(min_value=0, allow_nan=False, allow_infinity=False),
    "str": TEXT,
    "bool": st.booleans(),
    "ints": st.lists(I64, max_size=4).map(tuple),
}


@st.composite
def records(draw: st.DrawFn) -> AttrRecord:
    cls = draw(st.sampled_from(RECORDS))
    values: dict[str, Any] = {}
    for field in attr_schema.list_attr_fields(cls):
        strategy = st.sampled_from(field.choices) if field.choices else VALUES[field.kind.name]
        optional = field.default is None
        values[field.name] = draw(st.none() | strategy if optional else strategy)
    if cls is Cost:
        ends = draw(st.none() | st.tuples(VALUES["float"], VALUES["float"]).map(sorted))
        values["low_ns"], values["high_ns"] = ends or (None, None)
        values["shared_low_ns"], values["shared_high_ns"] = ends or (None, None)
    elif cls is CommAttr:
        if values["kind"] == "permute":
            values["groups"], values["pairs"] = (), values["pairs"] * 2
        elif values["kind"] != "broadcast":
            values["pairs"] = ()
    elif cls is OnChipAttr:
        rows = draw(st.lists(st.tuples(I64, I64, I64), max_size=4))
        columns = [[row[k] for row in rows] for k in range(3)]
        names = ("sram_bytes", "read_bytes", "write_bytes")
        values = {name: tuple(sorted(column)) for name, column in zip(names, columns, strict=True)}
    elif cls is TargetAttr:
        values["replicas"], values["partitions"] = draw(st.tuples(I31, I31))
        values["devices"] = values["replicas"] * values["partitions"]
    elif cls is MemoryAttr:
        parts = [f"{part}_bytes" for part in ("argument", "result", "constant", "temporary")]
        values |= {part: draw(I31) for part in parts}
        values["live_bytes"] = sum(values[part] for part in parts)
        values["peak_bytes"] = values["live_bytes"] + draw(I31)
        values["timeline_bytes"] = values["timeline_points"]
    return cls(**values)


def text(module: ir.Module) -> ir.Module:
    return ir.Module.parse(str(module), make_context())


def generic_text(module: ir.Module) -> ir.Module:
    context = make_context()
    context.allow_unregistered_dialects = True
    printed = str(module.operation.get_asm(print_generic_op_form=True))
    return ir.Module.parse(printed, context)


def bytecode(module: ir.Module) -> ir.Module:
    buffer = io.BytesIO()
    module.operation.write_bytecode(buffer)
    return ir.Module.parse(buffer.getvalue(), make_context())


def portable_artifact(module: ir.Module) -> ir.Module:
    from jaxlib.mlir.dialects import stablehlo

    version = stablehlo.get_current_version()
    data = stablehlo.serialize_portable_artifact(module, version, True)
    return stablehlo.deserialize_portable_artifact(make_context(), data)


def print_typed(module: ir.Module) -> str:
    copy = typed_attrs.copy_with_typed_attributes(module)
    return str(copy.get_asm(assume_verified=True))


def typed_text(module: ir.Module) -> ir.Module:
    context = make_context()
    context.allow_unregistered_dialects = True
    copy = ir.Module.parse(print_typed(module), context)
    typed_attrs.replace_typed_attributes(copy)
    return copy


def first_op(module: ir.Module) -> ir.Operation:
    return module.body.operations[0].operation.regions[0].blocks[0].operations[0].operation


def positional_text(module: ir.Module) -> ir.Module:
    """What a tool prints that knows the dialect from ``hespas.irdl``."""
    op = first_op(module)
    name = next(name for name in op.attributes if name in attrs.BY_NAME)
    fields = ir.DictAttr(op.attributes[name])
    declared = [field.name for field in list_attr_fields(attrs.BY_NAME[name])]
    values = [str(fields[field]) if field in fields else "unit" for field in declared]
    context = make_context()
    context.allow_unregistered_dialects = True
    copy = ir.Module.parse(str(module), context)
    typed = f"{name.removeprefix('hespas.')}<{', '.join(values)}>"
    first_op(copy).attributes[name] = ir.OpaqueAttr.get(
        "hespas", typed.encode(), ir.NoneType.get(context), context
    )
    typed_attrs.replace_typed_attributes(copy)
    return copy


@pytest.mark.parametrize(
    "store", [text, generic_text, bytecode, portable_artifact, typed_text, positional_text]
)
def test_every_record_survives(store: Callable[[ir.Module], ir.Module]) -> None:
    @draw_examples(40, derandomize=True)
    @given(record=records())
    def survives(record: AttrRecord) -> None:
        module = ir.Module.parse(PROGRAM, CONTEXT)
        record.write_to_op(first_op(module))
        stored = store(module)
        assert type(record).read_from_op(first_op(stored)) == record

    survives()


def test_typed_form_reads_as_documented() -> None:
    module = ir.Module.parse(PROGRAM, CONTEXT)
    RegionAttr(id=0, ops=2, digest="5f").write_to_op(first_op(module))
    printed = print_typed(module)
    assert 'hespas.region = #hespas.region<id = 0 : i64, ops = 2 : i64, digest = "5f">' in printed
    assert "#hespas" not in str(module)


@pytest.mark.parametrize(
    ("record", "attr", "message"),
    [
        (KernelAttr, "4 : i64", "must be a dictionary"),
        (KernelAttr, "{}", "lacks the field 'kind'"),
        (KernelAttr, "{kind = 4 : i64}", "field 'kind' must be a string"),
        (KernelAttr, '{kind = "gem"}', "kind is 'gem', not one of"),
        (KernelAttr, '{kind = "gemm", kin = true}', "unknown field 'kin'"),
        (RegionAttr, '{id = true, ops = 1 : i64, digest = ""}', "'id' must be an i64"),
        (RegionAttr, '{id = 1.0 : f64, ops = 1 : i64, digest = ""}', "'id' must be an i64"),
        (RegionAttr, '{id = 1 : i32, ops = 1 : i64, digest = ""}', "'id' must be an i64"),
        (attrs.SplitAttr, '{strategy = "linear", merge = 1 : i64}', "'merge' must be a bool"),
    ],
)
def test_what_breaks_the_schema_is_named(record: type[AttrRecord], attr: str, message: str) -> None:
    module = ir.Module.parse(PROGRAM, CONTEXT)
    op = first_op(module)
    op.attributes[record.NAME] = ir.Attribute.parse(attr, CONTEXT)
    with pytest.raises(HespasError, match=message) as caught:
        record.read_from_op(op)
    assert caught.value.op_name == "stablehlo.add"


@pytest.mark.parametrize("value", [-1.0, math.nan])
def test_costs_are_not_negative(value: float) -> None:
    cost = Cost("roofline", 1, 1, 1, value, "memory", "f32")
    with pytest.raises(HespasError, match="latency_ns"):
        Cost.from_dictionary_attr(cost.to_dictionary_attr(CONTEXT))


def test_communicators_round_trip() -> None:
    module = ir.Module.parse(PROGRAM, CONTEXT)
    assert attr_codec.read_communicators(module) == {}
    groups = {1: (0, 1), 2: (2, 3, 5), 10: (0, 7)}
    attr_codec.write_communicators(module, groups)
    assert attr_codec.read_communicators(module) == groups
    module.operation.attributes[COMMUNICATORS] = ir.Attribute.parse("{a = [1]}", CONTEXT)
    with pytest.raises(HespasError, match="must map ids"):
        attr_codec.read_communicators(module)


@pytest.mark.parametrize(
    ("record", "violation"),
    [
        (CommAttr("all_reduce", 1, 1, (1,), (0, 1)), "pairs are for a permute or a broadcast"),
        (CommAttr("permute", 1, 1, (), (0,)), "a permute has pairs and no groups"),
        (CommAttr("permute", -1, 1, ()), "operand_bytes is -1, less than 0"),
        (TargetAttr(4, 1, 2), "4 devices are not 1 replicas x 2 partitions"),
        (MemoryAttr(9, 4, 1, 1, 1, 2, "", 1, (), ()), "live_bytes is not the sum of its parts"),
        (MemoryAttr(3, 4, 1, 1, 1, 1, "", 1, (), ()), "peak_bytes is less than live_bytes"),
        (MemoryAttr(4, 4, 1, 1, 1, 1, "", 1, (0,), ()), "the timeline's lists differ in length"),
        (MemoryAttr(4, 4, 1, 1, 1, 1, "", 1, (), ()), ""),
    ],
)  # fmt: skip
def test_inconsistent_fields_are_named(record: AttrRecord, violation: str) -> None:
    assert record.find_schema_violation() == violation
    if violation:
        with pytest.raises(HespasError, match=violation):
            type(record).from_dictionary_attr(record.to_dictionary_attr(CONTEXT))


def test_schema_and_xdsl_dialect_need_no_bindings() -> None:
    program = (
        "import sys; import hespas.dialects.attrs, hespas.dialects.xdsl_dialect; "
        "assert not [name for name in sys.modules if name.startswith('jaxlib')]"
    )
    subprocess.run([sys.executable, "-c", program], check=True)
