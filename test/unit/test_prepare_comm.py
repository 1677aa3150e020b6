"""prepare: who takes part in a collective, with how many bytes, in device ids."""

from __future__ import annotations

import re
from collections.abc import Callable

import pytest

from hespas.dialects.attr_codec import read_communicators
from hespas.dialects.attrs import CommAttr
from hespas.dialects.mlir import ir
from hespas.passes import run_pipeline
from hespas.passes.base import PassRun
from hespas.passes.prepare.census import collect_census
from hespas.passes.prepare.prepare import PreparePass
from hespas.support.errors import HespasError

Parse = Callable[[str], ir.Module]
CHANNEL = "channel_handle = #stablehlo.channel_handle<handle = 1, type = 1>, "


def prepared(module: ir.Module, **options: object) -> tuple[list[CommAttr], PassRun]:
    """The collectives of a prepared module, in order."""
    run = PassRun(note=lambda _: None)
    PreparePass(**options).apply(module, run)  # type: ignore[arg-type]
    assert module.operation.verify()
    comms = [CommAttr.read_from_op(op) for op in collect_census(module).list_collectives()]
    assert None not in comms
    return [comm for comm in comms if comm is not None], run


def gather(attributes: str, module: str = "") -> str:
    return f"""module attributes {{{module}}} {{
      func.func @main(%x: tensor<4xi1>) -> tensor<16xi1> {{
      %0 = "stablehlo.all_gather"(%x) <{{all_gather_dim = 0 : i64, {attributes}}}>
        : (tensor<4xi1>) -> tensor<16xi1>
      return %0 : tensor<16xi1> }} }}"""


@pytest.mark.parametrize("size", [2, 64, 512])
def test_groups_of_any_size(parse: Parse, size: int) -> None:
    """Over 100 elements the attribute prints as hex (pitfalls row 3): its text is not read."""
    rows = [[2 * i, 2 * i + 1] for i in range(size // 2)]
    groups = f"replica_groups = dense<{rows}> : tensor<{size // 2}x2xi64>, use_global_device_ids"
    module = parse(gather(CHANNEL + groups).replace("tensor<16x", "tensor<8x"))
    comms, _ = prepared(module)
    assert read_communicators(module) == {i: tuple(row) for i, row in enumerate(rows, 1)}
    assert comms[0].groups == tuple(range(1, size // 2 + 1))


def test_send_is_charged_once(parse: Parse) -> None:
    text = """func.func @main(%x: tensor<4xf32>) -> tensor<4xf32> {
      %t = stablehlo.create_token : !stablehlo.token
      %s = "stablehlo.send"(%x, %t) <{
        channel_handle = #stablehlo.channel_handle<handle = 1, type = T>,
        is_host_transfer = HOST, source_target_pairs = dense<[[0, 1]]> : tensor<1x2xi64>}>
        : (tensor<4xf32>, !stablehlo.token) -> !stablehlo.token
      %r:2 = "stablehlo.recv"(%s) <{
        channel_handle = #stablehlo.channel_handle<handle = 1, type = T>,
        is_host_transfer = HOST, source_target_pairs = dense<[[0, 1]]> : tensor<1x2xi64>}>
        : (!stablehlo.token) -> (tensor<4xf32>, !stablehlo.token)
      return %r#0 : tensor<4xf32> }"""
    sent, received = prepared(parse(text.replace("T>", "1>").replace("HOST", "false")))[0]
    assert (sent.kind, sent.operand_bytes, sent.pairs) == ("permute", 16, (0, 1))
    assert (received.pairs, received.operand_bytes) == ((), 0)
    assert received.note is not None
    missing = re.sub(r", source_target_pairs = dense<[^>]*> : tensor<1x2xi64>", "", text)
    missing = re.sub(r",\s*source_target_pairs = dense<.*?> : tensor<1x2xi64>", "", missing)
    with pytest.raises(HespasError, match="does not name source and target devices"):
        prepared(parse(missing.replace("T>", "1>").replace("HOST", "false")))
    host = missing.replace("type = T", "type = 2", 1).replace("type = T", "type = 3")
    module = parse(host.replace("HOST", "true"))
    assert prepared(module)[0] == []  # no communication of devices, and a gap of each
    run_pipeline(module, "roofline-annotate{node=H100_80GB}")
    assert str(module).count("ToHost runs on the host, whose time is not known") == 1
    assert str(module).count("@RecvFromHost runs on the host, whose time is not known") == 1
