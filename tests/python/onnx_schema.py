"""The part of ONNX's schema that a graph dump uses, for tests without the onnx package."""

from __future__ import annotations

from typing import Any

from google.protobuf import descriptor_pb2, descriptor_pool, message_factory

_FIELD = descriptor_pb2.FieldDescriptorProto
_KINDS = {
    "int32": _FIELD.TYPE_INT32,
    "int64": _FIELD.TYPE_INT64,
    "float": _FIELD.TYPE_FLOAT,
    "string": _FIELD.TYPE_STRING,
    "bytes": _FIELD.TYPE_BYTES,
}
_TYPES = {"FLOAT": 1, "INT": 2, "STRING": 3, "TENSOR": 4, "GRAPH": 5}
_TYPES |= {"FLOATS": 6, "INTS": 7, "STRINGS": 8}

# Message: fields as (name, number, type); a type ending in "*" is repeated. Numbers are ONNX's.
_MESSAGES: dict[str, list[tuple[str, int, str]]] = {
    "ModelProto": [
        ("ir_version", 1, "int64"),
        ("opset_import", 8, "OperatorSetIdProto*"),
        ("producer_name", 2, "string"),
        ("graph", 7, "GraphProto"),
    ],
    "OperatorSetIdProto": [("domain", 1, "string"), ("version", 2, "int64")],
    "GraphProto": [
        ("node", 1, "NodeProto*"),
        ("name", 2, "string"),
        ("input", 11, "ValueInfoProto*"),
        ("output", 12, "ValueInfoProto*"),
        ("value_info", 13, "ValueInfoProto*"),
    ],
    "NodeProto": [
        ("input", 1, "string*"),
        ("output", 2, "string*"),
        ("name", 3, "string"),
        ("op_type", 4, "string"),
        ("attribute", 5, "AttributeProto*"),
        ("doc_string", 6, "string"),
        ("domain", 7, "string"),
    ],
    "AttributeProto": [
        ("name", 1, "string"),
        ("f", 2, "float"),
        ("i", 3, "int64"),
        ("s", 4, "bytes"),
        ("t", 5, "TensorProto"),
        ("g", 6, "GraphProto"),
        ("floats", 7, "float*"),
        ("ints", 8, "int64*"),
        ("strings", 9, "bytes*"),
        ("type", 20, "AttributeType"),
    ],
    "TensorProto": [
        ("dims", 1, "int64*"),
        ("data_type", 2, "int32"),
        ("raw_data", 9, "bytes"),
    ],
    "ValueInfoProto": [("name", 1, "string"), ("type", 2, "TypeProto")],
    "TypeProto": [("tensor_type", 1, "TensorType")],
    "TensorType": [("elem_type", 1, "int32"), ("shape", 2, "TensorShapeProto")],
    "TensorShapeProto": [("dim", 1, "Dimension*")],
    "Dimension": [("dim_value", 1, "int64"), ("dim_param", 2, "string")],
}


def model_class() -> Any:
    """ONNX's ModelProto: the onnx package's, or one made here."""
    try:
        import onnx

        return onnx.ModelProto
    except ImportError:
        return _made_class()


def _made_class() -> Any:
    file = descriptor_pb2.FileDescriptorProto(name="onnx_dump.proto", package="onnx_dump")
    kinds = file.enum_type.add(name="AttributeType")
    for name, number in {"UNDEFINED": 0, **_TYPES}.items():
        kinds.value.add(name=name, number=number)
    for message, fields in _MESSAGES.items():
        made = file.message_type.add(name=message)
        for name, number, kind in fields:
            plain = kind.rstrip("*")
            repeated = _FIELD.LABEL_REPEATED if kind.endswith("*") else _FIELD.LABEL_OPTIONAL
            field = made.field.add(name=name, number=number, label=repeated)
            if plain in _KINDS:
                field.type = _KINDS[plain]
            else:
                is_enum = plain == "AttributeType"
                field.type = _FIELD.TYPE_ENUM if is_enum else _FIELD.TYPE_MESSAGE
                field.type_name = f".onnx_dump.{plain}"
    pool = descriptor_pool.DescriptorPool()
    pool.Add(file)
    return message_factory.GetMessageClass(pool.FindMessageTypeByName("onnx_dump.ModelProto"))
