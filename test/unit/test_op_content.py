"""Contents and digests of ops: what counts for a cost, and what does not."""

from __future__ import annotations

from pathlib import Path

import pytest
from jaxlib.mlir.dialects import stablehlo

from hespas.dialects.mlir import (
    collect_functions,
    deserialize_portable_artifact,
    ir,
    make_context,
    read_properties,
)
from hespas.estimators.op_content import counts_for_cost, read_op_content, render_op_text
from hespas.passes.split.region_digest import OpContentTable, RegionDigester

DATA = Path(__file__).parents[1] / "data"
F = "tensor<4x8xf32>"


def digest(body: str, more: str = "", *, index: int = -2) -> str:
    """Digest one op of a function with this body; by default the last before the return."""
    context = make_context()
    context.allow_unregistered_dialects = True
    body = fill(body, "")
    module = ir.Module.parse(
        f"func.func @main(%a: {F}, %b: {F}, %s: tensor<f32>) {{ {body} return }} {more}", context
    )
    functions, table = collect_functions(module), OpContentTable()
    operations = functions["main"].regions[0].blocks[0].operations
    op = operations[len(operations) + index].operation
    return RegionDigester(functions, table).digest_op(table.find_content(op))


def reduce(attributes: str = "", body: str = "stablehlo.add %p, %q", inner: str = "") -> str:
    return f"""%0 = "stablehlo.reduce"(%a, %s) <{{dimensions = array<i64: 1>}}> ({{
      ^bb0(%p: tensor<f32>, %q: tensor<f32>):
        %r = {body} {inner} : tensor<f32>
        stablehlo.return %r : tensor<f32>
      }}) {attributes} : ({F}, tensor<f32>) -> tensor<4xf32>"""


def fusion(attributes: str = "", first: str = "%p", second: str = "%q") -> str:
    return f"""%0 = "mhlo.fusion"(%a, %b) <{{fusion_kind = #mhlo<fusion_kind kLoop>}}> ({{
      ^bb0(%p: {F}, %q: {F}):
        %r = stablehlo.add {first}, {second} : {F}
        mhlo.return %r : {F}
      }}) {attributes} : ({F}, {F}) -> {F}"""


TRANSPOSE = f"%0 = stablehlo.transpose %a, dims = [1, 0] {{ATTRS}} : ({F}) -> tensor<8x4xf32>"
CALL = f"%0 = stablehlo.custom_call @k(%a) {{ATTRS}} : ({F}) -> {F}"
UNKNOWN = f'%0 = "guest.op"(%a) {{ATTRS}} : ({F}) -> {F}'
UNKNOWN_WITH_BODY = f"""%0 = "guest.op"(%a) <{{tile = 4 : i64}}> ({{
  "guest.end"() : () -> () }}) : ({F}) -> {F}"""
ADD = f"%0 = stablehlo.add %a, %b {{ATTRS}} : {F}"
LOOP = """%0 = stablehlo.while(%i = %s) : tensor<f32> attributes {{ATTRS}}
  cond { %t = stablehlo.constant dense<true> : tensor<i1> stablehlo.return %t : tensor<i1> }
  do { %c = stablehlo.constant dense<1.0> : tensor<f32> %j = stablehlo.add %i, %c : tensor<f32>
    stablehlo.return %j : tensor<f32> }"""


def fill(text: str, attributes: str) -> str:
    return text.replace("{ATTRS}", attributes)


@pytest.mark.parametrize(
    ("plain", "changed"),
    [
        (fill(ADD, ""), fill(ADD, "{guest.hot, longest}")),
        (fill(ADD, ""), fill(ADD, '{mhlo.frontend_attributes = {a = "b"}, mhlo.sharding = "x"}')),
        (fill(ADD, ""), fill(ADD, '{hespas.kernel = {kind = "loop"}}')),
        (fill(ADD, ""), fill(ADD, '{xla_shape = "f32[4,8]{0,1}"}')),
        (fill(ADD, ""), fill(ADD, "{result_layout = dense<[0, 1]> : tensor<2xindex>}")),
        (reduce(), reduce("{guest.hot}")),
        (reduce(), reduce(inner="{guest.hot}")),
        (fusion(), fusion("{output_operand_aliasing = []}")),
        (LOOP, fill(LOOP, "hespas.trips_found = 3")),
        (fill(CALL, ""), fill(CALL, '{hespas.region = {id = 0 : i64}}')),
        (UNKNOWN_WITH_BODY, UNKNOWN_WITH_BODY.replace("}) :", "}) {hespas.kernel = {}} :")),
    ],
)  # fmt: skip
def test_attributes_that_do_not_count(plain, changed):
    assert digest(plain) == digest(changed)


@pytest.mark.parametrize(
    ("plain", "changed"),
    [
        (fill(TRANSPOSE, ""), fill(TRANSPOSE, "{result_layout = dense<[0, 1]> : tensor<2xindex>}")),
        (fill(CALL, ""), fill(CALL, "{guest.hot}")),
        (fill(CALL, ""), fill(CALL, '{backend_config = "x"}')),
        (fill(CALL, ""), fill(CALL, "{hespas.kernel_cost = {flops = 1 : i64, bytes = 2 : i64}}")),
        (fill(UNKNOWN, ""), fill(UNKNOWN, "{guest.hot}")),
        (fill(UNKNOWN, ""), fill(UNKNOWN, "{tile = 8 : i64}")),
        (fill(UNKNOWN, ""), fill(UNKNOWN, "<{tile = 8 : i64}>")),
        (fill(UNKNOWN, "<{tile = 4 : i64}>"), fill(UNKNOWN, "<{tile = 8 : i64}>")),
        (UNKNOWN_WITH_BODY, UNKNOWN_WITH_BODY.replace("tile = 4", "tile = 8")),
        (reduce(), reduce(body="stablehlo.maximum %p, %q")),
        (reduce(), reduce().replace("i64: 1", "i64: 0").replace("tensor<4xf32>", "tensor<8xf32>")),
        (fusion(), fusion(first="%q")),
        (fusion(), fusion().replace("kLoop", "kInput")),
        (LOOP, LOOP.replace("1.0", "2.0")),
        (LOOP, fill(LOOP, "hespas.trips = 3")),
        (fill(ADD, ""), fill(ADD, "").replace("add", "multiply")),
        (fill(ADD, ""), f"%c = stablehlo.convert %a : ({F}) -> tensor<4x8xbf16> "
         "%0 = stablehlo.add %c, %c : tensor<4x8xbf16>"),
    ],
)  # fmt: skip
def test_what_counts(plain, changed):
    assert digest(plain) != digest(changed)


def test_constants_count_inside_loops_only():
    constant = "%0 = stablehlo.constant dense<VALUE> : tensor<f32>"
    assert digest(constant.replace("VALUE", "1.0")) == digest(constant.replace("VALUE", "2.0"))
    body = f"%c = stablehlo.constant dense<VALUE> : {F} %r = stablehlo.add %p, %c : {F}"
    text = fusion().replace(f"%r = stablehlo.add %p, %q : {F}", body)
    assert digest(text.replace("VALUE", "1.0")) == digest(text.replace("VALUE", "2.0"))


def test_the_value_of_a_resource_counts_inside_loops_as_that_of_a_constant():
    def digest_loop(value: str, bound: str = "") -> str:
        loop = f"""%0 = stablehlo.while(%i = %a) : {F} cond {{
          %t = stablehlo.constant {value} : tensor<i1> stablehlo.return %t : tensor<i1>
        }} do {{ stablehlo.return %i : {F} }}"""
        more = f'builtin: {{ bound: "0x01000000{bound}" }}'
        return digest(loop, f"{{-# dialect_resources: {{ {more} }} #-}}" if bound else "")

    resource = "dense_resource<bound>"
    assert digest_loop(resource, "01") == digest_loop("dense<true>")
    assert digest_loop(resource, "00") == digest_loop("dense<false>") != digest_loop(resource, "01")


@pytest.mark.parametrize("count", [9, 40_000])
def test_the_elements_of_a_large_resource_count_and_its_name_does_not(count: int) -> None:
    def digest_elements(name: str, last: str) -> str:
        kind = f"tensor<{count}xi8>"
        loop = f"""%0 = stablehlo.while(%i = %a) : {F} cond {{
          %c = stablehlo.constant dense_resource<{name}> : {kind}
          %t = stablehlo.custom_call @test(%c) : ({kind}) -> tensor<i1>
          stablehlo.return %t : tensor<i1>
        }} do {{ stablehlo.return %i : {F} }}"""
        blob = "0x01000000" + "07" * (count - 1) + last
        return digest(loop, f'{{-# dialect_resources: {{ builtin: {{ {name}: "{blob}" }} }} #-}}')

    assert digest_elements("a", "01") == digest_elements("b", "01") != digest_elements("a", "02")


def test_names_of_functions_do_not_count_and_their_contents_do():
    function = f"func.func private @NAME(%x: {F}) -> {F} {{ %0 = stablehlo.KIND %x : {F} return %0 : {F} }}"  # noqa: E501
    call = f"%0 = func.call @NAME(%a) : ({F}) -> {F}"

    def digest_call(name: str, kind: str) -> str:
        return digest(
            call.replace("NAME", name), function.replace("NAME", name).replace("KIND", kind)
        )

    assert digest_call("f", "tanh") == digest_call("region_7", "tanh") != digest_call("f", "sine")
    calls = f"%0 = stablehlo.custom_call @k(%a) {{called_computations = [@NAME]}} : ({F}) -> {F}"
    texts = [
        digest(calls.replace("NAME", name), function.replace("NAME", name).replace("KIND", kind))
        for name, kind in (("f", "tanh"), ("g", "tanh"), ("f", "sine"))
    ]
    assert texts[0] == texts[1] != texts[2]


def test_an_attribute_that_the_bindings_cannot_represent_counts():
    texts = [
        f"%0 = stablehlo.constant dense<({value}.0,2.0)> : tensor<complex<f32>>" for value in "13"
    ]
    context = make_context()
    modules = [ir.Module.parse(f"func.func @f() {{ {text} return }}", context) for text in texts]
    ops = [
        module.body.operations[0].regions[0].blocks[0].operations[0].operation for module in modules
    ]
    assert render_op_text(ops[0]) != render_op_text(ops[1])
    assert [len(read_op_content(op).parts) for op in ops] == [3, 3], "the value is a part"


def test_a_portable_artifact_leaves_the_contents_of_ops_as_they_are():
    module = ir.Module.parse((DATA / "default_attributes.mlir").read_text(), make_context())
    version = stablehlo.get_current_version()
    artifact = stablehlo.serialize_portable_artifact_str(str(module), version)
    again = deserialize_portable_artifact(make_context(), artifact)
    ops, ops_again = (
        collect_functions(one)["main"].regions[0].blocks[0] for one in (module, again)
    )
    for op, op_again in zip(ops, ops_again, strict=True):
        assert render_op_text(op.operation) == render_op_text(op_again.operation)
    text, text_again = str(module), str(again)
    for name in ("precision", "indices_are_sorted", "is_stable", "array<i64: 1, 2>", "NOTYPE"):
        assert text.count(name) > text_again.count(name), "the artifact has another form"


@pytest.mark.parametrize(
    "attributes",
    [
        "window_strides = array<i64: 2>",
        "padding = dense<[[0, 1]]> : tensor<1x2xi64>",
        "window_reversal = array<i1: true>",
        "precision_config = [#stablehlo<precision DEFAULT>, #stablehlo<precision HIGH>]",
    ],
)
def test_other_values_than_defaults_count(attributes):
    convolution = (
        '%0 = "stablehlo.convolution"(%x, %x) <{ATTRS, batch_group_count = 1 : i64, '
        "feature_group_count = 1 : i64, dimension_numbers = "
        "#stablehlo.conv<[b, 0, f]x[0, i, o]->[b, 0, f]>}> "
        ": (tensor<1x1x1xf32>, tensor<1x1x1xf32>) -> tensor<?x?x?xf32>"
    )
    x = "%x = stablehlo.constant dense<1.0> : tensor<1x1x1xf32> "
    plain = "rhs_dilation = array<i64: 1>"
    digests = {digest(x + convolution.replace("ATTRS", one)) for one in (plain, attributes)}
    assert len(digests) == 2


def test_properties_of_unregistered_ops_are_read():
    context = make_context(allow_unregistered=True)
    text = '"}> : ( <{", grid = dense<[1, 2]> : tensor<2xi64>, kind = !acme.t<{1}>'
    body = f'"acme.op"(%a) <{{name = {text}}}> ({{ "acme.inner"() : () -> () }}) {{d = 1 : i64}}'
    module = ir.Module.parse(f"func.func @f(%a: {F}) {{ {body} : ({F}) -> () return }}", context)
    op = module.body.operations[0].regions[0].blocks[0].operations[0].operation
    properties = read_properties(op)
    assert properties["name"].value == "}> : ( <{" and list(properties["grid"]) == [1, 2]
    assert len(properties) == 3 and list(op.attributes) == ["d"], "the op keeps its attributes"
    assert not len(read_properties(op.regions[0].blocks[0].operations[0].operation))


def test_counting_is_decided_by_the_definition_of_the_op(context):
    module = ir.Module.parse(f"func.func @f(%a: {F}) {{ {fill(TRANSPOSE, '')} return }}", context)
    op = module.body.operations[0].regions[0].blocks[0].operations[0].operation
    for attribute, counts in (
        ("permutation", True), ("result_layout", True), ("xla_shape", False), ("hespas.trips", True)
    ):  # fmt: skip
        assert counts_for_cost(op, op.name, attribute) is counts


def test_counting_does_not_depend_on_the_contexts_of_other_modules():
    text = f'"stablehlo.is_finite"(%a) {{acme.hot}} : ({F}) -> tensor<4x8xi1>'
    program = f'"func.func"() <{{function_type = ({F}) -> (), sym_name = "f"}}> ({{ ^bb0(%a: {F}): '
    program += f'%0 = {text} "func.return"() : () -> () }}) : () -> ()'
    plain = ir.Context()
    plain.allow_unregistered_dialects = True
    counted = []
    for context in (plain, make_context(), plain):
        module = ir.Module.parse(program, context)
        op = module.body.operations[0].regions[0].blocks[0].operations[0].operation
        counted.append(counts_for_cost(op, op.name, "acme.hot"))
    assert counted == [True, False, True]
