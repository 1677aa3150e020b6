"""Replacement of sends to and receives from the host."""

from __future__ import annotations

from typing import ClassVar

from hespas.dialects.mlir import get_attribute, ir, replace_op
from hespas.passes.base import PassRun
from hespas.passes.prepare.preparation import Preparation, PrepareStep

HOST_CALL_BY_TRANSFER = {
    f"{dialect}.{op}": call
    for dialect in ("stablehlo", "mhlo")
    for op, call in (("send", "SendToHost"), ("recv", "RecvFromHost"))
}


class ReplaceHostTransfersPass(PrepareStep):
    """Replace each send to or receive from the host by a custom call.

    JAX lowers callbacks for TPUs to them. Nothing crosses the network, and what the host does
    takes a time that is not known, as with the calls that are callbacks on other devices.
    """

    name: ClassVar[str] = "replace-host-transfers"

    def rewrite(self, module: ir.Module, view: Preparation, run: PassRun) -> bool:
        transfers = [
            op
            for op in view.census.select_ops_by_name(*HOST_CALL_BY_TRANSFER)
            if "is_host_transfer" in op.attributes and get_attribute(op, "is_host_transfer").value
        ]
        for op in transfers:
            target = ir.StringAttr.get(HOST_CALL_BY_TRANSFER[op.name], op.context)
            kind = ir.BoolAttr.get(True, op.context)
            dialect = op.name.partition(".")[0]  # tokens of MHLO are of another type
            attributes = {"call_target_name": target, "has_side_effect": kind}
            replace_op(op, f"{dialect}.custom_call", attributes)
        return bool(transfers)
