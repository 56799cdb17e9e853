"""The messages of TensorFlow Serving's gRPC API, without TensorFlow.

The published stubs import all of TensorFlow, which takes seconds. What a client needs of the
messages is little and stable: the fields below, by the numbers the protocol gives them. They
live in a descriptor pool of their own, so that they never meet TensorFlow's definitions of the
same names in one process.
"""

import array
import math
from collections.abc import Sequence
from typing import Any

from google.protobuf import descriptor_pb2, descriptor_pool, message, message_factory

_Field = descriptor_pb2.FieldDescriptorProto
_PACKAGE = "tensorflow.serving"

STRING_TYPE = 7
# Type number -> typed field, and the letter of `array.array` for packed content.
_NUMBERS = {
    1: ("float_val", "f"),
    2: ("double_val", "d"),
    3: ("int_val", "i"),
    9: ("int64_val", "q"),
}

# Type of an element -> type number and typed field of a request's tensor.
_COLUMNS: dict[type, tuple[int, str]] = {
    bytes: (STRING_TYPE, "string_val"),
    int: (3, "int_val"),
    float: (1, "float_val"),
}

# Message -> (field, number, type). A type that is no scalar names another message; a leading
# `*` makes the field repeated, `{}` a map from strings.
_MESSAGES = {
    "Dim": (("size", 1, "int64"),),
    "TensorShape": (("dim", 2, "*Dim"), ("unknown_rank", 3, "bool")),
    "Tensor": (
        ("dtype", 1, "int32"),
        ("tensor_shape", 2, "TensorShape"),
        ("tensor_content", 4, "bytes"),
        ("float_val", 5, "*float"),
        ("double_val", 6, "*double"),
        ("int_val", 7, "*int32"),
        ("string_val", 8, "*bytes"),
        ("int64_val", 10, "*int64"),
    ),
    "Int64Value": (("value", 1, "int64"),),
    "ModelSpec": (
        ("name", 1, "string"),
        ("version", 2, "Int64Value"),
        ("signature_name", 3, "string"),
    ),
    "PredictRequest": (("model_spec", 1, "ModelSpec"), ("inputs", 2, "{}Tensor")),
    "PredictResponse": (("outputs", 1, "{}Tensor"), ("model_spec", 2, "ModelSpec")),
    "Status": (("error_code", 1, "int32"), ("error_message", 2, "string")),
    "ModelVersionStatus": (
        ("version", 1, "int64"),
        ("state", 2, "int32"),
        ("status", 3, "Status"),
    ),
    "GetModelStatusRequest": (("model_spec", 1, "ModelSpec"),),
    "GetModelStatusResponse": (("model_version_status", 1, "*ModelVersionStatus"),),
}

STATES = {10: "START", 20: "LOADING", 30: "AVAILABLE", 40: "UNLOADING", 50: "END"}


def _file() -> descriptor_pb2.FileDescriptorProto:
    file = descriptor_pb2.FileDescriptorProto(
        name="seqloom/serving.proto", package=_PACKAGE, syntax="proto3"
    )
    for name, fields in _MESSAGES.items():
        definition = file.message_type.add(name=name)
        for field, number, kind in fields:
            if kind.startswith("{}"):
                _add_map(definition, field, number, kind[2:])
            else:
                _add_field(definition, field, number, kind)
    return file


def _add_field(
    definition: descriptor_pb2.DescriptorProto, name: str, number: int, kind: str
) -> None:
    repeated = kind.startswith("*")
    kind = kind.removeprefix("*")
    field = definition.field.add(name=name, number=number)
    field.label = _Field.LABEL_REPEATED if repeated else _Field.LABEL_OPTIONAL
    if kind[0].isupper():
        field.type = _Field.TYPE_MESSAGE
        field.type_name = f".{_PACKAGE}.{kind}"
    else:
        field.type = getattr(_Field, f"TYPE_{kind.upper()}")


def _add_map(definition: descriptor_pb2.DescriptorProto, name: str, number: int, kind: str) -> None:
    entry = definition.nested_type.add(name=f"{name.capitalize()}Entry")
    entry.options.map_entry = True
    _add_field(entry, "key", 1, "string")
    _add_field(entry, "value", 2, kind)
    _add_field(definition, name, number, f"*{definition.name}.{entry.name}")


_POOL = descriptor_pool.DescriptorPool()
_POOL.Add(_file())


def _class(name: str) -> type[message.Message]:
    descriptor = _POOL.FindMessageTypeByName(f"{_PACKAGE}.{name}")
    return message_factory.GetMessageClass(descriptor)


PredictRequest = _class("PredictRequest")
PredictResponse = _class("PredictResponse")
GetModelStatusRequest = _class("GetModelStatusRequest")
GetModelStatusResponse = _class("GetModelStatusResponse")


def write_column(values: Sequence, tensor: message.Message) -> None:
    """Fill a tensor of the request.

    Args:
        values: The elements of a tensor [B], at least one: strings, int32 or float32. Or rows of
            one of strings, [B, F], F at least one.
        tensor: An empty `Tensor`.
    """
    tensor.tensor_shape.dim.add().size = len(values)
    if isinstance(values[0], list):
        tensor.tensor_shape.dim.add().size = len(values[0])
        values = [value for row in values for value in row]
    tensor.dtype, field = _COLUMNS[type(values[0])]
    getattr(tensor, field).extend(values)


def read_tensor(tensor: message.Message) -> Any:
    """Read a tensor of the response.

    Args:
        tensor: A `Tensor` of strings or of numbers.

    Returns:
        Lists nested as deep as the tensor has axes. Strings are decoded; what is not valid
        UTF-8 in them is replaced.

    Raises:
        ValueError: If its type is none that a translation model gives, or its elements do
            not fill its shape.
    """
    shape = [dim.size for dim in tensor.tensor_shape.dim]
    values = _elements(tensor)
    if len(values) != math.prod(shape):
        raise ValueError(f"a tensor of shape {shape} came with {len(values)} elements")
    return _nested(values, shape)


def _elements(tensor: message.Message) -> list:
    if tensor.dtype == STRING_TYPE:
        return [value.decode("utf-8", "replace") for value in tensor.string_val]
    if tensor.dtype not in _NUMBERS:
        raise ValueError(f"a tensor came with the type {tensor.dtype}")
    field, letter = _NUMBERS[tensor.dtype]
    if tensor.tensor_content:
        return array.array(letter, tensor.tensor_content).tolist()
    return list(getattr(tensor, field))


def _nested(values: list, shape: list[int]) -> Any:
    if not shape:
        return values[0]
    if len(shape) == 1:
        return values
    width = math.prod(shape[1:])
    return [
        _nested(values[index * width : (index + 1) * width], shape[1:]) for index in range(shape[0])
    ]
