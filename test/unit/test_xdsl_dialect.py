"""The xDSL dialect follows the schema, and parses, prints and verifies attributes."""

from __future__ import annotations

from typing import get_type_hints

import pytest
from xdsl.context import Context
from xdsl.dialects.builtin import Builtin, ModuleOp
from xdsl.ir import Attribute
from xdsl.parser import Parser
from xdsl.utils.exceptions import ParseError, VerifyException

from hespas.dialects import attr_schema, attrs, xdsl_dialect
from hespas.dialects.xdsl_dialect import HESPAS, RECORD_ATTRS

TYPES = {
    "str": xdsl_dialect.StringAttr,
    "int": xdsl_dialect.Int,
    "float": xdsl_dialect.Float,
    "bool": xdsl_dialect.Bool,
    "ints": xdsl_dialect.Ints,
}
COST = (
    '#hespas.cost<estimator = "roofline", flops = 8 : i64, read_bytes = 16 : i64, '
    "write_bytes = 4 : i64, latency_ns = 0.030868167202572346 : f64, "
    'bound = "memory", dtype = "f32">'
)


def parse(text: str) -> Attribute:
    context = Context()
    context.load_dialect(Builtin)
    context.load_dialect(HESPAS)
    return Parser(context, text).parse_attribute()


@pytest.mark.parametrize("record", attrs.RECORDS, ids=lambda record: record.NAME)
def test_fields_are_those_of_the_schema(record: type[attr_schema.AttrRecord]) -> None:
    cls = RECORD_ATTRS[record.NAME]
    declared = [name for name, _ in cls.get_irdl_definition().parameters]
    assert declared == [field.name for field in attr_schema.list_attr_fields(record)]
    hints = get_type_hints(cls)
    for field in attr_schema.list_attr_fields(record):
        kind = TYPES[field.kind.name]
        assert hints[field.name] == (kind if field.is_required else kind | xdsl_dialect.NoneAttr)


@pytest.mark.parametrize(
    "text",
    [
        COST,
        '#hespas.kernel<kind = "gemm">',
        '#hespas.region<id = 0 : i64, ops = 3 : i64, digest = "5f1c">',
        '#hespas.comm<kind = "all_reduce", operand_bytes = 2 : i64, result_bytes = 2 : i64, '
        'groups = array<i64: 1, 2>, is_async = true, note = "a \\22b\\22 > c">',
        "#hespas.target<devices = 8 : i64, replicas = 1 : i64, partitions = 8 : i64>",
        '#hespas.split<strategy = "linear", merge = false, block_limit = 4 : i64>',
    ],
)
def test_round_trip(text: str) -> None:
    attr = parse(text)
    assert str(attr) == text
    assert isinstance(attr, xdsl_dialect.TypedRecordAttr)
    assert type(attr).from_dictionary(attr.to_dictionary().data) == attr


def test_order_of_fields_is_free() -> None:
    attr = parse('#hespas.region<digest = "5f1c", ops = 3 : i64, id = 0 : i64>')
    assert isinstance(attr, RECORD_ATTRS["hespas.region"])
    assert (attr.id.value.data, attr.ops.value.data, attr.digest.data) == (0, 3, "5f1c")


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("#hespas.kernel<>", "lacks the field 'kind'"),
        ('#hespas.kernel<kind = "gemm", size = 1 : i64>', "no field 'size'"),
        ('#hespas.kernel<kind = "gemm", kind = "copy">', "occurs twice"),
        ('#hespas.kernel<kind = "gem">', "'gem', not one of"),
        ("#hespas.kernel<kind = 4 : i64>", "parameter 'kind' does not verify"),
        ('#hespas.region<id = 0 : i32, ops = 3 : i64, digest = "5f">', "'id' does not verify"),
        (COST.replace("flops = 8", "flops = -8"), "flops is -8, less than 0"),
        (COST.replace("0.030868167202572346", "0x7FF8000000000000"), "latency_ns is nan"),
        (COST.replace(">", ", low_ns = 2.0 : f64>"), "low_ns and high_ns come together"),
        (COST.replace(">", ", low_ns = 2.0 : f64, high_ns = 1.0 : f64>"), "low_ns is 2.0, more"),
        (
            "#hespas.target<devices = 8 : i64, replicas = 2 : i64, partitions = 8 : i64>",
            "8 devices are not 2 replicas x 8 partitions",
        ),
    ],
)
def test_wrong_attributes_are_refused(text: str, message: str) -> None:
    with pytest.raises(ParseError, match=message):
        parse(text)


def test_typed_and_dictionary_forms_of_a_module() -> None:
    attr = parse('#hespas.kernel<kind = "gemm">')
    module = ModuleOp([], {"hespas.kernel": attr, "other": attr})
    xdsl_dialect.replace_typed_attributes(module)
    assert str(module.attributes["hespas.kernel"]) == '{kind = "gemm"}'
    xdsl_dialect.replace_dictionaries(module)
    assert module.attributes["hespas.kernel"] == attr
    module.attributes["hespas.kernel"] = parse('{kind = "gem"}')
    with pytest.raises(VerifyException, match="'gem'"):
        xdsl_dialect.replace_dictionaries(module)
