"""Building an ONNX model of one matrix product, with sizes but without data.

The message classes are built from the names and numbers of the ONNX schema (onnx/onnx.proto3, IR
version 8), so that the ``onnx`` package is not needed.
"""

from __future__ import annotations

import functools
from typing import Any

from hespas.plugin import MessageField, build_message_classes

FLOAT_DATA_TYPE = 1  # TensorProto.DataType
IR_VERSION, OPSET = 8, 13

ONNX_MESSAGES = {
    "Dimension": (MessageField(1, "int64", "dim_value"),),
    "TensorShapeProto": (MessageField(1, "Dimension", "dim", repeated=True),),
    "Tensor": (MessageField(1, "int32", "elem_type"), MessageField(2, "TensorShapeProto", "shape")),
    "TypeProto": (MessageField(1, "Tensor", "tensor_type"),),
    "ValueInfoProto": (MessageField(1, "string", "name"), MessageField(2, "TypeProto", "type")),
    "TensorProto": (
        MessageField(1, "int64", "dims", repeated=True),
        MessageField(2, "int32", "data_type"),
        MessageField(8, "string", "name"),
    ),
    "NodeProto": (
        MessageField(1, "string", "input", repeated=True),
        MessageField(2, "string", "output", repeated=True),
        MessageField(3, "string", "name"),
        MessageField(4, "string", "op_type"),
    ),
    "GraphProto": (
        MessageField(1, "NodeProto", "node", repeated=True),
        MessageField(2, "string", "name"),
        MessageField(5, "TensorProto", "initializer", repeated=True),
        MessageField(11, "ValueInfoProto", "input", repeated=True),
        MessageField(12, "ValueInfoProto", "output", repeated=True),
    ),
    "OperatorSetIdProto": (
        MessageField(1, "string", "domain"),
        MessageField(2, "int64", "version"),
    ),
    "ModelProto": (
        MessageField(1, "int64", "ir_version"),
        MessageField(2, "string", "producer_name"),
        MessageField(7, "GraphProto", "graph"),
        MessageField(8, "OperatorSetIdProto", "opset_import", repeated=True),
    ),
}


def build_matmul_model(m: int, k: int, n: int) -> bytes:
    """Return a model of an M x K input times K x N weights, an initializer without data."""
    model = _build_classes()["ModelProto"](ir_version=IR_VERSION, producer_name="hespas")
    model.opset_import.add(version=OPSET)
    graph = model.graph
    graph.name = "product"
    _describe_tensor(graph.input.add(), "x", (m, k))
    _describe_tensor(graph.output.add(), "y", (m, n))
    graph.initializer.add(dims=(k, n), data_type=FLOAT_DATA_TYPE, name="w")
    graph.node.add(input=("x", "w"), output=("y",), name="product", op_type="MatMul")
    return model.SerializeToString(deterministic=True)


def _describe_tensor(value: Any, name: str, shape: tuple[int, ...]) -> None:
    value.name = name
    value.type.tensor_type.elem_type = FLOAT_DATA_TYPE
    for size in shape:
        value.type.tensor_type.shape.dim.add(dim_value=size)


@functools.cache
def _build_classes() -> dict[str, Any]:
    return build_message_classes("hespas.onnx", ONNX_MESSAGES)
