"""Building an ONNX model of one matrix product, with sizes but without data.

The message classes are built by the protobuf runtime from the names and numbers of the ONNX schema
(onnx/onnx.proto3, IR version 8), so that the ``onnx`` package is not needed.
"""

from __future__ import annotations

import functools
from typing import Any

FLOAT_DATA_TYPE = 1  # TensorProto.DataType
IR_VERSION, OPSET = 8, 13

# Message name to {field: (number, type or message, repeated)}.
ONNX_MESSAGES: dict[str, dict[str, tuple[int, str, bool]]] = {
    "Dimension": {"dim_value": (1, "int64", False)},
    "TensorShapeProto": {"dim": (1, "Dimension", True)},
    "Tensor": {"elem_type": (1, "int32", False), "shape": (2, "TensorShapeProto", False)},
    "TypeProto": {"tensor_type": (1, "Tensor", False)},
    "ValueInfoProto": {"name": (1, "string", False), "type": (2, "TypeProto", False)},
    "TensorProto": {
        "dims": (1, "int64", True),
        "data_type": (2, "int32", False),
        "name": (8, "string", False),
    },
    "NodeProto": {
        "input": (1, "string", True),
        "output": (2, "string", True),
        "name": (3, "string", False),
        "op_type": (4, "string", False),
    },
    "GraphProto": {
        "node": (1, "NodeProto", True),
        "name": (2, "string", False),
        "initializer": (5, "TensorProto", True),
        "input": (11, "ValueInfoProto", True),
        "output": (12, "ValueInfoProto", True),
    },
    "OperatorSetIdProto": {"domain": (1, "string", False), "version": (2, "int64", False)},
    "ModelProto": {
        "ir_version": (1, "int64", False),
        "opset_import": (8, "OperatorSetIdProto", True),
        "producer_name": (2, "string", False),
        "graph": (7, "GraphProto", False),
    },
}


def build_matmul_model(m: int, k: int, n: int) -> bytes:
    """Return a model of an M x K input times K x N weights, an initializer without data."""
    model = _get_message_class("ModelProto")(ir_version=IR_VERSION, producer_name="hespas")
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
def _build_descriptor_pool() -> Any:
    from google.protobuf import descriptor_pb2, descriptor_pool

    field_type = descriptor_pb2.FieldDescriptorProto
    file = descriptor_pb2.FileDescriptorProto(
        name="hespas_onnx.proto", package="hespas.onnx", syntax="proto3"
    )
    for name, fields in ONNX_MESSAGES.items():
        message = file.message_type.add(name=name)
        for field_name, (number, kind, repeated) in fields.items():
            label = field_type.LABEL_REPEATED if repeated else field_type.LABEL_OPTIONAL
            field = message.field.add(name=field_name, number=number, label=label)
            if kind in ONNX_MESSAGES:
                field.type = field_type.TYPE_MESSAGE
                field.type_name = f".hespas.onnx.{kind}"
            else:
                field.type = getattr(field_type, f"TYPE_{kind.upper()}")
    pool = descriptor_pool.DescriptorPool()
    pool.AddSerializedFile(file.SerializeToString())
    return pool


@functools.cache
def _get_message_class(name: str) -> Any:
    from google.protobuf import message_factory

    return message_factory.GetMessageClass(
        _build_descriptor_pool().FindMessageTypeByName(f"hespas.onnx.{name}")
    )
