"""Configuration files in protobuf's text format, and the messages no package brings."""

import pathlib
from typing import Any, TypeVar

from google.protobuf import (
    descriptor_pb2,
    descriptor_pool,
    message,
    message_factory,
    text_format,
    wrappers_pb2,
)

from models.errors import UserError

_Message = TypeVar("_Message", bound=message.Message)
_PACKAGE = "tensorflow.serving"
_FILE = "seqloom/serving/server_config.proto"
_Field = descriptor_pb2.FieldDescriptorProto

# TensorFlow Serving's own messages, which its package for Python leaves out. Each field by name
# with its number and type; names of types begin with a dot.
_MESSAGES = {
    "SSLConfig": {
        "server_key": (1, _Field.TYPE_STRING),
        "server_cert": (2, _Field.TYPE_STRING),
        "custom_ca": (3, _Field.TYPE_STRING),
        "client_verify": (4, _Field.TYPE_BOOL),
    },
    "PrometheusConfig": {"enable": (1, _Field.TYPE_BOOL), "path": (2, _Field.TYPE_STRING)},
    "MonitoringConfig": {"prometheus_config": (1, f".{_PACKAGE}.PrometheusConfig")},
    "BatchingParameters": {
        "max_batch_size": (1, ".google.protobuf.Int64Value"),
        "batch_timeout_micros": (2, ".google.protobuf.Int64Value"),
        "max_enqueued_batches": (3, ".google.protobuf.Int64Value"),
        "num_batch_threads": (4, ".google.protobuf.Int64Value"),
        "thread_pool_name": (5, ".google.protobuf.StringValue"),
        "allowed_batch_sizes": (6, [_Field.TYPE_INT64]),
        "pad_variable_length_inputs": (7, _Field.TYPE_BOOL),
        "enable_large_batch_splitting": (8, ".google.protobuf.BoolValue"),
        "max_execution_batch_size": (9, ".google.protobuf.Int64Value"),
    },
}


def read_text_proto(flag: str, path: pathlib.Path, proto: type[_Message]) -> _Message:
    """Read a configuration file.

    Args:
        flag: The flag that named the file, for the message.
        path: The file.
        proto: Type of the message it holds.

    Raises:
        UserError: If it cannot be read or is no such message.
    """
    try:
        return text_format.Parse(path.read_text(encoding="utf-8"), proto())
    except (OSError, UnicodeDecodeError) as error:
        raise UserError(f"--{flag}: {path}: cannot be read ({error})") from None
    except text_format.ParseError as error:
        raise UserError(
            f"--{flag}: Invalid protobuf file: '{path}': line {error}; expected the text format "
            f"of {proto.DESCRIPTOR.full_name}"
        ) from None


def _classes() -> dict[str, Any]:
    file = descriptor_pb2.FileDescriptorProto(name=_FILE, package=_PACKAGE, syntax="proto3")
    file.dependency.append(wrappers_pb2.DESCRIPTOR.name)
    for name, fields in _MESSAGES.items():
        described = file.message_type.add(name=name)
        for field_name, (number, kind) in fields.items():
            field = described.field.add(name=field_name, number=number, label=1)
            if isinstance(kind, list):
                field.label, kind = 3, kind[0]
            if isinstance(kind, str):
                field.type, field.type_name = _Field.TYPE_MESSAGE, kind
            else:
                field.type = kind
    # A pool of its own, should another package bring these messages after all.
    pool = descriptor_pool.DescriptorPool()
    pool.AddSerializedFile(wrappers_pb2.DESCRIPTOR.serialized_pb)
    pool.Add(file)
    return {
        name: message_factory.GetMessageClass(pool.FindMessageTypeByName(f"{_PACKAGE}.{name}"))
        for name in _MESSAGES
    }


_CLASSES = _classes()
SSLConfig = _CLASSES["SSLConfig"]
MonitoringConfig = _CLASSES["MonitoringConfig"]
BatchingParameters = _CLASSES["BatchingParameters"]
